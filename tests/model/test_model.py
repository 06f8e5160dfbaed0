"""A loaded model as its users see it: prompts in, completions out, bad requests refused at once."""

import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from archer.decoders.base import Attention
from archer.errors import (
    ArcherError,
    BadRequest,
    Incompatible,
    LongerThanTrained,
    PassFailed,
    TooLong,
)
from archer.methods.build import build
from archer.methods.settings import DECODERS
from archer.model import Model, load
from archer.network.pieces import compiled as compiled_pieces
from archer.request.request import Form
from archer.results.completion import Tally
from archer.results.step import Kind
from support.folders import make_llada, make_llada_moe

LENGTH = 12
LLADA_MASK, LLADA_END, LLADA_TURN_END = 258, 257, 261


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """Without a tokenizer."""
    return load(make_llada(tmp_path_factory.mktemp("bare")), device="cpu")


@pytest.fixture
def no_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any attempt to start decoding fails the test."""
    monkeypatch.setattr(
        "archer.engine.job.Walk", lambda *_, **__: pytest.fail("a walk was about to start")
    )


@pytest.mark.parametrize("name", DECODERS)
def test_a_request_is_checked_without_starting_its_decoder(
    bare: Model, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """WINO's canvas holds a square of the length: laid out before the check it would be gigabytes."""
    kind = DECODERS[name].make
    for verb in ("start", "canvas"):
        monkeypatch.setattr(kind, verb, lambda *_: pytest.fail("the decoder was run"))
    if kind.attention is Attention.BLOCK_CAUSAL:
        with pytest.raises(Incompatible, match="is made for block-causal attention"):
            bare.generate([1, 2], name, length=60_000)
        return
    with pytest.raises(TooLong, match="A prompt of 2 tokens and a response of 60000 need 60002"):
        bare.generate([1, 2], name, length=60_000)
    assert bare.request([1, 2], name, length=64).method.length == 64


def test_a_text_its_ids_and_a_batch_of_both_give_the_same_answer(llada: Model) -> None:
    ids = llada.encode("hello", chat=False)
    (text,) = llada.generate("hello", chat=False, length=LENGTH)
    (alone,) = llada.generate(ids, length=LENGTH)
    prompts: list[str | list[int]] = ["hello", ids, [1, 2]]
    batch = llada.generate(prompts, chat=False, length=LENGTH)
    assert text.tokens == alone.tokens == batch[0].tokens == batch[1].tokens
    assert len(text.tokens) == LENGTH
    assert [done.prompt_tokens for done in batch] == [len(ids), len(ids), 2]
    assert text.text == batch[0].text


SYSTEM = {"role": "system", "content": "Be brief."}
TURNS = [
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": "ho"},
    {"role": "user", "content": "so?"},
]


def test_messages_go_wherever_a_prompt_goes(llada: Model) -> None:
    (one,) = llada.request([SYSTEM, *TURNS], length=LENGTH).prompts
    said = bytes_of(llada, one.prefix)
    assert said.count("<|start_header_id|>") == 5
    assert said.index("Be brief.") < said.index("hi") < said.index("ho") < said.index("so?")
    several: list[Any] = [[SYSTEM, *TURNS], "hi", [1, 2, 3], TURNS[:1]]
    together = llada.request(several, length=LENGTH).prompts
    assert together[0] == one
    assert together[1] == together[3] == llada.request("hi", length=LENGTH).prompts[0]
    assert together[2] == Form((1, 2, 3))
    assert llada.encode([SYSTEM, *TURNS]) == list(one.prefix)
    (done,) = llada.generate([SYSTEM, *TURNS], length=LENGTH)
    assert done.tokens == llada.generate(list(one.prefix), length=LENGTH)[0].tokens
    assert done.tokens == llada.stream([[SYSTEM, *TURNS]], length=LENGTH).finish()[0].tokens


