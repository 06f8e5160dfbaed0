"""A checked request, what may be given as its prompts, and the checks that need no tokenizer."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

from archer.errors import BadRequest, LongerThanTrained, TooLong, numbered, quoted
from archer.methods.build import Method, adopt
from archer.passes.bounds import MOST_SEED
from archer.request.fill import Fill

if TYPE_CHECKING:
    from torch import Tensor

    from archer.engine.gap_length import Curve
    from archer.loading.checkpoint import Folder
    from archer.loading.text.healing import Gap
    from archer.passes.work import Work
    from archer.results.language import Language
    from archer.structure.structures import Structure

Messages: TypeAlias = Sequence[Mapping[str, object]]
"""Messages with `role` and `content`, the last of them to be answered."""
OnePrompt: TypeAlias = str | Sequence[int] | Messages | Fill
Prompts: TypeAlias = OnePrompt | Sequence[OnePrompt]
"""A text, a list of ids, a list of chat messages, a text with gaps, or a list of these."""

NO_PROMPT = "A prompt is a text, a list of token ids or a list of chat messages, not {}."


@dataclass(frozen=True)
class Form:
    """A prompt in ids: what stands in front of the response, and what of the response is given."""

    prefix: tuple[int, ...]
    given: tuple[int | None, ...] | None = None
    """The response from its first gap on, None where a token is to be written; None where all of it is."""
    lengths: tuple[int, ...] = ()
    """Tokens to be written in each gap."""
    parts: tuple[str, ...] = ()
    """The texts around the gaps, as they were given; one more than there are gaps, or none."""
    gaps: tuple[Gap, ...] = field(default=(), compare=False, repr=False)
    """What may stand in each gap, and how its tokens are read; none for a model without a tokenizer."""
    searched: tuple[int, ...] = ()
    """Gaps whose length is still to be found; what `lengths` has of them is the most."""
    probed: int = 0
    """Columns that were computed to find lengths."""
    probes: Work | None = field(default=None, compare=False, repr=False)
    """All that was computed for it."""
    constraint: object = field(default=None, compare=False, repr=False)
    """What the response has to be, where that was asked for."""
    opening: str = ""
    """The end of the prefix as far as it is the beginning of the answer."""
    opened: tuple[int, ...] = ()
    """Its tokens."""
    entry: object = field(default=None, compare=False, repr=False)
    """The prompt before it was encoded: a text, ids, messages or a `Fill`."""

    @classmethod
    def between(
        cls,
        given: Sequence[Sequence[int]],
        lengths: Sequence[int],
        parts: Sequence[str] = (),
        gaps: Sequence[Gap] = (),
    ) -> Form:
        """Given ids with a gap between each two."""
        response: list[int | None] = []
        for length, behind in zip(lengths, given[1:], strict=True):
            response += [None] * length
            response += behind
        return cls(tuple(given[0]), tuple(response), tuple(lengths), tuple(parts), tuple(gaps))

    def resized(self, gap: int, length: int) -> Form:
        """The same with another length of one gap."""
        if length == self.lengths[gap]:
            return self
        given = list(self.given or ())
        first = [at for at, token in enumerate(given) if token is None][self.spans[gap].start]
        given[first : first + self.lengths[gap]] = [None] * length
        lengths = (*self.lengths[:gap], length, *self.lengths[gap + 1 :])
        return replace(self, given=tuple(given), lengths=lengths)

    def shortest(self, gap: int) -> int:
        """Tokens that a gap needs at the least."""
        return self.gaps[gap].shortest if self.gaps else 1

    @property
    def length(self) -> int | None:
        """Tokens to be written; None where the method says how many."""
        return None if self.given is None else sum(self.lengths)

    @property
    def prompt_tokens(self) -> int:
        """Tokens that are given and no part of what every answer begins with."""
        return len(self.prefix) - len(self.opened) + len(self.behind)

    @property
    def behind(self) -> tuple[int, ...]:
        """What is given behind the first gap."""
        return tuple(token for token in self.given or () if token is not None)

    @property
    def ends_open(self) -> bool:
        """Nothing follows the last gap, not even bytes that healing has moved into it."""
        if self.given is None or self.given[-1] is not None:
            return False
        return not (self.gaps and self.gaps[-1].after)

    @property
    def spans(self) -> tuple[slice, ...]:
        """Where each gap stands among the tokens that are written."""
        return tuple(slice(*ends) for ends in pairwise(accumulate(self.lengths, initial=0)))

    def code(self) -> str:
        """The prompt as Python, as it was asked; gaps have the lengths that were found for them."""
        if not isinstance(self.entry, Fill):
            return repr(self.entry)
        parts, prompt = tuple(self.entry.parts), self.entry.prompt
        more = "" if prompt is None else f", prompt={prompt!r}"
        return f"archer.Fill({parts!r}, length={list(self.lengths)!r}{more})"

    def response(self, length: int, mask: int) -> list[int]:
        """The response before the first update; `length` is the method's."""
        given = (None,) * length if self.given is None else self.given
        return [mask if token is None else token for token in given]

    def allowed(self) -> Mapping[int, Tensor]:
        """Which ids may stand at a token that is written, by its number; others are free."""
        return {
            span.start + at: ids
            for gap, span in zip(self.gaps, self.spans, strict=False)
            for at, ids in gap.allowed(span.stop - span.start).items()
        }


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
    structure: Structure | None = None
    """What every answer has to be, if that was asked for."""
    reading: Mapping[str, bool] = field(default_factory=dict)
    """How texts were read: `chat`, `allow_special` and `healing` of `Model.request`."""

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
        """Refuse what does not fit; warn about what was never trained, in words that are always the same."""
        total = prompt + length
        if total > self.maximum:
            raise TooLong(
                f"A prompt of {prompt} tokens and a response of {length} need {total} positions, "
                f"but the model has {self.maximum}. Shorten the prompt or the length."
            )
        if self.trained is not None and total > self.trained:
            warnings.warn(
                f"A prompt and its response exceed the {self.trained} positions this model was trained on; "
                "expect poor text.",
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


class Faults:
    """Prompts that are refused: raised with their number among several, or kept."""

    def __init__(self, total: int, *, kept: bool = False) -> None:
        self.total, self.kept = total, kept
        self.errors: dict[int, BadRequest] = {}
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
        self.errors[at] = named


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
    return entry if isinstance(entry, str | Fill) or is_chat(entry) else whole_ids(entry)


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


def whole_ids(entry: object) -> list[int]:
    """Token ids, where they are whole numbers."""
    if not isinstance(entry, Sequence) or isinstance(entry, bytes):
        raise BadRequest(NO_PROMPT.format(type(entry).__name__))
    for token in entry:
        if not isinstance(token, int) or isinstance(token, bool):
            raise BadRequest(f"A prompt of ids holds {quoted(token)}, which is not a whole number.")
    return list(entry)
