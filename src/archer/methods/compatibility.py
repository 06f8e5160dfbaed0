"""Which decoder goes with which cache, computed from what the two declare.

A decoder reads the logits of some columns; a policy always answers some.  A rollback decoder reads what it
has placed, and a cache that froze it has no answer: the paper's Proposition 1 as a check before any pass.
Which models a pair goes with follows from what the decoder says it is for and from whether the cache knows
what a column sees under block-causal attention.  Nothing is started and nothing laid out.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from archer.decoders.base import Attention, Decoder
from archer.errors import Incompatible
from archer.methods.catalogue import Part
from archer.methods.settings import POLICIES
from archer.network.shape import AttentionKind, Blocks, Shape
from archer.passes.canvas import Scope
from archer.policies.base import Policy

if TYPE_CHECKING:
    from archer.methods.build import Method

READS = {
    Scope.MASKS: "reads only the masks of the current block",
    Scope.BLOCK: "also reads the logits of tokens it has placed in the current block, to revise them",
    Scope.RESPONSE: "also reads the logits of tokens it has placed, in earlier blocks too, to revise them",
}


class Fit(StrEnum):
    """How well two parts go together."""

    YES = "yes"
    ONE_BLOCK = "one block"
    """Only when the response is decoded as one block."""
    NO = "no"


def verdict(reads: Scope, answers: Scope) -> Fit:
    if reads <= answers:
        return Fit.YES
    if reads is Scope.RESPONSE and answers is Scope.BLOCK:
        return Fit.ONE_BLOCK
    return Fit.NO


def matrix(
    decoders: Mapping[str, Part], policies: Mapping[str, Part], *, block_causal: bool = False
) -> dict[str, dict[str, Fit]]:
    """Every pair, with the parts' default settings, on models with full or with block-causal attention.

    Decoders that are for the other kind only are left out, or refused everywhere where the table says why.
    """
    caches: dict[str, Policy] = {name: part.make(**part.fixed) for name, part in policies.items()}
    table = {}
    for name, part in decoders.items():
        decoder: Decoder[Any] = part.make(**part.fixed)
        if not block_causal and decoder.attention is Attention.BLOCK_CAUSAL:
            continue
        row = {key: verdict(decoder.reads, cache.answers) for key, cache in caches.items()}
        if block_causal:
            row = {
                key: fit
                if caches[key].block_causal and decoder.attention is not Attention.FULL
                else Fit.NO
                for key, fit in row.items()
            }
        table[name] = row
    return table


def check_attention(method: Method, attention: AttentionKind) -> None:
    """Refuse a method that does not go with how the model attends."""
    kind = method.decoder.attention
    if isinstance(attention, Blocks) and method.settings.get("canvas", "fixed") != "fixed":
        raise Incompatible(
            "In a model with block-causal attention a column sees nothing after its block, so the first pass "
            "cannot tell where the answer ends. Give a number as length."
        )
    if not isinstance(attention, Blocks):
        if kind is Attention.BLOCK_CAUSAL:
            raise Incompatible(
                f"{method.name!r} is made for block-causal attention, in which a column sees nothing "
                "after its block; this model sees the whole response from everywhere. Use it with a "
                "model such as LLaDA2 or SDAR, or choose another decoder here, such as saber."
            )
        return
    if kind is Attention.FULL:
        raise Incompatible(
            f"{method.name!r} asks about extra columns after the response, at positions inside it; in a "
            "model with block-causal attention a column there would belong to no block. Choose another "
            "decoder, such as llada2-edit."
        )
    if not method.policy.block_causal:
        raise Incompatible(
            f"{method.name!r} has a cache that approximates full attention. This model attends "
            "block-causally, where archer keeps every finished block and is exact. "
            f"Choose {_caches('block_causal', True)}."
        )


def check_given(method: Method, shape: Shape) -> None:
    """Refuse text behind a gap where no column of the gap could see it, or where it would move."""
    if method.settings.get("canvas", "fixed") != "fixed":
        raise Incompatible(
            "A canvas that follows its answer gets and loses columns at its end, and text stands behind "
            'this gap. Give its length as a number, "search" or "delete".'
        )
    if isinstance(shape.attention, Blocks):
        raise Incompatible(
            "This model attends block-causally: a column sees nothing after its block, so a gap would be "
            "filled without the text behind it. Let the gap end the text, or use a model with full attention."
        )


def check_nothing_before(shape: Shape) -> None:
    """Refuse a gap at the very beginning where its first token could not be read."""
    if shape.shift:
        raise Incompatible(
            "This model's logits are shifted by one: the first token is read at the column before it, and "
            "there is none. Begin the text with at least one token."
        )


def check(decoder: Decoder[Any], policy: Policy, names: tuple[str, str], length: int) -> None:
    """Refuse a pair that cannot work at this length, naming both sides and why."""
    fit = verdict(decoder.reads, policy.answers)
    if fit is Fit.YES or (fit is Fit.ONE_BLOCK and decoder.blocks(length) == 1):
        return
    remedy = "Use a cache that recomputes the whole response: "
    remedy += _caches("answers", Scope.RESPONSE)
    if fit is Fit.ONE_BLOCK:
        remedy += ", or decode the response as one block"
    raise Incompatible(
        f"{names[0]!r} does not go with {names[1]!r}: {names[0]!r} {READS[decoder.reads]}, but "
        f"{names[1]!r} does not recompute them, because {policy.why}. {remedy}."
    )


def check_canvas(
    decoder: Decoder[Any], policy: Policy, names: tuple[str, str], canvas: str
) -> None:
    """Refuse a pair that cannot follow a canvas whose rows get and lose columns."""
    if not getattr(decoder, "resizes", False):
        raise Incompatible(
            f"{names[0]!r} goes through a plan that is made for one length, so its canvas cannot be "
            f"{canvas!r}. Give a number as length, or choose a decoder that ends when no mask is left, "
            "such as saber or threshold."
        )
    if policy.features:
        raise Incompatible(
            f"{names[1]!r} keeps features of layers for a canvas of one length, so it cannot be "
            f"{canvas!r}. Give a number as length, or choose a cache of keys and values, such as archer."
        )
    if canvas == "auto" and getattr(decoder, "block", None) is not None:
        raise Incompatible(
            "A canvas that is cut and grown is decoded as one block. Leave out the block, or say "
            'length="append", which appends block after block.'
        )
    if canvas == "append" and getattr(decoder, "block", None) is None:
        raise Incompatible(
            'length="append" appends blocks, and none is given. Say how many columns a block has: block=32.'
        )


def _caches(declared: str, value: object) -> str:
    """The names of all caches that declare this, other packages' too."""
    named = POLICIES.usable(lambda broken: None)
    *first, last = (name for name, part in named if getattr(part.make, declared) == value)
    return f"{', '.join(first)} or {last}"
