"""A run folder: manifest, journal, summary.

manifest.json   what the run is; written once
journal.jsonl   completions and grades, appended one by one
summary.json    scores and costs, derived from the journal and replaced as a whole
samples.jsonl   the graded problems as the lm-evaluation-harness would write them, derived as well
traces/         every update of the first problems, where that was asked for
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from archer.errors import BadRun, DiskFault, RunBusy
from archer.files import OWN, is_there, read_json, replace_file, replace_json
from archer.runs.journal import Journal, read_records
from archer.runs.manifest import differences
from archer.runs.records import GradeLine, Manifest, SampleLine, Summary, as_held, as_line, shown

MANIFEST, JOURNAL, SUMMARY = "manifest.json", "journal.jsonl", "summary.json"
SAMPLES, TRACES, LOCK = "samples.jsonl", "traces", "lock"
MOST_NAMED = 6
JOURNAL_FORMAT = 2


@dataclass(frozen=True)
class Recorded:
    """What the journal of a run holds, by problem."""

    samples: Mapping[str, SampleLine]
    grades: Mapping[str, GradeLine]


class Lock:
    """One writer per folder: held from construction until `release`, or until the process is gone."""

    def __init__(self, folder: Path) -> None:
        path = folder / LOCK
        try:
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT | OWN, 0o666)
        except OSError as error:
            raise DiskFault.of(path, error) from error
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(self._handle, 32).decode("ascii", "replace").strip()
            os.close(self._handle)
            raise RunBusy(
                f"{folder} is being written by another run (process {holder or 'unknown'}). Wait for "
                "it, or choose another folder."
            ) from error
        try:
            os.ftruncate(self._handle, 0)
            os.pwrite(self._handle, f"{os.getpid()}\n".encode(), 0)
        except OSError:
            pass  # the number is a courtesy; the lock holds without it

    def release(self) -> None:
        os.close(self._handle)


class RunFolder:
    """A folder opened for writing: locked, its manifest checked, its journal ready."""

    def __init__(
        self, path: Path, identity: Mapping[str, Any], circumstances: Mapping[str, Any]
    ) -> None:
        self.path = path
        self._lock = _locked(path)
        try:
            self.resumed = _resumed(path, identity)
            self.journal = Journal(path / JOURNAL)
            if not self.resumed:  # after the journal: a manifest without one is damage
                manifest = {"journal": JOURNAL_FORMAT, "identity": dict(identity)}
                replace_json(path / MANIFEST, manifest | {"circumstances": dict(circumstances)})
        except BaseException:
            self._lock.release()
            raise

    def recorded(self, planned: Iterable[str] | None = None) -> Recorded:
        """What the journal holds; BadRun where it knows problems that are not planned."""
        recorded = read_recorded(self.path)
        strange = set() if planned is None else set(recorded.samples) - set(planned)
        if strange:
            raise BadRun.beyond_repair(
                f"{self.path / JOURNAL} holds the problem {min(strange)!r}, which is not part of the run"
            )
        return recorded

    def write_summary(self, summary: Summary) -> None:
        replace_json(self.path / SUMMARY, summary.plain())

    def traces(self, keys: Iterable[str]) -> dict[str, Path]:
        """Where the traces of problems go, named by their place in the run."""
        paths = {key: self.path / TRACES / f"{place:05}.jsonl" for place, key in enumerate(keys)}
        if paths:
            try:
                (self.path / TRACES).mkdir(exist_ok=True)
                for path in (self.path / TRACES, *paths.values()):
                    if path.is_symlink():
                        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            except OSError as error:
                raise DiskFault.of(self.path / TRACES, error) from error
        return paths

    def write_samples(self, lines: Iterable[str]) -> None:
        """The graded problems in the format of the lm-evaluation-harness."""
        replace_file(self.path / SAMPLES, "".join(lines).encode())

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.journal.close()
        self._lock.release()


def read_manifest(path: Path) -> dict[str, Any]:
    """The manifest of a run; BadRun where the folder is none."""
    if not is_there(path / MANIFEST):
        raise BadRun(f"{path} is not a run folder: it has no {MANIFEST}. `archer eval` makes one.")
    manifest = read_json(path / MANIFEST)
    as_held(Manifest, manifest, f"{path / MANIFEST}")
    return manifest


def read_summary(path: Path) -> Summary:
    """Scores and costs of a run, as they were when it was last written."""
    return as_held(Summary, read_json(path / SUMMARY), f"{path / SUMMARY}")


def read_recorded(path: Path) -> Recorded:
    """The records of a run, each problem once and each as it must be."""
    journal = path / JOURNAL
    if not is_there(journal) and is_there(path / MANIFEST):
        raise BadRun.beyond_repair(
            f"{path} has a {MANIFEST} but no {JOURNAL}: its records were deleted"
        )
    samples: dict[str, SampleLine] = {}
    grades: dict[str, GradeLine] = {}
    for number, record in enumerate(read_records(journal), start=1):
        line = as_line(record, f"Line {number} of {journal}")
        key = str(line.id)
        if key in (samples if line.event == "sample" else grades):
            raise BadRun(f"{journal} holds the {line.event} of problem {key} twice.")
        if isinstance(line, SampleLine):
            samples[key] = line
            continue
        first = next(iter(grades.values()), line)
        if line.suites.keys() != first.suites.keys():
            raise BadRun.beyond_repair(
                f"{journal} holds grades of different suites: {_named(first)} first, and "
                f"{_named(line)} of problem {key}"
            )
        grades[key] = line
    ungiven = grades.keys() - samples.keys()
    if ungiven:
        raise BadRun(f"{journal} holds a grade of problem {min(ungiven)}, but no completion of it.")
    return Recorded(samples, grades)


def _named(grade: GradeLine) -> str:
    return shown(", ".join(sorted(grade.suites)))


def _locked(path: Path) -> Lock:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise BadRun(f"{path} is a file, not a folder; choose another folder.") from error
    except OSError as error:
        raise DiskFault.of(path, error) from error
    try:
        foreign = set() if is_there(path / MANIFEST) else {each.name for each in path.iterdir()}
        if JOURNAL in foreign and not (path / JOURNAL).stat().st_size:
            foreign.remove(JOURNAL)  # begun, and interrupted before the manifest was written
    except OSError as error:
        raise DiskFault.of(path, error) from error
    if foreign - {LOCK, f"{MANIFEST}.new"}:
        raise BadRun(f"{path} holds other files and no run; choose an empty folder.")
    return Lock(path)


def _resumed(path: Path, identity: Mapping[str, Any]) -> bool:
    """Whether there is a run already; BadRun where it is another one, or has lost its journal."""
    if not is_there(path / MANIFEST):
        return False
    known = read_manifest(path)
    differing = differences(known["identity"], identity)
    if differing:
        shown = "; ".join(differing[:MOST_NAMED])
        more = f"; and {len(differing) - MOST_NAMED} more" if len(differing) > MOST_NAMED else ""
        raise BadRun(
            f"{path} holds a run with other settings ({shown}{more}). Use the same settings to "
            "continue it, or another folder."
        )
    read_recorded(path)
    return True
