"""Token healing: the text around a gap comes back byte for byte, whatever is written at the seams."""

from collections import Counter
from collections.abc import Iterator
from functools import cache

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer

from archer.errors import BadRequest
from archer.loading.text.healing import Gap, Healed, heal
from archer.loading.text.text import Text
from archer.loading.text.token_bytes import TokenBytes
from archer.pocket import tokenizer as pocket
from archer.tasks import Data, open_task
from conftest import shared

MASK, END = "<|mask|>", "<|endoftext|>"
ROWS = {
    "humaneval-single-line": 1033,
    "humaneval-multi-line": 5815,
    "humaneval-random-span": 1640,
    "humaneval-random-span-light": 164,
    "santacoder-fim": 1043,
}
"""Of each published task, the problems."""
CORPUS = (
    "def add(x, y):\n    return x + y\n\n\nfor item in items:\n    total += item\n"
    "naïve café, Übergröße, 数字 and 🙂🙂 return returns returned\n"
)


def codec(tokenizer: Tokenizer, mask: str = MASK, end: str = END) -> Text:
    added = {each.content: id for id, each in tokenizer.get_added_tokens_decoder().items()}
    return Text("made", tokenizer, None, added, frozenset({added[end]}), added[mask])


@cache
def small() -> Text:
    """A byte-pair tokenizer with some two hundred merges; characters may be cut, too."""
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = BpeTrainer(
        vocab_size=420,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([CORPUS] * 4, trainer)
    tokenizer.add_special_tokens([AddedToken(MASK), AddedToken(END)])
    return codec(tokenizer)


@cache
def qwen() -> Text:
    """Dream's own tokenizer, which is Qwen's with a mask."""
    source = shared("data", "tokenizers", "dream-v0-instruct-7b", "tokenizer.derived.json")
    return codec(Tokenizer.from_file(str(source)))


@cache
def like_llada() -> Text:
    """Normal form, splitting and decoding of LLaDA's; its vocabulary cannot be had, so Qwen's stands in."""
    tokenizer = Tokenizer(qwen().tokenizer.model)
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(END), AddedToken(MASK)])
    return codec(tokenizer)


@cache
def bundled() -> Text:
    return codec(pocket.build(), pocket.MASK, pocket.END)


def pieces(text: Text) -> TokenBytes:
    assert text.pieces is not None
    return text.pieces


def rows(step: int) -> Iterator[tuple[str, str, str, str]]:
    """Task, prefix, reference and suffix of every `step`-th published infilling problem."""
    for name in ROWS:
        for sample in open_task(name, Data(shared("data"))).samples()[::step]:
            assert sample.infill is not None
            yield name, sample.prefix, sample.infill.middle, sample.infill.suffix


TEXTS = st.text(st.sampled_from(list("detrunf +x(\n)0ïßé数🙂 ")), max_size=12) | st.sampled_from(
    [
        "",
        "retur",
        " retu",
        "urn",
        "eturn x",
        "ret",
        "\n    r",
        "\n   ",
        "na\u0308",
        "item",
        "def add",
    ]
)


@pytest.mark.parametrize("text", [small(), bundled()], ids=["byte-level", "closed"])
@given(parts=st.lists(TEXTS, min_size=2, max_size=4), data=st.data())
def test_given_text_comes_back_whatever_is_written(
    text: Text, parts: list[str], data: st.DataObject
) -> None:
    if text is bundled():
        parts = [part.encode("ascii", "ignore").decode() for part in parts]
    healed = heal(text, parts)
    assert len(healed.given) == len(parts) == len(healed.gaps) + 1
    free = sorted(pieces(text).ordinary)
    canvas, answers = list(healed.given[0]), []
    for gap, following in zip(healed.gaps, healed.given[1:], strict=True):
        length = data.draw(st.integers(gap.shortest, 4))
        sets = gap.allowed(length)
        assert set(sets) <= {0, length - 1}
        drawn = [
            data.draw(st.sampled_from(sets[place].tolist() if place in sets else free))
            for place in range(length)
        ]
        answers.append(gap.answer(drawn))
        spelled = pieces(text).join(drawn)
        inner = spelled[len(gap.before) : len(spelled) - len(gap.after)]
        assert gap.before + inner + gap.after == spelled
        assert answers[-1] == inner.decode("utf-8", "replace")
        for count in range(length):
            assert answers[-1].startswith(gap.certain(drawn[:count]))
        canvas += [*drawn, *following]
    texts = pieces(text).join(canvas)
    for part in parts:
        _, found, texts = texts.partition(part.encode()) if part else (b"", b"found", texts)
        assert found
    assert pieces(text).join(canvas).startswith(parts[0].encode())
    assert pieces(text).join(canvas).endswith(parts[-1].encode())


