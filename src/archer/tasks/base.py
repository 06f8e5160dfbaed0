"""What a task is: prompts, extraction, a grader and references, all pure functions of the data.

A task never runs a model and never runs a program itself. Code tasks say what the judge has to check;
answer tasks compare an extracted answer with the right one.

Every task reads a response in two ways. `as_published` repeats the released pipeline with its
faults; `repaired` is the same protocol without them. Both are always reported.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, Protocol, Self

from archer.judge import Check, Limits, Verdict
from archer.request.fill import Fill
from archer.tasks.reading.operations import OPERATIONS
from archer.tasks.sources import Data, DataFile

Variant = Literal["as_published", "repaired"]
Suite = Literal["base", "extended"]
VARIANTS: tuple[Variant, ...] = ("as_published", "repaired")


class Read(Protocol):
    """Does an operation of `archer.tasks.reading` on a text. May raise Unreadable."""

    def __call__(self, operation: str, text: str, /, **facts: Any) -> Any: ...


def read_here(operation: str, text: str, /, **facts: Any) -> Any:
    """In this process: for texts that are trusted, such as references. Graders read elsewhere."""
    return OPERATIONS[operation](text, **facts)


@dataclass(frozen=True)
class Infill:
    """What makes a problem one of filling a gap: the text behind it, and what stood there."""

    suffix: str
    middle: str
    """For oracle lengths and exact matches; never shown to a model."""


@dataclass(frozen=True)
class Sample:
    """One problem. `prefix` opens the assistant's turn: it follows the rendered chat template.

    Without messages there is no template: the prefix is all that the model is given before its response.
    """

    id: str | int
    messages: tuple[Mapping[str, str], ...]
    prefix: str
    row: Mapping[str, Any]
    """The record of the data set, for extraction and grading; never shown to a model."""
    infill: Infill | None = None
    cluster: str | None = None
    """What problems that depend on each other share, such as the function that they are cut from."""
    canvas: Fill | None = None
    """What is given of the response, where that is more than its beginning."""


@dataclass(frozen=True)
class Reference:
    """A right program or answer, as complete as `--raw` wants it."""

    id: str | int
    text: str


class Task(ABC):
    """What all tasks share. `version` changes whenever a score could."""

    name: ClassVar[str]
    version: ClassVar[str] = "1"
    metric: ClassVar[str]
    """What the score is called."""
    files: ClassVar[tuple[DataFile, ...]]
    """What `samples` reads."""
    length: ClassVar[int] = 256
    """Tokens of a response, unless a run says otherwise."""
    dev: ClassVar[str | None] = None
    """The task of the same kind on which settings may be chosen; its own name where it is for that."""
    sealed: ClassVar[bool] = False
    """Kept for confirmations that are planned beforehand: nothing is chosen on it."""

    def __init__(self, data: Data) -> None:
        self.data = data
        self.read: Read = read_here

    def reading_by(self, read: Read) -> Self:
        """The same task, which looks at texts of models by other means, such as a confined process."""
        other = copy(self)
        other.read = read
        return other

    @abstractmethod
    def samples(self) -> Sequence[Sample]:
        """All problems in the order of the data file."""

    @abstractmethod
    def references(self) -> Iterator[Reference]:
        """Right answers, in the order of the data file. A problem may have none, or several."""

    @abstractmethod
    def extract(self, response: str, sample: Sample, variant: Variant) -> str:
        """The program or answer in a raw text, looked at by `self.read` alone; empty if there is none."""


class FromRows(Task):
    """A task whose problems are the rows of its first file, which is read once."""

    @staticmethod
    @abstractmethod
    def sample(row: dict[str, Any]) -> Sample:
        """The problem in a row."""

    @cached_property
    def _samples(self) -> tuple[Sample, ...]:
        return tuple(map(self.sample, self.data.rows(self.files[0])))

    def samples(self) -> Sequence[Sample]:
        return self._samples


class CodeTask(Task):
    """A task whose answers are programs for the judge."""

    limits: ClassVar[Limits]
    packages: ClassVar[tuple[str, ...]] = ()
    """What programs may import besides the standard library."""
    suites: ClassVar[tuple[Suite, ...]] = ("base",)
    """The tests that one completion is graded on; `archer grade` uses the first."""

    @abstractmethod
    def checks(
        self, sample: Sample, program: str, suite: Suite, variant: Variant
    ) -> tuple[Check, ...]:
        """What the judge has to check; the program passes if all pass, and fails if there are none."""

    def clean_checks(self, sample: Sample, program: str, suite: Suite) -> tuple[Check, ...] | None:
        """The same without tests that the reference fails; None where there are no such tests."""
        return None


Grade = Callable[[Sample, str, Variant], Verdict]


class AnswerTask(Task):
    """A task whose answers are compared with the right ones."""

    @abstractmethod
    def grade(self, sample: Sample, answer: str, variant: Variant) -> Verdict:
        """The verdict on an extracted answer."""

    def grading(self) -> AbstractContextManager[Grade]:
        """`grade` with whatever it needs while it runs."""
        return nullcontext(self.grade)

    def measures(self, answered: Sequence[tuple[Sample, str]]) -> dict[str, Any]:
        """Further measures over the answers of the repaired extraction."""
        return {}


def user(content: str) -> tuple[Mapping[str, str], ...]:
    """A conversation of one turn of the user."""
    return ({"role": "user", "content": content},)
