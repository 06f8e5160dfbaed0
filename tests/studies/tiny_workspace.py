"""A workspace in which every arm takes a moment: a random network, three problems, no judge."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from archer.judge import Verdict
from archer.model import load
from archer.runs.comparison import Run
from archer.runs.folder import Recorded
from archer.runs.records import GradeLine, SampleLine, SampleSeconds, SuiteVerdict
from archer.runs.summary import costs
from archer.runs.workspace import Arm, Scale, Workspace
from archer.tasks import Data, Reference, Sample
from archer.tasks.base import AnswerTask, Infill, Variant, user
from archer.tasks.sources import DataFile
from runs.toy import Quiet
from support.folders import make_llada
from support.run_folders import SECONDS, VERDICT, sample

FAMILIES = ("numbers", "string", "choice")
PROBLEMS = 3
TINY = Scale(problems=PROBLEMS, long_problems=2, probed=PROBLEMS, timed=2, repeats=2, stride=2)


class Tiny(AnswerTask):
    """Right is a response whose number of letters is divisible by `divisor`."""

    name = "tiny"
    metric = "accuracy"
    files: ClassVar[tuple[DataFile, ...]] = ()
    length = 16
    divisor: ClassVar[int] = 2
    words: ClassVar[int] = 1

    def samples(self) -> Sequence[Sample]:
        return [
            Sample(f"t{number}", user(f"Say {number}. " * self.words), "", {"family": family})
            for number, family in enumerate(FAMILIES)
        ]

    def references(self) -> Iterator[Reference]:
        return iter(())

    def extract(self, response: str, sample: Sample, variant: Variant) -> str:
        return response

    def grade(self, sample: Sample, answer: str, variant: Variant) -> Verdict:
        return Verdict("fail" if len(answer) % self.divisor else "pass")


class TinyGaps(Tiny):
    """Words with a gap between them, two of each cluster."""

    name = "tiny-gaps"

    def samples(self) -> Sequence[Sample]:
        return [
            replace(each, prefix="a ", infill=Infill(" c", f"b{at}"), cluster=str(at // 2))
            for at, each in enumerate(super().samples())
        ]


class TinyLong(Tiny):
    name = "tiny-long"
    words = 4


class TinyDev(Tiny):
    name = "tiny-dev"


class Hopeless(Tiny):
    """Nothing is right."""

    name = "hopeless"

    def grade(self, sample: Sample, answer: str, variant: Variant) -> Verdict:
        return Verdict("fail")


def tiny_workspace(folder: Path, task: type[Tiny] = Tiny) -> Workspace:
    model = load(make_llada(folder / "model", tokenizer=True), device="cpu", dtype="float32")
    tasks = {each.name: each(Data()) for each in (task, TinyLong, TinyDev)}
    return Workspace(
        model,
        folder / "out",
        TINY,
        Quiet(),
        task=task.name,
        long_task=TinyLong.name,
        dev_task=TinyDev.name,
        _tasks={**tasks},
    )


def made_arm(records: Mapping[str, Mapping[str, Any]]) -> Arm:
    """An arm from hand-made records: `passed` (one suite or several), `seconds`, `tokens` and counts."""
    samples, grades = {}, {}
    for key, given in records.items():
        passed = given.get("passed", False)
        suites = passed if isinstance(passed, Mapping) else {"base": passed}
        updates, full = given.get("updates", 4), given.get("full", 1)
        spent = SECONDS | {"total": given.get("seconds", 1.0)}
        samples[key] = SampleLine(
            **sample(0)
            | {
                "id": key,
                "tokens": given.get("tokens", [1, 2]),
                "prompt_tokens": 3,
                "updates": updates,
                "full_passes": full,
                "cached_passes": updates - full,
                "reused_passes": 0,
                "revised_positions": 0,
                "seconds": SampleSeconds(**spent),
            }
        )
        verdicts = {
            suite: SuiteVerdict.model_validate(VERDICT | {"verdict": "pass" if yes else "fail"})
            for suite, yes in suites.items()
        }
        grades[key] = GradeLine(event="grade", id=key, tier=None, suites=verdicts)
    run = Run(Path(), {"method": {"name": "made", "settings": {}}}, {}, Recorded(samples, grades))
    times = {key: sample.seconds.total for key, sample in samples.items()}
    return Arm(run, costs(list(samples.values())), times)
