"""What users ask for, as automata: made once for each question, within limits."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

from archer.errors import BadRequest, quoted
from archer.structure import algebra, schema
from archer.structure.byte_automaton import DEAD, MOST_CHARACTERS, ByteAutomaton, of_regex
from archer.structure.token_automaton import Remembered, TokenAutomaton, Vocabulary, over_tokens

Kind = Literal["schema", "regex", "choices"]
MOST_CHOICES = 10_000
KEPT = 64
"""Automata that are remembered."""


@dataclass(frozen=True)
class Structure:
    """What a text has to be, as a value: a schema or choices as JSON, or a regular expression."""

    kind: Kind
    source: str

    @classmethod
    def of(
        cls, schema: object = None, regex: object = None, choices: object = None
    ) -> Structure | None:
        """What is asked for, if anything; refuses two at once, and what is none."""
        given = {"schema": schema, "regex": regex, "choices": choices}
        names = [name for name, value in given.items() if value is not None]
        if not names:
            return None
        if len(names) > 1:
            raise BadRequest(f"Give one of {' and '.join(names)}: a text has to be one thing.")
        if regex is not None:
            if not isinstance(regex, str):
                raise BadRequest(f"A regular expression is text, not {type(regex).__name__}.")
            _check_whole(regex, "regular expression")
            return cls("regex", regex)
        if choices is not None:
            return cls("choices", json.dumps(checked_choices(choices)))
        return cls("schema", _as_json(schema))

    @property
    def value(self) -> Any:
        """As it was asked for."""
        return self.source if self.kind == "regex" else json.loads(self.source)

    def automaton(self) -> ByteAutomaton:
        """Its texts; remembered."""
        return automata.get(self, _made)

    @property
    def known(self) -> ByteAutomaton | None:
        """The same, if it is remembered."""
        return automata.known(self)

    def learn(self, automaton: ByteAutomaton) -> None:
        """Remember what somebody else has worked out."""
        automata.get(self, lambda _: automaton)

    def tokens(self, vocabulary: Vocabulary, before: bytes = b"") -> TokenAutomaton:
        """The same in tokens of a model, for what follows the text `before`; remembered with them."""
        automaton = self.automaton()
        state = automaton.after(before)
        if state == DEAD:
            raise BadRequest(
                f"The answer begins with {quoted(before.decode(errors='replace'))}, and no text that the "
                f"{self.kind} accepts does."
            )
        return vocabulary.known.get(
            (self, state), lambda _: over_tokens(replace(automaton, start=state), vocabulary)
        )


def checked_choices(choices: object) -> list[str]:
    """Texts to choose from; refuses what is none, and too many."""
    if isinstance(choices, str | bytes) or not isinstance(choices, Iterable):
        raise BadRequest(f"choices are a list of texts, not {type(choices).__name__}.")
    texts = list(choices)
    if not texts or len(texts) > MOST_CHOICES:
        raise BadRequest(f"choices are 1 to {MOST_CHOICES} texts, not {len(texts)}.")
    for each in texts:
        if not isinstance(each, str) or not each:
            raise BadRequest(f"A choice is a text that is not empty, not {quoted(each)}.")
    if sum(map(len, texts)) > MOST_CHARACTERS:
        raise BadRequest(f"The choices have more than {MOST_CHARACTERS} characters together.")
    _check_whole("".join(texts), "list of choices")
    return texts


def _check_whole(text: str, what: str) -> None:
    """Refuse half characters, which no tokens spell."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadRequest(
            f"The {what} holds {quoted(text[error.start])}, which is half of a character. Write all of it."
        ) from error


def _as_json(value: object) -> str:
    read = schema.read_schema(value)
    try:
        source = json.dumps(read, allow_nan=False)
        _check_whole(json.dumps(read, ensure_ascii=False), "schema")
    except (TypeError, ValueError, RecursionError) as error:
        raise BadRequest(f"The schema is no JSON: {error}.") from error
    if len(source) > MOST_CHARACTERS:
        raise BadRequest(
            f"A schema of {len(source)} characters is too long: at most {MOST_CHARACTERS}."
        )
    return source


def _made(structure: Structure) -> ByteAutomaton:
    if structure.kind == "regex":
        return of_regex(structure.source)
    if structure.kind == "schema":
        return schema.automaton_of(structure.value)
    made = algebra.one_of(each.encode() for each in structure.value)
    return algebra.refuse_nothing(made, "list of choices")


automata: Remembered[Structure, ByteAutomaton] = Remembered(KEPT)
"""Of structures that were asked for."""