@given(prefix=TEXTS, middle=TEXTS, suffix=TEXTS)
def test_every_answer_can_still_be_written(prefix: str, middle: str, suffix: str) -> None:
    """By the tokens given up, with the answer's own between them."""
    text = small()
    healed = heal(text, [prefix, suffix])
    (gap,) = healed.gaps
    written = [
        *text.tokenizer.encode(prefix).ids[len(healed.given[0]) :],
        *text.tokenizer.encode(middle).ids,
        *text.tokenizer.encode(suffix).ids[
            : len(text.tokenizer.encode(suffix).ids) - len(healed.given[1])
        ],
    ]
    if written:
        assert obeys(gap, written)
        assert gap.answer(written) == middle


def obeys(gap: Gap, written: list[int]) -> bool:
    if len(written) < gap.shortest:
        return False
    sets = gap.allowed(len(written))
    return all(written[place] in ids for place, ids in sets.items())


@given(start=st.binary(max_size=3), end=st.binary(max_size=3))
def test_the_sets_are_those_of_a_search_through_the_vocabulary(start: bytes, end: bytes) -> None:
    table = pieces(small())
    known = {id: table.spelled[id] for id in sorted(table.ordinary)}
    begin = [id for id, piece in known.items() if piece.startswith(start)]
    finish = [id for id, piece in known.items() if piece.endswith(end)]
    least = len(start) + len(end)
    both = [id for id in begin if id in finish and len(known[id]) >= least]
    assert table.beginning_with(start).tolist() == begin
    assert table.ending_with(end).tolist() == finish
    assert table.around(start, end).tolist() == both


def test_a_word_cut_in_two_is_one_token_again() -> None:
    for text in (small(), qwen(), like_llada(), bundled()):
        (whole,) = text.tokenizer.encode(" return").ids
        healed = heal(text, ["x ret", "urn x"] if text is bundled() else ["x ret", "urn"])
        (gap,) = healed.gaps
        assert (gap.before, gap.after) == (b" ret", b"urn")
        assert gap.shortest == 1
        assert whole in gap.allowed(1)[0]
        assert gap.answer([whole]) == ""
        assert text.mask not in gap.allowed(3)[0]


def test_the_oracles_length_counts_what_is_given_up() -> None:
    text = small()
    (gap,) = heal(text, ["x ret", "urn x"]).gaps
    assert gap.tokens_of("") == 1
    (gap,) = heal(text, ["x ret", "+ item"]).gaps
    assert gap.tokens_of("urn x ") == len(text.tokenizer.encode(" return x +").ids)
    assert Gap(text).tokens_of("") == 1


def test_bytes_of_several_tokens_are_given_up_where_words_are() -> None:
    text = bundled()
    healed = heal(text, ["nums\n    retur", "rted(nums)"])
    (gap,) = healed.gaps
    assert len(text.tokenizer.encode("retur").ids) == 5
    assert (gap.before, gap.after) == (b"retur", b"rted")
    assert [text.piece(id) for id in gap.allowed(2)[0].tolist()] == ["return"]
    assert [text.piece(id) for id in gap.allowed(2)[1].tolist()] == [" sorted", "sorted"]
    unknown = heal(text, ["nums\n    numb", ""])
    assert unknown.gaps[0].before == b"b"


def test_tokens_of_a_middle_text_are_given_up_once() -> None:
    text = small()
    (token,) = text.tokenizer.encode("ret").ids
    healed = heal(text, ["x = 1", "ret", "x"])
    assert healed.given[1] == ()
    assert (healed.gaps[0].after, healed.gaps[1].before) == (b"ret", b"")
    assert token in healed.gaps[0].allowed(2)[1]


def test_what_is_not_healed() -> None:
    text = small()
    untouched = heal(text, ["x ret", "urn"], healing=False)
    assert untouched.gaps == (Gap(text),)
    assert untouched.given == tuple(tuple(text.tokenizer.encode(t).ids) for t in ("x ret", "urn"))
    assert heal(text, ["", ""]) == Healed(((), ()), (Gap(text),))
    assert heal(text, ["ret", ""]).gaps[0].before == b""  # the only token of the canvas
    marker = [*text.tokenizer.encode("x").ids, text.added[END]]
    assert heal(text, [marker, ""]) == Healed((tuple(marker), ()), (Gap(text),))
    behind = [*marker, *text.tokenizer.encode(" ret").ids]
    assert heal(text, [behind, ""]).gaps[0].before == b" ret"
    decomposed = heal(qwen(), ["x = 'cafe\u0301", ""])  # becomes another text in the tokenizer
    assert decomposed.gaps[0].before == b""
    foreign = heal(bundled(), ["x = café", ""])
    assert foreign.gaps[0].before == b""


