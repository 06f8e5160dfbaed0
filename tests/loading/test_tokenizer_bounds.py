"""Tokenizers: Dream's layout, bounds that real ones keep to, and what slips by is tried out."""

import json
import re
import resource
import shutil
import statistics
import time
from contextlib import suppress
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
from archer.loading.architecture import Architecture
from archer.loading.checkpoint import read_folder
from archer.loading.families.dream import DREAM
from archer.loading.families.llada import LLADA
from archer.loading.text import child_process, text_child
from archer.loading.text import text as codec
from archer.loading.text.text import read_text
from archer.loading.text.tokenizer_bounds import check_tokenizer
from archer.loading.text.tokenizer_files import KNOWN_PATTERNS, read_tokenizer, token_names
from archer.pocket.tokenizer import PIECE
from conftest import shared
from support.folders import LLADA_MARKERS, byte_tokenizer, make_dream, make_llada, write_json
from support.malformed_tokenizer import CONFINED
from support.spoil import Case, tokenizer_json


def tokenizer_of(folder: Path, architecture: Architecture, vocabulary: int) -> Tokenizer | None:
    """Without the process that encodes, if there is one."""
    read = read_tokenizer(folder, architecture, vocabulary)
    if read is not None and read[1] is not None:
        read[1].close()
    return None if read is None else read[0]


@pytest.mark.parametrize(
    "name", ["qwen2.5/tokenizer.json", "dream-v0-instruct-7b/tokenizer.derived.json"]
)
def test_real_tokenizers_encode_in_this_process(name: str) -> None:
    path = shared("data", "tokenizers", *name.split("/"))
    value = json.loads(path.read_text(encoding="utf-8"))
    assert check_tokenizer(value, str(path), KNOWN_PATTERNS)


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
def test_unusual_tokenizers_encode_in_a_process_of_their_own(
    tmp_path: Path, normalizer: dict[str, Any]
) -> None:
    folder = make_llada(tmp_path / "m", tokenizer=True)
    tokenizer_json(lambda value: value.update(normalizer=normalizer))(folder)
    found = read_text(read_folder(folder))
    assert found is not None
    assert found.child is not None
    for text in ("a b", "\u2581x é", "中🙂"):
        expected = found.tokenizer.encode(text, add_special_tokens=False).ids
        assert found.encode_raw(text) == expected
        splitter = found.tokenizer.pre_tokenizer
        assert found.words(text) == [word for word, _ in splitter.pre_tokenize_str(text)]
    found.child.close()


def quicker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes with a second for a text."""
    program = tmp_path / "quicker.py"
    source = Path(text_child.__file__).read_text()
    program.write_text(source.replace("CPU_SECONDS = 2", "CPU_SECONDS = 1"))
    monkeypatch.setattr(text_child, "__file__", str(program))


SLOW_TEXTS = {
    "currency signs, then a letter": "$€" * 126 + "x",
    "a slow pattern": "a" * 2000 + "!",
    "a pattern slow on one script": "\u03b1" * 2000 + "!",
    "a pattern slow on one letter": "q" * 2000 + "!",
    "a nested repetition": "a" * 2000 + "!",
    "a pattern slow on a letter given by number": "q" * 2000 + "!",
    "a pattern slow on a range": "bcd" * 700 + "!",
    "a few prefixes": "a b " * 2_000_000,
    "one long replacement": "a" * 500_000,
    "a chain over several letters": "abcd" * 200_000,
    "half a chain in each": "a" * 900_000,
    "prefixes in nested sequences, between added tokens": "aq" * 400_000,
    "letters for bytes, again and again": "中" * 300_000,
}
QUICK = 3


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if place >= QUICK else [])
        for place, name in enumerate(SLOW_TEXTS)
    ],
)
def test_a_text_that_takes_for_ever_fails_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Here nothing grows; the next text, and the same one in small, are encoded."""
    quicker(tmp_path, monkeypatch)
    (case,) = (each for each in CONFINED if each.name == f"tokenizer: {name}")
    folder = case.make(tmp_path / "m")
    case.spoil(folder)
    found = read_text(read_folder(folder))
    assert found is not None
    assert found.child is not None
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises((BadRequest, BadModel), match=r"too much time or memory|fails on this text"):
        found.encode_raw(SLOW_TEXTS[name])
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10
    assert found.encode_raw("x y")
    found.child.close()