BAD_CHATS: list[tuple[Any, str]] = [
    ({"role": "user", "content": "hi"}, "A chat is a list of messages: put the message in a list"),
    ([*TURNS, "hi"], "A list holds chat messages and other things"),
    ([1, *TURNS], "A list holds chat messages and other things"),
    ([[*TURNS, 5]], "A list holds chat messages and other things"),
    ([{"role": "user"}], "must have a role and a content"),
    ([{"role": "user", "content": "x", "name": "y"}], "must have a role and a content"),
    ([{"role": "user", "content": " "}], "The prompt is empty"),
    ([{"role": "user", "content": "<|eot_id|>"}], "special token"),
    (["fine", [{"role": 3, "content": "x"}]], "must have a role and a content"),
]


@pytest.mark.usefixtures("no_pass")
@pytest.mark.parametrize(("prompts", "cause"), BAD_CHATS)
def test_a_bad_chat_is_refused_before_any_pass(llada: Model, prompts: Any, cause: str) -> None:
    with pytest.raises(BadRequest, match=cause):
        llada.stream(prompts, length=LENGTH)


def test_messages_need_a_template(llada: Model, bare: Model) -> None:
    with pytest.raises(BadRequest, match=r"Chat messages need the chat template.*chat=False"):
        llada.request(TURNS, chat=False, length=LENGTH)
    with pytest.raises(BadRequest, match="has no tokenizer"):
        bare.request(TURNS, length=LENGTH)


def test_a_method_may_be_given_ready_made(llada: Model) -> None:
    made = build("llada-confidence", {"length": LENGTH, "steps": 4})
    named = llada.generate([1, 2, 3], "llada-confidence", length=LENGTH, steps=4)
    assert llada.request([1, 2, 3], made).method == made
    assert llada.generate([1, 2, 3], made)[0].tokens == named[0].tokens
    assert llada.stream([1, 2, 3], made).finish()[0].updates == 4
    assert llada.request([1, 2, 3], made, length=8).method.length == 8
    for more in ({"steps": 8}, {"preset": "paper"}):
        with pytest.raises(BadRequest, match="'llada-confidence' is given with its settings"):
            llada.request([1, 2, 3], made, **more)


def bytes_of(model: Model, ids: tuple[int, ...]) -> str:
    assert model.text is not None
    return "".join(map(model.text.piece, ids))


def test_a_model_that_loves_its_mask_still_writes_none(tmp_path: Path) -> None:
    """The mask is the likeliest token of many columns; the next best is written."""
    model = load(make_llada(tmp_path), device="cpu")
    favourite = next(model.stream([1, 2, 3], length=LENGTH)).logits.greedy.tokens[0][0]
    model.network.head.data[LLADA_MASK] = 3 * model.network.head.data[favourite]
    stream = model.stream([1, 2, 3], length=LENGTH)
    tops = [step.logits.rows[0].values.argmax(dim=1).tolist() for step in stream]
    assert any(LLADA_MASK in row for row in tops)
    assert LLADA_MASK not in stream.finish()[0].tokens


def finished(model: Model, tokens: list[int]) -> Any:
    return model.language.completion(Tally(response=np.array(tokens), updates=1), prompt_tokens=1)


@pytest.mark.parametrize("end", [LLADA_END, LLADA_TURN_END])
def test_text_is_cut_at_the_first_end_and_tokens_are_not(llada: Model, end: int) -> None:
    h, i = llada.encode("hi", chat=False)
    done = finished(llada, [h, i, end, h, LLADA_END, i])
    assert done.text == "hi"
    assert done.tokens == (h, i, end, h, LLADA_END, i)
    assert done.finish_reason == "stop"
    assert finished(llada, [h, i]).finish_reason == "length"
    assert finished(llada, [end, h]).text == ""


def test_a_mask_in_a_finished_response_is_an_error_not_a_text(llada: Model) -> None:
    with pytest.raises(ArcherError, match="ended with masks"):
        finished(llada, [1, LLADA_MASK])


