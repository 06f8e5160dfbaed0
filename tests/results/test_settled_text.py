"""Settled text: its pieces add up to the final text, for every decoder, tokenizer and stop string."""

import contextlib
import random
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders
from tokenizers.models import BPE, WordLevel

from archer.engine.job import as_stops
from archer.engine.walk import steps_of
from archer.errors import BadRequest, Stuck
from archer.loading.text.text import Text, UnsureEnd, unsure_end
from archer.methods.build import build
from archer.methods.catalogue import DECODERS
from archer.passes.canvas import Prompt
from archer.results.language import Language
from archer.results.settled_text import SettledText, first_stop
from support.folders import LLADA_MARKERS, byte_tokenizer
from support.networks import Backbone, random_network, shape
from support.pairs import prompts_of, together

END, MASK = 257, 258
PIECES = ["▁the", "▁a", "▁", "cat", "s", "aa", "ab", "b", "\n", "▁é", "<0x+F>", ".", "##ing", "🙂"]
SIZE = 288


def fallback_tokenizer(decoder: decoders.Decoder | None) -> Tokenizer:
    """Byte tokens, the markers at the same ids as in a byte-level tokenizer, then some words."""
    vocabulary = {f"<0x{byte:02X}>": byte for byte in range(256)}
    vocabulary |= {name: 256 + place for place, name in enumerate(LLADA_MARKERS)}
    vocabulary |= {name: 262 + place for place, name in enumerate(PIECES)}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token=PIECES[0]))
    if decoder is not None:
        tokenizer.decoder = decoder
    tokenizer.add_tokens([AddedToken(name, special=True) for name in LLADA_MARKERS])
    tokenizer.add_tokens([AddedToken("▁plain", special=False)])
    return tokenizer


def spoken(*parts: decoders.Decoder) -> Tokenizer:
    return fallback_tokenizer(decoders.Sequence(list(parts)))


@cache
def merging_tokenizer() -> Tokenizer:
    """Byte-level pairs: half a character may hang on a letter."""
    tokenizer = byte_tokenizer(LLADA_MARKERS)
    letters = {id: token for token, id in tokenizer.get_vocab().items() if id < 256}
    byte = {letter: letters[id] for id, letter in letters.items()}
    pairs = [(byte["Ã"], byte["©"]), (byte["ð"], byte["Ł"]), (byte["a"], byte["Ã"])]
    vocabulary = {letters[id]: id for id in letters}
    vocabulary |= {left + right: 262 + place for place, (left, right) in enumerate(pairs)}
    merging = Tokenizer(BPE(vocab=vocabulary, merges=pairs))
    merging.decoder = decoders.ByteLevel()
    return merging


def text_of(tokenizer: Tokenizer) -> Text:
    added = {each.content: id for id, each in tokenizer.get_added_tokens_decoder().items()}
    return Text("a test", tokenizer, None, added, frozenset({END, 261}), MASK)


REPLACED = decoders.Replace("▁", " ")
TEXTS = {
    "bytes": text_of(byte_tokenizer(LLADA_MARKERS)),
    "merged bytes": text_of(merging_tokenizer()),
    "metaspace": text_of(fallback_tokenizer(decoders.Metaspace())),
    "byte fallback": text_of(
        spoken(REPLACED, decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0))
    ),
    "word pieces": text_of(fallback_tokenizer(decoders.WordPiece())),
    "no decoder": text_of(fallback_tokenizer(None)),
    "rewritten": text_of(spoken(REPLACED, decoders.Fuse(), decoders.Replace("aa", "b"))),
}
UNSURE = {
    "bytes": UnsureEnd.CHARACTER,
    "merged bytes": UnsureEnd.CHARACTER,
    "byte fallback": UnsureEnd.BYTES,
    "rewritten": UnsureEnd.EVERYTHING,
}
"""What more tokens may change; nothing for the others."""


