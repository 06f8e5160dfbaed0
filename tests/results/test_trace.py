"""The event format: what is written can be read back, and the responses rebuilt from it."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from archer.engine.generate import Stream
from archer.errors import ArcherError, BadRequest, BadTrace
from archer.methods.build import build
from archer.model import Model, load
from archer.results import trace
from archer.results.trace import End, Start, Update
from support.folders import make_llada
from support.recorded import update as recorded_update

LENGTH = 12


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return load(make_llada(tmp_path_factory.mktemp("llada"), tokenizer=True), device="cpu")


def record(model: Model, path: Path, prompts: Any, **options: Any) -> list[list[list[int]]]:
    """Write a trace as the command line does; returns each row's responses after every update."""
    stream = Stream(model, model.request(prompts, **options))
    seen: list[list[list[int]]] = [[] for _ in stream.request.prompts]
    speller = trace.Speller(stream.request)
    with trace.Writer(path) as writer:
        writer.write(trace.start(stream.request))
        for step in stream:
            for event in trace.updates(step.record):
                writer.write(speller.spelled(event))
            for index, row in enumerate(step.rows):
                seen[row].append(step.after.response[index].tolist())
        for row, completion in enumerate(stream.finish()):
            writer.ended(row, completion)
    return seen


def of_saber(model: Model, folder: Path) -> tuple[Start, list[Update], list[End]]:
    """The events of one prompt, decoded by Saber."""
    record(model, folder / "run.jsonl", [[1, 2, 3]], method="saber", length=LENGTH)
    return split(folder / "run.jsonl")


def split(path: Path) -> tuple[Start, list[Update], list[End]]:
    start, *rest = trace.read(path)
    assert isinstance(start, Start)
    changes = [event for event in rest if isinstance(event, Update)]
    ends = [event for event in rest if isinstance(event, End)]
    assert len(changes) + len(ends) == len(rest)
    return start, changes, ends


@pytest.mark.parametrize("method", ["archer", "llada-confidence"])
def test_a_trace_rebuilds_every_response_of_the_run(
    model: Model, tmp_path: Path, method: str
) -> None:
    path = tmp_path / "run.jsonl"
    seen = record(model, path, [[1, 2, 3], [4, 5]], method=method, length=LENGTH)
    start, changes, ends = split(path)
    assert start.prompts == [[1, 2, 3], [4, 5]]
    for row, states in enumerate(seen):
        own = [event for event in changes if event.row == row]
        assert [event.update for event in own] == list(range(1, len(states) + 1))
        assert list(trace.states(start, own)) == states
        assert ends[row].completion["tokens"] == states[-1]
    assert [end.row for end in ends] == [0, 1]


