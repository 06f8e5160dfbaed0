"""What the server answers, route by route."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from archer.cli import main
from archer.decoders.wino import Wino
from archer.methods.build import build
from archer.methods.catalogue import DEFAULT_METHOD
from archer.methods.presets import Preset
from archer.model import Model
from archer.results.trace import End, Start, Update, updates
from archer.server.settings import ServerSettings
from server.running import CHAT, PROBLEM, TEXT, Client, chat, serving

SHORT = 16
PROBLEMS = 9
ONCE = (
    "request_success_total",
    "e2e_request_latency_seconds_count",
    "time_to_first_token_seconds_count",
    "request_queue_time_seconds_count",
)
"""Metrics that grow by one with every answered request."""
KINDS = ("full", "cached", "reused")
METHODS = (
    *("archer:4", "saber", "no-rollback", "llada-confidence", "fast-dllm-cache", "remdm"),
    *("fast-dllm-parallel", "dkv-decode", "dllm-cache", "wino+archer:11", "threshold+prefix"),
    "entropy-bound+age:4",
)


def problem(number: int) -> str:
    return PROBLEM.replace("5.", f"{number}.")


@dataclass(frozen=True)
class Drawn:
    """A request over one of the methods: its length, form and number of samples drawn, some of it sampled."""

    number: int
    ids: list[int]
    length: int
    temperature: float
    n: int
    chat: bool
    stream: bool

    @classmethod
    def of(cls, number: int, prompts: list[list[int]], lengths: tuple[int, ...]) -> Drawn:
        draw = random.Random(number)
        return cls(
            number,
            prompts[number % len(prompts)],
            draw.choice(lengths),
            draw.choice((0.0, 0.0, 0.0, 0.7)),
            draw.choice((1, 2)),
            draw.random() < 0.4,
            draw.random() < 0.5,
        )

    @property
    def method(self) -> str:
        return METHODS[self.number % len(METHODS)]

    def by_library(self, model: Model) -> list[str | None]:
        settings: dict[str, Any] = {"length": self.length, "temperature": self.temperature}
        done = model.generate(self.ids, self.method, n=self.n, seed=self.number, **settings)
        return [each.text for each in done]

    def by_server(self, client: Client) -> list[str | None]:
        fields: dict[str, Any] = {"seed": self.number, "n": self.n, "max_tokens": self.length}
        fields |= {"temperature": self.temperature, "archer": {"method": self.method}}
        if self.chat:
            path, body = CHAT, chat(problem(self.number % PROBLEMS), **fields)
        else:
            path, body = TEXT, {"model": "pocket", "prompt": self.ids, **fields}
        return texts(client, path, body, stream=self.stream)


def texts(client: Client, path: str, body: dict[str, Any], *, stream: bool) -> list[str | None]:
    reply = client.post(path, {**body, "stream": stream})
    assert reply.status == 200, reply.body
    if not stream:
        choices = reply.json["choices"]
        return [c["message"]["content"] if path == CHAT else c["text"] for c in choices]
    joined = [""] * body.get("n", 1)
    for chunk in reply.events:
        for choice in chunk["choices"]:
            delta = choice["delta"].get("content", "") if path == CHAT else choice["text"]
            joined[choice["index"]] += delta
    return list(joined)


def compare(model: Model, client: Client, drawn: Sequence[Drawn], alone: int) -> None:
    """Every request by the library, each of so many one by one, and all at once by 16 clients."""
    expected = [each.by_library(model) for each in drawn]
    for each, text in list(zip(drawn, expected, strict=True))[:: len(drawn) // alone]:
        assert each.by_server(client) == text, each
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda each: each.by_server(client), drawn))
    wrong = [(a, b, c) for a, b, c in zip(drawn, found, expected, strict=True) if b != c]
    assert wrong == []


def drawn_over_all_methods(model: Model, count: int, lengths: tuple[int, ...]) -> list[Drawn]:
    assert model.text is not None
    prompts = model.text.encode_chats([problem(number) for number in range(PROBLEMS)])
    made = [Drawn.of(number, prompts, lengths) for number in range(count)]
    assert {each.method for each in made} == set(METHODS)
    return made


@pytest.mark.parametrize(
    ("count", "lengths", "alone"),
    [
        (48, (4, 6, 8), 8),
        pytest.param(100, (8, 16, 24, 32, 64), 100, marks=pytest.mark.slow),
    ],
)
def test_the_text_is_that_of_the_library_alone_and_under_load(
    pocket: Model, client: Client, count: int, lengths: tuple[int, ...], alone: int
) -> None:
    patient = Client(client.server)
    patient.patience = 600.0
    compare(pocket, patient, drawn_over_all_methods(pocket, count, lengths), alone)


def test_a_plain_reply_tells_everything(pocket: Model, client: Client) -> None:
    reply = client.ask(max_tokens=SHORT, logprobs=True).json
    (done,) = pocket.generate(PROBLEM, length="auto", max_length=SHORT)
    (choice,) = reply["choices"]
    assert reply["object"] == "chat.completion"
    assert reply["id"].startswith("chatcmpl-")
    assert choice["message"] == {"role": "assistant", "content": done.text, "refusal": None}
    assert choice["finish_reason"] == done.finish_reason
    visible = pocket.language.visible(done.tokens)
    written = len(visible) + (len(visible) < SHORT)
    usage = reply["usage"]
    assert usage["prompt_tokens"] == done.prompt_tokens
    assert (usage["completion_tokens"], usage["total_tokens"]) == (
        written,
        done.prompt_tokens + written,
    )
    assert usage["prompt_tokens_details"] == {"cached_tokens": 0}
    spent = usage["archer"]
    assert (spent["updates"], spent["full"]) == (done.updates, done.full_passes)
    assert (spent["cached"], spent["reused"]) == (done.cached_passes, done.reused_passes)
    stops = max(done.history.stops)
    assert (spent["revised"], spent["canvas_tokens"]) == (done.revised_positions, stops)
    assert spent["columns"] >= done.updates
    sure = choice["logprobs"]["content"]
    assert "".join(each["token"] for each in sure) == done.text
    assert all(each["logprob"] <= 0 for each in sure)
    assert b"".join(bytes(each["bytes"]) for each in sure).decode() == done.text


def test_log_probabilities_are_those_of_the_acceptance_that_stands(
    pocket: Model, client: Client
) -> None:
    import math

    standing: dict[int, float] = {}
    for step in pocket.stream(PROBLEM, length="auto", max_length=SHORT):
        for event in updates(step.record):
            for change in (*event.accepted, *event.replaced):
                assert change.confidence is not None
                standing[change.at] = change.confidence
    sure = client.ask(max_tokens=SHORT, logprobs=True).json["choices"][0]["logprobs"]["content"]
    expected = [math.log(min(1.0, standing[at])) for at in range(len(sure))]
    assert [each["logprob"] for each in sure] == pytest.approx(expected, abs=1e-9)


def test_the_default_length_is_the_folders_and_ids_name_methods(
    pocket: Model, client: Client
) -> None:
    reply = client.ask(model="pocket@llada-confidence", archer={"settings": {"steps": 4}}).json
    assert reply["model"] == "pocket@llada-confidence"
    assert reply["usage"]["archer"]["canvas_tokens"] == pocket.folder.length
    assert reply["usage"]["archer"]["updates"] == 4


@pytest.mark.parametrize(
    "settings", [{}, {"cap": 0.99}, {"length": "auto", "cap": 0.99}, {"canvas": "auto"}]
)
def test_max_tokens_is_the_most(pocket: Model, client: Client, settings: dict[str, Any]) -> None:
    """Usage and counters have the columns that there were."""
    before = client.metric("diffusion_num_canvas_positions_total")
    reply = client.ask(max_tokens=200, archer={"settings": settings}).json
    cap = {name: value for name, value in settings.items() if name == "cap"}
    (done,) = pocket.generate(PROBLEM, length="auto", max_length=200, **cap)
    assert reply["choices"][0]["message"]["content"] == done.text
    assert reply["archer"]["settings"]["canvas"] == "auto"
    assert reply["usage"]["archer"]["canvas_tokens"] == max(done.history.stops) < 64
    counted = client.metric("diffusion_num_canvas_positions_total") - before
    assert counted == 64 + sum(done.history.stops[:-1])
    assert client.ask(max_tokens=10**6, archer={"settings": settings}).status == 400


@pytest.mark.parametrize(
    "extension",
    [
        {"method": DEFAULT_METHOD},
        {"settings": {"canvas": "fixed"}},
        {"settings": {"block": 16}},
        {"settings": {"radius": 4}},
        {"preset": "paper"},
    ],
)
def test_a_length_is_fixed_for_who_names_a_method_or_says_so(
    client: Client, extension: dict[str, Any]
) -> None:
    asked = client.ask(max_tokens=48, archer=extension)
    assert asked.status == 200, asked.body
    assert asked.json["usage"]["archer"]["canvas_tokens"] == 48


def test_completions_take_texts_and_ids_as_they_are(pocket: Model, client: Client) -> None:
    first, second = pocket.encode(problem(1), chat=False), pocket.encode(problem(2))
    body = {"model": "pocket", "prompt": [first, second], "max_tokens": 8, "n": 2, "logprobs": 0}
    reply = client.post(TEXT, body).json
    expected = [
        done.text
        for ids in (first, second)
        for done in pocket.generate([ids, ids], length="auto", max_length=8)
    ]
    assert [choice["text"] for choice in reply["choices"]] == expected
    assert [choice["index"] for choice in reply["choices"]] == [0, 1, 2, 3]
    assert reply["usage"]["prompt_tokens"] == len(first) + len(second)
    for choice in reply["choices"]:
        assert "".join(choice["logprobs"]["tokens"]) == choice["text"]
        assert len(choice["logprobs"]["token_logprobs"]) == len(choice["logprobs"]["text_offset"])
    raw = client.post(TEXT, {"model": "pocket", "prompt": problem(1), "max_tokens": 8}).json
    assert raw["object"] == "text_completion"
    assert raw["choices"][0]["text"] == expected[0]


@pytest.mark.parametrize(
    ("asked", "method"),
    [
        ({"settings": {"canvas": "fixed"}}, DEFAULT_METHOD),
        ({"settings": {"radius": 4}}, "archer:4"),
        ({"preset": "paper"}, "archer"),
    ],
)
def test_who_names_no_method_gets_the_default_and_with_a_radius_the_papers(
    pocket: Model, client: Client, asked: dict[str, Any], method: str
) -> None:
    (done,) = pocket.generate(PROBLEM, method, length=SHORT)
    reply = client.post(CHAT, chat(max_tokens=SHORT, archer=asked)).json
    assert reply["choices"][0]["message"]["content"] == done.text
    passes = [reply["usage"]["archer"][name] for name in ("full", "cached")]
    assert passes == [done.full_passes, done.cached_passes]


def test_the_page_leaves_the_method_to_the_server(client: Client) -> None:
    page = client.get("/").body.decode()
    assert '<input id="first" placeholder="the server\'s"' in page


def test_a_stream_of_settled_text_begins_at_once_and_adds_up(pocket: Model, client: Client) -> None:
    body = chat(max_tokens=SHORT, stream=True, stream_options={"include_usage": True})
    body["archer"] = {"method": "llada-confidence"}
    chunks = client.post(CHAT, body).events
    (done,) = pocket.generate(PROBLEM, "llada-confidence", length=SHORT)
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    *middle, finish, usage = chunks[1:]
    deltas = [chunk["choices"][0]["delta"]["content"] for chunk in middle]
    assert "".join(deltas) == done.text
    assert all(deltas)
    assert len(deltas) > 1, "a method that never takes back streams on the way"
    assert finish["choices"][0]["finish_reason"] == done.finish_reason
    assert usage["choices"] == []
    assert usage["usage"]["archer"]["updates"] == done.updates
    assert all(chunk["usage"] is None for chunk in chunks[:-1])
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert usage["archer"]["method"] == "llada-confidence"
    assert all("archer" not in chunk for chunk in chunks[:-1])


@pytest.mark.parametrize("path", [CHAT, TEXT])
def test_provisional_events_are_those_of_the_trace(
    pocket: Model, client: Client, path: str
) -> None:
    body = chat(max_tokens=SHORT, n=2, seed=3, temperature=0.6, stream=True)
    if path == TEXT:
        body["prompt"] = body.pop("messages")[0]["content"]
    body["archer"] = {"stream_mode": "provisional"}
    chunks = client.post(path, body).events
    events = [chunk["archer"] for chunk in chunks if "archer" in chunk]
    for chunk in chunks:
        if "archer" in chunk:
            (choice,) = chunk["choices"]
            assert choice.get("delta", choice.get("text")) in ({}, "")
    start = Start.model_validate(events[0])
    ids = pocket.encode(PROBLEM, chat=path == CHAT)
    assert start.prompts == [ids, ids]
    assert start.model == "pocket"
    stream = pocket.stream([ids, ids], length="auto", max_length=SHORT, seed=3, temperature=0.6)
    expected = [event for step in stream for event in updates(step.record)]
    found = [
        Update.model_validate({k: v for k, v in each.items() if k != "stable"})
        for each in events
        if each["event"] == "update"
    ]

    def ours(event: Update) -> dict[str, Any]:
        return event.model_dump(exclude={"seconds", "pieces", "fed", "call"})

    by_row = sorted(found, key=lambda event: (event.row, event.update))
    assert [ours(e) for e in by_row] == sorted(
        map(ours, expected), key=lambda e: (e["row"], e["update"])
    )
    spelled = dict(start.pieces or {})
    for event in found:
        spelled |= event.pieces or {}
    for event in found:
        assert {change.token for change in event.accepted} <= spelled.keys()
    assert all(pocket.text is not None and pocket.text.piece(id) == p for id, p in spelled.items())
    ends = [End.model_validate(each) for each in events if each["event"] == "end"]
    assert [end.completion["text"] for end in sorted(ends, key=lambda end: end.row)] == [
        done.text for done in stream.finish()
    ]


def test_the_stable_prefix_is_what_has_not_changed_for_eight_updates(client: Client) -> None:
    extension = {"method": "llada-confidence", "stream_mode": "provisional"}
    body = chat(max_tokens=SHORT, stream=True, archer=extension)
    since: list[int | None] = [None] * SHORT
    events = [chunk["archer"] for chunk in client.post(CHAT, body).events if "archer" in chunk]
    for event in events[1:-1]:
        for change in event["accepted"]:
            since[change["at"]] = event["update"]
        old = [at is not None and event["update"] - at >= 8 for at in since]
        assert event["stable"] == (old.index(False) if False in old else SHORT)
    assert any(event["stable"] for event in events[1:-1])


def test_stop_strings_cut_the_text_and_the_count(pocket: Model, client: Client) -> None:
    (done,) = pocket.generate(PROBLEM)
    assert done.text is not None
    assert " for " in done.text
    for method in ("archer", "llada-confidence"):
        body = chat(stop=[" for ", "not there"], archer={"method": method})
        (full,) = pocket.generate(PROBLEM, method)
        cut = (full.text or "").partition(" for ")[0]
        reply = client.post(CHAT, body).json
        assert reply["choices"][0]["message"]["content"] == cut
        assert reply["choices"][0]["finish_reason"] == "stop"
        assert 0 < reply["usage"]["completion_tokens"] < len(pocket.language.visible(full.tokens))
        assert texts(client, CHAT, body, stream=True) == [cut], "a stream says no more"


def test_models_methods_and_signs_of_life(client: Client) -> None:
    listed = client.get("/v1/models").json
    assert listed["object"] == "list"
    (own,) = listed["data"]
    positions = client.server.state.ready().model.folder.shape.max_positions
    assert (own["id"], own["max_model_len"]) == ("pocket", positions)
    for query in ("methods=false", "methods=yes", "methods[]=true", "other=true"):
        assert client.get(f"/v1/models?{query}").json == listed, query
    ids = [each["id"] for each in client.get("/v1/models?methods=true").json["data"]]
    assert ids[0] == "pocket"
    assert {"pocket@archer-cut", "pocket@archer-doubt", "pocket@archer"} <= set(ids)
    for name in ("pocket", "pocket@wino+archer:11"):
        assert client.get(f"/v1/models/{name}").json["id"] == name
    for name in ("gpt-4", "pocket@nonsense", "pocket@archer:much", "pocket@", "saber"):
        missing = client.get(f"/v1/models/{name}")
        assert (missing.status, missing.json["error"]["code"]) == (404, "model_not_found"), name
    assert "archer" in client.get("/v1/archer/methods").json["methods"]
    assert client.get("/health").json == {"status": "alive"}
    assert client.get("/ready").json == {"status": "ready", "model": "pocket"}


CUTS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("dream", {"top_p": 0.5}, {"top_p": 0.5}),
    ("dream", {"top_k": 3}, {"top_k": 3}),
    ("dream", {"top_p": 1, "top_k": 0}, {}),
    ("remdm-sampling", {"top_p": 1}, {"top_p": 1.0}),
]
"""The last one's own is 0.9."""


