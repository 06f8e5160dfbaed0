"""Reading completions: one JSON object per line with `task_id` and `completion`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from archer.errors import BadRequest, reason_of
from archer.tasks.base import Sample

LONGEST_LINE = 4 << 20
LARGEST_FILE = 128 << 20
FORM = '{"task_id": ..., "completion": "..."}'


def read_completions(path: Path, samples: Sequence[Sample]) -> list[tuple[Sample, str]]:
    """Every completion with its problem, in the order of the file.

    An id may be given as number or as text. Other fields and empty lines are passed over.
    """
    known = {str(sample.id): sample for sample in samples}
    seen: dict[str, int] = {}
    found = []
    for number, line in _lines(path):
        where = f"Line {number} of {path}"
        key, text = _completion(line, where)
        if key not in known:
            raise BadRequest(f"{where} has the task_id {key!r}, which the task does not have.")
        if key in seen:
            raise BadRequest(f"{where} has the task_id {key!r}, as line {seen[key]} has already.")
        seen[key] = number
        found.append((known[key], text))
    if not found:
        raise BadRequest(f"{path} holds no completions; it needs lines such as {FORM}.")
    return found


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Line by line, so that no more of a file is held than its completions."""
    size = 0
    try:
        with path.open("rb") as file:
            for number in count(1):
                line = file.readline(LONGEST_LINE + 1)
                size += len(line)
                if not line:
                    return
                if len(line) > LONGEST_LINE:
                    raise BadRequest(
                        f"Line {number} of {path} is longer than {LONGEST_LINE} bytes."
                    )
                if size > LARGEST_FILE:
                    raise BadRequest(
                        f"{path} has more than {LARGEST_FILE} bytes of completions. Give it in parts."
                    )
                if line.strip():
                    yield number, line
    except OSError as error:
        raise BadRequest(f"{path} cannot be read ({reason_of(error)}).") from error


def _completion(line: bytes, where: str) -> tuple[str, str]:
    try:
        entry: Any = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"{where} is not JSON ({error}); a line must look like {FORM}.") from None
    if not isinstance(entry, dict) or not {"task_id", "completion"} <= entry.keys():
        raise BadRequest(f"{where} lacks task_id or completion; a line must look like {FORM}.")
    key, text = entry["task_id"], entry["completion"]
    if isinstance(key, bool) or not isinstance(key, int | str):
        raise BadRequest(f"{where} has a task_id that is neither a number nor a text.")
    if not isinstance(text, str):
        raise BadRequest(f"{where} has a completion that is not a text.")
    return str(key), text
