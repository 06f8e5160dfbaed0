"""The updates of a request, one by one: an engine without a thread, which turns when a step is wanted."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from archer.engine.engine import Engine
from archer.engine.handle import Listener
from archer.engine.job import Options
from archer.results.completion import Completion
from archer.results.step import Step

if TYPE_CHECKING:
    from archer.model import Model
    from archer.request import Request


class Stream:
    """The steps of a request; `finish` returns the results.

    A step is one update of one prompt, and its row is the place of that prompt in the request.  The updates
    of a prompt come in order.  Several prompts share passes and wait for memory as in `generate`, so one of
    them may be ahead of another; what each of them says does not depend on the others.
    """

    def __init__(self, model: Model, request: Request) -> None:
        self.request = request
        self._engine = Engine(model)
        self._unread: deque[Step[Any]] = deque()
        repeated: Counter[tuple[int, ...]] = Counter()
        self._handles = []
        for place, prompt in enumerate(request.prompts):
            options, reader = Options(first=repeated[prompt]), _StepReader(place, self._unread)
            self._handles.append(self._engine.enqueue(request.only(prompt), options, reader))
            repeated[prompt] += 1
        self._steps = self._run()

    def __iter__(self) -> Iterator[Step[Any]]:
        return self._steps

    def __next__(self) -> Step[Any]:
        return next(self._steps)

    def finish(self) -> list[Completion]:
        """Run what is left to run; one completion per prompt, in order."""
        for _ in self._steps:
            pass
        return [handle.result() for handle in self._handles]

    def _run(self) -> Iterator[Step[Any]]:
        going = list(self._handles)
        while going:
            self._engine.turn()
            while self._unread:
                yield self._unread.popleft()
            for handle in going:
                if handle.done:
                    handle.result()  # raises what ended it
            going = [handle for handle in going if not handle.done]


class _StepReader(Listener):
    """Puts the steps of one prompt where the stream finds them."""

    def __init__(self, place: int, unread: deque[Step[Any]]) -> None:
        self._place, self._unread = place, unread

    def stepped(self, step: Step[Any]) -> None:
        self._unread.append(step.counted_from(self._place))