def final(text: Text, ids: list[int], stop: tuple[str, ...] = ()) -> str:
    """The reference: decode all that is visible at once, then cut."""
    end = next((at for at, id in enumerate(ids) if id in text.end_ids), len(ids))
    whole = text.decode(ids[:end])
    return whole[: first_stop(whole, stop)]


@dataclass(frozen=True)
class Told:
    """What a listener heard of a response that settled in some order."""

    pieces: list[str]
    texts: list[str]
    settled: list[int]
    """Positions settled after each update."""
    stopped: int | None
    """The update after which the text was said to be final."""
    tokens: int

    @property
    def text(self) -> str:
        return "".join(self.pieces)


def language(text: Text) -> Language:
    return Language("a codec", text.mask, eos=(), ends=text.end_ids, text=text)


def listen(
    text: Text, rounds: list[tuple[list[int], list[bool]]], stop: tuple[str, ...] = ()
) -> Told:
    told = SettledText(language(text), stop)
    pieces, texts, stopped = [], [], None
    for update, (response, settled) in enumerate(rounds):
        pieces.append(told.feed(np.array(response), np.array(settled)))
        texts.append(told.text)
        stopped = update if told.stopped and stopped is None else stopped
    return Told(pieces, texts, [sum(flags) for _, flags in rounds], stopped, told.tokens)


def in_order(text: Text, ids: list[int], order: list[int], stop: tuple[str, ...] = ()) -> Told:
    """Positions settle one by one in this order; before that they hold masks or anything else."""
    drawn = random.Random(len(ids))
    rounds = []
    for count in range(len(order) + 1):
        settled = [place in order[:count] for place in range(len(ids))]
        response = [
            id if known else drawn.choice([MASK, END, 97])
            for id, known in zip(ids, settled, strict=True)
        ]
        rounds.append((response, settled))
    return listen(text, rounds, stop)


@st.composite
def responses(draw: st.DrawFn) -> tuple[str, list[int], list[int], tuple[str, ...]]:
    """Kind of tokenizer, ids, an order, stop strings: cut out of the text, or drawn."""
    kind = draw(st.sampled_from(sorted(TEXTS)))
    likely = st.sampled_from([32, 97, 98, 0xC3, 0xA9, 0xF0, 0x9F, 0x99, 0x82, 0xEF, 0xBF, 0xBD])
    others = st.integers(0, SIZE - 1) | st.integers(262, 262 + len(PIECES) - 1)
    ids = draw(st.lists(likely | likely | others, min_size=1, max_size=14))
    order = draw(st.just(list(range(len(ids)))) | st.permutations(range(len(ids))))
    whole = TEXTS[kind].decode(ids)
    stop = []
    for _ in range(draw(st.integers(0, 3))):
        low = draw(st.integers(0, len(whole)))
        cut = whole[low : low + draw(st.integers(1, 4))] + draw(st.sampled_from(["", "", "a", "é"]))
        stop.append(cut or draw(st.text("ab \n", min_size=1, max_size=3)))
    return kind, ids, order, tuple(stop)


EXAMPLES: list[tuple[str, list[int], list[int], tuple[str, ...]]] = [
    ("bytes", [0xEF, 0xBF, 0xBD, 0xEF], [0, 1, 2, 3], ("\N{REPLACEMENT CHARACTER}",)),
    ("byte fallback", [0xC3, 0xA9, 0xFF, 97], [0, 1, 2, 3], ()),
    ("bytes", [97, 98, 97, 98, 99], [0, 1, 2, 3, 4], ("b", "abab")),
]


@pytest.mark.parametrize("examples", [200, pytest.param(5000, marks=pytest.mark.slow)])
def test_pieces_add_up_to_the_final_text(examples: int) -> None:
    def holds(case: tuple[str, list[int], list[int], tuple[str, ...]]) -> None:
        kind, ids, order, stop = case
        text = TEXTS[kind]
        told = in_order(text, ids, order, stop)
        assert told.text == final(text, ids, stop)
        for update, heard in enumerate(told.texts):
            assert final(text, ids, stop).startswith(heard)
            if told.stopped is not None and update >= told.stopped:
                assert heard == told.text
        whole = final(text, ids)
        ends = any(id in text.end_ids for id in ids)
        assert (told.stopped is not None) == (ends or first_stop(whole, stop) is not None)

    for case in EXAMPLES:
        holds(case)
    settings(max_examples=examples)(given(responses())(holds))()


