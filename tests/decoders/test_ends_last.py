"""The setting eos = confidence for every decoder: an end id may be chosen, and is chosen last."""

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
import torch

from archer.decoders.wrappers import Guided
from archer.methods.build import build
from archer.methods.catalogue import DECODERS
from archer.passes.canvas import Prompt
from archer.passes.logits import Logits

VOCABULARY, MASK, ENDS, LENGTH = 10, 9, (1, 2), 8
END_COLUMNS = [2, 5]
BY_CHANCE = {"random", "fixed-order", "remdm-sampling"}
"""Decoders whose order does not ask how sure the model is."""
PROMPT = Prompt.of([4] * LENGTH, MASK, eos=(1,), ends=ENDS)


def some_logits(columns: int) -> torch.Tensor:
    """[1, columns, V]: sure of an end id in two columns, and of little elsewhere."""
    values = torch.randn(
        (1, columns, VOCABULARY), generator=torch.Generator().manual_seed(3), dtype=torch.float64
    )
    values[..., [MASK, *ENDS]] = -9.0
    for column, end in zip(END_COLUMNS, ENDS, strict=True):
        values[0, column] = -9.0
        values[0, column, end] = 30.0
        values[0, column, 4] = 20.0
    return values


def made(name: str, **settings: Any) -> Any:
    """The decoder with one block and few updates to choose in, wrapped as methods wrap it."""
    known = {item.name for item in fields(DECODERS[name].make)} - DECODERS[name].fixed.keys()
    wanted = {"block": LENGTH, "steps": 4, "mu": 1} | settings
    kept = {key: value for key, value in wanted.items() if key in {*known, "eos", "guidance"}}
    return build(f"{name}+eager", {"length": LENGTH, **kept}).decoder


def first_decision(decoder: Any) -> Any:
    state = decoder.start(PROMPT, LENGTH)
    canvas = decoder.canvas(state)
    columns = canvas.columns - canvas.response.start
    values = some_logits(columns).expand(2 if isinstance(decoder, Guided) else 1, -1, -1)
    return decoder.step(state, Logits.dense(values, MASK))[1]


SETTINGS: list[dict[str, Any]] = [
    {},
    {"temperature": 0.3},
    {"temperature": 0.3, "top_p": 0.9, "top_k": 3},
    {"guidance": 0.5},
]
ORDERS: dict[str, list[dict[str, Any]]] = {
    "dream": [
        {"alg": alg, "temperature": heat}
        for alg in ("maskgit_plus", "topk_margin", "entropy")
        for heat in (0.0, 0.3)
    ],
    "entropy-bound": [
        {"proxy": proxy, "gamma": 0.0} for proxy in ("entropy", "confidence", "margin")
    ],
}
CASES = [
    pytest.param(name, settings, id=f"{name}-{settings}")
    for name in DECODERS
    for settings in SETTINGS + ORDERS.get(name, [])
]


@pytest.mark.parametrize(("name", "settings"), CASES)
def test_an_end_id_keeps_its_column_and_comes_last(name: str, settings: dict[str, Any]) -> None:
    plain = first_decision(made(name, **settings))
    late = first_decision(made(name, eos="confidence", **settings))
    assert late.tokens[0, END_COLUMNS].tolist() == plain.tokens[0, END_COLUMNS].tolist() == [1, 2]
    assert late.tokens[0, :LENGTH].tolist() == plain.tokens[0, :LENGTH].tolist()
    assert (plain.confidence[0, END_COLUMNS] > 0.9).all()
    assert (late.confidence[0, END_COLUMNS] == 0).all()
    assert np.isfinite(late.confidence[0, :LENGTH]).all()
    others = [column for column in range(LENGTH) if column not in END_COLUMNS]
    assert (late.confidence[0, others] > 0).all()
    if name not in BY_CHANCE:
        assert plain.accepted[0, END_COLUMNS].any()
        assert late.accepted.any()
        assert not late.accepted[0, END_COLUMNS].any()
