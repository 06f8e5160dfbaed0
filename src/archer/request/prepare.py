"""From what a user gives to a checked request: everything impossible is refused, and nothing is computed.

Prompts become ids here: template and tokenizer, what stands around gaps, and what an answer has to be.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from archer.engine.batch import contained
from archer.engine.gap_length import Curve
from archer.errors import BadRequest
from archer.loading.text.healing import Gap, heal
from archer.methods import compatibility
from archer.methods.build import Method, MethodLike, resolve
from archer.methods.catalogue import Shared
from archer.methods.spelling import spelled_out
from archer.network.shape import Blocks, Shape
from archer.request.fill import GAP, Fill, Given
from archer.request.given import Sizes, gap_lengths, with_given
from archer.request.request import (
    Faults,
    Form,
    Messages,
    OnePrompt,
    Request,
    Window,
    as_list,
    as_prompt,
    check_ids,
    checked_seed,
    fitted,
    is_chat,
    joined,
)
from archer.structure.confined import make_apart
from archer.structure.constraint import Constraint
from archer.structure.lattice import OPEN
from archer.structure.structures import Structure

if TYPE_CHECKING:
    from archer.loading.checkpoint import Folder
    from archer.loading.text.text import Text
    from archer.model import Model
    from archer.structure.token_automaton import Vocabulary


@contained()
def prepare(
    model: Model,
    prompts: Sequence[object],
    method: MethodLike | None,
    faults: Faults,
    *,
    suffix: Any = None,
    prefill: Any = None,
    gap: str = GAP,
    healing: bool = True,
    curve: Sequence[float] | None = None,
    seed: int = 0,
    chat: bool = True,
    allow_special: bool = False,
    preset: str | None = None,
    settings: Mapping[str, Any] | None = None,
    schema: Any = None,
    regex: str | None = None,
    choices: Sequence[str] | None = None,
    **keywords: Any,
) -> tuple[Request, list[int]]:
    """The request of all prompts that are none of the `faults`, and their places."""
    seed = checked_seed(seed)
    shapes = (schema, regex, choices)
    structure = None if shapes == (None, None, None) else Structure.of(*shapes)
    recommended, shape = model.folder.recommended, model.folder.shape
    entries: dict[int, OnePrompt] = {}
    for at, entry in enumerate(prompts):
        with faults.of(at):
            entries[at] = as_prompt(entry)
    if suffix is not None or prefill is not None:
        held = structure is not None
        entries = with_given(entries, suffix, prefill, gap, chat=chat, held=held, faults=faults)
    values, sizes = joined(keywords, settings), dict[int, Sizes]()
    if any(isinstance(each, Fill) for each in entries.values()):
        values, sizes = gap_lengths(entries, values, recommended.length, faults)
    if not isinstance(method, Method) and not _can_follow(entries.values(), shape):
        values = {"canvas": Shared.canvas, **spelled_out(values)}
    chosen = resolve(method, values, preset, recommended)
    compatibility.check_attention(chosen, shape.attention)
    how = {"chat": chat, "allow_special": allow_special}
    how["healing"] = healing and structure is None
    if structure is not None:
        make_apart(structure)

    def formed(places: Sequence[int]) -> dict[int, Form]:
        """All at once, because rendering has a price per call; by halves where one of them is refused."""
        try:
            own = [sizes.get(at) for at in places]
            made = forms([entries[at] for at in places], model.name, model.text, sizes=own, **how)
            for form in made:
                _check(form, chosen, model.folder)
            if structure is not None:
                spelling, text = model.spelling(), model.text
                assert text is not None
                made = [
                    structured(form, entries[at], structure, spelling, text, fitted(chosen, form))
                    for at, form in zip(places, made, strict=True)
                ]
                for form in made:
                    _check(form, chosen, model.folder)
            return dict(zip(places, made, strict=True))
        except BadRequest as error:
            if len(places) > 1:
                half = len(places) // 2
                return formed(places[:half]) | formed(places[half:])
            faults.met(places[0], error)
            return {}

    checked = formed([at for at in entries if at not in faults.errors])
    own = None if curve is None else Curve.of(curve)
    reading = {"chat": chat, "allow_special": allow_special, "healing": healing}
    prepared = tuple(checked.values())
    return Request(chosen, prepared, seed, model.language, own, structure, reading), list(checked)


def _can_follow(prompts: Iterable[OnePrompt], shape: Shape) -> bool:
    """Whether a canvas can follow its answer: nothing stands behind it, and its end can be seen."""
    open_ends = all(each.one_open_gap for each in prompts if isinstance(each, Fill))
    return open_ends and not isinstance(shape.attention, Blocks)


def _check(form: Form, method: Method, folder: Folder) -> None:
    """Refuse what the model cannot take."""
    shape = folder.shape
    check_ids([*form.prefix, *form.behind], vocabulary=shape.vocabulary, mask=folder.mask)
    if form.behind:
        compatibility.check_given(method, shape)
    if not form.prefix:
        compatibility.check_nothing_before(shape)
    length = len(form.opened) + fitted(method, form).length
    Window.of(folder).check(form.prompt_tokens, length)


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
            prepared.append(replace(form_of(each, lead, text, own, **options), entry=each))
        else:
            assert lead is not None
            prepared.append(Form(tuple(lead), entry=each))
    return prepared


def form_of(
    fill: Fill,
    lead: list[int] | None,
    text: Text | None,
    sizes: tuple[Sequence[int], tuple[int, ...]],
    *,
    healing: bool,
    allow_special: bool,
) -> Form:
    """A text with gaps in ids; `lead` is its prompt, encoded with the beginning of the answer."""
    lengths, searched = sizes
    first: Given = fill.parts[0] if lead is None else lead
    parts = [first, *fill.parts[1:]]
    if text is None:
        plain = Form.between([_as_ids(part) for part in parts], lengths)
        return replace(plain, searched=searched)
    if all(isinstance(part, str) for part in fill.parts[1:]):
        healed = heal(text, parts, healing=healing, allow_special=allow_special)
        given, gaps = healed.given, healed.gaps
    else:
        given = tuple(
            tuple(text.encode_raw(part, allow_special=allow_special) if part else ())
            if isinstance(part, str)
            else tuple(part)
            for part in parts
        )
        gaps = (Gap(text),) * len(lengths)
    spelled = [part if isinstance(part, str) else text.decode_whole(part) for part in fill.parts]
    return replace(Form.between(given, lengths, spelled, gaps), searched=searched)


def _as_ids(part: Given) -> Sequence[int]:
    if isinstance(part, str) and part:
        raise BadRequest(
            "This model has no tokenizer, so it takes what is given as lists of ids only."
        )
    return [] if isinstance(part, str) else part


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
    return text.encode_raws(plain, allow_special=allow_special)


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
        forced = structure.automaton().forced()
        ids = _ordinary(text, forced)
        tokens = structure.tokens(model, forced if ids else b"")
        constraint = Constraint(tokens)
        constraint.refuse_impossible(np.full(method.length, OPEN), OPEN, name=structure.kind)
        opening = forced.decode() if ids else ""
        opened = replace(form, prefix=(*form.prefix, *ids), opening=opening, opened=tuple(ids))
        return replace(opened, constraint=constraint)
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


def _ordinary(text: Text, forced: bytes) -> list[int]:
    """A text as tokens that spell it and mean nothing else; none where there are none."""
    try:
        ids = text.encode_raw(forced.decode(), allow_special=False) if forced else []
    except (UnicodeDecodeError, BadRequest):
        return []
    assert text.pieces is not None
    return ids if text.pieces.join(ids) == forced and text.pieces.ordinary.issuperset(ids) else []
