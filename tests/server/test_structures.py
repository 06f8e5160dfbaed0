"""Structures at every door: generate, stream, an engine, gaps, the command line and HTTP."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import openai
import pytest
from pydantic import BaseModel

from archer.cli import main
from archer.errors import ArcherError, BadRequest
from archer.model import Model
from archer.structure import confined
from archer.structure.structures import Structure
from server.running import CHAT, PROBLEM, TEXT, Client, chat, on_a_loop

SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer", "minimum": 0}, "b": {"enum": ["x", "yy"]}},
    "required": ["a", "b"],
}
BODY = r"\n    return (?:sum|len|max)\((?:nums|\[e for e in nums if e > [0-9]\])\)"


class Pair(BaseModel):
    a: int
    b: bool


@pytest.mark.parametrize(
    "method", ["archer-doubt", "llada-confidence", "wino+archer", "saber+archer"]
)
def test_the_answer_is_what_it_has_to_be(pocket: Model, method: str) -> None:
    (done,) = pocket.generate(PROBLEM, method, schema=SCHEMA, length=24)
    said = json.loads(done.text or "")
    assert said["a"] >= 0
    assert said["b"] in ("x", "yy")
    assert done.finish_reason == "stop"
    (body,) = pocket.generate(PROBLEM, method, regex=BODY, length=24)
    assert re.fullmatch(BODY, body.text or "")


def test_drawn_answers_are_kept_too_and_differ(pocket: Model) -> None:
    made = pocket.generate(PROBLEM, "archer", n=6, regex="[a-z ]{6,20}", temperature=1.0, length=16)
    texts = [each.text or "" for each in made]
    assert all(re.fullmatch("[a-z ]{6,20}", text) for text in texts)
    assert len(set(texts)) > 1


def test_what_every_answer_begins_with_is_given(pocket: Model) -> None:
    """It takes no update; with the same text free, it does."""
    request = pocket.request(PROBLEM, schema=SCHEMA, length=24)
    assert request.prompts[0].opening == '{"a": '
    (done,) = pocket.generate(PROBLEM, "llada-confidence", schema=SCHEMA, length=24)
    assert (done.text or "").startswith('{"a": ')


def test_streams_and_engines_say_the_same(pocket: Model) -> None:
    (done,) = pocket.generate(PROBLEM, "llada-confidence", schema=Pair, length=24)
    Pair.model_validate_json(done.text or "")
    (streamed,) = pocket.stream(PROBLEM, "llada-confidence", schema=Pair, length=24).finish()
    assert streamed.text == done.text
    with pocket.engine() as engine:
        handle = engine.submit(PROBLEM, method="llada-confidence", schema=Pair, length=24)
        assert handle.result().text == done.text


def test_gaps_are_filled_with_what_they_have_to_be(pocket: Model) -> None:
    (done,) = pocket.infill("total = ", "\nprint(total)", regex="[0-9]{2,3}", length=6)
    assert re.fullmatch("[0-9]{2,3}", done.text or "")
    for template in (True, False):
        (answer,) = pocket.generate(
            PROBLEM, prefill='{"a": 7, ', schema=SCHEMA, gap="", length=24, chat=template
        )
        assert json.loads(answer.whole or "")["a"] == 7
    glued = pocket.request("a b", prefill=" c", chat=False, length=4, healing=False)
    apart = pocket.request("a b", prefill=" c", chat=False, length=4, regex=" c[a-z]*")
    assert apart.prompts[0].prefix == glued.prompts[0].prefix


def test_options_are_weighed_without_generating(pocket: Model) -> None:
    """Against the likeliest one that is generated; several questions at once say what each says alone."""
    options = ["\n    return sum(nums)", "\n    return len(nums)", "x"]
    both = pocket.choose([PROBLEM, "def f(nums):"], options)
    for shares, prompt in zip(both, (PROBLEM, "def f(nums):"), strict=True):
        assert sum(shares.values()) == pytest.approx(1)
        assert list(shares) == options
        (alone,) = pocket.choose(prompt, options)
        assert list(alone.values()) == pytest.approx(list(shares.values()), abs=1e-4)
    assert both[0]["x"] < 0.5
    assert pocket.choose(PROBLEM, ["only"]) == [{"only": 1.0}]


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"regex": "[a-c]{60}", "length": 4}, r"tokens, and the length is 4. Give a length"),
        ({"choices": ["yes"], "prefill": "no", "length": 8}, "The answer begins with 'no'"),
        ({"schema": {"not": {}}}, "says not"),
        ({"regex": "\u2603"}, "can be spelled with the tokens"),
    ],
)
def test_what_cannot_be_written_is_refused_before_any_work(
    pocket: Model, asked: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(BadRequest, match=sentence):
        pocket.request(PROBLEM, **asked)


def test_what_is_given_has_to_go_with_it(pocket: Model) -> None:
    with pytest.raises(BadRequest, match="agrees with what is given"):
        pocket.request(PROBLEM, prefill="ab{}cd{}", regex="ab[0-9]x[0-9]", length=4)


def test_the_command_line_takes_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(SCHEMA))
    common = ["generate", PROBLEM, "--model", "pocket", "--plain", "--length", "24"]
    assert main([*common, "--schema", str(path)]) == 0
    assert json.loads(capsys.readouterr().out)["b"] in ("x", "yy")
    assert main([*common, "--choices", "yes", "--choices", "no"]) == 0
    assert capsys.readouterr().out.strip() in ("yes", "no")


def test_the_command_line_takes_an_expression(capsys: pytest.CaptureFixture[str]) -> None:
    common = ["generate", PROBLEM, "--model", "pocket", "--plain", "--length", "4"]
    assert main([*common, "--regex", "[a-c]{2}[0-9]"]) == 0
    assert re.fullmatch("[a-c]{2}[0-9]", capsys.readouterr().out.strip())


def test_clients_get_what_they_ask_for(client: Client) -> None:
    """By the real client: parsed, streamed, several samples, and in company."""
    url = f"http://127.0.0.1:{client.port}/v1"
    messages: Any = [{"role": "user", "content": PROBLEM}]
    with openai.OpenAI(base_url=url, api_key="none", max_retries=0) as made:
        parsed = made.chat.completions.parse(
            model="pocket", messages=messages, response_format=Pair, max_tokens=24
        )
        assert isinstance(parsed.choices[0].message.parsed, Pair)
        text = ""
        for chunk in made.chat.completions.create(
            model="pocket",
            messages=messages,
            max_tokens=24,
            stream=True,
            extra_body={"guided_json": SCHEMA},
        ):
            text += "".join(choice.delta.content or "" for choice in chunk.choices)
        assert json.loads(text)["b"] in ("x", "yy")

    def asked(seed: int) -> list[str]:
        body = chat(max_tokens=16, temperature=1.0, n=2, seed=seed, guided_regex="[a-z]{3,9}")
        reply = client.post(CHAT, body)
        assert reply.status == 200, reply.json
        return [choice["message"]["content"] for choice in reply.json["choices"]]

    alone = [asked(seed) for seed in range(3)]
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(asked, range(3))) == alone
    assert all(re.fullmatch("[a-z]{3,9}", text) for texts in alone for text in texts)
    choice = client.post(
        TEXT, {"model": "pocket", "prompt": "a", "max_tokens": 8, "guided_choice": ["yes"]}
    )
    assert choice.json["choices"][0]["text"] == "yes"
    anything = client.post(CHAT, chat(max_tokens=24, response_format={"type": "json_object"}))
    assert isinstance(json.loads(anything.json["choices"][0]["message"]["content"]), dict)


def test_an_answer_that_fills_its_room_is_whole(client: Client, pocket: Model) -> None:
    """As many tokens as the refusal asks for do, and the real client can parse what is said."""
    with pytest.raises(BadRequest, match="Give a length") as refused:
        pocket.request(PROBLEM, schema=Pair, length=2)
    least = int(str(refused.value).split("of at least ")[1].rstrip("."))
    (done,) = pocket.generate(PROBLEM, schema=Pair, length=least)
    assert not set(done.tokens) & set(pocket.end_ids)
    assert done.finish_reason == "stop"
    (filled,) = pocket.infill("total = ", "\n", regex="[0-9]{2}", length=2)
    assert filled.finish_reason == "stop"
    messages: Any = [{"role": "user", "content": PROBLEM}]
    url = f"http://127.0.0.1:{client.port}/v1"
    with openai.OpenAI(base_url=url, api_key="none", max_retries=0) as made:
        parsed = made.chat.completions.parse(
            model="pocket", messages=messages, response_format=Pair, max_tokens=least
        )
    assert isinstance(parsed.choices[0].message.parsed, Pair)
    assert parsed.choices[0].finish_reason == "stop"


def test_different_structures_arrive_side_by_side(pocket: Model, client: Client) -> None:
    """From several threads and clients; each answer is what its own asks for."""

    def at_the_engine(number: int) -> str:
        choices = [f"a{number}", f"b{number}{number}"]
        return engine.submit(PROBLEM, choices=choices, length=5).result().text or ""

    def over_http(number: int) -> str:
        fields = {"model": "pocket", "prompt": "a", "max_tokens": 5}
        reply = client.post(TEXT, fields | {"guided_choice": [f"c{number}", f"d{number}"]})
        return str(reply.json["choices"][0]["text"])

    with pocket.engine() as engine, ThreadPoolExecutor(8) as pool:
        said = list(pool.map(at_the_engine, range(10)))
        replied = list(pool.map(over_http, range(3)))
    for number, text in enumerate(said):
        assert text in (f"a{number}", f"b{number}{number}")
    for number, text in enumerate(replied):
        assert text in (f"c{number}", f"d{number}")


@pytest.mark.parametrize("stop", [(), ("yy",), ('"b',), ('a": ',), ('": 1',)])
def test_what_every_answer_begins_with_is_written_and_not_asked(
    pocket: Model, client: Client, stop: tuple[str, ...]
) -> None:
    """In the accounts of a reply, whose tokens join to its text, wherever a stop string cuts it."""
    properties = {"a": {"const": 17}, "b": {"const": "yy"}, "c": {"type": "boolean"}}
    schema = {"properties": properties, "required": ["a", "b"]}
    body = chat(max_tokens=24, logprobs=True, guided_json=schema, stop=list(stop))
    reply = client.post(CHAT, body).json
    (done,) = pocket.generate(PROBLEM, schema=schema, length=24, stop=stop)
    usage, (choice,) = reply["usage"], reply["choices"]
    text, content = choice["message"]["content"], choice["logprobs"]["content"]
    assert text == done.text
    assert usage["prompt_tokens"] == done.prompt_tokens == len(pocket.encode(PROBLEM))
    assert usage["completion_tokens"] >= len(content)
    assert pocket.text is not None
    assert pocket.text.decode([*done.opened, *done.tokens]).startswith(text)
    joined = "".join(each["token"] for each in content)
    assert joined.startswith(text)
    assert joined == text or stop
    assert not "".join(each["token"] for each in content[:-1]).startswith(text) or not text
    assert all(each["logprob"] is not None for each in content)
    asked = {"model": "pocket", "prompt": PROBLEM, "max_tokens": 24, "guided_json": schema}
    plain = client.post(TEXT, asked | {"logprobs": 0, "stop": list(stop)}).json["choices"][0]
    pieces, offsets = plain["logprobs"]["tokens"], plain["logprobs"]["text_offset"]
    for at, each in list(zip(offsets, pieces, strict=True))[:-1]:
        assert plain["text"].startswith(each, at)


HOSTILE: list[tuple[dict[str, Any], str]] = [
    ({"guided_regex": "(" * 5000}, "cannot be used"),
    ({"guided_regex": "(?:a|b)*a(?:a|b){40}"}, "more time or memory|too large"),
    ({"guided_json": {"$ref": "#"}}, "without end"),
    (
        {"guided_json": {"$defs": {"a": {"items": {"$ref": "#/$defs/a"}}}, "$ref": "#/$defs/a"}},
        "without end",
    ),
    ({"guided_json": {"type": "string", "maxLength": 10**9}}, "can be counted"),
    ({"guided_regex": "(?:(?:(?:a{0,99}b?){0,99}c?){0,99}d?){0,99}"}, "more time|cannot be used"),
    (
        {
            "guided_json": {
                "$defs": {
                    **{f"d{at}": {"$ref": f"#/$defs/d{at + 1}"} for at in range(5000)},
                    "d5000": {"type": "null", "enum": [3]},
                },
                "$ref": "#/$defs/d0",
            }
        },
        "nested|without end|Nothing is accepted|more than 256 fields",
    ),
    (
        {
            "guided_json": {
                "$defs": {
                    f"d{at}": {"properties": {key: {"$ref": f"#/$defs/d{at + 1}"} for key in "ab"}}
                    for at in range(40)
                }
                | {"d40": {"type": "null"}},
                "$ref": "#/$defs/d0",
            }
        },
        "more time|too large",
    ),
    (
        {"guided_json": {"type": "array", "items": {"const": "x" * 900}, "maxItems": 900}},
        "more time|too large",
    ),
    ({"guided_json": {}, "guided_regex": "a"}, "Give one of"),
    ({"response_format": {"type": "json_schema"}}, "is missing"),
    ({"response_format": {"type": "json_object"}, "guided_json": {}}, "mean the same"),
    ({"response_format": {"type": "grammar"}}, "response_format"),
]


@pytest.mark.thinned(2)
@pytest.mark.parametrize(("fields", "sentence"), HOSTILE, ids=lambda each: str(each)[:40])
def test_hostile_ones_are_refused(client: Client, fields: dict[str, Any], sentence: str) -> None:
    reply = client.post(CHAT, chat(max_tokens=24, **fields))
    assert reply.status == 400
    assert re.search(sentence, reply.json["error"]["message"])


@on_a_loop
async def test_a_process_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confined, "SECONDS", 0.01)
    with pytest.raises(BadRequest, match="takes more time or memory"):
        await confined.made_apart(Structure("regex", "never asked before"))


def test_a_failure_that_nobody_foresaw_is_no_refusal() -> None:
    """An expression that is a number: the process fails with what is no refusal and no lack of memory."""
    odd: Any = 3
    with pytest.raises(ArcherError, match=r"could not be prepared: .*TypeError.*report") as caught:
        confined.make_apart(Structure("regex", odd))
    assert not isinstance(caught.value, BadRequest)


@pytest.mark.parametrize(
    ("schema", "sentence"),
    [
        ('{"enum": [' + "[]," * 20_000 + "[]]}", "lists and objects"),
        ('{"type": "integer", "type": "string"}', "twice"),
        ('{"const": NaN}', "not a number"),
        ("[" * 1000, "deeper|not JSON"),
        ('{"maximum": ' + "9" * 5000 + "}", "too long"),
    ],
    ids=lambda each: each[:20],
)
def test_a_schema_that_is_text_is_bounded_as_a_body_is(
    client: Client, schema: str, sentence: str
) -> None:
    reply = client.post(CHAT, chat(max_tokens=24, guided_json=schema))
    assert reply.status == 400
    assert re.search(sentence, reply.json["error"]["message"])
