"""The steps of a request, one by one, without an engine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from archer.machine.threads import computing
from archer.results.completion import Completion, Tally, add
from archer.results.step import Step

if TYPE_CHECKING:
    from archer.model import Model
    from archer.request import Request


class Stream:
    """The steps of a request, one by one; `finish` returns the results."""

    def __init__(self, model: Model, request: Request) -> None:
        self.request = request
        self._model = model
        self._tallies = {row: Tally() for row in range(len(request.prompts))}
        self._steps = self._run()

    def __iter__(self) -> Iterator[Step[Any]]:
        return self._steps

    def __next__(self) -> Step[Any]:
        return next(self._steps)

    def finish(self) -> list[Completion]:
        """Run what is left to run; one completion per prompt, in order."""
        for _ in self._steps:
            pass
        return [
            replace(
                self.request.language.completion(tally, len(prompt)),
                request=self.request.only(prompt),
            )
            for tally, prompt in zip(self._tallies.values(), self.request.prompts, strict=True)
        ]

    def _run(self) -> Iterator[Step[Any]]:
        method, model = self.request.method, self._model
        prompt = self.request.language.prompt(self.request.prompts, self.request.seed)
        state = method.decoder.start(prompt, method.length)
        steps = model.loop(method).steps(state)
        while True:
            with computing(model.threads):
                step = next(steps, None)
            if step is None:
                return
            add(self._tallies, step)
            yield step
