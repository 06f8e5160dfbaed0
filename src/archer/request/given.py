"""Prompts of whose responses something is given: suffixes, prefills and gaps, with the lengths of gaps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from archer.errors import BadRequest, quoted
from archer.methods.catalogue import LENGTHS, Shared
from archer.methods.spelling import over
from archer.request.fill import AUTO, MOST, Fill, Given
from archer.request.request import Faults, OnePrompt, whole_ids

Sizes: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]
"""Of a fill: the tokens of each gap, and which gaps are searched for up to that."""


def as_fills(texts: Any, gap: str) -> list[Fill]:
    """One text with gaps, or several; ids with None for what is to be written do as well."""
    if isinstance(texts, str | Fill):
        texts = [texts]
    if isinstance(texts, Mapping | bytes) or not isinstance(texts, Iterable):
        raise BadRequest(f"A text with gaps must be text, not {type(texts).__name__}.")
    entries = list(texts)
    if not entries:
        raise BadRequest("There is no text to fill.")
    if any(each is None or isinstance(each, int) for each in entries):
        entries = [entries]
    return [_as_fill(each, gap) for each in entries]


def _as_fill(entry: Any, gap: str) -> Fill:
    if isinstance(entry, Fill):
        return entry
    if isinstance(entry, str) or not isinstance(entry, Sequence):
        return Fill.marked(entry, gap)
    return Fill.of_ids([None if token is None else whole_ids([token])[0] for token in entry])


def gap_lengths(
    prompts: Mapping[int, OnePrompt],
    settings: Mapping[str, Any],
    recommended: int | None,
    faults: Faults,
) -> tuple[dict[str, Any], dict[int, Sizes]]:
    """The settings of the method, with the length of the longest response, and the sizes of each fill."""
    values = dict(settings)
    most = values.get("max_length")
    lengths = [
        value
        for name, value in values.items()
        if name in LENGTHS and name != "max_length" and value is not None
    ]
    whole = most or recommended or Shared.length
    if lengths == [AUTO] and all(
        isinstance(each, Fill) and each.one_open_gap for each in prompts.values()
    ):
        return values, dict.fromkeys(prompts, ((whole,), ()))
    sizes: dict[int, Sizes] = {}
    for at, each in prompts.items():
        if isinstance(each, Fill):
            usual = [*lengths, whole if each.one_open_gap else AUTO][0]
            with faults.of(at):
                sizes[at] = each.sizes(usual, most or MOST)
    longest = max((sum(size[0]) for size in sizes.values()), default=whole)
    if not all(isinstance(each, Fill) for each in prompts.values()):
        longest = max(longest, lengths[0] if lengths and isinstance(lengths[0], int) else whole)
    return over({"length": longest}, values), sizes


def with_given(
    prompts: Mapping[int, OnePrompt],
    suffix: Any,
    prefill: Any,
    gap: str,
    *,
    chat: bool,
    held: bool,
    faults: Faults,
) -> dict[int, OnePrompt]:
    """The prompts with what is given of their responses; `suffix` and `prefill`: one for all, or one each.

    `held`: the answers have to be something, and what they begin with is a part of them.
    """
    suffixes = _one_for_each("suffix", suffix, faults.total)
    prefills = _one_for_each("prefill", prefill, faults.total)
    entries = {}
    for at, entry in prompts.items():
        with faults.of(at):
            begun = prefills[at]
            glued = not chat and not (held and begun)
            entries[at] = _with_given(entry, suffixes[at], begun, gap, glued=glued)
    return entries


def _with_given(
    entry: OnePrompt, behind: Given | None, begun: Any, gap: str, *, glued: bool
) -> OnePrompt:
    if not behind and not begun:
        return entry
    if isinstance(entry, Fill):
        raise BadRequest(
            "A text with gaps says itself what is given. Write suffix and prefill into it."
        )
    if isinstance(begun, Fill):
        return begun.with_prompt(entry)
    _check_given("suffix", behind, ids=True)
    _check_given("prefill", begun, ids=not isinstance(entry, str))
    text = begun or ""
    parts: list[Given] = [*text.split(gap)] if gap and isinstance(text, str) else [text]
    if len(parts) > 1 and behind:
        raise BadRequest(
            "A prefill with gaps says itself how the answer ends. Leave out the suffix."
        )
    if len(parts) == 1:
        parts.append(behind or "")
    if isinstance(entry, str) and glued:
        return Fill((entry + str(parts[0]), *parts[1:]))
    return Fill(tuple(parts), prompt=entry)


def _check_given(name: str, given: object, *, ids: bool) -> None:
    """Refuse what is neither text nor, where that may be, `ids`."""
    if not given or isinstance(given, str):
        return
    if not ids or not isinstance(given, Sequence) or not all(isinstance(i, int) for i in given):
        also = " or token ids" if ids else ", as its prompt is"
        raise BadRequest(f"A {name} is text{also}, not {quoted(given)}.")


def _one_for_each(name: str, given: Any, prompts: int) -> Sequence[Any]:
    if given is None or isinstance(given, str | Fill):
        return [given] * prompts
    if not isinstance(given, Sequence):
        raise BadRequest(f"{name} must be text or a list of texts, not {type(given).__name__}.")
    if all(isinstance(each, int) for each in given):
        return [given] * prompts
    if len(given) != prompts:
        raise BadRequest(
            f"There are {len(given)} texts as {name} for {prompts} prompts. "
            "Give one for each, or one for all."
        )
    return given
