"""A checked request, and the checks that need neither prompts nor a tokenizer."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import TYPE_CHECKING, Any

from archer.errors import BadRequest, LongerThanTrained, TooLong, quoted
from archer.methods.build import Method, adopt
from archer.passes.bounds import MOST_SEED
from archer.request.fill import Form

if TYPE_CHECKING:
    from archer.engine.gap_length import Curve
    from archer.loading.checkpoint import Folder
    from archer.results.language import Language


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

    @classmethod
    def of(cls, folder: Folder) -> Window:
        """The window of a checkpoint."""
        return cls(folder.shape.max_positions, folder.architecture.trained_window)

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
