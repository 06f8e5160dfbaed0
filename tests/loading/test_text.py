"""The text codec: prompts in, responses out, single tokens for display."""

import json
import re
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer

from archer.errors import BadRequest
from archer.loading.checkpoint import read_folder
from archer.loading.text.text import Chat, Text, read_text
from conftest import shared
from support.folders import make_dream, make_llada, make_llada2, make_llada_moe, write_json


def codec(folder: Path) -> Text:
    text = read_text(read_folder(folder))
    assert text is not None
    return text


def family(make: Callable[..., Path], **options: Any) -> Any:
    """A fixture: the codec of a tiny model of this family."""

    @pytest.fixture(scope="module")
    def made(tmp_path_factory: pytest.TempPathFactory) -> Text:
        return codec(make(tmp_path_factory.mktemp("model"), tokenizer=True, **options))

    return made


llada, dream = family(make_llada), family(make_dream)
llada_moe, llada2 = family(make_llada_moe), family(make_llada2)
raw_only = family(make_llada, template=False)


def spelled(text: Text, ids: list[int]) -> str:
    return str(text.tokenizer.decode(ids, skip_special_tokens=False))


# --- the templates of the real models -----------------------------------------------------------


def test_the_template_of_llada_8b_instruct(tmp_path: Path) -> None:
    folder = make_llada(tmp_path, tokenizer=True)
    source = shared("data", "tokenizers", "llada-8b-instruct-PARTIAL")
    config = json.loads((source / "tokenizer_config.json").read_text())
    kept = {name: value for name, value in config.items() if name != "added_tokens_decoder"}
    write_json(folder / "tokenizer_config.json", kept)
    shutil.copy(source / "special_tokens_map.json", folder)
    text = codec(folder)
    assert spelled(text, text.encode_chat("  Write a haiku.\n")) == (
        "<|startoftext|><|start_header_id|>user<|end_header_id|>\n\nWrite a haiku.<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n"
    )
    chat = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Ho"},
        {"role": "user", "content": "So?"},
    ]
    assert spelled(text, text.encode_chat(chat)) == (
        "<|startoftext|><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\nHo<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nSo?<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n"
    )


@pytest.fixture(scope="module")
def real_dream(tmp_path_factory: pytest.TempPathFactory) -> Text:
    """Dream's own tokenizer and template on a network that is tiny but for its vocabulary."""
    folder = tmp_path_factory.mktemp("real")
    make_dream(
        folder,
        hidden_size=2,
        num_attention_heads=1,
        num_key_value_heads=1,
        vocab_size=152064,
        eos_token_id=151643,
        mask_token_id=151666,
    )
    source = shared("data", "tokenizers", "dream-v0-instruct-7b")
    for name in ("vocab.json", "merges.txt", "added_tokens.json", "tokenizer_config.json"):
        shutil.copy(source / name, folder / name)
    return codec(folder)


def test_the_template_of_dream_7b_instruct(real_dream: Text) -> None:
    ids = real_dream.encode_chat(" Write a haiku. ")
    assert spelled(real_dream, ids) == (
        "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"
        "<|im_start|>user\n Write a haiku. <|im_end|>\n<|im_start|>assistant\n"
    )
    assert ids[0] == 151644
    assert ids.count(151645) == 2
    chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    assert spelled(real_dream, real_dream.encode_chat(chat)) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
        "<|im_start|>assistant\n"
    )


def test_the_real_dream_tokenizer(real_dream: Text) -> None:
    assert real_dream.end_ids == {151643, 151645}
    assert real_dream.decode([*real_dream.encode_raw("x = 1"), 151666, 152000]) == "x = 1"
    assert real_dream.piece(151666) == "<|mask|>"
    assert real_dream.piece(152063) == "<152063>"
    assert real_dream.spelled_specials("a <tool_call> b") == ["<tool_call>"]


# --- prompts ------------------------------------------------------------------------------------


def test_a_template_in_llada_moes_format(llada_moe: Text) -> None:
    assert spelled(llada_moe, llada_moe.encode_chat("Write a haiku.")) == (
        "<role>HUMAN</role>Write a haiku.<|role_end|><role>ASSISTANT</role>"
    )


