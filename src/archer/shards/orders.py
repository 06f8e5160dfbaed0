"""A pass as a message: what the other shards must know of each question, and what they make of it.

Axes: B rows, L columns.

Tokens, which columns are computed and which are scored; keys, values and features of layers stay with each
shard, under the number that the first one gave to the store.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from archer.errors import BadRequest
from archer.methods.catalogue import RULES
from archer.network.shape import AttentionKind, Blocks, Dense, PromptFirst
from archer.passes.canvas import Canvas, Flags
from archer.passes.forward import Question
from archer.passes.layer_rule import RowRule
from archer.passes.layout import Frame, RowGroup, plan
from archer.passes.memory import Memory, Store
from archer.shards.message import Message

PASS = "pass"
OPTIONAL = ("positions", "visible", "stops")
"""Arrays of a canvas that may be missing."""


def order(
    questions: Sequence[Question], logits: int, number: Callable[[Store], list[int]]
) -> Message:
    """A pass over these questions.

    `logits` is the number of its logits; `number` gives the number and the size of a store.
    """
    fields, arrays = [], []
    for question in questions:
        canvas, layout = question.canvas, question.layout
        sets = {id(ids): ids for _, ids in question.limits}
        numbers = {each: at for at, each in enumerate(sets)}
        given = [name for name in OPTIONAL if getattr(canvas, name) is not None]
        fields.append(
            {
                "store": number(question.memory.store),
                "slots": question.memory.slots,
                "running": [row for row, _ in layout.answers],
                "response": canvas.response.start,
                "mask": canvas.mask,
                "attention": _kind(canvas.attention),
                "rule": _described(question.rule),
                "given": given,
                "limits": [(row, numbers[id(ids)]) for row, ids in question.limits],
                "sets": len(sets),
            }
        )
        arrays += [canvas.tokens, _columns(canvas, layout.computed)]
        arrays += [_columns(canvas, layout.scored), *(getattr(canvas, name) for name in given)]
        arrays += [ids.numpy() for ids in sets.values()]
    return Message(PASS, {"questions": fields, "pass": logits}, tuple(arrays))


def questions_of(
    message: Message, kept: Callable[[Sequence[int]], Store], device: torch.device
) -> Iterator[Question]:
    """The questions of a pass on this shard; `kept` finds or makes the store of a number."""
    arrays = iter(message.arrays)
    for fields in message.fields["questions"]:
        tokens, computed, scored = next(arrays), next(arrays), next(arrays)
        given = {name: next(arrays) for name in fields["given"]}
        sets = [torch.from_numpy(next(arrays)) for _ in range(fields["sets"])]
        limits = tuple((row, sets[at]) for row, at in fields["limits"])
        question = _question(
            fields, (tokens, computed, scored), given, kept(fields["store"]), device
        )
        yield replace(question, limits=limits)


def _question(
    fields: dict[str, Any],
    arrays: tuple[NDArray[Any], NDArray[Any], NDArray[Any]],
    given: dict[str, Any],
    store: Store,
    device: torch.device,
) -> Question:
    tokens, computed, scored = arrays
    canvas = Canvas(
        tokens=tokens,
        response=slice(fields["response"], tokens.shape[1]),
        mask=fields["mask"],
        block=np.zeros((len(tokens), 2), dtype=np.int64),
        reads=scored,
        attention=_attention(fields["attention"]),
        **given,
    )
    frame = Frame.of(canvas, tuple(fields["slots"]), tuple(fields["running"]))
    layout = plan(computed, scored, frame, shift=False, device=device)
    memory = replace(Memory.blank(store, canvas), slots=frame.slots)
    return Question(canvas, layout, memory, _rule(fields["rule"]))


def _columns(canvas: Canvas, groups: Sequence[RowGroup]) -> Flags:
    """[B, L]: the columns of some groups of rows."""
    chosen = np.zeros(canvas.tokens.shape, dtype=np.bool_)
    for group in groups:
        chosen[group.row : group.row + group.rows, group.picked] = True
    return chosen


def _kind(attention: AttentionKind) -> list[Any]:
    return [type(attention).__name__, *astuple(attention)]


def _attention(described: Sequence[Any]) -> AttentionKind:
    kinds = {kind.__name__: kind for kind in (Dense, Blocks, PromptFirst)}
    return kinds[described[0]](*described[1:])


def _described(rule: RowRule | None) -> dict[str, Any] | None:
    if rule is None:
        return None
    for name, kind in RULES.items():
        if type(rule) is kind:
            return {"name": name, **vars(rule)}
    raise BadRequest(
        f"The rule {type(rule).__name__} chooses rows inside layers in a way that other shards do not "
        "know. Load the model without shards, or take another cache."
    )


def _rule(described: dict[str, Any] | None) -> RowRule | None:
    if described is None:
        return None
    settings = dict(described)
    return RULES[settings.pop("name")](**settings)
