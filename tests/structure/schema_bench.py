"""JSONSchemaBench's sample: what is accepted, how long it takes, and whether instances are judged as marked.

    PYTHONPATH=tests python -m structure.schema_bench > docs/results/schemas.json

It needs the shared data.  Instances are judged to the letter of the schema; the time and the memory are those
of the automaton that an answer is held to, over the tokens of Qwen3.
"""

import gzip
import json
import re
import resource
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from time import process_time
from typing import Any

from archer.errors import BadRequest
from archer.loading.text.tokenizer_files import read_pieces
from archer.machine.description import describe
from archer.structure.schema import DEPTH, automaton_of
from archer.structure.token_automaton import Vocabulary, over_tokens
from conftest import shared
from structure.test_schema import accepts

SECONDS = 5.0
ROOM = 1000
"""Ids behind the tokenizer's own, of which the end mark is one."""


@dataclass(frozen=True)
class Examined:
    """One schema."""

    name: str
    refused: str | None
    """Why, in a word or two."""
    seconds: float
    """Of processor time, for both automata."""
    valid: int = 0
    """Instances that are marked so."""
    invalid: int = 0
    lost: int = 0
    """Of the valid ones those that are not accepted."""
    let_through: int = 0
    """Of the invalid ones those that are."""


@cache
def qwen() -> Vocabulary:
    pieces = read_pieces(shared("data", "tokenizers", "sdar-4b-chat", "tokenizer.derived.json"))
    assert pieces is not None
    size = max(pieces.spelled) + ROOM
    spelled = {id: pieces.spelled[id] for id in pieces.ordinary}
    made = Vocabulary(spelled, [size - 1], size)
    assert made.levels
    return made


def rows() -> list[dict[str, Any]]:
    path = shared("data", "jsonschemabench", "sample.jsonl.gz")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def examined(chosen: Iterable[dict[str, Any]]) -> Iterator[Examined]:
    """One after the other."""
    vocabulary = qwen()
    for row in chosen:
        started = process_time()
        try:
            over_tokens(automaton_of(row["schema"]), vocabulary)
            seconds = process_time() - started
            automaton = automaton_of(row["schema"], exact=True)
        except BadRequest as error:
            yield Examined(row["name"], _reason(str(error)), process_time() - started)
            continue
        marked: dict[bool, list[Any]] = {True: [], False: []}
        for test in row["tests"]:
            marked[test["valid"]].append(test["data"])
        yield Examined(
            name=row["name"],
            refused=None,
            seconds=seconds,
            valid=len(marked[True]),
            invalid=len(marked[False]),
            lost=sum(not accepts(automaton, each) for each in marked[True]),
            let_through=sum(accepts(automaton, each) for each in marked[False]),
        )


def _reason(sentence: str) -> str:
    for pattern, name in (
        (r"says (\S+),", "{}"),
        (r"says (\S+) twice", "{} twice"),
        (r"The format '([^']*)'", "format {}"),
        ("without end", "recursion"),
        ("too large", "too large"),
        ("leads outside", "reference to elsewhere"),
        ("can be counted", "length over 1000"),
        ("pattern|expression", "pattern"),
    ):
        if found := re.search(pattern, sentence):
            return name.format(*found.groups())
    return sentence[:60]


def main() -> None:
    found = list(examined(rows()))
    accepted = [each for each in found if each.refused is None]
    reasons = Counter(each.refused for each in found if each.refused is not None)
    times = sorted(each.seconds for each in accepted)
    result = {
        "machine": describe(),
        "schemas": len(found),
        "accepted": len(accepted),
        "within": sum(each.seconds <= SECONDS for each in accepted),
        "share": sum(each.seconds <= SECONDS for each in accepted) / len(found),
        "median_seconds": times[len(times) // 2],
        "ninth_decile_seconds": times[len(times) * 9 // 10],
        "slowest_seconds": times[-1],
        "slowest_refusal_seconds": max(each.seconds for each in found if each.refused is not None),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "depth": DEPTH,
        **{
            name: sum(getattr(each, name) for each in accepted)
            for name in ("valid", "invalid", "lost", "let_through")
        },
        "lost_by": [each.name for each in accepted if each.lost],
        "let_through_by": [each.name for each in accepted if each.let_through],
        "refused": dict(reasons.most_common()),
    }
    json.dump(result, sys.stdout, indent=1)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
