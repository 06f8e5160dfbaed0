"""A benchmark of many tiny problems whose verdicts depend on what the model wrote, and nobody's data."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from archer.judge import Check, FunctionCheck, Limits
from archer.loading.source import Source
from archer.methods.build import Choice
from archer.model import Model, load
from archer.runs.executors.worker import Order
from archer.runs.folder import JOURNAL, SAMPLES, SUMMARY, Recorded
from archer.runs.manifest import RunRequest
from archer.runs.records import GradeLine, SampleLine
from archer.tasks import CodeTask, Data, Reference, Sample, Suite, Variant
from archer.tasks.base import user
from archer.tasks.sources import DataFile
from support.folders import make_llada

SETTINGS: Mapping[str, Any] = {"length": 6, "temperature": 1.0}
TIMED = ("seconds", "check")


class Toy(CodeTask):
    """Right is a response of even length on the base suite, of a length divisible by 4 on the other."""

    name = "toy"
    metric = "pass@1"
    files: ClassVar[tuple[DataFile, ...]] = ()
    limits = Limits(cpu_seconds=5, wall_seconds=10)
    suites: ClassVar[tuple[Suite, ...]] = ("base", "extended")
    size: ClassVar[int] = 12

    def samples(self) -> Sequence[Sample]:
        return [
            Sample(number, user(f"Say something about {number}."), "Well,", {})
            for number in range(self.size)
        ]

    def references(self) -> Iterator[Reference]:
        return iter(())

    def extract(self, response: str, sample: Sample, variant: Variant) -> str:
        length = len(response) + (variant == "as_published")
        return f"def rest(divisor):\n    return {length} % divisor\n"

    def checks(
        self, sample: Sample, program: str, suite: Suite, variant: Variant
    ) -> tuple[Check, ...]:
        divisor = {"base": 2, "extended": 4}[suite]
        return (FunctionCheck(program, "rest", f"assert rest({divisor}) == 0"),)


class Quiet:
    """Hears everything and remembers it."""

    def __init__(self) -> None:
        self.total = 0
        self.samples: list[SampleLine] = []
        self.grades: list[GradeLine] = []
        self.workers: dict[str, int] = {}
        self.lines: list[str] = []

    def begun(self, total: int, recorded: Recorded) -> None:
        self.total = total

    def sampled(self, record: SampleLine, worker: int) -> None:
        self.samples.append(record)
        self.workers[str(record.id)] = worker

    def graded(self, record: GradeLine) -> None:
        self.grades.append(record)

    def notice(self, line: str) -> None:
        self.lines.append(line)


class Stop(Exception):
    """Ends a run from inside."""


def stop(worker: int) -> None:
    raise Stop


class Disturbed(Quiet):
    """Does something to the worker who records completion number `after`."""

    def __init__(self, after: int, action: Callable[[int], None] = stop) -> None:
        super().__init__()
        self.after, self.action = after, action

    def sampled(self, record: SampleLine, worker: int) -> None:
        super().sampled(record, worker)
        if len(self.samples) == self.after:
            self.action(worker)


def toy_model(folder: Path) -> Model:
    return load(make_llada(folder, tokenizer=True), device="cpu", dtype="float32")


def toy_request(model: Model, **changes: Any) -> RunRequest:
    choice = Choice(changes.pop("method", "llada-confidence"), changes.pop("settings", SETTINGS))
    fields: dict[str, Any] = {"model": model, "task": Toy(Data()), "choice": choice}
    return RunRequest(**fields | changes)


def results(folder: Path) -> list[str]:
    """The lines of a journal without timings, sorted: what must not depend on interruptions."""
    lines = (folder / JOURNAL).read_bytes().split(b"\n")[:-1]
    return sorted(json.dumps(untimed(json.loads(line)), sort_keys=True) for line in lines)


def derived(folder: Path) -> tuple[list[str], str]:
    """Samples and summary, byte by byte but for times."""
    lines = (folder / SAMPLES).read_text().splitlines()
    samples = [json.dumps(untimed(json.loads(line))) for line in lines]
    return samples, json.dumps(untimed(json.loads((folder / SUMMARY).read_text())))


def order_of(model: Model, **expected: Any) -> Order:
    return Order(Source(str(model.folder.path), device="cpu", dtype="float32", threads=1), expected)


def untimed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: untimed(each) for key, each in value.items() if key not in TIMED}
    return value