def test_a_template_in_llada2s_format_always_has_a_system_turn(llada2: Text) -> None:
    """The words about thinking follow a system text, too."""
    asked = "<role>HUMAN</role>Hi<|role_end|><role>ASSISTANT</role>"
    own = "<role>SYSTEM</role>{}detailed thinking off<|role_end|>"
    assert spelled(llada2, llada2.encode_chat("Hi")) == own.format("") + asked
    system = {"role": "system", "content": "Be brief."}
    chat = [system, {"role": "user", "content": "Hi"}]
    assert spelled(llada2, llada2.encode_chat(chat)) == own.format("Be brief.\n") + asked
    turns = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Ho"},
        {"role": "user", "content": "Bye"},
    ]
    assert spelled(llada2, llada2.encode_chat(turns)) == own.format("") + (
        "<role>HUMAN</role>Hi<|role_end|><role>ASSISTANT</role>Ho<|role_end|>"
        "<role>HUMAN</role>Bye<|role_end|><role>ASSISTANT</role>"
    )


def test_markers_of_the_mixtures_are_single_tokens(llada_moe: Text, llada2: Text) -> None:
    for text in (llada_moe, llada2):
        ids = text.encode_chat("x")
        markers = ("<role>", "</role>", "<|role_end|>")
        assert all(text.tokenizer.token_to_id(marker) in ids for marker in markers)


def test_many_chats_are_as_one_by_one(llada: Text) -> None:
    chats: list[Chat] = ["a", [{"role": "user", "content": "b"}], "ç"]
    assert llada.encode_chats(chats) == [llada.encode_chat(chat) for chat in chats]


def test_raw_text_gets_nothing_added(llada: Text) -> None:
    assert spelled(llada, llada.encode_raw(" as it stands\n")) == " as it stands\n"


def test_nothing_is_added_even_if_the_tokenizer_would(tmp_path: Path) -> None:
    folder = make_llada(tmp_path, tokenizer=True)
    path = folder / "tokenizer.json"
    value = json.loads(path.read_text())
    piece = {"Sequence": {"id": "A", "type_id": 0}}
    begin = {"SpecialToken": {"id": "<|startoftext|>", "type_id": 0}}
    value["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [begin, piece],
        "pair": [piece, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {
            "<|startoftext|>": {
                "id": "<|startoftext|>",
                "ids": [256],
                "tokens": ["<|startoftext|>"],
            }
        },
    }
    write_json(path, value)
    text = codec(folder)
    assert text.tokenizer.encode("a").ids[0] == 256
    assert 256 not in text.encode_raw("a")
    assert text.encode_chat("a").count(256) == 1


def test_without_a_template_chat_is_refused(raw_only: Text) -> None:
    with pytest.raises(BadRequest, match=r"has no chat template; .*\(chat=False\)"):
        raw_only.encode_chat("hi")


@pytest.mark.parametrize("chat", ["", " \n", [], [{"role": "user", "content": ""}]])
def test_an_empty_chat(llada: Text, chat: str | list[dict[str, object]]) -> None:
    with pytest.raises(BadRequest, match="The prompt is empty"):
        llada.encode_chat(chat)
    with pytest.raises(BadRequest, match="The prompt is empty"):
        llada.encode_raw("")


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"role": "user"},
        {"content": "x"},
        {"role": 1, "content": "x"},
        {"role": "user", "content": [{"type": "text", "text": "x"}]},
        {"role": "user", "content": "x", "tool_calls": []},
    ],
)
def test_a_malformed_message(llada: Text, message: dict[str, object]) -> None:
    with pytest.raises(BadRequest, match="must have a role and a content"):
        llada.encode_chat([message])


def test_half_a_character(llada: Text) -> None:
    with pytest.raises(BadRequest, match="not valid Unicode"):
        llada.encode_raw("\ud800")
    with pytest.raises(BadRequest, match="not valid Unicode"):
        llada.encode_chat("\ud800")


# --- special tokens in a prompt -----------------------------------------------------------------


MIXTURES = ("<|mask|>", "<|role_end|>", "<role>", "<|endoftext|>")
SPECIAL = {
    "llada": ("<|mdm_mask|>", "<|eot_id|>", "<|endoftext|>"),
    "llada_moe": MIXTURES,
    "llada2": MIXTURES,
}


@pytest.mark.parametrize(
    ("family", "token"), [(family, token) for family in SPECIAL for token in SPECIAL[family]]
)
def test_a_prompt_that_spells_a_special_token(
    family: str, token: str, request: pytest.FixtureRequest
) -> None:
    text: Text = request.getfixturevalue(family)
    prompt = f"what is {token}?"
    assert text.spelled_specials(prompt) == [token]
    said = re.escape(f'spells the special token "{token}"') + ".*allow_special=True"
    with pytest.raises(BadRequest, match=said):
        text.encode_raw(prompt)
    for chat in (
        prompt,
        [{"role": token, "content": "x"}],
        [{"role": "system", "content": token}],
    ):
        with pytest.raises(BadRequest, match=said):
            text.encode_chat(chat)


