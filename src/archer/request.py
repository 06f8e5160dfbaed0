"""Checking a request before any work starts: prompts become ids, and everything impossible is refused."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard, cast

from archer.errors import BadRequest, TooLong, quoted
from archer.passes.bounds import MOST_SEED

if TYPE_CHECKING:
    from archer.loading.text.text import Text
    from archer.methods.build import Method
    from archer.results.language import Language

Messages: TypeAlias = Sequence[Mapping[str, object]]
"""Messages with `role` and `content`, the last of them to be answered."""
OnePrompt: TypeAlias = str | Sequence[int] | Messages
Prompts: TypeAlias = OnePrompt | Sequence[OnePrompt]
"""A text, a list of ids, a list of chat messages, or a list of these."""

NO_PROMPT = "A prompt is a text, a list of token ids or a list of chat messages, not {}."


@dataclass(frozen=True)
class Request:
    """A checked request: nothing about it can fail any more but the model itself."""

    method: Method
    prompts: tuple[tuple[int, ...], ...]
    seed: int
    language: Language
    """What the ids of its model mean."""

    def only(self, prompt: tuple[int, ...]) -> Request:
        """The same for one of its prompts."""
        return replace(self, prompts=(prompt,))


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


def as_list(prompts: Prompts) -> list[OnePrompt]:
    """One entry per row: a text, a list of ids or a chat."""
    if isinstance(prompts, str):
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
    if is_chat(entries):
        return [entries]
    if all(isinstance(entry, int) for entry in entries):
        return [_ids(entries)]
    return [entry if isinstance(entry, str) or is_chat(entry) else _ids(entry) for entry in entries]


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


def encoded(
    prompts: Sequence[OnePrompt], name: str, text: Text | None, *, chat: bool, allow_special: bool
) -> list[list[int]]:
    """Prompts of the model `name` as ids; rendering a template has a price per call, not per prompt."""
    texts = [prompt for prompt in prompts if isinstance(prompt, str) or is_chat(prompt)]
    ids = iter(_encoded_texts(texts, name, text, chat, allow_special) if texts else [])
    return [
        next(ids) if isinstance(each, str) or is_chat(each) else list(cast("Sequence[int]", each))
        for each in prompts
    ]


def _encoded_texts(
    texts: Sequence[str | Messages], name: str, text: Text | None, chat: bool, allow_special: bool
) -> list[list[int]]:
    if text is None:
        raise BadRequest(
            f"{name!r} has no tokenizer, so it takes prompts as lists of ids only, such as [5, 7, 9]."
        )
    plain = [each for each in texts if isinstance(each, str)]
    if not all(each.strip() for each in plain):
        raise BadRequest("The prompt is empty. Write what the model should answer.")
    if chat:
        return text.encode_chats(texts, allow_special=allow_special)
    if len(plain) < len(texts):
        raise BadRequest(
            "Chat messages need the chat template, which chat=False leaves out. "
            "Give a text or token ids instead."
        )
    return [text.encode_raw(each, allow_special=allow_special) for each in plain]


def check_seed(seed: object) -> None:
    """Refuse what names no noise."""
    if not isinstance(seed, int) or abs(seed) > MOST_SEED:
        raise BadRequest(
            f"A seed is a whole number from {-MOST_SEED} to {MOST_SEED}, not {quoted(seed)}."
        )


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
