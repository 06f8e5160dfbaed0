"""Completions of problems by a model: prompts first, all of them, then several at a time."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from archer.engine.engine import Engine
from archer.engine.generate import Stream
from archer.engine.handle import Handle, Listener
from archer.errors import ArcherError, BadRequest
from archer.loading.text.healing import heal
from archer.loading.text.text import Text
from archer.methods.build import Choice
from archer.model import Model
from archer.passes.work import Work, operations
from archer.request.fill import Fill
from archer.request.request import OnePrompt, Request
from archer.results.completion import Completion
from archer.results.step import Step
from archer.results.trace import Speller, Writer, start, updates
from archer.runs.manifest import FIXED, ORACLE, RunRequest, digest
from archer.runs.records import SampleLine
from archer.tasks.base import Sample

WARM_UP = 2
"""Updates that are run and thrown away before the first one is timed."""

Prompts = Mapping[str, tuple[int, ...]]
"""Ids by problem; the mask for each token that is to be written in front of others that are given."""
GapRequest = tuple[str, int | str]
"""The text behind a gap; its tokens, or how their number is found."""


def encode(request: RunRequest, samples: Sequence[Sample]) -> Prompts:
    """The prompt of every problem as ids; refuses what the model cannot take, before any work."""
    text = request.model.text
    if text is None:
        raise BadRequest(
            f"{request.model.name!r} has no tokenizer, and a benchmark is made of texts. Give a "
            "folder with its tokenizer.json."
        )
    if request.chat and all(sample.messages for sample in samples):
        prefixes = [_opening(sample) for sample in samples]
        ids = text.encode_chats([sample.messages for sample in samples], prefixes=prefixes)
    else:
        ids = [text.encode_raw(_flat(sample)) for sample in samples]
    prompts: dict[str, tuple[int, ...]] = {}
    for sample, lead in zip(samples, ids, strict=True):
        behind = _behind(sample, text, request.model.folder.mask)
        prompts[str(sample.id)] = (*lead, *behind)
        try:
            _request_of(request, sample, prompts)
        except BadRequest as error:
            raise BadRequest(f"Problem {sample.id}: {error}") from error
    return prompts


def _opening(sample: Sample) -> str:
    """How the response begins."""
    return sample.prefix if sample.canvas is None else f"{sample.prefix}{sample.canvas.parts[0]}"


def _behind(sample: Sample, text: Text, mask: int) -> Iterator[int]:
    """What is given behind the beginning of the response, with masks in its gaps."""
    if sample.canvas is not None:
        lengths, _ = sample.canvas.sizes(1, 1)
        for length, part in zip(lengths, sample.canvas.parts[1:], strict=True):
            yield from [mask] * length
            if isinstance(part, str):
                part = text.encode_raw(part) if part else []
            yield from part


def gap_of(request: RunRequest, sample: Sample, prompt: Sequence[int]) -> GapRequest | None:
    """What stands behind a problem's gap, and how long the gap is made by the rule of the run."""
    text, infill = request.model.text, sample.infill
    if infill is None:
        return None
    assert text is not None
    rule = request.gap or FIXED
    if rule == ORACLE:
        (gap,) = heal(text, [prompt, infill.suffix]).gaps
        return infill.suffix, gap.tokens_of(infill.middle)
    if rule == FIXED:
        return infill.suffix, request.choice.build(request.model.folder.recommended).length
    return infill.suffix, int(rule) if rule.isdecimal() else rule


def put(prompt: Sequence[int], gap: GapRequest | None) -> Sequence[int] | Fill:
    """A prompt as it is put to a model: with the text behind its gap, where it has one."""
    return prompt if gap is None else Fill((list(prompt), gap[0]), length=gap[1])


def shown_prompt(request: RunRequest, prompt: Sequence[int]) -> str:
    """A prompt as the model was given it, with the marks of the chat template."""
    assert request.model.text is not None
    return request.model.text.decode_whole(prompt)


