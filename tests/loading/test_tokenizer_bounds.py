"""Tokenizers: Dream's layout, bounds that real ones keep to, and what slips by is tried out."""

import json
import re
import resource
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import Replace
from tokenizers.pre_tokenizers import Whitespace

from archer.errors import BadModel, BadRequest
from archer.loading.architectures import ARCHITECTURES
from archer.loading.checkpoint import read_folder
from archer.loading.families.dream import DREAM
from archer.loading.families.llada import LLADA
from archer.loading.text import text as codec
from archer.loading.text import tokenizer_child, tokenizer_files
from archer.loading.text.text import read_text
from archer.loading.text.tokenizer_bounds import check_tokenizer, endless
from archer.loading.text.tokenizer_files import KNOWN_PATTERNS, read_tokenizer, token_names
from archer.pocket.tokenizer import PIECE
from conftest import shared
from support.folders import LLADA_MARKERS, byte_tokenizer, make_dream, make_llada, write_json

GOOD_PATTERNS = (
    PIECE,
    *(row.split_pattern for row in ARCHITECTURES.values() if row.split_pattern),
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}]*[\p{Ll}\p{Lm}]+(?i:'s|'t|'re)?|\p{N}{1,3}",
    r"[一-龥぀-ゟ]+",
    r"\d|[)*+{}]|\(|\)+",
    r"[*+]{2}",
    "",
)
BAD_PATTERNS = ("(a+)+", "(?:a|b)*", "(a){2,}", "(?=a+)*", r"(.)\1", r"\k<x>", "(a)?+b+*", "a**")


@pytest.mark.parametrize("pattern", GOOD_PATTERNS)
def test_patterns_of_real_tokenizers_are_let_through(pattern: str) -> None:
    assert endless(pattern) is None


@pytest.mark.parametrize("pattern", BAD_PATTERNS)
def test_patterns_that_can_take_for_ever_are_not(pattern: str) -> None:
    assert endless(pattern) is not None


@given(pattern=st.text(st.sampled_from("ab()[]{}*+?|\\1^$,:!=<>P "), max_size=12))
def test_any_pattern_is_looked_at_to_its_end(pattern: str) -> None:
    assert endless(pattern) is None or isinstance(endless(pattern), str)


@pytest.mark.parametrize(
    "name", ["qwen2.5/tokenizer.json", "dream-v0-instruct-7b/tokenizer.derived.json"]
)
def test_real_tokenizers_pass(name: str) -> None:
    path = shared("data", "tokenizers", *name.split("/"))
    bounds = check_tokenizer(
        json.loads(path.read_text(encoding="utf-8")), str(path), KNOWN_PATTERNS
    )
    assert not bounds.unusual


def folder_with(folder: Path, **changes: Any) -> Path:
    folder.mkdir()
    value = json.loads(byte_tokenizer(LLADA_MARKERS).to_str()) | changes
    (folder / "tokenizer.json").write_text(json.dumps(value))
    return folder


@pytest.mark.parametrize(
    "normalizer",
    [
        {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
        {"type": "Sequence", "normalizers": [{"type": "NFKC"}, {"type": "Lowercase"}]},
        {"type": "Prepend", "prepend": "\u2581"},
    ],
)
def test_unusual_but_sound_tokenizers_are_tried_and_loaded(
    tmp_path: Path, normalizer: dict[str, Any]
) -> None:
    tokenizer = read_tokenizer(folder_with(tmp_path / "a", normalizer=normalizer), LLADA, 288)
    assert tokenizer is not None
    assert tokenizer.encode("a", add_special_tokens=False).ids


def test_what_slips_by_the_bounds_is_found_by_trying(tmp_path: Path) -> None:
    """Twelve bytes for one are within the bounds of a part, not of a probe with such limits."""
    change = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 60}
    source = (folder_with(tmp_path / "a", normalizer=change) / "tokenizer.json").read_text()
    request = {"source": source, "triggers": [], "growth": 2.0}
    assert "of a text of 2000 bytes" in str(tokenizer_child.try_out(request))
    assert tokenizer_child.try_out(request | {"growth": 64.0}) is None


def test_a_process_that_ends_badly_is_a_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folder_with(tmp_path / "a", normalizer={"type": "Prepend", "prepend": "x"})
    for number, script in enumerate(
        (
            "import os; os.abort()",
            "import sys; sys.exit(1)",
            "import time; time.sleep(60)",
            "raise ValueError",
        )
    ):
        child = tmp_path / f"child{number}.py"
        child.write_text(script)
        monkeypatch.setattr(tokenizer_child, "__file__", str(child))
        monkeypatch.setattr(tokenizer_files, "WALL_SECONDS", 1.0)
        with pytest.raises(BadModel, match="too much time or memory"):
            read_tokenizer(folder, LLADA, 288)