@pytest.mark.parametrize("kind", TEXTS)
def test_what_more_tokens_may_change_is_told_from_the_tokenizer(kind: str) -> None:
    assert unsure_end(TEXTS[kind].tokenizer) is UNSURE.get(kind, UnsureEnd.NOTHING)


@pytest.mark.parametrize(
    "parts",
    [
        [decoders.CTC()],
        [decoders.BPEDecoder()],
        [decoders.Fuse(), decoders.Strip(" ", 0, 1)],
        [decoders.ByteLevel(), decoders.ByteFallback()],
        [decoders.ByteFallback(), decoders.ByteLevel()],
        [decoders.Fuse(), decoders.Metaspace()],
    ],
)
def test_a_tokenizer_that_may_rewrite_speaks_at_the_end_only(
    parts: list[decoders.Decoder],
) -> None:
    text = text_of(spoken(*parts))
    assert unsure_end(text.tokenizer) is UnsureEnd.EVERYTHING
    told = in_order(text, [97, 98, 262], [0, 1, 2])
    assert told.pieces == ["", "", "", text.decode([97, 98, 262])]


@given(st.lists(st.integers(0, SIZE), max_size=8), st.lists(st.integers(0, SIZE), max_size=5))
def test_certain_text_stays_whatever_follows(ids: list[int], more: list[int]) -> None:
    for kind, text in TEXTS.items():
        certain = text.decode_certain(ids)
        assert text.decode(ids).startswith(certain), kind
        assert text.decode(ids + more).startswith(certain), kind


# --- by hand ------------------------------------------------------------------------------------


def as_bytes(text: str) -> list[int]:
    return TEXTS["bytes"].encode_raw(text)


CAT = 262 + PIECES.index("cat")
Settling = tuple[list[int], list[int], tuple[str, ...], list[str], int | None, int]
# what is settled, in which order, stop strings: what is told after each update, when it stops, tokens
SETTLING: dict[str, Settling] = {
    "as far as it is settled from the left": (
        *(as_bytes("abcd"), [1, 0, 3, 2], (), ["", "", "ab", "", "cd"], None, 4),
    ),
    "a character of four bytes comes whole": (
        *(as_bytes("a🙂b"), [*range(6)], (), ["", "a", "", "", "", "🙂", "b"], None, 6),
    ),
    "half a character at the end comes with the end": (
        *(as_bytes("a🙂")[:-1], [*range(4)], ()),
        *(["", "a", "", "", "\N{REPLACEMENT CHARACTER}"], None, 4),
    ),
    "byte tokens come once a word follows": (
        *([CAT, 0xC3, 0xA9, CAT], [*range(4)], (), ["", "cat", "", "", "écat"], None, 4),
    ),
    "what may begin a stop string is held back": (
        *(as_bytes("a\n\nde\n"), [*range(6)], ("\n\ndef",)),
        *(["", "a", "", "", "", "", "\n\nde\n"], None, 6),
    ),
    "a stop string cuts": (
        *(as_bytes("a\n\ndef b"), [*range(8)], ("\n\ndef",), ["", "a", *[""] * 7], 6, 6),
    ),
    "the stop string that begins first cuts, although one inside of it is complete before": (
        *(as_bytes("xabcd"), [*range(5)], ("c", "abcd"), ["", "x", "", "", "", ""], 5, 4),
    ),
    "the one inside cuts where the other does not follow": (
        *(as_bytes("xabce"), [*range(5)], ("c", "abcd"), ["", "x", "", "", "", "ab"], 5, 4),
    ),
    "an end id ends the text before all is settled": (
        *([*as_bytes("ab"), END, *as_bytes("cd")], [2, 0, 1, 3, 4], ()),
        *(["", "", "a", "b", "", ""], 3, 3),
    ),
    "a stop string behind the end is not seen": (
        *([*as_bytes("ab"), END, *as_bytes("stop")], [3, 4, 5, 6, 0, 1, 2], ("stop",)),
        *(["", "", "", "", "", "a", "b", ""], 7, 3),
    ),
}


