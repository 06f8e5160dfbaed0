"""Sums in plain numbers equal those in logarithms, however far apart the weights are."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archer.passes.canvas import Ints, Reals
from archer.structure import sums
from archer.structure.links import Links
from archer.structure.sums import LINKS, Masses, Sums, best_of, log_sums

SETS = 4


def links_of(pairs: list[tuple[int, int]], kinds: Ints) -> Links:
    """Links between these states, by their sources; of the classes only their sets count here."""
    source, target = np.array(sorted(pairs), dtype=np.int64).T
    state, start = np.unique(source, return_index=True)
    nothing = np.zeros(0, dtype=np.int64)
    return Links(source, target, start, state, kinds[: len(pairs)], nothing, nothing, 0)


def in_logarithms(logs: Reals, weights: Reals, links: Links) -> Reals:
    """The slow twin."""
    return log_sums(logs[links.target] + weights[links.kinds], links, len(logs))


def beyond(fast: Sums, logs: Reals, weights: Reals) -> Reals:
    return fast.beyond(logs, Masses.of(weights[None]), 0)


@given(st.data(), st.integers(2, 6), st.sampled_from([1.0, 30.0, 300.0, 5000.0]))
def test_columns_are_those_in_logarithms(data: st.DataObject, states: int, width: float) -> None:
    state = st.integers(0, states - 1)
    pairs = data.draw(st.lists(st.tuples(state, state), min_size=1, max_size=14, unique=True))
    drawn = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    links = links_of(pairs, drawn.integers(0, SETS, len(pairs)))
    fast = Sums(links, links.target, states)
    logs = np.where(drawn.random(states) < 0.5, -np.inf, width * drawn.standard_normal(states))
    for _ in range(30):
        weights = width * drawn.standard_normal(SETS)
        expected, logs = in_logarithms(logs, weights, links), beyond(fast, logs, weights)
        np.testing.assert_allclose(logs, expected, rtol=1e-12, atol=1e-9)
        if drawn.random() < 0.1:
            logs = np.where(drawn.random(states) < 0.3, -np.inf, logs)


def test_what_was_cut_is_not_lost_once_it_matters() -> None:
    """State 0 goes to itself and to state 1, which weighs next to nothing until the other way is closed."""
    links = links_of([(0, 0), (0, 1), (1, 1)], np.array([0, 1, 1]))
    fast = Sums(links, links.target, 2)
    logs = np.array([0.0, -2 * LINKS])
    for weights in ([0.0, 0.0], [-0.3 * LINKS, 0.0], [-0.3 * LINKS, 0.0], [0.0, -0.3 * LINKS]):
        row = np.array(weights)
        expected, logs = in_logarithms(logs, row, links), beyond(fast, logs, row)
        np.testing.assert_allclose(logs, expected, rtol=1e-12)


def test_ordinary_weights_need_no_logarithms(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = [*pairwise(range(40)), *((each, each) for each in range(40))]
    drawn = np.random.default_rng(0)
    links = links_of(chain, drawn.integers(0, SETS, len(chain)))
    logs = np.where(np.arange(40) == 39, 0.0, -np.inf)
    expected = logs
    rows = 10.0 * drawn.standard_normal((200, SETS))
    for row in rows:
        expected = in_logarithms(expected, row, links)
    monkeypatch.setattr(sums, "log_sums", None)
    fast = Sums(links, links.target, 40)
    for row in rows:
        logs = beyond(fast, logs, row)
    np.testing.assert_allclose(logs, expected, rtol=1e-12)


def test_the_best_of_links_is_a_maximum() -> None:
    links = links_of([(0, 0), (0, 1), (2, 1)], np.array([0, 1, 2]))
    logs, weights = np.array([1.0, 2.0, 3.0]), np.array([5.0, 0.0, 0.5, 0.0])
    np.testing.assert_array_equal(
        best_of(logs, weights, links, links.target, 3), [6.0, -np.inf, 2.5]
    )
    np.testing.assert_array_equal(best_of(logs, None, links, links.target, 3), [2.0, -np.inf, 2.0])