@pytest.mark.parametrize(("method", "fields", "settings"), CUTS)
def test_top_p_and_top_k_reach_decoders_that_have_them(
    client: Client, pocket: Model, method: str, fields: dict[str, Any], settings: dict[str, Any]
) -> None:
    own = {"method": method, "isolated": True}
    reply = client.ask(temperature=1.5, seed=3, max_tokens=16, archer=own, **fields)
    (alone,) = pocket.generate(PROBLEM, method, temperature=1.5, seed=3, length=16, **settings)
    assert reply.json["choices"][0]["message"]["content"] == alone.text


def test_top_p_and_top_k_are_refused_where_a_decoder_has_none(client: Client) -> None:
    assert client.ask(top_p=1, top_k=-1, max_tokens=8).status == 200, "they cut nothing"
    for fields in ({"top_p": 0.5}, {"top_k": 3}, {"top_p": 1, "top_k": 3}):
        refused = client.ask(max_tokens=8, **fields)
        assert refused.status == 400
        assert "That belongs to 'dream'" in refused.json["error"]["message"]
    twice = client.ask(top_p=0.5, archer={"method": "dream", "settings": {"top_p": 0.5}})
    assert "The top_p is given twice" in twice.json["error"]["message"]


def test_clients_may_call_the_model_by_a_name_of_the_operators(pocket: Model) -> None:
    with serving(pocket, served_model_name="team/coder@home") as client:
        (own,) = client.get("/v1/models").json["data"]
        assert own["id"] == "team/coder@home"
        for name in ("team/coder@home", "team/coder@home@saber"):
            assert client.get(f"/v1/models/{name}").json["id"] == name
            assert client.post(CHAT, chat(max_tokens=8) | {"model": name}).json["model"] == name
        refused = client.ask(max_tokens=8)
        assert (refused.status, refused.json["error"]["code"]) == (404, "model_not_found")
        assert client.get("/ready").json["model"] == "team/coder@home"


