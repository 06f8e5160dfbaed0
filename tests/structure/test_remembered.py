"""What is remembered of structures is bounded by number and by size, and so is the work for one update."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from archer.errors import BadRequest
from archer.model import Model, load
from archer.structure import constraint
from archer.structure.byte_automaton import of_regex
from archer.structure.token_automaton import Remembered, TokenAutomaton, kept_bytes, over_tokens
from structure.test_constraint import VOCABULARY


@dataclass(frozen=True)
class Made:
    array: NDArray[np.uint8]


def of_size(size: int) -> Made:
    return Made(np.zeros(size, dtype=np.uint8))


def test_what_was_used_last_is_kept_within_the_bytes() -> None:
    kept: Remembered[int, Made] = Remembered(100, most_bytes=1000)
    for number in range(50):
        kept.get(number, lambda _: of_size(300))
        assert kept.known(0) is not None, "it was used all the time"
    assert [each for each in range(50) if kept.known(each)] == [0, 48, 49]


def test_no_more_than_so_many_are_kept() -> None:
    kept: Remembered[int, Made] = Remembered(4)
    for number in range(20):
        kept.get(number, lambda _: of_size(1))
    assert [each for each in range(20) if kept.known(each)] == [16, 17, 18, 19]


def test_one_that_is_too_large_is_kept_alone() -> None:
    kept: Remembered[int, Made] = Remembered(4, most_bytes=10)
    small, large = kept.get(1, lambda _: of_size(4)), kept.get(2, lambda _: of_size(400))
    assert kept.known(1) is None
    assert kept.get(2, lambda _: of_size(1)) is large
    kept.get(1, lambda _: small)
    assert kept.known(2) is None


def test_everything_that_is_kept_of_an_automaton_is_counted() -> None:
    made = over_tokens(of_regex("[ab]{1,9}"), VOCABULARY)
    before = kept_bytes(made)
    parts = [*made.links, *made.links_to, *made.by_class]
    parts += [made.needed, made.all_tokens, made.edges_of]
    arrays = {id(part): part.nbytes for part in parts if isinstance(part, np.ndarray)}
    assert kept_bytes(made) - before == sum(arrays.values())
    kept: Remembered[str, Made] = Remembered(100, most_bytes=1000)
    for letter in "abc":
        kept.get(letter * 400, lambda _: of_size(10))
    assert [kept.known(letter * 400) is not None for letter in "abc"] == [False, True, True]


def test_one_automaton_may_be_worked_out_further_while_another_is_remembered() -> None:
    """By other threads, at any moment: what is worked out later is kept in the thing itself."""
    kept: Remembered[int, TokenAutomaton] = Remembered(40)
    made = [over_tokens(of_regex(f"[ab]{{1,{most}}}"), VOCABULARY) for most in range(1, 30)]

    def use(at: int) -> None:
        each = kept.get(at, lambda at: made[at])
        assert min(len(each.links.source), len(each.by_class), len(each.needed)) > 0

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(use, [*range(29)] * 4))


def test_parts_that_appear_while_they_are_counted_do_no_harm() -> None:
    @dataclass
    class Growing:
        first: NDArray[np.uint8]

    made = Growing(np.zeros(4, dtype=np.uint8))

    class Late(np.ndarray[Any, Any]):
        """Adds a part when it is looked at."""

        @property
        def nbytes(self) -> int:
            vars(made)["another"] = np.zeros(8, dtype=np.uint8)
            return 4

    vars(made)["late"] = np.zeros(4, dtype=np.uint8).view(Late)
    assert kept_bytes(made) == 8
    assert kept_bytes(made) == 16


@pytest.fixture(scope="module")
def pocket() -> Model:
    return load("pocket")


@pytest.mark.parametrize(
    ("regex", "cells"),
    [("[a-z ]{0,400}", 100_000), ("(?:ab|c)*", 1000), ("(?:[0-9]{3} ){1,9}", 20_000)],
)
def test_an_update_that_would_take_too_long_is_refused_with_the_most(
    pocket: Model, monkeypatch: pytest.MonkeyPatch, regex: str, cells: int
) -> None:
    pocket.request("a", regex=regex, length=200)
    monkeypatch.setattr(constraint, "MOST_CELLS", cells)
    with pytest.raises(BadRequest, match=r"too large for a response of 200 tokens") as caught:
        pocket.request("a", regex=regex, length=200)
    most = int(str(caught.value).split("Ask for at most ")[1].split()[0])
    assert most > 4
    pocket.request("a", regex=regex, length=most)
    with pytest.raises(BadRequest, match="too large"):
        pocket.request("a", regex=regex, length=most + 1)


def test_room_is_checked_before_a_structure_is_laid_out_in_it(
    pocket: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """500,000 columns are refused by the window of the model, not after work on each of them."""
    monkeypatch.setattr(constraint.Constraint, "refuse_impossible", None)
    with pytest.raises(BadRequest, match="positions"):
        pocket.request("a", regex="[a-z]+", length=500_000)


def test_a_beginning_that_the_tokenizer_refuses_is_written_like_the_rest(pocket: Model) -> None:
    """A word of more than 256 characters is refused of a prompt."""
    (form,) = pocket.request("a", regex="a{300}", length=300).prompts
    assert form.opening == ""
    assert form.constraint is not None
