"""Pass@1 on the dev problems: greedy LLaDA-Confidence, one token per update."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from tokenizers import Tokenizer

from archer.decoders.scheduled import Scheduled
from archer.engine.batch import Batch
from archer.engine.walk import Walk
from archer.judge import FunctionCheck, Judge
from archer.methods.build import Method
from archer.network.network import Transformer
from archer.passes.canvas import Prompt
from archer.pocket import prompts
from archer.pocket.problems import Problem
from archer.pocket.tokenizer import END, MASK, token_id
from archer.policies.prompt_cache import Eager
from archer.tasks.pocket import Pocket, function_name
from pocket_training.generator.published import worked_examples
from pocket_training.samples import RESPONSE


@dataclass(frozen=True)
class Score:
    """What was measured, with the names of the families that failed most."""

    base: float
    extended: float
    failed: dict[str, int]
    """Failures of the base suite per family."""
    bodies: list[str]


def complete(
    network: Transformer,
    tokenizer: Tokenizer,
    contents: Sequence[str],
    rows: int = 16,
) -> list[str]:
    """The text after each rendered user message, up to the first end mark."""
    ids = [
        tokenizer.encode(prompts.rendered(content), add_special_tokens=False).ids
        for content in contents
    ]
    mask, end = token_id(MASK), token_id(END)
    decoder = Scheduled()
    texts: list[str] = []
    with torch.no_grad():
        for first in range(0, len(ids), rows):
            few = [Prompt.of(prompt, mask) for prompt in ids[first : first + rows]]
            batch: Batch[int] = Batch(network)
            for place, prompt in enumerate(few):
                start = decoder.start(prompt, RESPONSE)
                batch.walks[place] = Walk(network, Method(decoder, Eager()), start)
            responses: dict[int, list[int]] = {}
            while going := [place for place, walk in batch.walks.items() if not walk.done]:
                for place, step in batch.turn(going, lambda: False).steps:
                    (responses[place],) = step.after.response.tolist()
            for response in responses.values():
                stop = response.index(end) if end in response else len(response)
                texts.append(tokenizer.decode(response[:stop], skip_special_tokens=False))
    return texts


def score(
    network: Transformer,
    tokenizer: Tokenizer,
    problems: Sequence[Problem],
    *,
    long: bool = False,
) -> Score:
    """Decode every problem and run what came out against both suites."""
    messages = [
        prompts.long_message(task, worked_examples(task)) if long else prompts.message(task)
        for task in problems
    ]
    bodies = complete(network, tokenizer, messages)
    base = extended = 0
    failed: Counter[str] = Counter()
    with Judge(Pocket.limits, workers=1) as judge:
        for task, body in zip(problems, bodies, strict=True):
            program, name = task.program(body), function_name(task)
            if not _passes(judge, program, name, task.visible):
                failed[task.family] += 1
                continue
            base += 1
            extended += _passes(judge, program, name, task.hidden)
    number = len(problems)
    return Score(base / number, extended / number, dict(failed.most_common()), bodies)


def _passes(judge: Judge, program: str, name: str, asserts: Sequence[str]) -> bool:
    check = FunctionCheck(program, name, "\n".join(asserts), expose=())
    return judge.grade(check).outcome == "pass"