def decode(
    request: RunRequest,
    samples: Sequence[Sample],
    prompts: Prompts,
    traces: Mapping[str, Path] | None = None,
) -> Iterator[tuple[Sample, SampleLine]]:
    """Each problem with its record, in order, `request.batch` at a time; `traces` are written for some."""
    if samples:
        warm_up(request.model, _request_of(request, samples[0], prompts))
    engine = Engine(request.model)
    waiting, running = deque(samples), deque[tuple[Sample, Handle, Counted]]()
    while waiting or running:
        while waiting and sum(not handle.done for _, handle, _ in running) < request.batch:
            sample = waiting.popleft()
            one = _request_of(request, sample, prompts)
            trace = (traces or {}).get(str(sample.id))
            listener = (
                Counted(request.model) if trace is None else Traced(request.model, one, trace)
            )
            running.append((sample, engine.enqueue(one, listener=listener), listener))
        while running and running[0][1].done:
            sample, handle, counted = running.popleft()
            prompt, done = prompts[str(sample.id)], handle.result()
            yield sample, record_of(sample.id, prompt, done, counted.operations)
        engine.turn()


def _request_of(request: RunRequest, sample: Sample, prompts: Prompts) -> Request:
    prompt = prompts[str(sample.id)]
    entry = put(prompt, gap_of(request, sample, prompt))
    return ask(request.model, request.choice, request.seed, entry)


class Counted(Listener):
    """Adds up what one request made the network compute."""

    def __init__(self, model: Model) -> None:
        self._shape, self._work = model.folder.shape, Work()

    @property
    def operations(self) -> int:
        return operations(self._work, self._shape)

    def admitted(self, request: Request) -> None:
        self._work += request.prompts[0].probes or Work()

    def stepped(self, step: Step[Any]) -> None:
        self._work += step.work


class Traced(Counted):
    """Writes the trace of one request as it goes on, too."""

    def __init__(self, model: Model, request: Request, path: Path) -> None:
        super().__init__(model)
        self._writer = Writer(path)
        self._speller = Speller(request)
        self._writer.write(start(request))

    def stepped(self, step: Step[Any]) -> None:
        super().stepped(step)
        for event in updates(step.record):
            self._writer.write(self._speller.spelled(event))

    def finished(self, completions: Sequence[Completion]) -> None:
        with self._writer as writer:
            for row, completion in enumerate(completions):
                writer.ended(row, completion)

    def failed(self, error: ArcherError) -> None:
        with self._writer:
            pass


def record_of(
    id: int | str, prompt: Sequence[int], completion: Completion, operations: int
) -> SampleLine:
    """What the journal keeps of a completion."""
    if completion.error is not None:
        raise ArcherError(f"Problem {id}: {completion.error}")
    fields = completion.to_dict(provenance=False)
    for name in ("error", "given", "parts", "gaps"):
        fields.pop(name, None)
    return SampleLine(
        event="sample",
        id=id,
        prompt_sha256=digest(list(prompt)),
        completion=fields.pop("text"),
        operations=operations,
        **fields,
    )


def warm_up(model: Model, request: Request) -> None:
    """A few updates that nobody times or keeps."""
    for _ in islice(Stream(model, request), WARM_UP):
        pass


def ask(model: Model, choice: Choice, seed: int, prompt: Sequence[int] | Fill) -> Request:
    """The request for a prompt; refuses what the model cannot take."""
    return model.request(
        [prompt if isinstance(prompt, Fill) else _entry(prompt, model.folder.mask)],
        choice.method,
        seed=seed,
        preset=choice.preset,
        settings=choice.settings,
    )


def _entry(prompt: Sequence[int], mask: int) -> OnePrompt:
    """As the model takes it: a prompt with masks has gaps."""
    if mask not in prompt:
        return list(prompt)
    return Fill.of_ids([None if each == mask else each for each in prompt])


def _flat(sample: Sample) -> str:
    """For models without a chat template: what was said, and how the answer begins."""
    messages = [str(message["content"]) for message in sample.messages]
    return "\n\n".join([*messages, _opening(sample)])