def test_without_a_tokenizer_ids_go_in_and_out(bare: Model) -> None:
    (done,) = bare.generate([1, 2, 3], length=LENGTH)
    assert done.text is None
    assert len(done.tokens) == LENGTH
    assert bare.end_ids == {LLADA_END}
    with pytest.raises(BadRequest, match=r"no tokenizer.*such as \[5, 7, 9\]"):
        bare.generate("hello", length=LENGTH)


BAD_PROMPTS: list[tuple[Any, str]] = [
    ("", "empty"),
    (" \n\t", "empty"),
    ([], "There is no prompt"),
    ([[]], "empty"),
    (["fine", ""], "empty"),
    ([[1, 2], []], "empty"),
    ([1, LLADA_MASK], "mask id 258"),
    ([[1], [LLADA_MASK]], "mask id 258"),
    ([288], "the id 288, but the model knows ids 0 to 287"),
    ([-1], "the id -1"),
    ([2**70], "knows ids 0 to 287"),
    ([True], "not a whole number"),
    ([[1.5]], "not a whole number"),
    ([1, "a"], "not int"),
    (5, "not int"),
    (None, "not NoneType"),
    (b"bytes", "not bytes"),
    ([b"bytes"], "not bytes"),
    ("say <|mdm_mask|>", "special token"),
    ("\ud800", "not valid Unicode"),
]


@pytest.mark.usefixtures("no_pass")
@pytest.mark.parametrize(("prompts", "cause"), BAD_PROMPTS)
def test_a_bad_prompt_is_refused_before_any_pass(llada: Model, prompts: Any, cause: str) -> None:
    with pytest.raises(BadRequest, match=cause):
        llada.stream(prompts, chat=False, length=LENGTH)


@pytest.mark.usefixtures("no_pass")
@pytest.mark.parametrize(
    ("method", "options", "cause"),
    [
        ("archer", {"length": 0}, "length"),
        ("archer", {"length": 511}, "need 514 positions, but the model has 512"),
        ("archer", {"length": 10**13}, "length"),
        ("archer", {"length": LENGTH, "block": 5}, "does not divide"),
        ("archer", {"length": LENGTH, "radius": 0}, "radius"),
        ("archer", {"length": LENGTH, "radius": math.nan}, "radius"),
        ("archer", {"length": LENGTH, "least": LENGTH + 1}, "do not fit a response of 12"),
        ("llada-confidence", {"length": LENGTH, "block": 4, "steps": 7}, "spread evenly"),
        ("saber", {"length": LENGTH, "radius": 8}, "does not use the setting 'radius'"),
        ("clairvoyance", {}, "There is no method"),
        ("archer", {"preset": "newspaper"}, "There is no preset"),
    ],
)
def test_a_bad_setting_is_refused_before_any_pass(
    llada: Model, method: str, options: dict[str, Any], cause: str
) -> None:
    with pytest.raises(BadRequest, match=cause):
        llada.stream([1, 2, 3], method, **options)


def test_the_whole_window_may_be_used(llada: Model) -> None:
    assert llada.request([1] * (512 - LENGTH), length=LENGTH).method.length == LENGTH
    with pytest.raises(BadRequest, match="513 positions"):
        llada.request([[1], [1] * (513 - LENGTH)], length=LENGTH)


