"""A generation with its listeners: the trace file and the live view."""

import sys
from collections.abc import Iterator
from typing import Any

from rich.console import Console

from archer.engine.generate import Stream
from archer.model import Model
from archer.request.request import Request
from archer.results.completion import Completion
from archer.results.step import Step
from archer.results.trace import Writer, recorded, updates
from archer.terminal.glyphs import Look
from archer.terminal.live import LiveView, Screen


def run(
    model: Model,
    request: Request,
    *,
    writer: Writer | None = None,
    console: Console | None = None,
) -> list[Completion]:
    """Decode to the end."""
    stream = Stream(model, request)
    request = stream.request
    steps = iter(stream) if writer is None else recorded(request, stream, writer)
    for _ in steps if console is None else _drawn(steps, view_of(model, request), console):
        pass
    done = stream.finish()
    if writer is not None:
        for row, completion in enumerate(done):
            writer.ended(row, completion)
    return done


def _drawn(steps: Iterator[Step[Any]], view: LiveView, console: Console) -> Iterator[Step[Any]]:
    with Screen(view, console) as screen:
        screen.draw()
        for step in steps:
            for event in updates(step.record):
                view.follow(event)
            for row, error in step.errors.items():
                view.fail(row, str(error))
            screen.draw()
            yield step


def console_to_draw_on() -> Console | None:
    """Stdout, where it is a terminal that can be drawn on."""
    console = Console(highlight=False) if sys.stdout.isatty() else None
    return None if console is None or console.is_dumb_terminal else console


def view_of(model: Model, request: Request) -> LiveView:
    """The view of a request, before its first update."""
    method = request.method
    return LiveView(
        responses=[
            [None] * method.length if prompt.given is None else prompt.given
            for prompt in request.prompts
        ],
        stop=method.first_stop,
        look=_look(model),
        title=f"{method.name} · {model.name}",
        radius=method.settings.get("radius"),
        nats=method.settings.get("nats"),
    )


def _look(model: Model) -> Look:
    if model.text is not None:
        return Look(model.text.piece, ends=model.end_ids)
    return Look(str, cell=len(str(model.folder.shape.vocabulary - 1)))