def test_every_id_is_spelled_once_and_before_it_is_needed(model: Model, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    record(model, path, [[1, 2, 3], [4, 5]], method="saber", length=LENGTH)
    start, changes, _ = split(path)
    assert model.text is not None
    known = dict(start.pieces or {})
    for event in changes:
        assert known.keys().isdisjoint(event.pieces or {})
        known |= event.pieces or {}
        assert {change.token for change in event.accepted} <= known.keys()
    assert known == {token: model.text.piece(token) for token in known}
    assert start.ends == sorted(model.end_ids)


def test_a_trace_may_leave_out_what_has_a_default(tmp_path: Path) -> None:
    old = {
        "start": '{"event":"start","version":1,"model":"m","method":"x","settings":{},"seed":0,'
        '"mask":9,"length":3,"prompts":[[1]],"pieces":null}',
        "update": '{"event":"update","row":0,"update":1,"call":"full","fed":4,"distance":0,'
        '"accepted":[],"replaced":[],"remasked":[0],"doubts":[null],"threshold":null,"seconds":0.0}',
    }
    path = tmp_path / "short.jsonl"
    path.write_text("\n".join(old.values()), encoding="utf-8")
    start, (update,), _ = split(path)
    assert start.ends == []
    assert (update.doubts, update.pieces) == ([None], None)


def test_the_start_event_tells_everything_about_the_request(model: Model) -> None:
    request = model.request("hi", "archer", chat=False, length=LENGTH, radius="inf", seed=5)
    start = trace.start(request)
    assert (start.model, start.method, start.seed) == (model.name, "archer", 5)
    assert (start.mask, start.length) == (model.folder.mask, LENGTH)
    assert start.prompts == [list(request.prompts[0].prefix)]
    assert start.pieces is not None
    assert "".join(start.pieces[token] for token in start.prompts[0]) == "hi"
    assert json.loads(start.model_dump_json())["settings"]["radius"] == "inf"
    again = build(start.method, {"radius": start.settings["radius"]})
    assert again.settings["radius"] == math.inf


def test_a_model_without_a_tokenizer_has_no_pieces(tmp_path: Path) -> None:
    bare = load(make_llada(tmp_path), device="cpu")
    assert trace.start(bare.request([1, 2], length=8)).pieces is None


def test_a_failed_row_ends_with_its_error(tmp_path: Path) -> None:
    sick = load(make_llada(tmp_path / "model"), device="cpu")
    sick.network.embedding.data[44] = torch.nan
    record(sick, tmp_path / "run.jsonl", [[1, 44], [1, 2]], length=8)
    _, changes, ends = split(tmp_path / "run.jsonl")
    assert {event.row for event in changes} == {1}
    assert [end.completion["finish_reason"] for end in ends] == ["error", "length"]
    assert "update 1" in ends[0].completion["error"]


@pytest.mark.parametrize(
    "text", ["a\nb\r\n", "\u2028", "\u2029", "\x85", "\x1e\x0c", "käse \U0001f9c0"]
)
def test_any_text_survives_the_file(tmp_path: Path, text: str) -> None:
    """Some characters end a line for Python but not for JSON."""
    path = tmp_path / "run.jsonl"
    with trace.Writer(path) as writer:
        writer.write(End(row=0, completion={"text": text}))
        writer.write(End(row=1, completion={"text": "next"}))
    first, second = trace.read(path)
    assert isinstance(first, End)
    assert first.completion == {"text": text}
    assert isinstance(second, End)
    assert second.row == 1


GOOD = End(row=0, completion={}).model_dump_json()
START = Start(model="m", method="x", settings={}, seed=0, mask=9, length=3, prompts=[[1]])


@pytest.mark.parametrize(
    "line",
    [
        "",
        "{",
        "[]",
        '"start"',
        "{}",
        '{"event": "middle"}',
        '{"event": "end", "row": 0}',
        '{"event": "end", "row": "first", "completion": {}}',
        '{"event": "end", "row": 0, "completion": {}, "colour": "red"}',
        START.model_dump_json().replace('"version":1', '"version":2'),
        START.model_dump_json().replace('"mask":9', '"mask":null'),
    ],
)
def test_a_malformed_line_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(f"{GOOD}\n{GOOD}\n{line}\n{GOOD}\n", encoding="utf-8")
    with pytest.raises(BadTrace, match=r"^Line 3 of '.*bad\.jsonl' is not a trace event: .+\.$"):
        list(trace.read(path))


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        BadTrace, match=r"missing\.jsonl' cannot be read: No such file or directory\.$"
    ):
        list(trace.read(tmp_path / "missing.jsonl"))
    (tmp_path / "latin.jsonl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadTrace, match=r"latin\.jsonl' is not UTF-8: byte "):
        list(trace.read(tmp_path / "latin.jsonl"))


def test_an_unwritable_path_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "no" / "such" / "folder.jsonl"):
        with pytest.raises(BadRequest, match=r"cannot be written: .+Choose another path"):
            trace.Writer(path)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_a_sentence_and_keeps_what_was_written() -> None:
    with (
        trace.Writer(Path("/dev/full")) as writer,
        pytest.raises(ArcherError, match="could not be written on: No space left"),
    ):
        writer.write(End(row=0, completion={}))


def test_an_update_takes_back_what_it_has_just_placed() -> None:
    placed = trace.Placed(at=1, token=5, confidence=0.5)
    tokens: list[int | None] = [7, None, None]
    assert recorded_update(1, accepted=[placed], remasked=[0, 1]).apply(tokens, None) == [
        (0, 7),
        (1, 5),
    ]
    assert tokens == [None, None, None]


def test_a_line_of_a_trace_ends_where_json_cannot_hold_it(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('"\u2028"\r\n"\x85"\n', encoding="utf-8", newline="")
    assert trace.read_lines(tmp_path / "a.jsonl") == ['"\u2028"\n', '"\x85"\n']


def test_an_old_trace_survives_until_the_first_event(tmp_path: Path) -> None:
    path = tmp_path / "short.jsonl"
    path.write_text("old")
    with trace.Writer(path) as writer:
        assert path.read_text() == "old"
        writer.write(End(row=0, completion={}))
        writer.write(End(row=1, completion={}))
    assert [event.row for event in trace.read(path) if isinstance(event, End)] == [0, 1]


@pytest.mark.parametrize("method", ["archer", "wino", "editing", "llada-confidence"])
def test_plain_fields_are_what_the_checked_events_hold(model: Model, method: str) -> None:
    """What the server writes without checks, against pydantic's own writing of the same events."""
    stream = Stream(model, model.request([[5, 6, 7], [8, 9]], method, length=LENGTH))
    for step in stream:
        told = trace.plain_updates(step.record)
        events = trace.updates(step.record)
        assert [json.loads(json.dumps(each)) for each in told] == [
            json.loads(event.model_dump_json()) for event in events
        ]
        assert [list(each) for each in told] == [list(Update.model_fields)] * len(told)