def setting(**settings: Any) -> dict[str, Any]:
    return {"archer": {"settings": settings}}


LONG = "longer than this server allows"
REFUSED: dict[str, tuple[dict[str, Any], str | None, str]] = {
    "model": ({"model": "gpt-4"}, "model", "no model 'gpt-4' here"),
    "method": ({"archer": {"method": "sabre"}}, None, "Did you mean 'saber'?"),
    "method of the model": ({"model": "pocket@sabre"}, None, "no method 'sabre'"),
    "method twice": (
        {"model": "pocket@saber", "archer": {"method": "archer"}},
        "archer.method",
        "given twice",
    ),
    "pair": ({"archer": {"method": "saber+dual", "settings": {"block": 8}}}, None, "saber"),
    "setting": (setting(speed=3), None, "does not use the setting 'speed'"),
    "an option that is no setting": (setting(chat=False), None, "not a setting"),
    "value": (setting(radius=0), None, "radius must be"),
    "Saber's n": (setting(n=0), None, "n must be a whole number"),
    "preset": ({"archer": {"preset": "mine"}}, None, "no preset 'mine'"),
    "length twice": (
        {"max_tokens": 8, **setting(length=8)},
        "archer.settings.length",
        "given twice",
    ),
    "length": ({"max_tokens": 4096}, "max_tokens", LONG),
    "length as a setting": (setting(max_new_tokens=4096), "max_tokens", LONG),
    "length as a real number": (setting(length=60000.0), "max_tokens", LONG),
    "length as a text": (setting(length="60000"), "max_tokens", LONG),
    "length without a number": (setting(length="long"), None, "length must be a whole number"),
    "block": ({"max_tokens": 9, **setting(block=4)}, None, "block"),
    "positions": ({"max_tokens": 1024}, "max_tokens", "positions"),
    "special token": (chat("<|eos|>"), None, "special token"),
    "no text": (chat(" "), None, "empty"),
}
CODES = {"model": "model_not_found", "max_tokens": "context_length_exceeded"}
"""Field at fault -> the code that clients look for."""


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_refusals_come_before_the_first_byte(client: Client, name: str, stream: bool) -> None:
    fields, param, phrase = REFUSED[name]
    reply = client.post(CHAT, chat(**{**fields, "stream": stream}))
    assert reply.status == (404 if param == "model" else 400)
    error = reply.json["error"]
    code = CODES.get(param or "")
    assert phrase in error.pop("message")
    assert error == {"type": "invalid_request_error", "param": param, "code": code}


