"""What the ids of a model mean, without weights or a chat template: prompts to rows, rows to text."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from archer.errors import ArcherError
from archer.passes.canvas import Prompt
from archer.results.completion import Completion, Tally

if TYPE_CHECKING:
    from archer.loading.text.text import Text
    from archer.request.request import Form


@dataclass(frozen=True)
class Language:
    """The mask, the ids that end a response, and how ids are spelled."""

    model: str
    """The name of the model, for traces and refusals."""
    mask: int
    eos: tuple[int, ...]
    """Ids that fill the rest of a response once it is over."""
    ends: frozenset[int]
    """Ids at which a response ends for its reader."""
    text: Text | None = None
    """Decodes and spells; None where the model has no tokenizer."""

    def prompt(self, form: Form, seed: int, samples: int = 1, first: int = 0) -> Prompt:
        """What a decoder starts from; options as for `Prompt.of`."""
        return Prompt.of(
            form.prefix,
            self.mask,
            given=form.given,
            allowed=form.allowed(),
            constraint=form.constraint,
            samples=samples,
            seed=seed,
            eos=self.eos,
            ends=sorted(self.ends),
            first=first,
        )

    def ends_at(self, tokens: Sequence[int]) -> int | None:
        """Where the first end id of a response stands."""
        return next((at for at, token in enumerate(tokens) if token in self.ends), None)

    def visible(self, tokens: Sequence[int]) -> list[int]:
        """The response up to its first end id, which is left out."""
        return list(tokens[: self.ends_at(tokens)])

    def fewest(self, tokens: Sequence[int], enough: Callable[[str], bool]) -> int:
        """How many of the tokens it takes until their text is enough; all of them if it never is."""
        text = self.text
        assert text is not None
        return bisect_left(
            range(len(tokens)), True, key=lambda count: enough(text.decode(tokens[:count]))
        )

    def completion(self, tally: Tally, prompt_tokens: int, form: Form | None = None) -> Completion:
        """A finished row with its text; `form` is needed where text was given behind a gap."""
        done = tally.complete(prompt_tokens)
        if done.finish_reason == "error":
            return done
        whole = form is not None and form.constraint is not None
        if form is not None and form.lengths:
            return self._filled(done, form, whole=whole)
        end = self.ends_at(done.tokens)
        done = replace(done, finish_reason="length" if end is None and not whole else "stop")
        if self.text is None:
            return done
        if self.mask in done.tokens:
            raise ArcherError("The decoder ended with masks in the response. Please report this.")
        opening = "" if form is None else form.opening
        return replace(done, text=opening + self.text.decode(done.tokens[:end]))

    def _filled(self, done: Completion, form: Form, *, whole: bool) -> Completion:
        """A finished row of a prompt with gaps; `whole`: it is all it has to be, with or without an end mark.

        End marks leave no trace in their texts; a gap that nothing follows ends at its first one.
        """
        if self.mask in done.tokens:
            raise ArcherError("The decoder ended with masks in the response. Please report this.")
        written = [done.tokens[span] for span in form.spans]
        ended = all(self.ends_at(tokens) is not None for tokens in written)
        if form.ends_open:
            written[-1] = written[-1][: self.ends_at(written[-1])]
        texts = [gap.answer(ids) for gap, ids in zip(form.gaps, written, strict=False)]
        return replace(
            done.around(form, texts), finish_reason="stop" if ended or whole else "length"
        )
