"""A run folder: manifest, journal, summary.

manifest.json   what the run is; written once
journal.jsonl   completions and grades, appended one by one
summary.json    scores and costs, derived from the journal and replaced as a whole
samples.jsonl   the graded problems as the lm-evaluation-harness would write them, derived as well
traces/         every update of the first problems, where that was asked for
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from archer.runs.faults import BadRun, DiskFault
from archer.runs.files import read_json, replace_file, replace_json
from archer.runs.journal import Journal, Record, read_records
from archer.runs.lock import Lock
from archer.runs.manifest import differences

MANIFEST, JOURNAL, SUMMARY = "manifest.json", "journal.jsonl", "summary.json"
SAMPLES = "samples.jsonl"
TRACES = "traces"
MOST_NAMED = 6


@dataclass(frozen=True)
class Recorded:
    """What the journal of a run holds, by problem."""

    samples: Mapping[str, Record]
    grades: Mapping[str, Record]


class RunFolder:
    """A folder opened for writing: locked, its manifest checked, its journal ready."""

    def __init__(
        self, path: Path, identity: Mapping[str, Any], circumstances: Mapping[str, Any]
    ) -> None:
        self.path = path
        self._lock = _locked(path)
        try:
            self.resumed = _settle_manifest(path, identity, circumstances)
            self.journal = Journal(path / JOURNAL)
        except BaseException:
            self._lock.release()
            raise

    def recorded(self) -> Recorded:
        return read_recorded(self.path)

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        replace_json(self.path / SUMMARY, summary)

    def traces(self, keys: Iterable[str]) -> dict[str, Path]:
        """Where the traces of problems go, named by their place in the run."""
        found = {key: self.path / TRACES / f"{place:05}.jsonl" for place, key in enumerate(keys)}
        if found:
            try:
                (self.path / TRACES).mkdir(exist_ok=True)
            except OSError as error:
                raise DiskFault.of(self.path / TRACES, error) from error
        return found

    def write_samples(self, lines: Iterable[str]) -> None:
        """The graded problems in the format of the lm-evaluation-harness."""
        replace_file(self.path / SAMPLES, "".join(lines).encode())

    def close(self) -> None:
        self.journal.close()
        self._lock.release()

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_manifest(path: Path) -> dict[str, Any]:
    """The manifest of a run; BadRun where the folder is none."""
    if not (path / MANIFEST).is_file():
        raise BadRun(
            f"{path} is no run folder: it has no {MANIFEST}. `archer eval --out` makes one."
        )
    return read_json(path / MANIFEST)


def read_recorded(path: Path) -> Recorded:
    """The records of a run, each problem once."""
    journal = path / JOURNAL
    found: dict[str, dict[str, Record]] = {"sample": {}, "grade": {}}
    for record in read_records(journal):
        kind, key = record.get("event"), record.get("id")
        if kind not in found or not isinstance(key, str | int):
            raise BadRun(f"{journal} holds a record of no known kind: {str(record)[:60]}.")
        if str(key) in found[kind]:
            raise BadRun(f"{journal} holds the {kind} of problem {key} twice.")
        found[kind][str(key)] = record
    return Recorded(found["sample"], found["grade"])


def _locked(path: Path) -> Lock:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise BadRun(f"{path} is a file, not a folder; choose another --out.") from error
    except OSError as error:
        raise DiskFault.of(path, error) from error
    foreign = [each.name for each in path.iterdir() if not (path / MANIFEST).exists()]
    if set(foreign) - {"lock", f"{MANIFEST}.new"}:
        raise BadRun(f"{path} holds other files and no run; choose an empty folder by --out.")
    return Lock(path)


def _settle_manifest(
    path: Path, identity: Mapping[str, Any], circumstances: Mapping[str, Any]
) -> bool:
    """Write the manifest, or compare with the one that is there; whether there was one."""
    if not (path / MANIFEST).exists():
        replace_json(
            path / MANIFEST, {"identity": dict(identity), "circumstances": dict(circumstances)}
        )
        return False
    known = read_manifest(path)
    differing = differences(known.get("identity", {}), identity)
    if differing:
        shown = "; ".join(differing[:MOST_NAMED])
        more = f"; and {len(differing) - MOST_NAMED} more" if len(differing) > MOST_NAMED else ""
        raise BadRun(
            f"{path} holds a run with other settings ({shown}{more}). Use the same settings to "
            "continue it, or another --out."
        )
    return True
