"""One event format for terminal, viewer, server and studies: start, update and end, a JSON line each."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from io import StringIO
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from archer.errors import ArcherError, BadRequest, BadTrace, reason_of
from archer.files import finite, utf8_text
from archer.methods.spelling import plain
from archer.results.completion import Completion, History
from archer.results.step import ACCEPTED, REMASKED, REPLACED, Moment, Step, StepRecord

if TYPE_CHECKING:
    from archer.request.request import Request

VERSION = 1
Item = TypeVar("Item")
Token = TypeVar("Token", int, int | None)
"""None where a mask is shown as nothing."""
_ACCEPTED, _REPLACED, _REMASKED = int(ACCEPTED), int(REPLACED), int(REMASKED)


class _Event(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Placed(_Event):
    """A token written at a position of the response, and how sure the model was of it."""

    at: int
    token: int
    confidence: float | None


class Start(_Event):
    """First line: the request."""

    event: Literal["start"] = "start"
    version: Literal[1] = 1
    model: str
    method: str
    settings: dict[str, Any]
    seed: int
    mask: int
    length: int
    stop: int | None = None
    """Columns of the response before the first update, where that is not its length."""
    prompts: list[list[int]]
    pieces: dict[int, str] | None = None
    """How ids look, when the model has a tokenizer; filled for the ids of the prompts."""
    ends: list[int] = []
    """Ids that end a response."""
    given: list[list[int | None] | None] = []
    """For each prompt the response as it was given, None for what is to be written; empty where none was."""

    def response(self, row: int) -> list[int]:
        """The response of a row before its first update."""
        given = self.given[row] if self.given else None
        tokens = [None] * self.length if given is None else given
        return [self.mask if token is None else token for token in tokens]

    @model_validator(mode="after")
    def _one_for_each(self) -> Self:
        if len(self.given) not in (0, len(self.prompts)):
            raise ValueError("a given response for each prompt, or for none")
        return self


class Update(_Event):
    """One update of one row."""

    event: Literal["update"] = "update"
    row: int
    update: int
    """Counted from 1."""
    call: Literal["full", "cached", "reused"]
    fed: int
    distance: int
    """Tokens that differed from the anchor when the call was made."""
    drift: float | None = None
    """What the cache compared with its limit, where that is not the distance: nats for `surprise`."""
    accepted: list[Placed]
    replaced: list[Placed]
    remasked: list[int]
    doubts: list[float | None]
    """The confidence at each re-masked position."""
    threshold: float | None
    seconds: float
    stop: int | None = None
    """Columns that the response has after it; None where it has its length."""
    pieces: dict[int, str] | None = None
    """How ids look that no earlier event spelled."""

    def apply(self, tokens: list[Token], mask: Token) -> list[tuple[int, Token]]:
        """Write it into a response; position and token of what it took back, placed just now or before."""
        for change in (*self.accepted, *self.replaced):
            tokens[change.at] = change.token
        taken = [(at, tokens[at]) for at in self.remasked]
        for at in self.remasked:
            tokens[at] = mask
        return taken


class End(_Event):
    """Last line of a row: its completion."""

    event: Literal["end"] = "end"
    row: int
    completion: dict[str, Any]


Event = Annotated[Start | Update | End, Field(discriminator="event")]
_ADAPTER: TypeAdapter[Start | Update | End] = TypeAdapter(Event)


def updates(record: StepRecord) -> list[Update]:
    """The events of one step, a row each; what a rule decodes beyond the wanted length is left out."""
    return [Update.model_validate(each) for each in plain_updates(record)]


def plain_updates(record: StepRecord, first: int = 0) -> list[dict[str, Any]]:
    """The fields of the same events, unchecked, for speed; `first` numbers the request's first row."""
    rows = zip(record.rows, record.updates, record.moments, strict=True)
    return [_fields(first + row, update, moment, record.wanted) for row, update, moment in rows]


def retold(row: int, history: History, length: int) -> list[Update]:
    """The events of a row that has ended, of a response of `length`."""
    return [
        Update.model_validate(_fields(row, number, moment, length))
        for number, moment in enumerate(history, start=1)
    ]


def _fields(row: int, update: int, moment: Moment, length: int) -> dict[str, Any]:
    """Those of `Update`, in its order.  Changes are few, so plain tuples are quicker than arrays."""
    call = moment.call
    accepted, replaced, remasked, doubts = [], [], [], []
    for at, what, token, sure in moment.changes.tolist():
        confidence = finite(sure)
        placed = {"at": at, "token": token, "confidence": confidence}
        if what & _ACCEPTED:
            accepted.append(placed)
        if what & _REPLACED:
            replaced.append(placed)
        if what & _REMASKED:
            remasked.append(at)
            doubts.append(confidence)
    return {
        "event": "update",
        "row": row,
        "update": update,
        "call": call.kind.value,
        "fed": call.fed,
        "distance": call.distance,
        "drift": None if call.drift is None else finite(call.drift),
        "accepted": accepted,
        "replaced": replaced,
        "remasked": remasked,
        "doubts": doubts,
        "threshold": finite(moment.threshold),
        "seconds": call.seconds,
        "stop": None if moment.stop == length else moment.stop,
        "pieces": None,
    }


