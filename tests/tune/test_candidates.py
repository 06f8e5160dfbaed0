"""What is tried by default and what a user may name."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from archer.cli.tune import line_of
from archer.errors import BadRequest
from archer.loading.source import Source
from archer.methods.build import Recommended
from archer.methods.spelling import in_full
from archer.model import Model, load
from archer.network.shape import Blocks
from archer.tune.candidates import (
    ALIKE_WHERE_EXACT,
    REFERENCE,
    Candidate,
    checked,
    given,
    parsed,
    usual,
)
from archer_studies.beyond.refresh import RULES
from archer_studies.paper import main
from runs.toy import toy_model

LENGTH = 64


@pytest.fixture(scope="module")
def model() -> Model:
    return load("pocket", device="cpu")


def made(each: Candidate) -> object:
    method = each.build(Recommended(LENGTH))
    return method.decoder, method.policy


def test_every_usual_candidate_works_and_none_is_there_twice(model: Model) -> None:
    found = usual(model, LENGTH)
    assert found[0].label == REFERENCE
    assert len({each.label for each in found}) == len(found) > 40
    methods = [made(each) for each in found]
    assert all(methods.count(each) == 1 for each in methods)
    assert not any("llada2" in each.method for each in found)


def test_the_rules_of_main_and_refresh_are_among_them(model: Model) -> None:
    """So that a search can find their frontier; those of main that lose on both counts are left out."""
    tried = [made(each) for each in usual(model, LENGTH)]
    for rule in RULES:
        if "lead" not in rule.name:
            assert made(Candidate(rule.method, rule.settings)) in tried, rule.label
    for method in main.METHODS:
        if method not in ("dkv-greedy", "dllm-cache", "no-rollback+archer"):
            settings = {"radius": 8} if method == "archer" else {}
            assert made(Candidate(method, settings)) in tried, method


def test_where_prompt_caches_are_exact_one_of_them_is_tried(model: Model) -> None:
    """Under block-causal attention they all compute the same."""
    shape = replace(model.folder.shape, attention=Blocks(32))
    causal = Model(Source("causal"), replace(model.folder, shape=shape), model.network, None)
    tried = usual(causal, LENGTH)
    caches: dict[Any, list[type]] = {}
    for each in tried:
        method = checked(each, causal, LENGTH)
        caches.setdefault(method.decoder, []).append(type(method.policy))
    exact = [sum(cache in ALIKE_WHERE_EXACT for cache in each) for each in caches.values()]
    assert len(exact) > 10
    assert set(exact) <= {0, 1}
    assert sum(exact) > len(exact) / 2
    assert {"llada2+archer", "llada2-edit+archer"} <= {in_full(each.method) for each in tried}


def test_a_candidate_is_spelled_as_it_is_told(model: Model) -> None:
    for each in usual(model, LENGTH):
        assert made(parsed(each.label)) == made(each)
    each = parsed("saber+late:0.5, doubt=0.99,doubt-by=own")
    assert each == Candidate("saber+late:0.5", {"doubt": 0.99, "doubt_by": "own"})
    assert each.label == "saber+late:0.5,doubt=0.99,doubt_by=own"
    assert line_of(each) == "--method saber+late:0.5 --set doubt=0.99 --set doubt_by=own"


def test_named_candidates_replace_the_usual_ones(tmp_path: Path) -> None:
    tiny = toy_model(tmp_path / "model")
    found = given(["archer:8", "saber+archer", "saber+eager"], tiny, 8)
    assert [each.label for each in found] == ["saber", "archer:8"]
    with pytest.raises(BadRequest, match="A candidate is METHOD,NAME=VALUE"):
        given(["archer,8"], tiny, 8)
    with pytest.raises(BadRequest, match="does not go with"):
        given(["saber+dual,block=4"], tiny, 8)
    with pytest.raises(BadRequest, match="made for block-causal attention"):
        given(["llada2+archer"], tiny, 8)
