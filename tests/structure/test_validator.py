"""What is written, judged by somebody else: llguidance reads the same schemas and expressions its own way."""

import json
from typing import Any

import numpy as np
import pytest
from llguidance import LLMatcher, LLTokenizer

from archer.structure.byte_automaton import of_regex
from archer.structure.lattice import OPEN, Lattice
from archer.structure.schema import automaton_of
from archer.structure.token_automaton import TokenAutomaton, Vocabulary, over_tokens
from structure.test_schema import SCHEMAS, drawn

BYTES = LLTokenizer("byte")
SPELLED = {byte: bytes([byte]) for byte in range(32, 127)} | {
    128 + at: text.encode()
    for at, text in enumerate(['{"', '": ', ", ", '", "', "true", "null", "12", "ab", '"}', "x"])
}
END, SIZE = 200, 201
VOCABULARY = Vocabulary(SPELLED, [END], SIZE)
COLUMNS = 48
EXPRESSIONS = ("[a-c]{2,5}x?", "(?:yes|no|maybe)( [0-9]{1,3})*", r"a(?:b\.|cd)+e{0,2}")


def fits(grammar: str, text: str) -> bool:
    """It refuses -0 and the character DEL as it stands, both of which JSON allows."""
    matcher = LLMatcher(BYTES, grammar)
    assert not matcher.is_error(), matcher.get_error()
    plainly = "0" if text == "-0" else text.replace("\x7f", "~")
    tokens = BYTES.tokenize_bytes(plainly.encode())
    return bool(matcher.try_consume_tokens(tokens) == len(tokens) and matcher.is_accepting())


def written(automaton: TokenAutomaton, seed: int) -> list[str]:
    """The likeliest text of drawn logits, and a drawn one."""
    noise = np.random.default_rng(seed)
    logits = (4 * noise.standard_normal((COLUMNS, SIZE))).astype(np.float32)
    shut = np.zeros(COLUMNS, dtype=np.bool_)
    lattice = Lattice(automaton, np.full(COLUMNS, OPEN), np.arange(COLUMNS), shut, logits)
    strings = lattice.likeliest(), lattice.drawn(1.0, noise.random((COLUMNS, 2)))
    return [b"".join(SPELLED.get(token, b"") for token in each).decode() for each in strings]


@pytest.mark.parametrize(
    "schema",
    [schema for schema in SCHEMAS if not {"minProperties", "maxProperties"} & schema.keys()],
    ids=lambda schema: json.dumps(schema)[:60],
)
def test_texts_of_a_schema_are_valid_for_another_reader(schema: dict[str, Any]) -> None:
    grammar = LLMatcher.grammar_from_json_schema(json.dumps(schema))
    automaton = automaton_of(schema)
    assert all(fits(grammar, drawn(automaton, seed)) for seed in range(4))
    tokens = over_tokens(automaton, VOCABULARY)
    assert all(fits(grammar, text) for seed in range(2) for text in written(tokens, seed))


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_texts_of_an_expression_match_for_another_reader(expression: str) -> None:
    grammar = LLMatcher.grammar_from_regex(expression)
    tokens = over_tokens(of_regex(expression), VOCABULARY)
    for seed in range(6):
        for text in written(tokens, seed):
            assert fits(grammar, text)
            assert not fits(grammar, f"{text}!")
