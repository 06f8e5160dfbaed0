"""Gaps over HTTP: `suffix`, an answer with given parts, llama.cpp's `/infill`, and canvases of ill will."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import openai
import pytest

from archer.model import Model
from server.running import CHAT, PROBLEM, TEXT, Client, chat, until

PREFIX = f"{PROBLEM}\n    result = 0\n    for value in nums:\n        if value"
SUFFIX = "\n            result += 1\n    return result"
INFILL = "/infill"
MESSAGES: Any = [{"role": "user", "content": PROBLEM}]


def connected(client: Client) -> openai.OpenAI:
    url = f"http://127.0.0.1:{client.port}/v1"
    return openai.OpenAI(base_url=url, api_key="none", max_retries=0)


def test_a_suffix_stands_behind_what_is_written(pocket: Model, client: Client) -> None:
    """By the real client; the text is that of `infill`, and what the search computed is counted."""
    (done,) = pocket.infill(PREFIX, SUFFIX, max_length=24)
    assert done.probed_columns > 0
    with connected(client) as made:
        reply = made.completions.create(model="pocket", prompt=PREFIX, suffix=SUFFIX, max_tokens=24)
    assert reply.choices[0].text == done.text
    assert reply.usage is not None
    assert reply.usage.prompt_tokens == done.prompt_tokens
    shown = [token for token in done.tokens if token not in pocket.end_ids]
    assert reply.usage.completion_tokens == len(shown)
    paid = sum(call.fed for call in done.history.calls) + done.probed_columns
    extra = reply.usage.to_dict()["archer"]
    assert isinstance(extra, dict)
    assert extra["columns"] == paid
    assert reply.choices[0].to_dict()["archer"] == {"gaps": [done.text]}


def test_it_streams_and_company_does_not_matter(pocket: Model, client: Client) -> None:
    lengths = (3, 8, 12, 24)
    alone = [pocket.infill(PREFIX, SUFFIX, "llada-confidence", max_length=n)[0] for n in lengths]

    def streamed(length: int) -> tuple[str, Any]:
        text, usage = "", None
        with connected(client) as made:
            for chunk in made.completions.create(
                model="pocket@llada-confidence",
                prompt=PREFIX,
                suffix=SUFFIX,
                max_tokens=length,
                stream=True,
                stream_options={"include_usage": True},
            ):
                text += "".join(choice.text for choice in chunk.choices)
                usage = chunk.usage or usage
        return text, usage

    with ThreadPoolExecutor(len(lengths)) as pool:
        heard = list(pool.map(streamed, lengths))
    for (text, usage), done in zip(heard, alone, strict=True):
        assert text == done.text
        paid = sum(call.fed for call in done.history.calls) + done.probed_columns
        assert usage.archer["columns"] == paid


def test_an_empty_suffix_is_generation(pocket: Model, client: Client) -> None:
    (done,) = pocket.generate(PREFIX, chat=False, length="auto", max_length=16)
    plain: dict[str, Any] = {"model": "pocket", "prompt": PREFIX, "max_tokens": 16}
    replies = [client.post(TEXT, plain | more).json for more in ({}, {"suffix": ""})]
    assert replies[0]["choices"] == replies[1]["choices"]
    assert replies[0]["choices"][0]["text"] == done.text


def test_the_length_of_a_gap_may_be_said(pocket: Model, client: Client) -> None:
    body: dict[str, Any] = {"model": "pocket", "prompt": PREFIX, "suffix": SUFFIX}
    for length in (5, "delete"):
        (done,) = pocket.infill(PREFIX, SUFFIX, length=length, max_length=None)
        reply = client.post(TEXT, body | {"archer": {"settings": {"length": length}}}).json
        assert "choices" in reply, reply
        assert reply["choices"][0]["text"] == done.text
    (done,) = pocket.infill(PREFIX, SUFFIX, length="delete", max_length=20)
    both = {"archer": {"settings": {"length": "delete"}}, "max_tokens": 20}
    reply = client.post(TEXT, body | both).json
    assert reply["choices"][0]["text"] == done.text
    assert reply["usage"]["archer"]["canvas_tokens"] >= len(done.tokens) == 20
    twice = {"archer": {"settings": {"length": 8}}, "max_tokens": 20}
    assert "given twice" in client.post(TEXT, body | twice).json["error"]["message"]


def test_a_curve_of_the_client_s_own(pocket: Model, client: Client) -> None:
    body: dict[str, Any] = {"model": "pocket", "prompt": PREFIX, "suffix": SUFFIX, "max_tokens": 24}
    curve = [0.272, 1.32, 0.116, 0.18, 0.801]
    (done,) = pocket.infill(PREFIX, SUFFIX, max_length=24, curve=curve)
    (usual,) = pocket.infill(PREFIX, SUFFIX, max_length=24)
    assert len(done.tokens) != len(usual.tokens)
    reply = client.post(TEXT, body | {"archer": {"curve": curve}}).json
    assert reply["choices"][0]["text"] == done.text
    wrong = client.post(TEXT, body | {"archer": {"curve": [1, 2]}})
    assert (wrong.status, "five numbers" in wrong.json["error"]["message"]) == (400, True)


def test_a_prompt_with_gaps(pocket: Model, client: Client) -> None:
    text = "def f(x):\n    result = ___\n    result = ___\n    return result"
    (done,) = pocket.fill(text, gap="___", length=[4, 6], healing=False)
    extension = {"gap": "___", "healing": False, "settings": {"length": [4, 6]}}
    reply = client.post(TEXT, {"model": "pocket", "prompt": text, "archer": extension}).json
    (choice,) = reply["choices"]
    assert choice["text"] == done.text
    assert choice["archer"]["gaps"] == list(done.gaps)
    assert reply["usage"]["completion_tokens"] <= 10


def test_an_answer_with_given_parts(pocket: Model, client: Client) -> None:
    begun = "    result = 0\n"
    (done,) = pocket.generate(PROBLEM, prefill=begun, length="auto", max_length=48)
    with connected(client) as made:
        first = made.chat.completions.create(
            model="pocket",
            messages=MESSAGES,
            max_tokens=48,
            extra_body={"archer": {"prefill": begun}},
        )
        habit: Any = {"continue_final_message": True, "add_generation_prompt": False}
        last: Any = {"role": "assistant", "content": begun}
        second = made.chat.completions.create(
            model="pocket", messages=[*MESSAGES, last], max_tokens=48, extra_body=habit
        )
    assert first.choices[0].message.content == second.choices[0].message.content == done.text
    assert first.usage is not None
    assert first.usage.prompt_tokens == done.prompt_tokens
    answer = "    result = 0\n    for value in nums:\n        @\n    return result"
    (done,) = pocket.generate(PROBLEM, prefill=answer, gap="@", length=16)
    extension = {"prefill": answer, "gap": "@", "settings": {"length": 16}}
    reply = client.post(CHAT, chat(archer=extension)).json
    assert reply["choices"][0]["message"]["content"] == done.text
    assert reply["choices"][0]["archer"]["gaps"] == list(done.gaps)


def test_who_watches_hears_the_length_first(pocket: Model, client: Client) -> None:
    """The start event waits until the length is known."""
    body: dict[str, Any] = {"model": "pocket", "prompt": PREFIX, "suffix": SUFFIX, "stream": True}
    body |= {"max_tokens": 24, "n": 2, "archer": {"stream_mode": "provisional"}}
    (done,) = pocket.infill(PREFIX, SUFFIX, max_length=24)
    events = [each["archer"] for each in client.post(TEXT, body).events if "archer" in each]
    start, *updates = events
    assert (start["event"], start["length"]) == ("start", len(done.tokens))
    assert start["given"] == [list(done.given)] * 2
    response = [start["mask"] if token is None else token for token in start["given"][0]]
    for event in updates:
        if event["event"] == "update" and event["row"] == 0:
            for change in (*event["accepted"], *event["replaced"]):
                response[change["at"]] = change["token"]
            for at in event["remasked"]:
                response[at] = start["mask"]
    assert tuple(response) == done.response
    several = body | {"prompt": [PREFIX, PREFIX], "n": 1}
    assert "one after the other" in client.post(TEXT, several).json["error"]["message"]


def infill(**fields: Any) -> dict[str, Any]:
    return {"input_prefix": PREFIX, "input_suffix": SUFFIX, **fields}


EDITOR: dict[str, Any] = {
    "cache_prompt": True,
    "id_slot": 0,
    "n_indent": 0,
    "samplers": ["top_k", "top_p", "infill"],
    "stop": [],
    "stream": False,
    "t_max_predict_ms": 1000,
    "t_max_prompt_ms": 500,
    "top_k": 40,
    "top_p": 0.9,
}
"""What editors send along."""


def test_llama_cpp_s_fields(pocket: Model, client: Client) -> None:
    line = "        if value"
    (done,) = pocket.infill(PREFIX, SUFFIX, max_length=24)
    cut = infill(input_prefix=PREFIX.removesuffix(line), prompt=line, n_predict=24, **EDITOR)
    reply = client.post(INFILL, cut).json
    assert (reply["content"], reply["stop"], reply["model"]) == (done.text, True, "pocket")
    assert reply["tokens_evaluated"] == done.prompt_tokens
    assert reply["tokens"] == []
    assert reply["stop_type"] == ("eos" if done.finish_reason == "stop" else "limit")
    assert reply["usage"]["archer"]["columns"] > done.probed_columns
    few = cut | {"response_fields": ["content", "timings/predicted_n", "nothing"]}
    told = client.post(INFILL, few).json
    assert told == {"content": done.text, "timings/predicted_n": reply["tokens_predicted"]}
    wordy = client.post(INFILL, infill(n_predict=24, return_tokens=True)).json
    assert tuple(wordy["tokens"]) == done.tokens


def test_llama_cpp_s_stream(client: Client) -> None:
    whole = client.post(INFILL, infill(n_predict=24)).json
    body = client.post(INFILL, infill(n_predict=24, stream=True)).body.decode()
    lines = [line for line in body.split("\n\n") if line and not line.startswith(":")]
    *pieces, last = [json.loads(line.removeprefix("data: ")) for line in lines]
    assert "".join(piece["content"] for piece in pieces) == whole["content"]
    assert [piece["stop"] for piece in (*pieces, last)] == [False] * len(pieces) + [True]
    assert last["tokens_predicted"] == whole["tokens_predicted"]
    assert last["content"] == ""


def test_what_editors_do_with_llama_cpp(pocket: Model, client: Client) -> None:
    """Files beside it, no token at all, a text cut by its indentation, a stop string, no suffix."""
    extra = {"input_extra": [{"filename": "a.py", "text": "def g(x):\n    return x"}]}
    (done,) = pocket.infill(f"def g(x):\n    return x\n\n{PREFIX}", SUFFIX, max_length=24)
    assert client.post(INFILL, infill(n_predict=24, **extra)).json["content"] == done.text
    for stream in (False, True):
        warm = client.post(INFILL, infill(n_predict=0, stream=stream))
        told = json.loads(warm.body.decode().removeprefix("data: "))
        assert (warm.status, told["content"], told["tokens_predicted"]) == (200, "", 0)
    (plain,) = pocket.generate(PREFIX, chat=False, length="auto", max_length=32)
    assert plain.text is not None
    alone = {"input_prefix": PREFIX, "n_predict": 32}
    assert client.post(INFILL, alone).json["content"] == plain.text
    first, _, rest = plain.text.partition("\n")
    assert rest, "the text has several lines"
    assert client.post(INFILL, alone | {"n_indent": 40}).json["content"] == first
    stopped = client.post(INFILL, alone | {"stop": ["\n"]}).json
    assert (stopped["content"], stopped["stop_type"]) == (first, "word")
    assert stopped["stopping_word"] == "\n"


MARKED = {"archer": {"gap": "@"}}
HOSTILE: list[tuple[str, dict[str, Any], str]] = [
    (TEXT, {"prompt": "a@" * 10_000, **MARKED}, "10000 gaps are too many"),
    (TEXT, {"prompt": "a@@b", **MARKED}, "no text between them"),
    (TEXT, {"prompt": "ab", **MARKED}, "no gap in the text"),
    (TEXT, {"prompt": "@", **MARKED}, "Nothing is given around the gap"),
    (TEXT, {"prompt": [5, 7], **MARKED}, "must be text"),
    (TEXT, {"prompt": "a", "archer": {"gap": ""}}, "A gap is marked by some text"),
    (TEXT, {"prompt": "a@b", "suffix": "c", **MARKED}, "leave out the suffix"),
    (TEXT, {"prompt": "a", "archer": {"prefill": "b"}}, "at the end of the prompt"),
    (TEXT, {"prompt": "a", "suffix": "b" * 900_000}, "Shorten it"),
    (TEXT, {"prompt": "a", "suffix": "b", "max_tokens": 5000}, "longer than this server allows"),
    (TEXT, {"prompt": "a@b" * 40, **MARKED}, "need 2561 positions"),
    (TEXT, {"prompt": "a", "suffix": "<|mask|>"}, "spells the special token"),
    (TEXT, {"prompt": [3], "suffix": "<|mask|>"}, "spells the special token"),
    (CHAT, {"archer": {"prefill": "a <|mask|> b"}}, "spells the special token"),
    (
        TEXT,
        {"prompt": "a@b", "archer": {"gap": "@", "settings": {"length": [4, 4]}}},
        "2 lengths for 1 gaps",
    ),
    (
        TEXT,
        {"prompt": "a@b", "archer": {"gap": "@", "settings": {"length": "long"}}},
        "The length of a gap is a whole number",
    ),
    (CHAT, {"suffix": "b"}, "'suffix' is not supported"),
    (CHAT, {"archer": {"gap": "@"}}, "give it as archer.prefill"),
    (CHAT, {"continue_final_message": True}, "a last message of the assistant's"),
    (CHAT, {"add_generation_prompt": False}, "the opposite of continue_final_message"),
    (
        CHAT,
        {
            "messages": [*MESSAGES, {"role": "assistant", "content": "x"}],
            "continue_final_message": True,
            "archer": {"prefill": "y"},
        },
        "given twice",
    ),
    (INFILL, {"input_prefix": "", "input_suffix": ""}, "Nothing is given around the gap"),
    (INFILL, infill(input_suffix="<|mask|>"), "spells the special token"),
    (INFILL, infill(grammar="root ::= x"), "'grammar' is not supported"),
    (INFILL, infill(repeat_penalty=1.1), "'repeat_penalty' is not supported"),
    (INFILL, infill(nonsense=1), "'nonsense' is not supported"),
    (INFILL, infill(stream=True, n_indent=4), "n_indent cuts the whole text"),
    (INFILL, infill(archer={"stream_mode": "provisional"}), "is for /v1/completions"),
    (INFILL, infill(temperature=0.5, min_p=0.1), "'min_p' is not supported"),
]


@pytest.mark.parametrize(("path", "fields", "phrase"), HOSTILE, ids=[each[2] for each in HOSTILE])
def test_canvases_that_cannot_be_filled_get_sentences(
    client: Client, path: str, fields: dict[str, Any], phrase: str
) -> None:
    body = fields if path == INFILL else {"model": "pocket", **fields}
    if path == CHAT:
        body = {"messages": MESSAGES, **body}
    reply = client.post(path, body)
    assert reply.status == 400, reply.body
    assert phrase in reply.json["error"]["message"]


@pytest.mark.parametrize("lengths", [[500_000], [600, 600], [2**31], [1] * 1025])
def test_lengths_of_gaps_are_bounded_before_they_are_laid_out(
    pocket: Model, client: Client, monkeypatch: pytest.MonkeyPatch, lengths: list[int]
) -> None:
    monkeypatch.setattr(type(pocket), "request", None)
    text = "a = @\n" * len(lengths)
    extension = {"gap": "@", "settings": {"length": lengths}}
    reply = client.post(TEXT, {"model": "pocket", "prompt": text, "archer": extension})
    assert reply.status == 400, reply.body
    assert reply.json["error"]["message"]


def test_a_search_holds_up_nobody_and_ends_with_its_client(client: Client) -> None:
    """A pass for each turn: another request ends while a long search goes on."""
    many = {"prompt": "a = @\n" * 12, "archer": {"gap": "@"}, "model": "pocket"}
    searching = client.raw(TEXT, many)
    until(lambda: client.metric("num_requests_running") == 1)
    quick = {"model": "pocket@saber", "prompt": "x", "max_tokens": 2}
    assert client.post(TEXT, quick).status == 200
    searching.close()
    until(client.idle)
    assert client.metric("num_requests_running") == 0