class PanicException(BaseException):
    """As the library raises it."""


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (PanicException("index out of range"), "index out of range"),
        (Exception("WordLevel error: Missing [UNK] token"), "Missing"),
        (ValueError("no such thing"), "no such thing"),
    ],
)
def test_whatever_the_library_raises_on_a_text_is_an_error_like_others(
    tmp_path: Path, error: BaseException, reason: str
) -> None:
    found = read_text(read_folder(make_llada(tmp_path / "m", tokenizer=True)))
    assert found is not None

    class Broken:
        decoder = None

        def encode(self, *_: Any, **__: Any) -> Any:
            raise error

        decode = encode

        def id_to_token(self, _: int) -> str:
            return "a"

    object.__setattr__(found, "tokenizer", Broken())
    with pytest.raises(BadModel, match=f"fails on this text: .*{reason}"):
        found.encode_raw("x")
    for use in (found.decode, found.decode_certain, found.decode_whole):
        with pytest.raises(BadModel, match="fails on this text"):
            use([1])
    with pytest.raises(BadModel, match="fails on this text"):
        found.piece(1)


@pytest.mark.parametrize("splitter", [None, Whitespace()])
@pytest.mark.parametrize("normalizer", [None, Replace(" ", "")])
def test_a_word_that_takes_minutes_is_refused_before_it_is_taken_apart(
    tmp_path: Path, splitter: Any, normalizer: Any
) -> None:
    """10,000 letters of one word are a hundred seconds of looking for its pieces."""
    found = read_text(read_folder(make_llada(tmp_path / "m", tokenizer=True)))
    assert found is not None
    pieces = WordPiece({"[UNK]": 0, "a": 1, "##a": 2}, max_input_chars_per_word=10_000)
    tokenizer = Tokenizer(pieces)
    if splitter is not None:
        tokenizer.pre_tokenizer = splitter
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    object.__setattr__(found, "tokenizer", tokenizer)
    assert found.encode_raw("a" * 256) == [1, *[2] * 255]
    with pytest.raises(BadRequest, match="a word of 9000 characters"):
        found.encode_raw("a" * 9000)
    if splitter is not None and normalizer is None:
        assert found.encode_raw("a " * 200) == [1] * 200
    else:
        with pytest.raises(BadRequest, match="words of at most 256"):
            found.encode_raw("a " * 300)


def test_nobody_else_calls_the_library_to_decode() -> None:
    """One guarded place: whoever decodes past it lets panics through."""
    source = Path(codec.__file__).parents[2]
    calls = [
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        if re.search(r"tokenizer\.(decode|encode)\(", path.read_text(encoding="utf-8"))
    ]
    assert sorted(calls) == ["loading/text/text.py", "loading/text/tokenizer_child.py"]


def test_added_tokens_are_tried_between_letters(tmp_path: Path) -> None:
    """What is put before a text is put before each piece between two added tokens."""
    value = json.loads(byte_tokenizer(LLADA_MARKERS).to_str())
    added = [*value["added_tokens"], {**value["added_tokens"][0], "content": "q", "id": 287}]
    prefix = {"type": "Prepend", "prepend": "xyzxyz"}
    folder = folder_with(tmp_path / "a", normalizer=prefix, added_tokens=added)
    source = (folder / "tokenizer.json").read_text()
    bounds = check_tokenizer(json.loads(source), "here", KNOWN_PATTERNS)
    assert {"q", "aq"} <= set(bounds.triggers)
    request = {"source": source, "growth": 2.0}
    assert tokenizer_child.try_out(request | {"triggers": []}) is None
    assert "tokens of a text" in str(
        tokenizer_child.try_out(request | {"triggers": bounds.triggers})
    )


def test_every_token_is_decoded_when_a_tokenizer_is_tried() -> None:
    """Also one that is shorter than hundreds of others."""
    value = json.loads(byte_tokenizer(LLADA_MARKERS).to_str())
    value["decoder"] = {"type": "Strip", "content": "q", "start": 0, "stop": 5}
    value["added_tokens"] = []
    longer = {"longer" * 2 + str(n): n + 1 for n in range(300)}
    value["model"] = {"type": "WordLevel", "unk_token": "q", "vocab": {"q": 0} | longer}
    value["pre_tokenizer"] = None
    request = {"source": json.dumps(value), "triggers": [], "growth": 64.0}
    with pytest.raises(BaseException, match=r"range|index|slice|overflow"):
        tokenizer_child.try_out(request)


@pytest.mark.parametrize("added", [0, 3000])
def test_few_of_many_added_tokens_are_tried(added: int) -> None:
    value = json.loads(byte_tokenizer(LLADA_MARKERS).to_str())
    value["added_tokens"] = [{"content": f"<{n}>"} for n in range(added)]
    bounds = check_tokenizer(value, "here", KNOWN_PATTERNS)
    assert len(bounds.triggers) == (17 if added else 0)
    assert all(len(text) <= 2000 for text in bounds.triggers)


def test_this_process_stays_small_over_the_bombs(tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    bomb = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 60}
    chain = {"type": "Sequence", "normalizers": [bomb] * 8}
    with pytest.raises(BadModel, match="times as long"):
        read_tokenizer(folder_with(tmp_path / "a", normalizer=chain), LLADA, 288)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10


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