@pytest.mark.parametrize("name", SETTLING)
def test_text_is_told_as_it_settles(name: str) -> None:
    ids, order, stop, pieces, stopped, tokens = SETTLING[name]
    text = TEXTS["byte fallback" if CAT in ids else "bytes"]
    told = in_order(text, ids, order, stop)
    assert (told.pieces, told.stopped, told.tokens) == (pieces, stopped, tokens)


def test_tokens_count_up_to_the_one_that_completes_the_stop_string() -> None:
    ids = as_bytes("abcdef")
    told = listen(TEXTS["bytes"], [(ids, [True] * 6)], ("cd",))
    assert (told.text, told.tokens, told.stopped) == ("ab", 4, 0)


def test_stop_strings_are_one_or_several() -> None:
    assert as_stops("\n") == ("\n",)
    assert as_stops(["a", "b"]) == ("a", "b")
    with pytest.raises(BadRequest, match="A stop string is empty"):
        as_stops(["a", ""])
    with pytest.raises(BadRequest, match="A stop string must be text, not int"):
        as_stops([3])  # type: ignore[list-item]
    with pytest.raises(BadRequest, match="stop must be text or a list of texts, not int"):
        as_stops(3)  # type: ignore[arg-type]


# --- every decoder ------------------------------------------------------------------------------


@cache
def net(shift: bool) -> Backbone:
    """A random network that speaks bytes."""
    which = shape(vocabulary=SIZE, shift=shift, layers=2)
    return Backbone(random_network(which, 3, torch.float64), MASK)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("shift", [False, True])
@pytest.mark.parametrize("name", DECODERS)
def test_pieces_add_up_for_every_decoder(name: str, shift: bool) -> None:
    if name == "wino" and shift:
        pytest.skip("WINO's shadow has no meaning for shifted logits")
    chosen = {"block": 4} if name in {"wino", "editing", "threshold", "saber"} else {}
    chosen |= {"loops": 3} if name == "remdm" else {}
    method = build(name, {"length": 12, **chosen})
    for seed in range(3):
        prompts = prompts_of([[seed, 7], [70, 80 + seed, 90]], MASK, seed=seed)
        states = [method.decoder.start(prompt, method.length) for prompt in prompts]
        rounds: dict[int, list[tuple[list[int], list[bool]]]] = {0: [], 1: []}
        done = set()
        with contextlib.suppress(Stuck):
            for step in together(net(shift).network, method, states):
                settled = method.decoder.settled(step.after)
                for index, row in enumerate(step.rows):
                    response = step.after.response[index].tolist()
                    rounds[row].append((response, settled[index].tolist()))
                    done |= {row} if step.after.done[index] else set()
        assert done or name == "editing"
        for row in done:
            ids = rounds[row][-1][0]
            for text in (TEXTS["bytes"], replace(TEXTS["byte fallback"], end_ids=frozenset())):
                whole = final(text, ids)
                for stop in ((), (whole[5:7] or "a",), (whole[3:4] or "b", whole[2:5] or "c")):
                    assert listen(text, rounds[row], stop).text == final(text, ids, stop)


def test_a_rule_that_fills_from_the_left_speaks_as_it_goes() -> None:
    method = build("threshold:1", {"length": 12, "block": 1})
    told = SettledText(language(replace(TEXTS["metaspace"], end_ids=frozenset())))
    pieces = []
    for step in steps_of(
        net(False).network, method, method.decoder.start(Prompt.of([1, 7], MASK), 12)
    ):
        settled = method.decoder.settled(step.after)
        pieces.append(told.feed(step.after.response[0], settled[0]))
    assert sum(map(bool, pieces)) > 6
