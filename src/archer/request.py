"""Checking a request before any work starts: prompts become ids, and everything impossible is refused."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard, cast

import numpy as np

from archer.errors import BadRequest, LongerThanTrained, TooLong, numbered, quoted
from archer.fill import AUTO, MOST, Fill, Form, Given
from archer.methods.build import Method, adopt, over
from archer.methods.catalogue import LENGTHS, Shared
from archer.network.shape import Blocks, Shape
from archer.passes.bounds import MOST_SEED
from archer.structure.constraint import Constraint
from archer.structure.lattice import OPEN

if TYPE_CHECKING:
    from archer.engine.gap_length import Curve
    from archer.loading.text.text import Text
    from archer.results.language import Language
    from archer.structure.structures import Structure
    from archer.structure.token_automaton import TokenAutomaton, Vocabulary

Messages: TypeAlias = Sequence[Mapping[str, object]]
"""Messages with `role` and `content`, the last of them to be answered."""
OnePrompt: TypeAlias = str | Sequence[int] | Messages | Fill
Prompts: TypeAlias = OnePrompt | Sequence[OnePrompt]
"""A text, a list of ids, a list of chat messages, a text with gaps, or a list of these."""

Sizes: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]
"""Of a fill: the tokens of each gap, and which gaps are searched for up to that."""

NO_PROMPT = "A prompt is a text, a list of token ids or a list of chat messages, not {}."


@dataclass(frozen=True)
class Request:
    """A checked request: nothing about it can fail any more but the model itself."""

    method: Method
    """Its length is that of the longest response."""
    prompts: tuple[Form, ...]
    seed: int
    language: Language
    """What the ids of its model mean."""
    curve: Curve | None = None
    """By which lengths of gaps are searched for; None for the published one."""

    def only(self, prompt: Form) -> Request:
        """The same for one of its prompts, with a method of the length of its response."""
        return replace(self, method=fitted(self.method, prompt), prompts=(prompt,))

    def with_fitted_method(self) -> Request:
        """The same, of one prompt whose response has got another length."""
        return self.only(self.prompts[0])


def fitted(method: Method, prompt: Form) -> Method:
    """The method for as many tokens as a prompt leaves open; refuses what does not go with that many."""
    length = method.length if prompt.length is None else prompt.length
    return method if length == method.length else adopt(method, {"length": length})


@dataclass(frozen=True)
class Window:
    """How many columns a model can take, and how many it has learnt to use."""

    maximum: int
    trained: int | None

    def check(self, prompt: int, length: int) -> None:
        """Refuse what does not fit; warn about what was never trained."""
        total = prompt + length
        if total > self.maximum:
            raise TooLong(
                f"A prompt of {prompt} tokens and a response of {length} need {total} positions, "
                f"but the model has {self.maximum}. Shorten the prompt or the length."
            )
        if self.trained is not None and total > self.trained:
            warnings.warn(
                f"A prompt of {prompt} tokens and a response of {length} exceed the {self.trained} "
                "positions this model was trained on; expect poor text.",
                LongerThanTrained,
                stacklevel=2,
            )


def joined(keywords: Mapping[str, Any], settings: Mapping[str, Any] | None) -> dict[str, Any]:
    """The settings of a method, given as keywords and by their recorded names; `n` is never a keyword."""
    if keywords.get("n") is not None:
        value = quoted(keywords["n"])
        raise BadRequest(
            "n counts samples, which generate and an engine's submit take; several prompts are a list. "
            f"A method's own setting n is spelled least={value}, or settings={{'n': {value}}}."
        )
    named = dict(settings or {})
    for name in keywords.keys() & named.keys():
        raise BadRequest(
            f"The setting {quoted(name)} is given twice, as a keyword and in settings."
        )
    return {**{k: v for k, v in keywords.items() if k != "n"}, **named}


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


def forms(
    prompts: Sequence[OnePrompt],
    name: str,
    text: Text | None,
    *,
    chat: bool,
    allow_special: bool,
    healing: bool,
    sizes: Sequence[Sizes | None],
) -> list[Form]:
    """Prompts of the model `name` in ids; `sizes` are those of the gaps of each, where there are fills."""
    leads = [_lead(each, text, allow_special) for each in prompts]
    known = [pair for pair in leads if pair is not None]
    ids = iter(
        encoded(
            [prompt for prompt, _ in known],
            name,
            text,
            chat=chat,
            allow_special=allow_special,
            begun=[begun for _, begun in known],
        )
    )
    prepared = []
    for each, own, pair in zip(prompts, sizes or [None] * len(prompts), leads, strict=True):
        lead = None if pair is None else next(ids)
        if isinstance(each, Fill) and own is not None:
            options = {"healing": healing, "allow_special": allow_special}
            prepared.append(each.form(lead, text, own, **options))
        else:
            assert lead is not None
            prepared.append(Form(tuple(lead)))
    return prepared


def _lead(
    prompt: OnePrompt, text: Text | None, allow_special: bool
) -> tuple[OnePrompt, str] | None:
    """What is encoded as a prompt, and the beginning of the answer; None for a text by itself."""
    if not isinstance(prompt, Fill):
        return prompt, ""
    if prompt.prompt is None:
        return None
    (chat,), begun = as_list(prompt.prompt), prompt.parts[0]
    if isinstance(begun, str) and (isinstance(chat, str) or is_chat(chat)):
        return chat, begun
    if isinstance(chat, str) or is_chat(chat):
        raise BadRequest("An answer to a text begins with a text, not with ids.")
    if isinstance(begun, str) and begun:
        if text is None:
            raise BadRequest("This model has no tokenizer, so an answer begins with ids only.")
        begun = text.encode_raw(begun, allow_special=allow_special)
    return [*cast("Sequence[int]", chat), *cast("Sequence[int]", begun)], ""


def encoded(
    prompts: Sequence[OnePrompt],
    name: str,
    text: Text | None,
    *,
    chat: bool,
    allow_special: bool,
    begun: Sequence[str] | None = None,
) -> list[list[int]]:
    """Prompts of the model `name` as ids; rendering a template has a price per call, not per prompt.

    `begun` are the beginnings of the answers, which are encoded together with the prompts.
    """
    openings = [""] * len(prompts) if begun is None else begun
    pairs = list(zip(prompts, openings, strict=True))
    texts = [(each, begin) for each, begin in pairs if isinstance(each, str) or is_chat(each)]
    ids = iter(_encoded_texts(texts, name, text, chat, allow_special) if texts else [])
    return [
        next(ids) if isinstance(each, str) or is_chat(each) else list(cast("Sequence[int]", each))
        for each in prompts
    ]


def _encoded_texts(
    texts: Sequence[tuple[str | Messages, str]],
    name: str,
    text: Text | None,
    chat: bool,
    allow_special: bool,
) -> list[list[int]]:
    if text is None:
        raise BadRequest(
            f"{name!r} has no tokenizer, so it takes prompts as lists of ids only, such as [5, 7, 9]."
        )
    plain = [each + begun for each, begun in texts if isinstance(each, str)]
    if not all(each.strip() for each in plain):
        raise BadRequest("The prompt is empty. Write what the model should answer.")
    if chat:
        chats, begun = zip(*texts, strict=True)
        return text.encode_chats(chats, prefixes=begun, allow_special=allow_special)
    if len(plain) < len(texts):
        raise BadRequest(
            "Chat messages need the chat template, which chat=False leaves out. "
            "Give a text or token ids instead."
        )
    return [text.encode_raw(each, allow_special=allow_special) for each in plain]


def structured(
    form: Form,
    entry: OnePrompt,
    structure: Structure,
    model: Vocabulary,
    text: Text,
    method: Method,
) -> Form:
    """A prompt whose answer has to be something; refuses what cannot be written in the room there is.

    An answer that is given in part is meant as a whole; in a text with gaps, what stands from the first gap
    to the last one.  What every accepted answer begins with is given, so that nothing has to be decoded.
    """
    if form.given is None:
        ids, opening, tokens = begun(structure, model, text)
        constraint = Constraint(tokens)
        constraint.refuse_impossible(np.full(method.length, OPEN), OPEN, name=structure.kind)
        return replace(form, prefix=(*form.prefix, *ids), opening=opening, constraint=constraint)
    gaps = np.array([token is None for token in form.given])
    answer = isinstance(entry, Fill) and entry.prompt is not None
    before = form.parts[0].encode() if answer and form.parts else b""
    covered = len(gaps) if answer else int(np.flatnonzero(gaps)[-1]) + 1
    last = covered - int(np.flatnonzero(~gaps[:covered])[-1] + 1 if not gaps[:covered].all() else 0)
    closed = gaps[:covered].copy()
    if gaps[covered - 1]:
        closed[covered - last :] = False
    constraint = Constraint(structure.tokens(model, before), covered, closed)
    response = np.array([OPEN if token is None else token for token in form.given])
    constraint.refuse_impossible(response, OPEN, name=structure.kind)
    return replace(form, constraint=constraint, searched=())


def begun(
    structure: Structure, model: Vocabulary, text: Text
) -> tuple[list[int], str, TokenAutomaton]:
    """What every accepted answer begins with, as tokens and as text, and what may follow."""
    forced = structure.automaton().forced()
    ids = _ordinary(text, forced)
    opening = forced if ids else b""
    return ids, opening.decode(), structure.tokens(model, opening)


def _ordinary(text: Text, forced: bytes) -> list[int]:
    """A text as tokens that spell it and mean nothing else; none where there are none."""
    try:
        ids = text.encode_raw(forced.decode(), allow_special=False) if forced else []
    except UnicodeDecodeError:
        return []
    assert text.pieces is not None
    return ids if text.pieces.join(ids) == forced and text.pieces.ordinary.issuperset(ids) else []


def checked_seed(seed: object) -> int:
    """Refuse what names no noise; whole numbers of other libraries do."""
    if isinstance(seed, bool) or not isinstance(seed, Integral) or abs(int(seed)) > MOST_SEED:
        raise BadRequest(
            f"A seed is a whole number from {-MOST_SEED} to {MOST_SEED}, not {quoted(seed)}."
        )
    return int(seed)


def check_ids(ids: Sequence[int], *, vocabulary: int, mask: int) -> None:
    """Refuse ids that are not tokens of the model, and the one that means "nothing placed"."""
    if not ids:
        raise BadRequest("The prompt is empty. A response needs at least one prompt token.")
    for token in ids:
        if not 0 <= token < vocabulary:
            raise BadRequest(
                f"The prompt holds the id {token}, but the model knows ids 0 to {vocabulary - 1}."
            )
    if mask in ids:
        raise BadRequest(
            f"The prompt holds the mask id {mask}, which stands for a token that is not there. "
            "Remove it from the prompt."
        )


def _ids(entry: object) -> list[int]:
    if not isinstance(entry, Sequence) or isinstance(entry, bytes):
        raise BadRequest(NO_PROMPT.format(type(entry).__name__))
    for token in entry:
        if not isinstance(token, int) or isinstance(token, bool):
            raise BadRequest(f"A prompt of ids holds {quoted(token)}, which is not a whole number.")
    return list(entry)
