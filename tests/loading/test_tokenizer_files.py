"""Tokenizers: Dream's layout against its complete file, and what makes one usable here."""

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from archer.errors import BadModel
from archer.loading.families.dream import DREAM
from archer.loading.families.llada import LLADA
from archer.loading.text.tokenizer_files import read_tokenizer, token_names
from conftest import shared
from support.folders import LLADA_MARKERS, byte_tokenizer, make_dream, make_llada, write_json

TEXTS = [
    "Hello, world!",
    "The model's don't, WE'LL, I'd, they'Ve",
    "def f(x: int) -> int:\n\treturn x ** 2  # square\n\n\nclass A:\n    pass\n",
    "1234567890 3.14159 0x1F 1e-5 ١٢٣ ½ ²",
    "   leading, trailing   \n \n\t\t mixed \r\n\r\n ends   ",
    "naïve café Ångström e\u0301 \u1e9b\u0323 ﬁ \u212b",
    "中文测试\uff0c日本語のテキスト 한국어 العربية עברית हिन्दी ไทย",
    "👩‍👩‍👧‍👦 🏳️‍🌈 🇫🇷 \u200b\u200d\ufeff\u00a0\u3000",
    "\x00\x01\x1b[31m\x7f",
    "<|im_start|>user\nhi<|im_end|>\n<|mask|><|endoftext|><|beginoftext|>",
    "<tool_call>{}</tool_call><|fim_prefix|>a<|fim_suffix|> <| im_end |> <|im_end",
    'http://example.org/a?b=c&d=%20#e $x_{i}^2$ {"k": [1, 2, null]}',
    "",
    "a",
    " ",
    "\n",
]


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """From the files of Dream's repository."""
    folder = tmp_path_factory.mktemp("dream")
    for name in ("vocab.json", "merges.txt", "added_tokens.json", "tokenizer_config.json"):
        shutil.copy(shared("data", "tokenizers", "dream-v0-instruct-7b", name), folder / name)
    tokenizer = read_tokenizer(folder, DREAM, 152064)
    assert tokenizer is not None
    return tokenizer


@pytest.fixture(scope="module")
def reference() -> Tokenizer:
    path = shared("data", "tokenizers", "dream-v0-instruct-7b", "tokenizer.derived.json")
    return Tokenizer.from_file(str(path))


def ids(tokenizer: Tokenizer, text: str) -> list[int]:
    return list(tokenizer.encode(text, add_special_tokens=False).ids)


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_dream_encodes_as_its_complete_tokenizer(
    ours: Tokenizer, reference: Tokenizer, text: str
) -> None:
    assert ids(ours, text) == ids(reference, text)


def test_dream_has_the_same_tokens(ours: Tokenizer, reference: Tokenizer) -> None:
    assert ours.get_vocab() == reference.get_vocab()
    mine, theirs = ours.get_added_tokens_decoder(), reference.get_added_tokens_decoder()
    assert {id: (t.content, t.special) for id, t in mine.items()} == {
        id: (t.content, t.special) for id, t in theirs.items()
    }


@given(text=st.text(max_size=40))
def test_dream_encodes_any_text_alike(ours: Tokenizer, reference: Tokenizer, text: str) -> None:
    found = ids(ours, text)
    assert found == ids(reference, text)
    assert ours.decode(found, skip_special_tokens=False) == reference.decode(
        found, skip_special_tokens=False
    )


def test_a_folder_without_a_tokenizer(tmp_path: Path) -> None:
    assert read_tokenizer(make_llada(tmp_path), LLADA, 288) is None


def test_truncation_and_padding_of_the_file_are_switched_off(tmp_path: Path) -> None:
    tokenizer = byte_tokenizer(LLADA_MARKERS)
    tokenizer.enable_truncation(2)
    tokenizer.enable_padding(length=20)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    read = read_tokenizer(tmp_path, LLADA, 288)
    assert read is not None
    assert len(ids(read, "abcde")) == 5


def test_the_complete_file_wins(tmp_path: Path) -> None:
    make_dream(tmp_path, tokenizer=True)
    byte_tokenizer(("<|only|>",)).save(str(tmp_path / "tokenizer.json"))
    read = read_tokenizer(tmp_path, DREAM, 288)
    assert read is not None
    assert read.token_to_id("<|only|>") == 256
    assert read.token_to_id("<|im_end|>") is None


def test_added_tokens_from_either_file(tmp_path: Path) -> None:
    make_dream(tmp_path, tokenizer=True)
    expected = read_tokenizer(tmp_path, DREAM, 288)
    assert expected is not None
    added = (tmp_path / "added_tokens.json").read_text()
    (tmp_path / "added_tokens.json").unlink()
    from_config = read_tokenizer(tmp_path, DREAM, 288)
    (tmp_path / "added_tokens.json").write_text(added)
    (tmp_path / "tokenizer_config.json").unlink()
    from_list = read_tokenizer(tmp_path, DREAM, 288)
    assert from_config is not None
    assert from_list is not None
    assert expected.get_vocab() == from_config.get_vocab() == from_list.get_vocab()
    assert from_list.token_to_id("<|dlm_pad|>") == json.loads(added)["<|dlm_pad|>"]


@pytest.mark.parametrize(
    ("count", "letters", "said"),
    [(300, 4000, "at most 1048576"), (16_400, 8, "at most 16384 are allowed")],
)
def test_added_tokens_that_would_take_gigabytes_are_refused(
    tmp_path: Path, count: int, letters: int, said: str
) -> None:
    make_dream(tmp_path, tokenizer=True)
    added = json.loads((tmp_path / "added_tokens.json").read_text())
    more = {f"{number:x<{letters}}": 1000 + number for number in range(count)}
    write_json(tmp_path / "added_tokens.json", added | more)
    with pytest.raises(BadModel, match=said):
        read_tokenizer(tmp_path, DREAM, 288)


def test_token_names(tmp_path: Path) -> None:
    fallback = {"pad_token": {"content": "<p>"}, "eos_token": "<never>", "cls_token": None}
    write_json(tmp_path / "special_tokens_map.json", fallback)
    config = {"bos_token": "<b>", "eos_token": {"content": "<e>"}, "unk_token": None}
    names = {"bos_token": "<b>", "eos_token": "<e>", "pad_token": "<p>"}
    assert token_names(tmp_path, config) == names