@pytest.mark.parametrize("length", [60_000, 60_000.0, "60000"])
def test_nothing_is_laid_out_for_a_response_that_is_too_long(
    client: Client, monkeypatch: pytest.MonkeyPatch, length: object
) -> None:
    """WINO's canvas has a square of the length, which would be gigabytes here."""
    laid_out: list[str] = []
    for verb in ("check", "start", "canvas"):
        monkeypatch.setattr(Wino, verb, lambda *_, verb=verb: laid_out.append(verb))
    reply = client.ask(model="pocket@wino", archer={"settings": {"length": length}})
    assert (reply.status, laid_out) == (400, [])


def test_other_addresses_and_verbs_are_refused_in_the_same_form(client: Client) -> None:
    for verb, path, status in (
        ("GET", "/nothing", 404),
        ("GET", "/v1/chat/completions", 405),
        ("DELETE", "/v1/models", 405),
        ("GET", "/../../etc/passwd", 404),
        ("GET", "/%2e%2e/%2e%2e/etc/passwd", 404),
        ("GET", "/docs", 404),
        ("OPTIONS", "/v1/chat/completions", 405),
    ):
        reply = client.send(verb, path)
        assert reply.status == status, path
        assert "message" in reply.json["error"]
        assert "access-control-allow-origin" not in reply.headers


