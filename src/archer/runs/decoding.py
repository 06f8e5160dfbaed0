"""Completions of problems by a model: prompts first, all of them, then several at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from archer.completion import Completion
from archer.engine.step import Step
from archer.errors import ArcherError, BadRequest
from archer.model import Model, Request, Stream
from archer.runs.manifest import RunRequest, digest
from archer.service.engine import Engine
from archer.service.handle import Handle
from archer.service.listener import Listener
from archer.tasks.base import Sample
from archer.trace import Speller, Writer, start, updates

WARM_UP = 2
"""Updates that are run and thrown away before the first one is timed."""

Prompts = Mapping[str, tuple[int, ...]]


def encode(request: RunRequest, samples: Sequence[Sample]) -> Prompts:
    """The prompt of every problem as ids; refuses what the model cannot take, before any work."""
    text = request.model.text
    if text is None:
        raise BadRequest(
            f"{request.model.name!r} has no tokenizer, and a benchmark is made of texts. Give a "
            "folder with its tokenizer.json."
        )
    prefixes = [sample.prefix for sample in samples]
    if request.chat:
        ids = text.encode_chats([sample.messages for sample in samples], prefixes=prefixes)
    else:
        ids = [text.encode_raw(_flat(sample)) for sample in samples]
    for sample, prompt in zip(samples, ids, strict=True):
        try:
            _ask(request, [prompt])
        except BadRequest as error:
            raise BadRequest(f"Problem {sample.id}: {error}") from error
    return {str(sample.id): tuple(prompt) for sample, prompt in zip(samples, ids, strict=True)}


def shown_prompt(request: RunRequest, prompt: Sequence[int]) -> str:
    """A prompt as the model was given it, with the marks of the chat template."""
    assert request.model.text is not None
    return request.model.text.tokenizer.decode(list(prompt), skip_special_tokens=False)


def decode(
    request: RunRequest,
    samples: Sequence[Sample],
    prompts: Prompts,
    traces: Mapping[str, Path] | None = None,
) -> Iterator[tuple[Sample, dict[str, Any]]]:
    """Each problem with the record of its completion, in order; `traces` are written for some.

    `request.batch` problems are decoded at a time: when one ends another one joins.
    """
    if samples:
        _warm_up(request, prompts[str(samples[0].id)])
    engine = Engine(request.model)
    waiting, running = deque(samples), deque[tuple[Sample, Handle]]()
    while waiting or running:
        while waiting and sum(not handle.done for _, handle in running) < request.batch:
            sample = waiting.popleft()
            asked = _ask(request, [prompts[str(sample.id)]])
            trace = (traces or {}).get(str(sample.id))
            listener = None if trace is None else _Traced(request.model, asked, trace)
            running.append((sample, engine.enqueue(asked, listener=listener)))
        while running and running[0][1].done:
            sample, handle = running.popleft()
            yield sample, _record(sample, prompts[str(sample.id)], handle.result())
        engine.turn()


class _Traced(Listener):
    """Writes the trace of one request as it goes on."""

    def __init__(self, model: Model, asked: Request, path: Path) -> None:
        self._writer = Writer(path)
        self._speller = Speller(model, asked)
        self._writer.write(start(model, asked))

    def stepped(self, step: Step[Any]) -> None:
        for event in updates(step):
            self._writer.write(self._speller.spelled(event))

    def finished(self, completions: Sequence[Completion]) -> None:
        with self._writer as writer:
            for row, completion in enumerate(completions):
                writer.ended(row, completion)

    def failed(self, error: ArcherError) -> None:
        with self._writer:
            pass


def _record(sample: Sample, prompt: Sequence[int], completion: Completion) -> dict[str, Any]:
    if completion.error is not None:
        raise ArcherError(f"Problem {sample.id}: {completion.error}")
    fields = completion.as_dict()
    fields.pop("error")
    return {
        "event": "sample",
        "id": sample.id,
        "prompt_sha256": digest(list(prompt)),
        "completion": fields.pop("text"),
        **fields,
    }


def _warm_up(request: RunRequest, prompt: Sequence[int]) -> None:
    stream = Stream(request.model, _ask(request, [prompt]))
    for _ in range(WARM_UP):
        next(stream, None)


def _ask(request: RunRequest, prompts: Sequence[Sequence[int]]) -> Request:
    model: Model = request.model
    return model.request(
        [list(prompt) for prompt in prompts],
        request.method,
        seed=request.seed,
        preset=request.preset,
        **request.settings,
    )


def _flat(sample: Sample) -> str:
    """For models without a chat template: what was said, and how the answer begins."""
    said = "\n\n".join(str(message["content"]) for message in sample.messages)
    return f"{said}\n\n{sample.prefix}"
