"""What the studies of one reproduction share: a model, a benchmark, and runs that are made only once."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from archer.methods.build import Choice
from archer.methods.spelling import in_full, over, plain
from archer.model import Model
from archer.runs.comparison import Run, open_run
from archer.runs.decoding import Prompts, encode
from archer.runs.evaluation import RunListener, evaluate
from archer.runs.executors.executor import Executor
from archer.runs.folder import SUMMARY, Recorded, read_manifest, read_summary
from archer.runs.manifest import RunRequest, differences, digest, identity
from archer.runs.records import Costs
from archer.runs.selection import Selection
from archer.runs.summary import costs
from archer.tasks import Data, open_task
from archer.tasks.base import Sample, Task


@dataclass(frozen=True)
class Scale:
    """How much is measured."""

    problems: int
    """Problems per arm."""
    long_problems: int
    """Problems per arm with long prompts, which take longer."""
    probed: int
    """Problems whose updates are looked at one by one."""
    timed: int
    """Problems that several arms decode in turn, for times that can be compared."""
    repeats: int
    """Repetitions of a timed call."""
    stride: int
    """Every Nth cached call is probed."""

    def limited(self, problems: int) -> Scale:
        """At most N problems anywhere."""
        few = {
            name: min(problems, getattr(self, name))
            for name in ("long_problems", "probed", "timed")
        }
        return replace(self, problems=problems, **few)


QUICK = Scale(problems=3, long_problems=2, probed=2, timed=1, repeats=2, stride=4)
FULL = Scale(problems=400, long_problems=150, probed=120, timed=24, repeats=9, stride=3)


@dataclass(frozen=True)
class Arm:
    """One method on one task: a finished run."""

    run: Run
    summary: Costs
    in_turn: Mapping[str, float] = field(default_factory=dict)
    """Seconds of problems that were decoded by several arms in turn; the others have none."""

    def passed(self, key: str, suite: str = "base") -> bool:
        return self.run.recorded.grades[key].passed(suite)

    def solved(self, suite: str = "base") -> list[bool]:
        """Of every problem whether it passed."""
        return [self.passed(key, suite) for key in self.keys]

    @property
    def operations(self) -> int:
        """Of all passes of all problems, as they were made."""
        return sum(sample.operations for sample in self.run.recorded.samples.values())

    @property
    def keys(self) -> list[str]:
        return self.run.keys

    def part(self, keys: Sequence[str]) -> Arm:
        """The same arm on some of its problems."""
        samples = {key: self.run.recorded.samples[key] for key in keys}
        grades = {key: self.run.recorded.grades[key] for key in keys}
        run = replace(self.run, recorded=Recorded(samples, grades))
        times = {key: seconds for key, seconds in self.in_turn.items() if key in samples}
        return Arm(run, costs(list(samples.values())), times)


@dataclass(frozen=True)
class Workspace:
    """Runs arms in folders of their own below `out`; an arm that is there already is read, not run."""

    model: Model
    out: Path
    scale: Scale
    listener: RunListener
    task: str = "pocket"
    long_task: str | None = "pocket-long"
    dev_task: str | None = "pocket-dev"
    data: Path | None = None
    unsafe_no_sandbox: bool = False
    executor: Executor | None = None
    """Who completes the problems of arms; this process where nobody is named."""
    hire: Callable[[Model], Executor] | None = None
    """The same for a study that also asks another model."""
    methods: tuple[str, ...] = ()
    """Methods of the user's that the main comparison measures as well."""
    device: str | None = None
    """The kind of device of whoever computes, where the model is an outline."""
    _tasks: dict[str, Task] = field(default_factory=dict)
    _arms: dict[Path, Arm] = field(default_factory=dict)

    def open(self, task: str | None = None) -> Task:
        """A task, the main one by default, its data read once."""
        name = task or self.task
        if name not in self._tasks:
            self._tasks[name] = open_task(name, Data(self.data))
        return self._tasks[name]

    def samples(self, task: str | None = None, problems: int | None = None) -> list[Sample]:
        """The first problems of a task."""
        count = problems or self.scale.problems
        return Selection(limit=count).of(self.open(task).samples())

    def sizes(self) -> dict[str, int]:
        """Problems of the main task, and of the long one if it is another."""
        sizes = {self.task: self.scale.problems}
        if self.long_task is not None and self.long_task != self.task:
            sizes[self.long_task] = self.scale.long_problems
        return sizes

    def request(
        self, method: str, task: str | None = None, problems: int | None = None, **settings: Any
    ) -> RunRequest:
        """An arm as it is asked for."""
        opened = self.open(task)
        return RunRequest(
            self.model,
            opened,
            Choice(method, over(settings, {"length": opened.length})),
            selection=Selection(limit=problems or self.scale.problems),
            device=self.device,
        )

    def again(self, arm: Arm) -> RunRequest:
        """A finished arm as it was asked for."""
        task, method = arm.run.identity["task"]["name"], arm.run.identity["method"]
        return self.request(in_full(method["name"]), task, len(arm.keys), **method["settings"])

    def prompts(self, request: RunRequest) -> Prompts:
        """The prompts of an arm's problems as ids."""
        return encode(request, request.selection.of(request.task.samples()))

    def arm(
        self, method: str, task: str | None = None, problems: int | None = None, **settings: Any
    ) -> Arm:
        """Run a method over the first problems, or read the run that is there, also of more problems."""
        usual = self.sizes().get(task or self.task, 0)
        if problems is not None and problems < usual:
            whole = self._folder(self.request(method, task, usual, **settings))
            if (whole / SUMMARY).exists():
                arm = self.arm(method, task, usual, **settings)
                return arm.part([str(sample.id) for sample in self.samples(task, problems)])
        return self.finished(self.request(method, task, problems, **settings))

    def finished(self, request: RunRequest) -> Arm:
        """The run of a request: read where it is there, else made or gone on with."""
        folder = self._folder(request)
        if folder not in self._arms:
            if not self.is_finished(request):
                evaluate(
                    request,
                    folder,
                    self.listener,
                    executor=self.executor,
                    unsafe_no_sandbox=self.unsafe_no_sandbox,
                )
            self._arms[folder] = Arm(open_run(folder), read_summary(folder))
        return self._arms[folder]

    def is_finished(self, request: RunRequest) -> bool:
        """Whether the very run that is asked for is there and complete: then no judge has to be started."""
        folder = self._folder(request)
        if not (folder / SUMMARY).exists() or not read_summary(folder).complete:
            return False
        run_identity = identity(request, request.selection.of(request.task.samples()))
        return not differences(read_manifest(folder)["identity"], run_identity)

    def _folder(self, request: RunRequest) -> Path:
        return self.out / "arms" / _name(request)


def _name(request: RunRequest) -> str:
    """A folder name that tells arms apart and can be read."""
    chosen = request.selection
    choices: dict[str, Any] = {"settings": plain(request.choice.settings), "limit": chosen.limit}
    if chosen.subset:
        choices["subset"] = list(chosen.subset)
    if request.gap is not None:
        choices["gap"] = request.gap
    short = digest(choices)[:8]
    method = re.sub(r"[^\w.=-]+", "-", request.choice.method)
    return f"{request.task.name}-{method}-{short}"
