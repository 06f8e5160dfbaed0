"""The closed vocabulary: exact round trips, no unknown pieces, prompts as the template renders them."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import Environment

from archer.pocket import frozen, prompts
from archer.pocket.problems import Problem
from archer.pocket.tokenizer import (
    BEGIN,
    SPECIAL,
    TEMPLATE,
    UNKNOWN,
    build,
    token_id,
    vocabulary,
)
from pocket_training.generator.problems import problem

TOKENIZER = build()


def ids_of(text: str) -> list[int]:
    ids: list[int] = TOKENIZER.encode(text, add_special_tokens=False).ids
    return ids


def templated(content: str) -> str:
    template = Environment().from_string(TEMPLATE)
    return template.render(messages=[{"role": "user", "content": content}], bos_token=BEGIN)


@pytest.fixture(scope="module")
def tasks() -> list[Problem]:
    return frozen.load("dev")


@pytest.fixture(scope="module")
def long(tasks: list[Problem]) -> list[str]:
    examples = frozen.load_examples("dev")
    return [prompts.long_message(task, examples[task.name]) for task in tasks]


def test_ids_are_dense_and_pieces_are_unique() -> None:
    pieces = vocabulary()
    assert len(set(pieces)) == len(pieces) == TOKENIZER.get_vocab_size()
    assert [TOKENIZER.token_to_id(name) for name in SPECIAL] == [token_id(name) for name in SPECIAL]
    assert len(pieces) % 8 == 0


def test_programs_and_prompts_survive_encoding(tasks: list[Problem]) -> None:
    for task in tasks:
        for text in (
            task.program(task.body),
            prompts.rendered(prompts.message(task)),
            *task.hidden,
        ):
            assert TOKENIZER.decode(ids_of(text), skip_special_tokens=False) == text


def test_words_of_statements_and_programs_are_single_pieces() -> None:
    never_names = {token_id(letter) for letter in "cfghlouz" + string.ascii_uppercase}
    for index in range(2000):
        task = problem("train", index, hidden=False)
        for text in (task.statement, task.header + task.body):
            assert not set(ids_of(text)) & never_names, text


def test_numbers_below_one_hundred_are_one_piece() -> None:
    for number in range(100):
        assert len(ids_of(str(number))) == len(ids_of(f" {number}")) == 1


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=60))
def test_any_ascii_text_survives(text: str) -> None:
    ids = ids_of(text)
    if not any(name in text for name in SPECIAL):
        assert TOKENIZER.decode(ids, skip_special_tokens=False) == text


@given(st.text(max_size=40))
def test_nothing_crashes_the_tokenizer(text: str) -> None:
    assert all(0 <= token < len(vocabulary()) for token in ids_of(text))


def test_what_is_not_ascii_is_marked() -> None:
    assert token_id(UNKNOWN) in ids_of("naïve")


def test_lengths_are_as_documented(tasks: list[Problem], long: list[str]) -> None:
    short = [len(ids_of(prompts.rendered(prompts.message(task)))) for task in tasks]
    longer = [len(ids_of(prompts.rendered(text))) for text in long]
    bodies = [len(ids_of(task.body)) for task in tasks]
    assert max(short) <= 200
    assert 400 <= min(longer) <= max(longer) <= 700
    assert max(bodies) < 64


def test_rendering_is_that_of_the_template(tasks: list[Problem], long: list[str]) -> None:
    for task, text in zip(tasks[:20], long, strict=False):
        for content in (prompts.message(task), prompts.message(task, header=False), text):
            assert prompts.rendered(content) == templated(content)


def test_a_conversation_keeps_earlier_answers() -> None:
    messages = [
        {"role": "user", "content": "One."},
        {"role": "assistant", "content": "Two."},
        {"role": "user", "content": "Three.\ndef f(x):"},
    ]
    text = Environment().from_string(TEMPLATE).render(messages=messages, bos_token=BEGIN)
    expected = "<|user|>One.<|assistant|>Two.<|eos|><|user|>Three.<|assistant|>def f(x):"
    assert text == BEGIN + expected