def test_dream_warns_beyond_its_trained_window_and_refuses_beyond_its_last_position(
    dream: Model,
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dream.request([1] * (2048 - LENGTH), length=LENGTH)
    with pytest.warns(LongerThanTrained, match="exceed the 2048 positions"):
        dream.request([1] * (2049 - LENGTH), length=LENGTH)
    with pytest.raises(BadRequest, match="but the model has 4096"):
        dream.request([1] * (4097 - LENGTH), length=LENGTH)


def test_a_failure_of_every_row_still_ends_the_stream(tmp_path: Path) -> None:
    model = load(make_llada(tmp_path), device="cpu")
    model.network.head.data.fill_(torch.nan)
    steps = list(stream := model.stream([[1], [2]], length=LENGTH))
    assert [step.rows for step in steps] == [(), ()]
    assert [list(step.errors) for step in steps] == [[0], [1]]
    assert {done.finish_reason for done in stream.finish()} == {"error"}


def test_completions_run_what_is_left(llada: Model) -> None:
    (whole,) = llada.generate([1, 2, 3], length=LENGTH)
    stream = llada.stream([1, 2, 3], length=LENGTH)
    first = next(stream)
    assert (first.index, first.calls[0].kind) == (0, Kind.FULL)
    for step in stream:
        if step.index == 2:
            break
    (done,) = stream.finish()
    assert (done.tokens, done.updates) == (whole.tokens, whole.updates)
    assert list(stream) == []
    assert stream.finish()[0].updates == whole.updates


def test_nothing_runs_before_the_first_step_is_asked_for(
    llada: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    def started(*_: Any, **__: Any) -> None:
        raise RuntimeError("started")

    monkeypatch.setattr("archer.engine.batch.run", started)
    stream = llada.stream([1, 2, 3], length=LENGTH)
    with pytest.raises(PassFailed, match="RuntimeError: started"):
        next(stream)


@pytest.mark.parametrize("dtype", ["float8", "int8", "", 3, torch.int64])
def test_an_unknown_dtype_is_refused(bare: Model, dtype: Any) -> None:
    with pytest.raises(BadRequest, match="Choose one of float32, bfloat16, float"):
        load(bare.folder.path, device="cpu", dtype=dtype)
    with pytest.raises(BadRequest, match="Did you mean 'fp16'"):
        load(bare.folder.path, device="cpu", dtype="pf16")


@pytest.mark.parametrize(
    ("dtype", "meant"),
    [
        ("float64", torch.float64),
        (torch.float64, torch.float64),
        ("fp32", torch.float32),
        ("fp16", torch.float16),
        ("float16", torch.float16),
    ],
)
def test_a_dtype_is_a_name_or_a_torch_dtype(bare: Model, dtype: Any, meant: torch.dtype) -> None:
    model = load(bare.folder.path, device="cpu", dtype=dtype)
    assert model.network.dtype == model.dtype == meant
    (done,) = model.generate([1, 2, 3], "llada-confidence", length=8)
    assert done.error is None


def test_bfloat16_is_refused_where_it_is_not_safe(
    bare: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "archer.machine.devices.bf16_refusal", lambda device: f"not safe on {device}"
    )
    with pytest.raises(BadRequest, match="not safe on cpu"):
        load(bare.folder.path, device="cpu", dtype="bfloat16")
    assert load(bare.folder.path, device="cpu").network.dtype == torch.float32


@pytest.mark.parametrize("device", ["banana", "cuda:99", "cpu:x"])
def test_a_device_that_is_not_there_is_refused_before_the_folder_is_read(device: str) -> None:
    with pytest.raises(BadRequest, match=rf"device '{device}' cannot be used here"):
        load("/no/such/folder", device=device)


def test_experts_are_not_compiled(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="cannot follow rows to their experts"):
        load(make_llada_moe(tmp_path / "moe"), device="cpu", compiled=True)
    assert load(make_llada(tmp_path / "dense"), device="cpu", compiled=True).source.compiled


def test_a_model_hands_its_passes_to_the_compiler_if_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_llada(tmp_path, tokenizer=False)
    compiled: list[Any] = []

    def compile_(function: Any, **_: bool) -> Any:
        compiled.append(function)
        return function

    monkeypatch.setattr(torch, "compile", compile_)
    compiled_pieces.cache_clear()
    plain = load(folder).generate([[5, 7]], length=8)
    assert compiled == []
    same = load(folder, compiled=True).generate([[5, 7]], length=8)
    assert [piece.__name__ for piece in compiled] == ["enter", "enter_last", "leave", "score"]
    compiled_pieces.cache_clear()
    assert same[0].tokens == plain[0].tokens