@pytest.mark.slow
@pytest.mark.parametrize("case", CONFINED, ids=lambda case: case.name)
def test_whatever_a_tokenizer_does_it_does_elsewhere(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quicker(tmp_path, monkeypatch)
    folder = case.make(tmp_path / "m")
    case.spoil(folder)
    found = read_text(read_folder(folder))
    assert found is not None
    assert found.child is not None
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for text in (
        "a" * 3000 + "!",
        "q" * 3000 + "!",
        "\u03b1中" * 1000,
        "$€" * 1000 + "x",
        "ab " * 9000,
    ):
        with suppress(BadRequest, BadModel):
            assert all(id < 288 for id in found.encode_raw(text))
    assert found.encode_raw("x y")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10
    found.child.close()


def test_plain_patterns_take_time_that_grows_with_the_text() -> None:
    """The ones that encode here: twice the text takes about twice as long, whatever it consists of."""
    value = json.loads(byte_tokenizer(LLADA_MARKERS).to_str())
    ratios = []
    for pattern in sorted(KNOWN_PATTERNS):
        split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated"}
        tokenizer = Tokenizer.from_str(
            json.dumps(value | {"pre_tokenizer": split | {"invert": False}})
        )
        for sign in ("a", " ", "\n", " \n", "1", "'", "$", "é", "a'", "\t "):
            taken: list[list[float]] = [[], []]
            for _ in range(3):
                for place, count in enumerate((2000, 8000)):
                    text = sign * (count // len(sign)) + "x"
                    began = time.process_time()
                    tokenizer.encode(text, add_special_tokens=False)
                    taken[place].append(time.process_time() - began)
            short, long = map(statistics.median, taken)
            ratios.append((long / max(short, 1e-4), pattern, sign))
    assert max(ratios)[0] < 12, max(ratios)


def test_a_process_that_ends_badly_is_a_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folder_with(tmp_path / "a", normalizer={"type": "Prepend", "prepend": "x"})
    monkeypatch.setattr(child_process, "WALL_SECONDS", 1.0)
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
        monkeypatch.setattr(text_child, "__file__", str(child))
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

        def encode_batch_fast(self, *_: Any, **__: Any) -> Any:
            raise error

        decode = encode_batch_fast

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
    assert sorted(calls) == ["loading/text/text.py", "loading/text/text_child.py"]


def test_every_token_is_decoded_when_a_tokenizer_is_tried() -> None:
    """Also one that is shorter than hundreds of others."""
    value = json.loads(byte_tokenizer(LLADA_MARKERS).to_str())
    value["decoder"] = {"type": "Strip", "content": "q", "start": 0, "stop": 5}
    value["added_tokens"] = []
    longer = {"longer" * 2 + str(n): n + 1 for n in range(300)}
    value["model"] = {"type": "WordLevel", "unk_token": "q", "vocab": {"q": 0} | longer}
    value["pre_tokenizer"] = None
    with pytest.raises(BaseException, match=r"range|index|slice|overflow"):
        text_child.encoding(json.dumps(value))({"try": "longer"})


def test_a_token_that_becomes_a_long_text_is_refused() -> None:
    value = json.loads(byte_tokenizer(LLADA_MARKERS).to_str())
    long = {"type": "Replace", "pattern": {"String": "a"}, "content": "b" * 60_000}
    value["decoder"] = {"type": "Sequence", "decoders": [long, value["decoder"]]}
    with pytest.raises(ValueError, match="bytes of one token"):
        text_child.encoding(json.dumps(value))({"try": "x"})


def test_more_tokens_than_a_line_may_hold_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_child, "LONGEST_OUTPUT", 10)
    encode = text_child.encoding(byte_tokenizer(LLADA_MARKERS).to_str())
    with pytest.raises(ValueError, match="makes 11 tokens of 11 characters"):
        encode({"encode": ["a" * 6, "a" * 5]})


@pytest.mark.parametrize(
    ("changes", "here"),
    [
        ({}, True),
        ({"normalizer": {"type": "NFC"}}, True),
        ({"normalizer": {"type": "NFKC"}}, False),
        ({"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}] * 9}}, False),
        ({"normalizer": {"type": "Sequence"}}, False),
        ({"normalizer": {"type": "Sequence", "normalizers": 7}}, False),
        ({"normalizer": {"type": "NFC", "normalizers": [{"type": "NFKC"}]}}, False),
        ({"pre_tokenizer": {"type": "Split", "pattern": {"String": " "}}}, True),
        ({"pre_tokenizer": {"type": "Split", "pattern": {"Regex": PIECE}}}, True),
        ({"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "a+"}}}, False),
        ({"pre_tokenizer": {"type": "Split", "pattern": 3}}, False),
        ({"pre_tokenizer": "NFC"}, False),
        ({"post_processor": {"type": "TemplateProcessing"}}, False),
        ({"model": {"type": "Unigram", "vocab": [["a", 0.0]]}}, False),
        ({"model": {"vocab": {"a": 0}}}, False),
        ({"model": {"type": "BPE", "vocab": {"a": 0}, "unk_token": "b"}}, False),
        ({"model": {"type": "BPE", "vocab": {"a": 0}, "end_of_word_suffix": 7}}, False),
        (
            {"model": {"type": "WordPiece", "vocab": {"a": 0}, "max_input_chars_per_word": 1e9}},
            False,
        ),
    ],
)
def test_which_tokenizers_encode_in_this_process(changes: dict[str, Any], here: bool) -> None:
    value = json.loads(byte_tokenizer(LLADA_MARKERS).to_str())
    assert check_tokenizer(value | changes, "here", KNOWN_PATTERNS) == here


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
    tokenizer = tokenizer_of(folder, DREAM, 152064)
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
    read = tokenizer_of(tmp_path, LLADA, 288)
    assert read is not None
    assert len(ids(read, "abcde")) == 5


def test_the_complete_file_wins(tmp_path: Path) -> None:
    make_dream(tmp_path, tokenizer=True)
    byte_tokenizer(("<|only|>",)).save(str(tmp_path / "tokenizer.json"))
    read = tokenizer_of(tmp_path, DREAM, 288)
    assert read is not None
    assert read.token_to_id("<|only|>") == 256
    assert read.token_to_id("<|im_end|>") is None


def test_added_tokens_from_either_file(tmp_path: Path) -> None:
    make_dream(tmp_path, tokenizer=True)
    expected = tokenizer_of(tmp_path, DREAM, 288)
    assert expected is not None
    added = (tmp_path / "added_tokens.json").read_text()
    (tmp_path / "added_tokens.json").unlink()
    from_config = tokenizer_of(tmp_path, DREAM, 288)
    (tmp_path / "added_tokens.json").write_text(added)
    (tmp_path / "tokenizer_config.json").unlink()
    from_list = tokenizer_of(tmp_path, DREAM, 288)
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