def test_no_healing_where_joining_tokens_rewrites_them() -> None:
    tokenizer = Tokenizer.from_str(small().tokenizer.to_str())
    tokenizer.decoder = decoders.Metaspace()
    text = codec(tokenizer)
    assert text.pieces is None
    (gap,) = heal(text, ["x ret", "urn"]).gaps
    assert gap.allowed(1) == {}
    ids = tokenizer.encode("x").ids
    assert gap.answer(ids) == "x" == text.decode(ids)
    assert gap.certain(ids) == text.decode_certain(ids)


def test_refusals() -> None:
    text = small()
    with pytest.raises(BadRequest, match="There is no gap; give at least two texts"):
        heal(text, ["x"])
    with pytest.raises(BadRequest, match="spells the special token"):
        heal(text, ["x", MASK])
    (gap,) = heal(text, ["x ret", "+ item"]).gaps
    assert gap.shortest == 2
    with pytest.raises(BadRequest, match=r"The gap has 1 columns, but .* need 2; give it more"):
        gap.allowed(1)
    (other,) = text.tokenizer.encode("item").ids[-1:]
    with pytest.raises(BadRequest, match="The gap does not begin with the given b' ret'"):
        gap.answer([other, other])
    first = int(gap.allowed(2)[0][0])
    with pytest.raises(BadRequest, match=r"The gap does not end with the given b'\+'"):
        gap.answer([first, other])


def test_the_text_of_a_gap_says_nothing_of_half_a_character() -> None:
    text = small()
    (gap,) = heal(text, ["x r", ""]).gaps
    first = int(gap.allowed(2)[0][0])
    snake = [
        id
        for byte in "🐍".encode()
        for id in pieces(text).beginning_with(bytes([byte]))[:1].tolist()
    ]
    assert [gap.certain([first, *snake[:n]])[-1:] for n in (1, 2, 3)] == [
        gap.certain([first])[-1:]
    ] * 3
    assert gap.certain([first, *snake]).endswith("🐍")


def reached(text: Text, prefix: str, middle: str, suffix: str) -> bool:
    """Whether the tokens of the whole text can be written; the round trip is exact either way."""
    healed = heal(text, [prefix, suffix])
    (gap,) = healed.gaps
    table = pieces(text)
    before, after = healed.given
    assert table.join(before) + gap.before == prefix.encode()
    assert gap.after + table.join(after) == suffix.encode()
    ids = [list(text.tokenizer.encode(part).ids) for part in (prefix, middle, suffix)]
    plain = [*ids[0][len(before) :], *ids[1], *ids[2][: len(ids[2]) - len(after)]]
    if not plain:
        assert middle == ""
        return True
    assert obeys(gap, plain)
    assert gap.answer(plain) == middle
    whole = list(text.tokenizer.encode(prefix + middle + suffix).ids)
    inner = whole[len(before) : len(whole) - len(after)]
    same = tuple(whole) == (*before, *inner, *after)
    if not same or not inner or not obeys(gap, inner):
        return False
    assert gap.answer(inner) == middle
    assert abs(gap.tokens_of(middle) - len(inner)) <= 1
    return True


CODECS = {"qwen": qwen, "like-llada": like_llada}


@pytest.mark.parametrize("name", CODECS)
def test_a_sample_of_published_gaps(name: str) -> None:
    counted = Counter(reached(CODECS[name](), *row[1:]) for row in rows(step=60))
    assert counted[True] / counted.total() > 0.95
    assert counted[False] > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "lines", "spans", "light", "santacoder"),
    [("qwen", 0, 249, 6, 0), ("like-llada", 0, 224, 5, 7)],
)
def test_all_published_gaps(name: str, lines: int, spans: int, light: int, santacoder: int) -> None:
    """Every reference can be written; those counted only by other tokens than those of the whole text."""
    seen: Counter[str] = Counter()
    other: Counter[str] = Counter()
    for task, prefix, middle, suffix in rows(step=1):
        seen[task] += 1
        other[task] += not reached(CODECS[name](), prefix, middle, suffix)
    assert seen == ROWS
    assert [other[task] for task in ROWS] == [lines, lines, spans, light, santacoder]


def test_sets_are_tensors_of_ids_in_order() -> None:
    ids = heal(small(), ["x r", ""]).gaps[0].allowed(2)[0]
    assert ids.dtype == torch.int64
    assert ids.tolist() == sorted(set(ids.tolist()))


def test_equal_seams_share_their_sets() -> None:
    """However many gaps a small request has: a set can hold half a vocabulary."""
    healed = heal(small(), ["e ", *["e "] * 512])
    for length in (1, 2):
        sets = [
            ids for gap in healed.gaps for ids in gap.allowed(max(length, gap.shortest)).values()
        ]
        assert len(sets) >= 512
        assert len({id(ids) for ids in sets}) <= 4
