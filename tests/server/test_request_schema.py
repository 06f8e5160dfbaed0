"""Every field of a request: what it means, and that what is not supported is refused by its name."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archer.server.refusals import Refusal
from archer.server.request_reading import chat_request, text_request
from archer.server.request_schema import (
    NEUTRAL,
    NEUTRAL_IN_MESSAGES,
    Chat,
    ChatFields,
    TextFields,
    schema,
)

MESSAGES = [{"role": "user", "content": "hello"}]


def chat(**fields: Any) -> dict[str, Any]:
    return {"model": "m", "messages": MESSAGES, **fields}


def text(**fields: Any) -> dict[str, Any]:
    return {"model": "m", "prompt": "hello", **fields}


def refused(body: dict[str, Any], *, completion: bool = False) -> Refusal:
    with pytest.raises(Refusal) as caught:
        (text_request if completion else chat_request)(body)
    assert caught.value.status == 400
    return caught.value


def test_what_is_left_out_has_a_meaning() -> None:
    asked = chat_request(chat())
    assert asked.prompts == (Chat(MESSAGES),)
    assert (asked.length, asked.temperature, asked.seed, asked.n) == (None, None, 0, 1)
    assert (asked.stop, asked.stream, asked.usage, asked.logprobs) == ((), False, False, False)
    assert not asked.provisional


def test_every_field_arrives() -> None:
    extension: dict[str, Any] = {
        "method": "wino",
        "settings": {"block": 4, "order": [[1, 0]]},
        "preset": "paper",
    }
    extension |= {"stream_mode": "provisional", "priority": "batch", "isolated": True}
    asked = chat_request(
        chat(
            max_completion_tokens=32,
            temperature=0.5,
            seed=-3,
            n=2,
            stop=["a", "b"],
            stream=True,
            stream_options={"include_usage": True},
            logprobs=True,
            user="somebody",
            metadata={"a": "b"},
            archer=extension,
        )
    )
    assert (asked.length, asked.temperature, asked.seed, asked.n) == (32, 0.5, -3, 2)
    assert (asked.stop, asked.stream, asked.usage, asked.logprobs) == (("a", "b"), True, True, True)
    assert asked.extension.model_dump(exclude_none=True) == extension
    assert asked.provisional


def test_messages_may_come_in_parts_and_from_developers() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    asked = chat_request(chat(messages=[{"role": "developer", "content": parts}, *MESSAGES]))
    assert asked.prompts == (Chat([{"role": "system", "content": "ab"}, *MESSAGES]),)


def test_prompts_come_in_four_forms() -> None:
    forms: dict[str, tuple[Any, tuple[Any, ...]]] = {
        "a text": ("a", ("a",)),
        "ids": ([1, 2], ([1, 2],)),
        "texts": (["a", "b"], ("a", "b")),
        "lists of ids": ([[1], [2, 3]], ([1], [2, 3])),
    }
    for name, (given_, read) in forms.items():
        assert text_request(text(prompt=given_)).prompts == read, name


@pytest.mark.parametrize("name", NEUTRAL)
def test_a_neutral_value_passes_and_any_other_is_refused_by_name(name: str) -> None:
    for value in (*NEUTRAL[name], None):
        assert chat_request(chat(**{name: value})) == chat_request(chat())
        assert text_request(text(**{name: value})) == text_request(text())
    refusal = refused(chat(**{name: {"odd": 3}}))
    assert refusal.param == name
    assert name in refusal.message


@pytest.mark.parametrize("name", NEUTRAL_IN_MESSAGES)
def test_the_same_in_messages(name: str) -> None:
    for value in (*NEUTRAL_IN_MESSAGES[name], None):
        assert chat_request(chat(messages=[{**MESSAGES[0], name: value}])) == chat_request(chat())
    assert refused(chat(messages=[{**MESSAGES[0], name: 3}])).param == f"messages.0.{name}"


def test_numbers_are_compared_as_json_has_them() -> None:
    assert chat_request(chat(repetition_penalty=1.0)) == chat_request(chat())
    assert chat_request(chat(top_p=1.0)) == chat_request(chat(top_p=1))
    assert refused(chat(top_p=True)).param == "top_p"
    assert refused(chat(frequency_penalty=False)).param == "frequency_penalty"


@pytest.mark.parametrize("top_k", [-1, 0, None])
def test_a_top_k_that_cuts_nothing_is_none(top_k: int | None) -> None:
    assert chat_request(chat(top_k=top_k)) == chat_request(chat())
    assert text_request(text(top_k=top_k)) == text_request(text())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("top_p", 0),
        ("top_p", 1.5),
        ("top_p", "0.5"),
        ("top_k", -2),
        ("top_k", 1 << 31),
        ("top_k", 2.5),
    ],
)
def test_what_cuts_is_bounded(name: str, value: object) -> None:
    assert refused(chat(**{name: value})).param == name


WRONG = [
    (chat(colour="red"), "colour", "not supported"),
    (chat(archer={"speed": 3}), "archer.speed", "not supported"),
    (chat(**{"top-p": 0.5}), "top-p", "'top-p' is not supported"),
    (chat(**{"": 1}), "", "'' is not supported"),
    (chat(**{"x" * 5000: 1}), "x" * 100, "not supported"),
    (chat(archer={"stream-mode": "final"}), "archer.stream-mode", "not supported"),
    (
        chat(messages=[{**MESSAGES[0], "cache-control": {}}]),
        "messages.0.cache-control",
        "not supported",
    ),
    (chat(archer={"settings": {"order": [[0] * 5000]}}), "archer.settings", "as many numbers"),
    (chat(archer={"settings": dict.fromkeys(map(str, range(65)), 1)}), "archer.settings", "64"),
    (chat(stream_options={"often": True}, stream=True), "stream_options.often", "not supported"),
    ({"messages": MESSAGES}, "model", "missing"),
    ({"model": "m"}, "messages", "missing"),
    (chat(messages=[]), "messages", "at least 1"),
    (chat(messages=MESSAGES * 257), "messages", "at most 256"),
    (chat(messages=[{"role": "tool", "content": "x"}]), "messages.0.role", "system"),
    (chat(messages=[{"role": "user"}]), "messages.0.content", "missing"),
    (
        chat(messages=[{"role": "user", "content": 3}]),
        "messages.0.content",
        "parts of the type text",
    ),
    (
        chat(messages=[{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}]),
        "messages.0.content",
        "parts of the type text",
    ),
    (chat(max_tokens=0), "max_tokens", "greater than or equal to 1"),
    (chat(max_tokens=True), "max_tokens", "integer"),
    (chat(max_tokens="8"), "max_tokens", "integer"),
    (chat(max_tokens=8.0), "max_tokens", "integer"),
    (chat(max_tokens=8, max_completion_tokens=9), "max_tokens", "mean the same"),
    (chat(temperature=-1), "temperature", "greater than or equal to 0"),
    (chat(seed=1.5), "seed", "integer"),
    (chat(n=9), "n", "less than or equal to 8"),
    (chat(n=True), "n", "integer"),
    (chat(stop="x" * 65), "stop", "1 to 64 characters"),
    (chat(stop=""), "stop", "1 to 64 characters"),
    (chat(stop=list("abcde")), "stop", "at most 4"),
    (chat(stream="yes"), "stream", "boolean"),
    (chat(stream_options={}), "stream_options", "need stream"),
    (chat(logprobs=1), "logprobs", "true or false"),
    (chat(top_logprobs=2), "top_logprobs", "not supported"),
    (
        chat(archer={"stream_mode": "stable"}, stream=True),
        "archer.stream_mode",
        "can still be taken",
    ),
    (chat(archer={"stream_mode": "final"}), "archer.stream_mode", "needs stream"),
    (chat(archer={"priority": "now"}), "archer.priority", "interactive"),
    (chat(archer={"settings": {"radius": {}}}), "archer.settings", "a number, a text"),
    (chat(archer=[]), "archer", "valid dictionary"),
]


@pytest.mark.parametrize(("body", "param", "phrase"), WRONG, ids=lambda value: str(value)[:40])
def test_what_is_wrong_is_named(body: dict[str, Any], param: str, phrase: str) -> None:
    refusal = refused(body)
    assert refusal.param == param
    assert phrase in refusal.message


@pytest.mark.parametrize("prompt", ["", [], [[]], [""], [1, "a"], [-1], [True], 3, ["a"] * 17])
def test_prompts_that_are_none(prompt: Any) -> None:
    assert refused(text(prompt=prompt), completion=True).param == "prompt"


def test_completions_have_their_own_limits() -> None:
    assert refused(text(prompt=["a"] * 3, n=6), completion=True).param == "n"
    assert refused(text(logprobs=5), completion=True).param == "logprobs"
    assert refused(text(echo=True), completion=True).param == "echo"
    assert refused(text(best_of=3), completion=True).param == "best_of"
    assert text_request(text(logprobs=0)).logprobs


def test_no_refusal_repeats_what_it_was_given() -> None:
    secret = "a-secret-prompt"
    for body in (chat(messages=secret), chat(stop=[secret * 9]), chat(n=secret)):
        assert secret not in refused(body).message


NAMES = [*ChatFields.model_fields, *NEUTRAL, "odd"]
VALUES = st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.integers(), max_size=3)


@given(st.dictionaries(st.sampled_from(NAMES), VALUES))
def test_any_body_is_understood_or_refused(body: dict[str, Any]) -> None:
    for read in (chat_request, text_request):
        refusal = None
        try:
            read(body)
        except Refusal as error:
            refusal = error
        assert refusal is None or (refusal.status == 400 and refusal.message.endswith("."))


def test_the_schema_names_every_field() -> None:
    for kind in (ChatFields, TextFields):
        assert set(schema(kind)["properties"]) == set(kind.model_fields) | set(NEUTRAL)
