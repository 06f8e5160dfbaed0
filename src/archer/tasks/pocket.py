"""pocket: short Python problems of the bundled model, in the manner of MBPP, with short and long prompts."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import ClassVar

from archer.judge import Check, FunctionCheck, Limits
from archer.pocket import frozen, gaps, prompts
from archer.pocket.problems import Problem
from archer.tasks.base import CodeTask, Infill, Reference, Sample, Suite, Variant, user
from archer.tasks.sources import DataFile


class Pocket(CodeTask):
    """The model sees a statement and the visible asserts (base); extended adds the hidden ones."""

    name = "pocket"
    metric = "pass@1"
    files: ClassVar[tuple[DataFile, ...]] = ()
    length = 64
    limits = Limits(cpu_seconds=2, wall_seconds=6)
    suites: ClassVar[tuple[Suite, ...]] = ("base", "extended")
    split: ClassVar[frozen.HeldOut] = "test"
    dev: ClassVar[str | None] = "pocket-dev"

    def message(self, problem: Problem) -> str:
        return prompts.message(problem)

    @cached_property
    def _problems(self) -> dict[str, Problem]:
        self.data.digests[f"pocket/{self.split}.jsonl"] = frozen.DIGESTS[self.split]
        return {problem.name: problem for problem in frozen.load(self.split)}

    @cached_property
    def _samples(self) -> tuple[Sample, ...]:
        return tuple(
            Sample(name, user(self.message(problem)), "", problem.record())
            for name, problem in self._problems.items()
        )

    def samples(self) -> Sequence[Sample]:
        return self._samples

    def _problem(self, sample: Sample) -> Problem:
        return self._problems[sample.row["name"]]

    def references(self) -> Iterator[Reference]:
        for name, problem in self._problems.items():
            yield Reference(name, problem.program(problem.body))

    def extract(self, response: str, sample: Sample, variant: Variant) -> str:
        """As published: the header and what the model wrote. Repaired: also a whole function."""
        problem = self._problem(sample)
        if variant == "as_published":
            return problem.program(response)
        name = function_name(problem)
        return str(self.read("pocket_repaired", response, header=problem.header, name=name))

    def checks(
        self, sample: Sample, program: str, suite: Suite, variant: Variant
    ) -> tuple[Check, ...]:
        problem = self._problem(sample)
        asserts = problem.visible + (problem.hidden if suite == "extended" else ())
        return (FunctionCheck(program, function_name(problem), "\n".join(asserts), expose=()),)


class PocketLong(Pocket):
    """The same problems after a page of instructions and worked examples."""

    name = "pocket-long"
    dev: ClassVar[str | None] = "pocket-dev-long"

    @cached_property
    def _examples(self) -> dict[str, list[str]]:
        return frozen.load_examples(self.split)

    def message(self, problem: Problem) -> str:
        return prompts.long_message(problem, self._examples[problem.name])


class PocketDev(Pocket):
    """Other problems of the same kind, to choose settings on."""

    name = "pocket-dev"
    split = "dev"


class PocketDevLong(PocketDev, PocketLong):
    """The dev problems with long prompts."""

    name = "pocket-dev-long"


class PocketConfirm(Pocket):
    """A third set, for confirmations that are planned beforehand."""

    name = "pocket-confirm"
    split: ClassVar[frozen.HeldOut] = "confirm"
    dev: ClassVar[str | None] = None
    sealed = True


class PocketConfirmLong(PocketConfirm, PocketLong):
    """The same problems with long prompts."""

    name = "pocket-confirm-long"


class PocketConfirm3(PocketConfirm):
    """A fourth set, for the third confirmation."""

    name = "pocket-confirm3"
    split = "confirm3"


class PocketConfirm3Long(PocketConfirm3, PocketLong):
    """The same problems with long prompts."""

    name = "pocket-confirm3-long"


class PocketInfill(Pocket):
    """Gaps in the reference bodies of the dev problems; the rest of the body is given."""

    split = "dev"
    dev: ClassVar[str | None] = None
    length = 32
    kind: ClassVar[gaps.Kind]

    @cached_property
    def _cuts(self) -> dict[str, gaps.Cut]:
        self.data.digests[f"pocket/{gaps.FILE}"] = gaps.DIGEST
        return {cut.name: cut for cut in gaps.load(self.kind)}

    @cached_property
    def _samples(self) -> tuple[Sample, ...]:
        return tuple(map(self._sample, self._cuts.values()))

    def _sample(self, cut: gaps.Cut) -> Sample:
        problem = self._problems[cut.problem]
        before, middle, after = cut.parts(problem)
        record = problem.record() | {"before": before, "after": after}
        infill = Infill(after, middle)
        return Sample(
            cut.name, user(self.message(problem)), before, record, infill, cluster=problem.name
        )

    def references(self) -> Iterator[Reference]:
        for sample in self._samples:
            problem = self._problem(sample)
            yield Reference(sample.id, problem.program(problem.body))

    def extract(self, response: str, sample: Sample, variant: Variant) -> str:
        """The body with the response in its gap, in either reading."""
        body = f"{sample.row['before']}{response}{sample.row['after']}"
        return self._problem(sample).program(body)


class PocketInfillLine(PocketInfill):
    """One line of a body is missing."""

    name = "pocket-infill-line"
    kind = "line"


class PocketInfillLines(PocketInfill):
    """Several lines of a body are missing."""

    name = "pocket-infill-lines"
    kind = "lines"


class PocketInfillSpan(PocketInfill):
    """A span of a body is missing, cut anywhere."""

    name = "pocket-infill-span"
    kind = "span"


def function_name(problem: Problem) -> str:
    """`def solve(xs):` -> `solve`."""
    return problem.header.removeprefix("def ").partition("(")[0]
