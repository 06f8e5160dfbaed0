"""Run folders made by hand, as `archer eval` would leave them: records, manifests, journals, a summary."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from archer.runs.folder import JOURNAL, MANIFEST
from archer.runs.journal import Journal, read_records
from archer.runs.records import COUNTS

Record = dict[str, Any]

SECONDS = {"full": 0.1, "cached": 0.1, "control": 0.05}
VERDICT = {
    "verdict": "fail",
    "reason": "wrong",
    "seconds": 0.01,
    "verdict_as_published": "fail",
    "reason_as_published": "wrong",
}


def sample(number: int, **changes: Any) -> Record:
    return {
        "event": "sample",
        "id": number,
        "prompt_sha256": f"s{number}",
        "completion": f"return {number} # pass fail",
        "tokens": [1, 2, number],
        "finish_reason": "length",
        **dict.fromkeys(COUNTS, 1),
        "prompt_tokens": 7,
        "seconds": {**SECONDS, "total": 0.25},
        "refresh_fraction": 0.5,
        "tokens_per_forward": 1.5,
        "operations": 99,
    } | changes


def grade(number: int, **suites: Any) -> Record:
    return {"event": "grade", "id": number, "tier": "A", "suites": suites or {"base": VERDICT}}


PROBLEMS = 4
RECORDS: list[Record] = [each(number) for number in range(PROBLEMS) for each in (sample, grade)]
IDENTITY: Record = {
    "archer": "1",
    "task": {"name": "toy", "version": "1", "data": {}},
    "evaluator": {"metric": "pass@1"},
    "problems": {"n": PROBLEMS, "sha256": "p"},
    "prompts": {"chat": True, "sha256": "q"},
    "method": {"name": "archer", "settings": {"length": 8, "radius": 4}},
    "batch": 1,
    "model": {
        "architecture": "llada",
        "files": {"config.json": "x"},
        "dtype": "float32",
        "device": "cpu",
    },
}
HELD: Record = {
    "journal": 2,
    "identity": IDENTITY,
    "circumstances": {"platform": "here", "cores": 2, "threads": 1},
}
"""A manifest."""


def write_journal(path: Path, records: Iterable[Record]) -> None:
    """With checksums; what is there is continued."""
    journal = Journal(path)
    for record in records:
        journal.append(record)
    journal.close()


def write_folder(folder: Path, records: Iterable[Record] = RECORDS, manifest: Any = HELD) -> Path:
    folder.mkdir()
    write_journal(folder / JOURNAL, records)
    (folder / MANIFEST).write_text(json.dumps(manifest))
    return folder


def write_run(folder: Path, passes: list[bool], seconds: list[float], **changes: Any) -> Path:
    """A finished run with the given verdicts and times; `a__b` changes the field b inside a."""
    manifest = json.loads(json.dumps(HELD))
    manifest["identity"]["problems"]["n"] = len(passes)
    for name, value in changes.items():
        *parts, last = name.split("__")
        place = manifest
        for part in parts:
            place = place[part]
        place[last] = value
    records: list[Record] = []
    for number, (passed, taken) in enumerate(zip(passes, seconds, strict=True)):
        base = VERDICT | {"verdict": "pass" if passed else "fail"}
        records += [
            sample(number, completion="", tokens=[number], seconds={**SECONDS, "total": taken}),
            grade(number, base=base, extended=VERDICT),
        ]
    return write_folder(folder, records, manifest)


def rewrite_journal(run: Path, change: Callable[[Record], Record]) -> None:
    """Other records with checksums that fit them."""
    records = read_records(run / JOURNAL)
    (run / JOURNAL).unlink()
    write_journal(run / JOURNAL, map(change, records))


def replaced(before: str, after: str) -> Callable[[Record], Record]:
    """A record with another text in it."""
    return lambda record: dict(json.loads(json.dumps(record).replace(before, after)))


COSTS = dict.fromkeys(COUNTS, 3) | {"refresh_fraction": 0.25, "seconds": 1.5}
SUMMARY = {
    "task": "toy",
    "method": "archer",
    "settings": {"radius": 8},
    "n": 2,
    "complete": True,
    "completed": 2,
    "graded": 2,
    "pass@1": 0.5,
    "pass@1_interval": [0.1, 0.9],
    "pass@1_as_published": 0.5,
    "pass@1_clean": 1.0,
    "pass@1_extended": 0.0,
    "pass@1_extended_interval": [0.0, 0.7],
    "pass@1_extended_as_published": 0.0,
    **COSTS,
    "per_problem": dict.fromkeys((*COUNTS, "seconds"), 1.5),
    "tiers": ["A"],
    "measures": {"rouge": 0.5},
}
SUMMARY_TEXT = json.dumps(SUMMARY, indent=2) + "\n"
"""What a summary.json holds."""