def test_a_server_without_its_page(pocket: Model) -> None:
    with serving(pocket, page=False, max_length=8) as client:
        assert client.get("/").status == 404
        assert client.ask(max_tokens=8).status == 200
        assert client.ask(max_tokens=9).status == 400


def test_metrics_count_what_happened(client: Client) -> None:
    names = [
        "prompt_tokens_total",
        "generation_tokens_total",
        "revised_positions_total",
        "diffusion_num_denoising_steps_total",
        "diffusion_num_canvas_positions_total",
        "diffusion_num_committed_tokens_total",
        "iteration_tokens_total_sum",
        *ONCE,
    ]
    before = {name: client.metric(name) for name in names}
    rejected = client.metric("requests_rejected_total", reason="model_not_found")
    fixed = {"settings": {"canvas": "fixed"}}
    usage = client.ask(max_tokens=SHORT, n=2, temperature=0.5, archer=fixed).json["usage"]
    client.ask(model="gpt-4")
    grown = {name: client.metric(name) - before[name] for name in names}
    assert grown["prompt_tokens_total"] == usage["prompt_tokens"]
    assert grown["generation_tokens_total"] == usage["completion_tokens"]
    assert grown["revised_positions_total"] == usage["archer"]["revised"]
    assert grown["diffusion_num_denoising_steps_total"] == usage["archer"]["updates"]
    assert grown["diffusion_num_canvas_positions_total"] == SHORT * usage["archer"]["updates"]
    assert 0 < grown["diffusion_num_committed_tokens_total"] <= 2 * SHORT
    assert grown["iteration_tokens_total_sum"] == usage["archer"]["columns"]
    for name in ONCE:
        assert grown[name] == 1, name
    assert client.metric("requests_rejected_total", reason="model_not_found") == rejected + 1