def test_it_may_be_allowed(llada: Text) -> None:
    assert llada.encode_raw("<|mdm_mask|>", allow_special=True) == [258]
    assert 258 in llada.encode_chat("<|mdm_mask|>", allow_special=True)


def test_what_only_looks_special_is_text(llada: Text) -> None:
    assert llada.spelled_specials("<|eot_id|") == []
    assert llada.encode_raw("<|eot_id|")


def test_a_token_that_only_normalising_reveals(tmp_path: Path) -> None:
    folder = make_llada(tmp_path, tokenizer=True)
    path = folder / "tokenizer.json"
    value = json.loads(path.read_text()) | {"normalizer": {"type": "NFC"}}
    write_json(path, value)
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.add_tokens([AddedToken("[MASK]", special=True, normalized=True)])
    tokenizer.save(str(path))
    kelvin = "[MAS\N{KELVIN SIGN}]"
    assert codec(folder).spelled_specials(kelvin) == ["[MASK]"]


# --- responses ----------------------------------------------------------------------------------


def test_ends(llada: Text, dream: Text, llada_moe: Text, llada2: Text) -> None:
    assert llada.end_ids == {257, 261}
    assert dream.end_ids == {256, 258, 261}
    for text in (llada_moe, llada2):
        ends = ("<|endoftext|>", "<|role_end|>")
        assert text.end_ids == {text.tokenizer.token_to_id(end) for end in ends}


def test_an_end_that_the_tokenizer_lacks_is_no_end(tmp_path: Path) -> None:
    folder = make_dream(tmp_path, tokenizer=True)
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text())
    config["added_tokens_decoder"].pop("261")
    write_json(path, config)
    (folder / "added_tokens.json").unlink()
    assert codec(folder).end_ids == {256, 258}


def test_decoding_skips_what_is_not_text(llada: Text) -> None:
    ids = llada.encode_raw("häuser")
    noisy = [256, *ids, 258, 261, 287, 10**12, -1]
    assert llada.decode(noisy) == "häuser"
    assert llada.decode([]) == ""


def test_the_mask_is_never_text(tmp_path: Path) -> None:
    text = codec(make_llada(tmp_path, tokenizer=True, mask_token_id=64))
    assert text.decode([63, 64, 65]) == text.decode([63, 65])


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_text_survives(llada: Text, text: str) -> None:
    if text:
        assert llada.decode(llada.encode_raw(text)) == text


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1))
def test_ids_are_those_that_the_library_gives_one_text(real_dream: Text, text: str) -> None:
    expected = real_dream.tokenizer.encode(text, add_special_tokens=False).ids
    assert real_dream.encode_raw(text) == expected


def test_other_threads_go_on_while_a_long_text_is_encoded(real_dream: Text) -> None:
    text = "def solve(nums):\n    return sum(each for each in nums if each > 5)\n" * 5000
    over, pauses = threading.Event(), [0.0]

    def count() -> None:
        last = time.monotonic()
        while not over.wait(0.001):
            pauses.append(-last + (last := time.monotonic()))

    counting = threading.Thread(target=count)
    counting.start()
    began = time.monotonic()
    real_dream.encode_raw(text)
    taken = time.monotonic() - began
    over.set()
    counting.join()
    assert max(pauses) < taken / 2, (max(pauses), taken)


@given(st.lists(st.integers(-5, 400)))
def test_any_ids_decode(llada: Text, ids: list[int]) -> None:
    assert isinstance(llada.decode(ids), str)
    assert all(llada.piece(id) for id in ids)


def test_pieces(llada: Text) -> None:
    pieces = [llada.piece(id) for id in llada.encode_raw("a é\n\t\x1b")]
    assert pieces == ["a", " ", "\\xc3", "\\xa9", "\n", "\t", "\\x1b"]
    assert llada.piece(258) == "<|mdm_mask|>"
    assert llada.piece(287) == "<287>"
    assert llada.piece(-7) == "<-7>"


def test_a_real_replacement_character_is_shown_as_it_is(real_dream: Text) -> None:
    (id,) = real_dream.encode_raw("\N{REPLACEMENT CHARACTER}")
    assert real_dream.piece(id) == "\N{REPLACEMENT CHARACTER}"


def test_a_folder_without_tokenizer_has_no_codec(tmp_path: Path) -> None:
    assert read_text(read_folder(make_llada(tmp_path))) is None
