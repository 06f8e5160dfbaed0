"""What a chat prompt costs before the network sees it: template, tokens, and the process that renders.

A process per call is what a template cost before there was one that stays; it is ended before each call.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from archer.bench.repeating import check_counts, interleaved, spread
from archer.errors import BadRequest
from archer.loading.checkpoint import read_folder
from archer.loading.hub import locate
from archer.loading.text.text import Text, read_text

PROMPT = "Write a function to count the numbers in nums that are greater than 5.\ndef solve(nums):"


@dataclass(frozen=True)
class Encoding:
    """One way to get from messages to ids."""

    how: str
    ms: float
    """Median of the calls."""
    spread: float

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def measure_encoding(model: str, repeats: int) -> list[Encoding]:
    """Each way in turn; needs the folder's text files, loads no weights."""
    check_counts(repeats=repeats)
    text = read_text(read_folder(locate(model, None)))
    if text is None or text.template is None:
        raise BadRequest(f"{model!r} has no chat template, so there is nothing to measure.")
    template = text.template
    (rendered,) = template.render([[{"role": "user", "content": PROMPT}]])
    ways = {
        "a process per call": lambda: _timed(text, template.process.close),
        "a process that stays": lambda: _timed(text, lambda: None),
        "the tokenizer alone": lambda: _seconds(
            lambda: text.encode_raw(rendered, allow_special=True)
        ),
    }
    found = interleaved(ways, repeats)
    template.process.close()
    return [
        Encoding(how, 1e3 * statistics.median(times), spread(times)) for how, times in found.items()
    ]


def _timed(text: Text, prepare: Callable[[], None]) -> float:
    prepare()
    return _seconds(lambda: text.encode_chat(PROMPT))


def _seconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started
