"""What must hold for every family of models, on tiny folders that are made here."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from archer.errors import Incompatible
from archer.loading.architectures import ARCHITECTURES
from archer.methods.catalogue import DECODERS, POLICIES
from archer.methods.compatibility import Fit, matrix
from archer.model import Model, load
from archer.network.shape import Blocks
from support.folders import MAKE, make_a2d

FULL = [f for f in MAKE if not isinstance(ARCHITECTURES[f].attention, Blocks)]
CAUSAL = [f for f in MAKE if f not in FULL]
EXPRESSION = "[a-f]{2,5}(?:, [0-9]+)?"
PROMPTS = [[5, 6, 7, 8, 9], [11], [40, 41, 42, 43, 44, 45, 46, 47, 48]]


Opened = Callable[[str], Model]


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    """The model of a family, in float64."""
    root = tmp_path_factory.mktemp("families")
    return cache(lambda family: load(MAKE[family](root), device="cpu", dtype="float64"))


def states(model: Model, prompt: list[int], method: str, **settings: Any) -> list[list[int]]:
    """The response after every update."""
    steps = list(model.stream(prompt, method, **settings))
    assert not any(step.errors for step in steps)
    return [step.after.response[0].tolist() for step in steps]


def own(family: str) -> str:
    """The decoder its models were released with."""
    return (ARCHITECTURES[family].method or "saber-doubt").partition("+")[0]


def test_every_family_of_released_models_is_here(opened: Opened) -> None:
    assert set(MAKE) == {family for family, row in ARCHITECTURES.items() if row.models}
    for family in MAKE:
        assert opened(family).folder.architecture.family == family


def test_only_a_folder_s_own_name_tells_its_family(tmp_path: Path) -> None:
    """Not those of the folders around it."""
    folder = make_a2d(tmp_path / "opdlm-bd3lm" / "mine")
    assert load(folder).folder.architecture.family == "a2d-qwen3"


@pytest.mark.parametrize("family", FULL)
def test_radius_one_is_eager(family: str, opened: Opened) -> None:
    moved = False
    for prompt in PROMPTS[:2]:
        for decoder in dict.fromkeys(("saber", own(family))):
            kept = {"length": 8}
            eager = states(opened(family), prompt, f"{decoder}+eager", **kept)
            assert states(opened(family), prompt, f"{decoder}+archer:1", **kept) == eager
            moved |= len(eager) > 1
    assert moved


@pytest.mark.parametrize("family", CAUSAL)
def test_cached_decisions_are_the_full_ones(family: str, opened: Opened) -> None:
    """Whatever the radius."""
    for decoder, kept in ((own(family), {"block": 4}), ("saber", {})):
        kept = {"length": 7, **kept}
        for prompt in PROMPTS[:2]:
            eager = states(opened(family), prompt, f"{decoder}+eager", **kept)
            for policy in ("archer:1", "archer:inf", "surprise"):
                assert states(opened(family), prompt, f"{decoder}+{policy}", **kept) == eager


@pytest.mark.parametrize("family", MAKE)
def test_an_answer_keeps_an_expression(family: str, tmp_path: Path) -> None:
    """Block by block, too: what later blocks can be is known before they are read."""
    model = load(MAKE[family](tmp_path, tokenizer=True), device="cpu", dtype="float64")
    for method, length in ((None, 9), ("saber", 9), (own(family), 6)):
        (done,) = model.generate(PROMPTS[0], method, regex=EXPRESSION, length=length)
        assert re.fullmatch(EXPRESSION, done.text or ""), done.text


@pytest.mark.parametrize("family", MAKE)
def test_a_batch_equals_singles(family: str, opened: Opened) -> None:
    for method in (None, "archer"):
        together = opened(family).generate(PROMPTS, method, length=6, batch=3)
        for prompt, batched in zip(PROMPTS, together, strict=True):
            (alone,) = opened(family).generate(prompt, method, length=6)
            assert (batched.tokens, batched.updates) == (alone.tokens, alone.updates)
            assert batched.full_passes == alone.full_passes


@pytest.mark.parametrize("family", MAKE)
def test_each_pair_is_taken_or_refused_with_its_reason(family: str, opened: Opened) -> None:
    """As the matrix of its attention says, before any pass."""
    shape = opened(family).folder.shape
    causal = isinstance(shape.attention, Blocks)
    table = matrix(DECODERS, POLICIES, block_causal=causal)
    accepted = 0
    for decoder, part in DECODERS.items():
        one_block = part.make(**part.fixed).blocks(8) == 1
        for policy in POLICIES:
            asked = opened(family).request
            name = f"{decoder}+{policy}"
            verdict = table.get(decoder, {}).get(policy, Fit.NO)
            if verdict is Fit.NO or (verdict is Fit.ONE_BLOCK and not one_block):
                with pytest.raises(Incompatible) as refused:
                    asked([5, 6, 7], name, length=8)
                assert reason(str(refused.value), causal), name
            else:
                assert asked([5, 6, 7], name, length=8).method.name == name
                accepted += 1
    assert accepted > 100


def reason(sentence: str, causal: bool) -> bool:
    """Whether a refusal names what does not fit, and what does."""
    if "does not go with" in sentence:
        return "does not recompute them, because" in sentence and "Use a cache" in sentence
    if causal:
        return "Choose" in sentence and "block-causal" in sentence
    return "made for block-causal attention" in sentence and "such as saber" in sentence


@pytest.mark.parametrize("family", [f for f in FULL if ARCHITECTURES[f].shift])
def test_wino_is_refused_where_logits_are_shifted(family: str, opened: Opened) -> None:
    with pytest.raises(Incompatible, match="shift"):
        opened(family).generate([5, 6, 7], "wino", length=8)
