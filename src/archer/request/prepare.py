"""From what a user gives to a checked request: everything impossible is refused, and nothing is computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from archer.engine.gap_length import Curve
from archer.errors import BadRequest
from archer.methods import compatibility
from archer.methods.build import Method, MethodLike, resolve, spelled_out
from archer.methods.catalogue import Shared
from archer.request.fill import GAP, Form
from archer.request.forms import forms, structured
from archer.request.prompts import Faults, can_follow, filled, gap_lengths
from archer.request.request import Request, Window, check_ids, checked_seed, fitted, joined
from archer.structure.structures import Structure

if TYPE_CHECKING:
    from archer.loading.checkpoint import Folder
    from archer.model import Model


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
    structure = Structure.of(schema, regex, choices)
    recommended, shape = model.folder.recommended, model.folder.shape
    entries = filled(prompts, suffix, prefill, gap, chat=chat, faults=faults)
    given = joined(keywords, settings)
    wanted, sizes = gap_lengths(entries, given, recommended.length, faults)
    if not isinstance(method, Method) and not can_follow(entries.values(), shape):
        wanted = {"canvas": Shared.canvas, **spelled_out(wanted)}
    chosen = resolve(method, wanted, preset, recommended)
    compatibility.check_attention(chosen, shape.attention)
    how = {"chat": chat, "allow_special": allow_special}
    how["healing"] = healing and structure is None

    def formed(places: Sequence[int]) -> dict[int, Form]:
        """All at once, because rendering has a price per call; by halves where one of them is refused."""
        try:
            own = [sizes.get(at) for at in places]
            made = forms([entries[at] for at in places], model.name, model.text, sizes=own, **how)
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

    checked = formed([at for at in entries if at not in faults.found])
    own = None if curve is None else Curve.of(curve)
    return Request(chosen, tuple(checked.values()), seed, model.language, own), list(checked)


def _check(form: Form, method: Method, folder: Folder) -> None:
    """Refuse what the model cannot take."""
    shape = folder.shape
    check_ids([*form.prefix, *form.behind], vocabulary=shape.vocabulary, mask=folder.mask)
    if form.behind:
        compatibility.check_given(method, shape)
    if not form.prefix:
        compatibility.check_nothing_before(shape)
    Window.of(folder).check(form.prompt_tokens, fitted(method, form).length)
