"""A generation with its listeners: the trace file and the live view."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from rich.console import Console

from archer.engine.stream import Stream
from archer.model import Model
from archer.request import Request
from archer.results.completion import Completion
from archer.results.step import Step
from archer.results.trace import Writer, recorded, updates
from archer.terminal.glyphs import Look
from archer.terminal.live import LiveView, Screen

Listener = Callable[[Step[Any]], None]


def run(
    model: Model,
    request: Request,
    *,
    writer: Writer | None = None,
    console: Console | None = None,
    pause: float = 0.0,
) -> list[Completion]:
    """Decode to the end; `pause` seconds after each drawn update give the eye time."""
    stream = Stream(model, request)
    steps = iter(stream) if writer is None else recorded(request, stream, writer)
    listeners: list[Listener] = []
    with ExitStack() as stack:
        if console is not None:
            view = view_of(model, request)
            screen = stack.enter_context(Screen(view, console))
            screen.draw()
            listeners.append(_drawer(view, screen, pause))
        for step in steps:
            for listen in listeners:
                listen(step)
    done = stream.finish()
    if writer is not None:
        for row, completion in enumerate(done):
            writer.ended(row, completion)
    return done


def _drawer(view: LiveView, screen: Screen, pause: float) -> Listener:
    def draw(step: Step[Any]) -> None:
        for event in updates(step.record):
            view.follow(event)
        for row, error in step.errors.items():
            view.fail(row, str(error))
        screen.draw()
        time.sleep(pause)

    return draw


def view_of(model: Model, request: Request) -> LiveView:
    """The view of a request, before its first update."""
    method = request.method
    return LiveView(
        rows=len(request.prompts),
        length=method.length,
        look=_look(model),
        title=f"{method.name} · {model.name}",
        radius=method.settings.get("radius"),
        nats=method.settings.get("nats"),
    )


def _look(model: Model) -> Look:
    if model.text is not None:
        return Look(model.text.piece, ends=model.end_ids)
    return Look(str, cell=len(str(model.folder.shape.vocabulary - 1)))
