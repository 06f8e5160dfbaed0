"""A prompt's samples and the question laid out on them: columns, keys, selection."""

import dataclasses
import hashlib

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from archer.passes.canvas import Canvas, Prompt

MASK = 9
PROMPT = [1, 2, 3]

ids = st.lists(st.integers(0, 8), min_size=1, max_size=6)


def canvas() -> Canvas:
    response = np.array([[7, MASK], [MASK, MASK], [MASK, 8]])
    block = np.array([[0, 2], [0, 1], [1, 2]])
    reads = np.array([[True, False], [False, False], [True, True]])
    return Canvas.plain(Prompt.of(PROMPT, MASK, samples=3), response, block, reads)


@given(ids, st.integers(1, 4), st.integers(0, 3), st.integers(0, 3))
def test_a_key_depends_on_seed_prompt_and_number_alone(
    prompt: list[int], samples: int, seed: int, first: int
) -> None:
    keys = Prompt.of(prompt, MASK, samples=samples, seed=seed, first=first).keys
    assert len(set(keys)) == len(keys) == samples
    assert all(0 <= key < 2**63 for key in keys)
    alone = [Prompt.of(prompt, MASK, seed=seed, first=first + each).keys for each in range(samples)]
    assert [(key,) for key in keys] == alone
    others = Prompt.of([*prompt, 1], MASK, samples=samples, seed=seed, first=first)
    later = Prompt.of(prompt, MASK, samples=samples, seed=seed + 1, first=first)
    assert set(keys).isdisjoint({*others.keys, *later.keys})


@given(ids, st.none() | st.lists(st.none() | st.integers(0, 9), max_size=4), st.integers(-3, 3))
def test_keys_are_those_of_the_whole_identity_written_out(
    prompt: list[int], behind: list[int | None] | None, seed: int
) -> None:
    about = (tuple(behind),) if behind and any(each is not None for each in behind) else ()
    whole = (repr((seed, tuple(prompt), sample, *about)).encode() for sample in (2, 3, 4))
    digests = [hashlib.blake2b(each, digest_size=8).digest() for each in whole]
    keys = Prompt.of(prompt, MASK, given=behind, samples=3, seed=seed, first=2).keys
    assert keys == tuple(int.from_bytes(each, "big") >> 1 for each in digests)


def test_keys_are_the_same_in_every_process() -> None:
    """A fixed value: a seed must reproduce a text next year and on another machine."""
    assert Prompt.of([1, 2, 3], MASK, seed=7).keys == (8511705530723407487,)


def test_a_plain_canvas_is_prompt_then_response() -> None:
    asked = canvas()
    assert asked.tokens.tolist() == [
        [1, 2, 3, 7, MASK],
        [1, 2, 3, MASK, MASK],
        [1, 2, 3, MASK, 8],
    ]
    assert (asked.rows, asked.columns, asked.response) == (3, 5, slice(3, 5))
    assert asked.block.tolist() == [[3, 5], [3, 4], [4, 5]]
    assert asked.reads[:, :3].any().item() is False
    assert asked.reads[:, 3:].tolist() == [[True, False], [False, False], [True, True]]
    assert asked.placed().tolist() == [[7, MASK], [MASK, MASK], [MASK, 8]]
    assert asked.positions is None
    assert asked.visible is None


def test_what_can_be_revised_is_response_and_scratch() -> None:
    asked = canvas()
    scratch = np.full((3, 2), MASK)
    wide = dataclasses.replace(asked, tokens=np.concatenate((asked.tokens, scratch), axis=1))
    assert wide.revisable().tolist() == [[False] * 3 + [True] * 4] * 3
    assert wide.everything().tolist() == [[True] * 7] * 3
    assert wide.scratch().tolist() == [[False] * 5 + [True] * 2] * 3
    assert wide.masked_in(wide.tokens).astype(int).tolist() == [
        [0, 0, 0, 0, 1, 0, 0],
        [0, 0, 0, 1, 1, 0, 0],
        [0, 0, 0, 1, 0, 0, 0],
    ]
    assert wide.current().astype(int).tolist() == [
        [0, 0, 0, 1, 1, 0, 0],
        [0, 0, 0, 1, 0, 0, 0],
        [0, 0, 0, 0, 1, 0, 0],
    ]
    assert wide.placed().shape == (3, 2)


def test_selecting_rows_takes_every_field_along() -> None:
    asked = dataclasses.replace(
        canvas(),
        positions=np.arange(15).reshape(3, 5),
        visible=np.arange(75).reshape(3, 5, 5) % 2 == 0,
    )
    picked = asked.select([2, 0])
    assert picked.response == asked.response
    for name in ("tokens", "block", "reads", "positions", "visible"):
        assert np.array_equal(getattr(picked, name), getattr(asked, name)[[2, 0]]), name
    bare = canvas().select([1])
    assert bare.positions is None
    assert bare.visible is None
