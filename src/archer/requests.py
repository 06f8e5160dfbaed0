"""Checking a request before any work starts: prompts become ids, and everything impossible is refused."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from archer.errors import BadRequest, TooLong

Prompts: TypeAlias = str | Sequence[int] | Sequence[str | Sequence[int]]
"""A text, a list of ids, or a list of either."""


class LongerThanTrained(UserWarning):
    """Prompt and response together are longer than what the model was trained on."""


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


def as_list(prompts: Prompts) -> list[str | list[int]]:
    """One entry per row: a text or a list of ids."""
    if isinstance(prompts, str):
        return [prompts]
    if isinstance(prompts, bytes) or not isinstance(prompts, Iterable):
        raise BadRequest(
            f"A prompt is a text or a list of token ids, not {type(prompts).__name__}."
        )
    entries = list(prompts)
    if not entries:
        raise BadRequest(
            "There is no prompt. Give a text, a list of token ids, or a list of these."
        )
    if all(isinstance(entry, int) for entry in entries):
        return [_ids(entries)]
    return [entry if isinstance(entry, str) else _ids(entry) for entry in entries]


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


def check_device(device: str) -> None:
    """Refuse a device that torch does not know or cannot reach, before anything is loaded."""
    import torch  # here, because nothing else in this file needs it

    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise BadRequest(
            f"The device {device!r} cannot be used here: {str(error).splitlines()[0].rstrip('.')}. "
            "`archer doctor` lists the devices."
        ) from error


def _ids(entry: object) -> list[int]:
    if not isinstance(entry, Sequence) or isinstance(entry, bytes):
        raise BadRequest(f"A prompt is a text or a list of token ids, not {type(entry).__name__}.")
    for token in entry:
        if not isinstance(token, int) or isinstance(token, bool):
            raise BadRequest(f"A prompt of ids holds {token!r}, which is not a whole number.")
    return list(entry)
