"""What a user may give as prompts, told apart and joined with what is given of the responses; no ids yet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias, TypeGuard

from archer.errors import BadRequest, numbered, quoted
from archer.methods.catalogue import LENGTHS, Shared
from archer.methods.spelling import over
from archer.network.shape import Blocks, Shape
from archer.request.fill import AUTO, MOST, Fill, Given

Messages: TypeAlias = Sequence[Mapping[str, object]]
"""Messages with `role` and `content`, the last of them to be answered."""
OnePrompt: TypeAlias = str | Sequence[int] | Messages | Fill
Prompts: TypeAlias = OnePrompt | Sequence[OnePrompt]
"""A text, a list of ids, a list of chat messages, a text with gaps, or a list of these."""

Sizes: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]
"""Of a fill: the tokens of each gap, and which gaps are searched for up to that."""

NO_PROMPT = "A prompt is a text, a list of token ids or a list of chat messages, not {}."


class Faults:
    """Prompts that are refused: raised with their number among several, or kept."""

    def __init__(self, total: int, *, kept: bool = False) -> None:
        self.total, self.kept = total, kept
        self.found: dict[int, BadRequest] = {}
        """By the place of the prompt, counted from 0."""

    @contextmanager
    def of(self, at: int) -> Iterator[None]:
        """What is refused in here is about this prompt."""
        try:
            yield
        except BadRequest as error:
            self.met(at, error)

    def met(self, at: int, error: BadRequest) -> None:
        """A prompt was refused."""
        named = numbered(error, at, self.total)
        if not self.kept:
            raise named from (None if named is error else error)
        self.found[at] = named


def listed(prompts: Prompts) -> list[object]:
    """One entry per row, unchecked: a text, ids, a chat or a text with gaps."""
    if isinstance(prompts, str | Fill):
        return [prompts]
    if isinstance(prompts, Mapping):
        raise BadRequest("A chat is a list of messages: put the message in a list.")
    if isinstance(prompts, bytes) or not isinstance(prompts, Iterable):
        raise BadRequest(NO_PROMPT.format(type(prompts).__name__))
    entries: list[object] = list(prompts)
    if not entries:
        raise BadRequest(
            "There is no prompt. Give a text, a list of token ids or of chat messages, or a list of these."
        )
    if is_chat(entries) or all(isinstance(entry, int) for entry in entries):
        return [entries]
    return entries


def as_prompt(entry: object) -> OnePrompt:
    """One row's entry, where it is a prompt."""
    return entry if isinstance(entry, str | Fill) or is_chat(entry) else _ids(entry)


def as_list(prompts: Prompts) -> list[OnePrompt]:
    """One entry per row: a text, a list of ids or a chat."""
    return [as_prompt(entry) for entry in listed(prompts)]


def is_chat(prompt: object) -> TypeGuard[Messages]:
    """A list of messages; refuses one that holds other things as well."""
    if not isinstance(prompt, Sequence) or isinstance(prompt, str | bytes):
        return False
    messages = sum(isinstance(entry, Mapping) for entry in prompt)
    if 0 < messages < len(prompt):
        raise BadRequest(
            "A list holds chat messages and other things. Several prompts are a list of texts, of lists of "
            "ids and of lists of messages, each chat in a list of its own."
        )
    return messages > 0


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
    return Fill.of_ids([None if token is None else _ids([token])[0] for token in entry])


def gap_lengths(
    prompts: Mapping[int, OnePrompt],
    settings: Mapping[str, Any],
    recommended: int | None,
    faults: Faults,
) -> tuple[dict[str, Any], dict[int, Sizes]]:
    """The settings of the method, with the length of the longest response, and the sizes of each fill."""
    wanted = dict(settings)
    if not any(isinstance(each, Fill) for each in prompts.values()):
        return wanted, {}
    most = wanted.get("max_length")
    said = [
        value
        for name, value in wanted.items()
        if name in LENGTHS and name != "max_length" and value is not None
    ]
    whole = most or recommended or Shared.length
    if said == [AUTO] and all(
        isinstance(each, Fill) and each.ends_open for each in prompts.values()
    ):
        return wanted, dict.fromkeys(prompts, ((whole,), ()))
    sizes: dict[int, Sizes] = {}
    for at, each in prompts.items():
        if isinstance(each, Fill):
            usual = [*said, whole if each.ends_open else AUTO][0]
            with faults.of(at):
                sizes[at] = each.sizes(usual, most or MOST)
    longest = max((sum(size[0]) for size in sizes.values()), default=whole)
    if not all(isinstance(each, Fill) for each in prompts.values()):
        longest = max(longest, said[0] if said and isinstance(said[0], int) else whole)
    return over({"length": longest}, wanted), sizes


def can_follow(prompts: Iterable[OnePrompt], shape: Shape) -> bool:
    """Whether a canvas can follow its answer: nothing stands behind it, and its end can be seen."""
    open_ends = all(each.ends_open for each in prompts if isinstance(each, Fill))
    return open_ends and not isinstance(shape.attention, Blocks)


def filled(
    prompts: Sequence[object],
    suffix: Any,
    prefill: Any,
    gap: str,
    *,
    chat: bool,
    faults: Faults,
) -> dict[int, OnePrompt]:
    """The prompts with what is given of their responses; `suffix` and `prefill`: one for all, or one each."""
    suffixes = _one_for_each("suffix", suffix, len(prompts))
    prefills = _one_for_each("prefill", prefill, len(prompts))
    entries = {}
    for at, (entry, behind, begun) in enumerate(zip(prompts, suffixes, prefills, strict=True)):
        with faults.of(at):
            entries[at] = _with_given(as_prompt(entry), behind, begun, gap, chat)
    return entries


def _with_given(
    entry: OnePrompt, behind: Given | None, begun: Any, gap: str, chat: bool
) -> OnePrompt:
    if not behind and not begun:
        return entry
    if isinstance(entry, Fill):
        raise BadRequest(
            "A text with gaps says itself what is given. Write suffix and prefill into it."
        )
    if isinstance(begun, Fill):
        return begun.with_prompt(entry)
    parts: list[Given] = [*(begun or "").split(gap)] if gap else [begun or ""]
    if len(parts) > 1 and behind:
        raise BadRequest(
            "A prefill with gaps says itself how the answer ends. Leave out the suffix."
        )
    if len(parts) == 1:
        parts.append(behind or "")
    if isinstance(entry, str) and not chat:
        return Fill((entry + str(parts[0]), *parts[1:]))
    return Fill(tuple(parts), prompt=entry)


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


def _ids(entry: object) -> list[int]:
    if not isinstance(entry, Sequence) or isinstance(entry, bytes):
        raise BadRequest(NO_PROMPT.format(type(entry).__name__))
    for token in entry:
        if not isinstance(token, int) or isinstance(token, bool):
            raise BadRequest(f"A prompt of ids holds {quoted(token)}, which is not a whole number.")
    return list(entry)
