"""Sudoku: puzzles with one solution, sets that share nothing, and what pocket-sudoku is trained on."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pathlib import Path
from random import Random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import Environment

import archer
from archer.pocket import grids
from archer.pocket.tokenizer import BEGIN, END, MASK
from pocket_training import checkpoint
from pocket_training.checkpoint import Progress
from pocket_training.export import export
from pocket_training.generator.grids import (
    SETS,
    pattern,
    puzzle,
    puzzle_set,
    solution,
    solutions,
    split_of,
)
from pocket_training.grids import (
    CHECKED,
    FEWEST_MASKS,
    LESSONS,
    PIECES,
    TEMPLATE,
    Grids,
    fill,
    row,
)
from pocket_training.learner import Learner
from pocket_training.objective import MOST_SLIPS, mask
from pocket_training.recipe import Recipe
from pocket_training.variants import VARIANTS

SUBJECT = Grids()
RECIPE = Recipe(model="pocket-sudoku", pool=64)


def naive_solutions(cells: str) -> list[str]:
    """All of them, cell by cell and without any cleverness."""
    if grids.EMPTY not in cells:
        return [cells]
    place, size = cells.index(grids.EMPTY), grids.size_of(cells)
    seen = {cells[at] for unit in grids.units(size) if place in unit for at in unit}
    left = [str(digit) for digit in range(1, size + 1) if str(digit) not in seen]
    return [
        each
        for digit in left
        for each in naive_solutions(cells[:place] + digit + cells[place + 1 :])
    ]


@pytest.mark.parametrize(
    "split", [pytest.param(split, marks=pytest.mark.slow) for split in grids.HELD]
)
def test_published_sets_are_what_the_generator_makes(split: grids.HeldOut) -> None:
    assert puzzle_set(split) == grids.load(split)


@pytest.mark.parametrize("split", grids.HELD)
def test_published_puzzles_have_one_solution_and_a_pattern_of_their_own(
    split: grids.HeldOut,
) -> None:
    puzzles = grids.load(split)
    assert len({pattern(each.solution) for each in puzzles}) == len(puzzles) == grids.HELD[split]
    home, size, least = SETS[split]
    assert {split_of(each.solution) for each in puzzles} == {home}
    for each in puzzles:
        assert grids.solves(each.solution, each.givens)
        assert each.size == size
        assert len(each.givens) - each.givens.count(grids.EMPTY) >= least
    for each in puzzles[:300]:
        assert solutions(each.givens, 2) == [each.solution]


def test_sets_share_no_pattern() -> None:
    seen = [{pattern(each.solution) for each in grids.load(split)} for split in grids.HELD]
    assert all(not first & second for first, second in combinations(seen, 2))


@given(st.integers(0, 10_000), st.sampled_from([4, 6]))
def test_no_given_can_be_left_out(index: int, size: int) -> None:
    drawn = puzzle("train", index, size)
    assert drawn == puzzle("train", index, size)
    assert drawn.size == size
    assert solutions(drawn.givens, 2) == [drawn.solution]
    for place, digit in enumerate(drawn.givens):
        if digit != grids.EMPTY:
            fewer = drawn.givens[:place] + grids.EMPTY + drawn.givens[place + 1 :]
            assert len(solutions(fewer, 2)) == 2


@given(st.randoms(use_true_random=False), st.integers(4, 12))
def test_the_search_finds_what_the_naive_one_finds(rng: Random, number: int) -> None:
    cells = list(solution(rng, "train", 4))
    for place in rng.sample(range(16), number):
        cells[place] = grids.EMPTY
    givens = "".join(cells)
    assert sorted(solutions(givens, 1000)) == sorted(naive_solutions(givens))


def test_all_small_grids_are_found_and_contradictions_are_not() -> None:
    every = solutions(grids.EMPTY * 16, 1000)
    assert len(set(every)) == len(every) == 288
    assert len({pattern(each) for each in every}) == 12
    assert solutions("11" + grids.EMPTY * 14, 1) == []


def test_a_pattern_is_the_same_under_other_names_of_the_digits() -> None:
    drawn = solution(Random(0), "train", 6)
    renamed = drawn.translate(str.maketrans("123456", "351624"))
    assert renamed != drawn
    assert pattern(renamed) == pattern(drawn)
    assert split_of(renamed) == split_of(drawn)


def test_only_grids_of_the_train_split_are_trained_on() -> None:
    batches = SUBJECT.pool(RECIPE, 3, 0.0)
    assert batches == SUBJECT.pool(RECIPE, 3, 0.0)
    assert batches != SUBJECT.pool(RECIPE, 4, 0.0)
    assert 94 in {len(batch.tokens[0]) for batch in SUBJECT.pool(RECIPE, 3, 0.9)}
    texts = [
        "".join(PIECES[token] for token in line[4:-1]) for batch in batches for line in batch.tokens
    ]
    cells = [text.replace("\n", "") for text in texts]
    assert len(cells) == RECIPE.pool
    assert {len(each) for each in cells} == {16, 36}
    for each in cells:
        assert split_of(each) == "train"
        assert grids.solves(each, grids.EMPTY * len(each))


def test_few_cells_are_masked_at_first_and_line_breaks_seldom() -> None:
    for lesson in LESSONS.values():
        assert lesson.most(lesson.begins) == FEWEST_MASKS
        assert FEWEST_MASKS < lesson.most((lesson.begins + lesson.all_masks) / 2) < 1.0
        assert lesson.most(lesson.all_masks) == lesson.most(1.0) == 1.0
    source = torch.Generator().manual_seed(0)
    breaks = PIECES.index("\n")
    hidden = shown = 0
    for batch in SUBJECT.pool(RECIPE, 0, 0.0):
        assert batch.most == FEWEST_MASKS
        masked = mask(batch, SUBJECT.mask, source)
        hidden_here = masked.tokens == SUBJECT.mask
        assert hidden_here.sum(1).max() <= 36 / 2
        lines = masked.truth == breaks
        hidden, shown = hidden + int((hidden_here & lines).sum()), shown + int(lines.sum())
        for line, kept in zip(masked.holes, batch.shown, strict=True):
            assert not line[kept].any()
    assert 0 <= hidden < 0.1 * shown


def test_weights_count_the_columns_that_may_be_masked() -> None:
    (batch, *_) = SUBJECT.pool(RECIPE, 0, 0.0)
    batch = replace(batch, most=0.5, checked=0.0)
    masked = mask(batch, SUBJECT.mask, torch.Generator().manual_seed(0))
    rows, columns = masked.truth.shape
    may = columns - 4 - torch.tensor([len(kept) for kept in batch.shown])
    rates = 1.0 / (masked.weights[:, 0] * may * rows)
    assert (rates < 0.5).all()
    assert len(set((rates * 2 * rows).int().tolist())) == rows


def test_in_some_rows_shown_digits_are_wrong_and_all_are_asked_for() -> None:
    (batch, *_) = SUBJECT.pool(replace(RECIPE, pool=400), 0, 0.5)
    tokens, masked = torch.tensor(batch.tokens), []
    for checked in (0.0, CHECKED):
        source = torch.Generator().manual_seed(0)
        masked.append(mask(replace(batch, checked=checked), SUBJECT.mask, source))
    plain, slipped = masked
    shown = slipped.holes & ~plain.holes
    rows = shown.any(dim=1)
    assert 0 < rows.sum() < len(tokens)
    may = torch.zeros_like(shown)
    for line, kept in zip(may, batch.shown, strict=True):
        line[4:] = True
        line[kept] = False
    assert torch.equal(slipped.holes[rows], may[rows])
    assert torch.equal(slipped.tokens[~rows], plain.tokens[~rows])
    wrong = slipped.tokens != tokens
    assert 0 < wrong[shown].float().mean() < MOST_SLIPS
    assert not (wrong & ~slipped.holes).any()
    assert torch.equal(slipped.truth, tokens)
    each = 1.0 / (may.sum(1, keepdim=True) * len(tokens))
    assert torch.allclose(slipped.weights[shown], each.expand_as(shown)[shown])
    assert torch.equal(slipped.weights[plain.holes], plain.weights[plain.holes])


def test_a_row_is_what_the_tokenizer_makes_of_the_text() -> None:
    drawn = puzzle("train", 0, 9)
    template = Environment().from_string(TEMPLATE)
    said = [{"role": "user", "content": grids.message(9)}]
    text = template.render(messages=said, bos_token=BEGIN) + grids.lines(drawn.solution) + END
    assert SUBJECT.tokenizer().encode(text, add_special_tokens=False).ids == row(drawn.solution)
    assert SUBJECT.tokenizer().decode(row(drawn.solution), skip_special_tokens=False) == text
    assert row(drawn.givens).count(PIECES.index(MASK)) == drawn.givens.count(grids.EMPTY)
    assert len(row(drawn.solution)) - 4 == Grids.response


def test_filling_keeps_what_is_given() -> None:
    network = Learner(0, VARIANTS["pocket-sudoku"]).average
    puzzles = grids.load("dev")[:3]
    for sure in (1.0, 0.0):
        for cells, each in zip(fill(network, puzzles, sure), puzzles, strict=True):
            assert grids.EMPTY not in cells
            assert all(g in (grids.EMPTY, c) for g, c in zip(each.givens, cells, strict=False))
    watched = SUBJECT.watch(network, 2)
    assert set(watched.scores) == {"solved", "at_once"}
    assert [each["givens"] for each in watched.answers] == [each.givens for each in puzzles[:2]]


def test_the_exported_folder_writes_grids(tmp_path: Path) -> None:
    learner = Learner(0, VARIANTS["pocket-sudoku"])
    progress = Progress(0, 7, 2, 99, 1.5, "pocket-sudoku")
    checkpoint.save(tmp_path / "run", progress, learner.tensors())
    export(tmp_path / "run", tmp_path / "model")
    model = archer.load(tmp_path / "model", device="cpu", dtype="float32")
    assert model.folder.length == Grids.response
    assert model.folder.shape == learner.network.shape
    request = model.request(grids.message(9))
    assert list(request.prompts[0].prefix) == row(grids.EMPTY * 81)[:4]
    card = (tmp_path / "model" / "README.md").read_text()
    assert "# pocket-sudoku\n" in card
    assert "99 sequences" in card