def test_metrics_of_passes(pocket: Model) -> None:
    with serving(pocket, budget=32) as client, ThreadPoolExecutor(4) as pool:
        before = {kind: client.metric("passes_total", kind=kind) for kind in KINDS}
        passes = client.metric("pass_seconds_count")
        asked = [pool.submit(client.ask, max_tokens=SHORT, seed=seed) for seed in range(4)]
        spent = [each.result().json["usage"]["archer"] for each in asked]
        for kind in KINDS:
            grown = client.metric("passes_total", kind=kind) - before[kind]
            assert grown == sum(each[kind] for each in spent), kind
        assert client.metric("pass_seconds_count") > passes
        assert client.metric("pass_seconds_count") == client.metric("iteration_tokens_total_count")
        assert client.metric("pass_seconds_sum") > 0
        assert client.metric("skipped_turns_total") > 0, "four requests do not fit into 32 columns"


PRESET = Preset.of(build("factor+dual", {"length": 32}), {})


@pytest.fixture(scope="module")
def served(pocket: Model, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    path = tmp_path_factory.mktemp("preset") / "p.json"
    path.write_text(json.dumps(PRESET.to_dict()))
    with serving(pocket, preset=path) as client:
        yield client


def test_it_is_used_unless_a_request_names_a_method(served: Client, pocket: Model) -> None:
    (plain,) = pocket.generate(PROBLEM, "factor+dual", length=32)
    reply = served.post(CHAT, chat()).json
    assert reply["choices"][0]["message"]["content"] == plain.text
    assert reply["usage"]["archer"]["updates"] == plain.updates
    (named,) = pocket.generate(PROBLEM, "saber", length=16)
    reply = served.post(CHAT, chat(archer={"method": "saber"}, max_tokens=16)).json
    assert reply["usage"]["archer"]["updates"] == named.updates


def test_what_a_request_sets_wins(served: Client, pocket: Model) -> None:
    (short,) = pocket.generate(PROBLEM, "factor+dual", length=16)
    assert (
        served.post(CHAT, chat(max_tokens=16)).json["usage"]["archer"]["updates"] == short.updates
    )
    asked = chat(archer={"settings": {"max_new_tokens": 16}})
    assert served.post(CHAT, asked).json["usage"]["archer"]["updates"] == short.updates
    assert served.post(CHAT, chat(archer={"settings": {"share": 0.5}})).status == 400


def test_a_preset_longer_than_allowed_is_refused_at_the_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "p.json"
    path.write_text(json.dumps(PRESET.to_dict()))
    assert main(["serve", "--preset", str(path), "--max-length", "31"]) == 2
    assert "raise --max-length" in capsys.readouterr().err


def test_the_operators_method_decodes_whoever_names_none(pocket: Model) -> None:
    with serving(pocket, method="factor+dual") as client:
        (plain,) = pocket.generate(PROBLEM, "factor+dual", length=16)
        reply = client.post(CHAT, chat(max_tokens=16)).json
        assert reply["usage"]["archer"]["updates"] == plain.updates


@pytest.mark.parametrize(
    ("options", "phrase"),
    [
        (["--method", "sabre"], "There is no method 'sabre'"),
        (["--method", "saber", "--preset", "p.json"], "names a method: leave out 'saber'"),
    ],
)
def test_a_method_that_cannot_be_served_is_refused_at_the_start(
    options: list[str], phrase: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", *options]) == 2
    assert phrase in capsys.readouterr().err


PENALTIES = {"frequency_penalty": 0.5, "presence_penalty": 1.0}


@pytest.mark.parametrize("path", [CHAT, TEXT, "/infill"])
def test_fields_that_the_operator_ignores_are_left_out_and_named_in_the_reply(
    pocket: Model, path: str
) -> None:
    """Also in a stream; a value that changes nothing is not worth a word, and other fields are refused."""
    body: dict[str, Any] = {"model": "pocket", "max_tokens": 4, "prompt": "def"}
    if path == CHAT:
        body = chat(max_tokens=4)
    elif path == "/infill":
        body = {"input_prefix": "def", "input_suffix": "\n", "n_predict": 4}
    with serving(pocket, ignore=tuple(PENALTIES)) as client:
        plain = client.post(path, body)
        for stream in (False, True):
            reply = client.post(path, body | PENALTIES | {"stream": stream})
            assert reply.status == 200
            assert reply.headers["archer-ignored"] == "frequency_penalty, presence_penalty"
        reply = client.post(path, body | {"frequency_penalty": 0, "presence_penalty": 1})
        assert reply.headers["archer-ignored"] == "presence_penalty"
        if path != "/infill":
            assert reply.json["choices"] == plain.json["choices"]
        assert "archer-ignored" not in plain.headers
        refused = client.post(path, body | PENALTIES | {"logit_bias": {"1": 1}})
        assert (refused.status, refused.json["error"]["param"]) == (400, "logit_bias")


def test_nothing_is_ignored_unless_the_operator_says_so(client: Client) -> None:
    for name, value in PENALTIES.items():
        refused = client.post(CHAT, chat() | {name: value})
        assert (refused.status, refused.json["error"]["param"]) == (400, name)
    for wrong in ("max_tokens", "frequency-penalty", ""):
        with pytest.raises(ValidationError, match=r"fields that are refused otherwise .*min_p"):
            ServerSettings(ignore=(wrong,))