def start(request: Request) -> Start:
    """The first event of a request."""
    language, method = request.language, request.method
    text = language.text
    return Start(
        model=language.model,
        method=method.name,
        settings=plain(method.settings),
        seed=request.seed,
        mask=language.mask,
        length=method.length,
        stop=method.first_stop,
        prompts=[list(prompt.prefix) for prompt in request.prompts],
        pieces=None if text is None else {id: text.piece(id) for id in sorted(_ids(request))},
        ends=sorted(language.ends),
        given=[None if each.given is None else list(each.given) for each in request.prompts]
        if any(each.given is not None for each in request.prompts)
        else [],
    )


class Speller:
    """Adds to events how their ids look, each id once per trace."""

    def __init__(self, request: Request) -> None:
        self._text = request.language.text
        self._known = _ids(request)

    def spelled(self, event: Update) -> Update:
        pieces = self.pieces(change.token for change in (*event.accepted, *event.replaced))
        return event if pieces is None else event.model_copy(update={"pieces": pieces})

    def pieces(self, tokens: Iterable[int]) -> dict[int, str] | None:
        """How those look that have not been told yet."""
        new = sorted(set(tokens) - self._known)
        if self._text is None or not new:
            return None
        self._known.update(new)
        return {id: self._text.piece(id) for id in new}


def recorded(request: Request, steps: Iterable[Step[Any]], writer: Writer) -> Iterator[Step[Any]]:
    """The same steps, each written before it is handed on; the ends of rows are left to the caller."""
    speller = Speller(request)
    writer.write(start(request))
    for step in steps:
        for event in updates(step.record):
            writer.write(speller.spelled(event))
        yield step


class Writer:
    """Writes events to a file, a line each; opened before any work, emptied by the first event only."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._begun = False
        try:
            self._file = path.open("ab", buffering=0)
        except OSError as error:
            raise BadRequest(
                f"The trace file {str(path)!r} cannot be written: {reason_of(error)}. "
                "Choose another path."
            ) from error

    def write(self, event: Start | Update | End) -> None:
        try:
            if not self._begun and self._path.is_file():
                self._file.truncate(0)
            self._begun = True
            line = event.model_dump_json().encode() + b"\n"
            while line:
                line = line[self._file.write(line) :]
        except OSError as error:
            raise ArcherError(
                f"The trace file {str(self._path)!r} could not be written on: {reason_of(error)}. "
                "What was written before is intact."
            ) from error

    def ended(self, row: int, completion: Completion) -> None:
        self.write(End(row=row, completion=completion.to_dict(provenance=False)))

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def read(path: Path) -> Iterator[Start | Update | End]:
    """Events of a trace file, checked line by line."""
    return parsed_lines(path, _ADAPTER.validate_json, "a trace event")


def parsed_lines(path: Path, parse: Callable[[str], Item], what: str) -> Iterator[Item]:
    """Each line of a file by `parse`; refuses one that is not `what`, and says which and why."""
    for number, line in enumerate(read_lines(path), start=1):
        try:
            yield parse(line)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"])) or "the line"
            raise BadTrace(
                f"Line {number} of {str(path)!r} is not {what}: {where}: {first['msg']}."
            ) from error


def read_lines(path: Path) -> list[str]:
    """The lines of a trace of any format."""
    text = utf8_text(path.read_bytes, f"The trace {str(path)!r}", BadTrace)
    return StringIO(text, newline=None).readlines()


def states(start: Start, events: Sequence[Update]) -> Iterator[list[int]]:
    """The response after each update of one row; masks where it has no column."""
    response = start.response(events[0].row if events else 0)
    for event in events:
        event.apply(response, start.mask)
        yield list(response)


def first_difference(
    first: Iterable[Item], second: Iterable[Item], same: Callable[[Item, Item], bool] = operator.eq
) -> int | None:
    """The place, from 0, where two sequences part; None for equal ones. The end of the shorter counts."""
    over: Any = object()
    for place, (left, right) in enumerate(zip_longest(first, second, fillvalue=over)):
        if left is over or right is over or not same(left, right):
            return place
    return None


def _ids(request: Request) -> set[int]:
    return {token for prompt in request.prompts for token in (*prompt.prefix, *prompt.behind)}
