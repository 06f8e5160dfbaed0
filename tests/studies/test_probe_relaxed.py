"""The differentiable pass against the loop: its logits, and its derivatives by finite differences."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from archer.decoders.saber import Saber, SaberState
from archer.engine.walk import steps_of
from archer.methods.build import Method
from archer.model import Model, load
from archer.passes.canvas import Prompt
from archer.passes.memory import Memory
from archer.policies.prompt_cache import Archer, Eager
from archer.results.step import Step
from archer_studies.probes.derivatives import along
from support.folders import make_dream, make_llada

PROMPT = [3, 9, 27, 81, 5]
LENGTH, POSITION, TOKEN = 6, 2, 200
"""The token stands nowhere else, so that moving its embedding moves one column."""
STEP = 1e-5


def opened(folder: Path, family: str, layers: int = 2) -> Model:
    if family == "llada":
        make_llada(folder, n_layers=layers)
    else:
        make_dream(folder, num_hidden_layers=layers)
    return load(folder, device="cpu", dtype="float64")


def state_of(model: Model) -> SaberState:
    state = Saber().start(Prompt.of(PROMPT, model.folder.mask), LENGTH)
    response = state.response.copy()
    response[0, POSITION], response[0, 4] = TOKEN, 17
    return replace(state, response=response)


def step_of(model: Model, memory: Memory | None = None) -> Step[SaberState]:
    """One update: eager, or with the prompt of a memory."""
    policy = Eager() if memory is None else Archer(radius=float("inf"))
    return next(steps_of(model.network, Method(Saber(), policy), state_of(model), memory))


def logits_of(step: Step[SaberState]) -> Tensor:
    return step.logits.rows[0].values


@pytest.mark.parametrize("family", ["llada", "dream"])
def test_it_is_the_pass_of_the_loop_and_its_derivative(tmp_path: Path, family: str) -> None:
    model = opened(tmp_path, family)
    tokens = torch.from_numpy(np.concatenate((PROMPT, state_of(model).response[0])))
    found = along(model, tokens, len(PROMPT), POSITION, TOKEN)
    still = step_of(model)
    torch.testing.assert_close(found.logits, logits_of(still))
    memory = replace(still.memory.clone(), logits=(None,))
    weight = model.network.embedding.data
    direction = weight[TOKEN] - weight[model.folder.mask]
    moved: dict[bool, list[Tensor]] = {True: [], False: []}
    before = weight[TOKEN].clone()
    for sign in (1, -1):
        weight[TOKEN] = before + sign * STEP * direction
        moved[True].append(logits_of(step_of(model)))
        moved[False].append(logits_of(step_of(model, memory.clone())))
    for whole, derivative in ((True, found.fresh), (False, found.anchored)):
        slope = (moved[whole][0] - moved[whole][1]) / (2 * STEP)
        torch.testing.assert_close(derivative, slope, rtol=1e-4, atol=1e-6)
    assert float(found.feedback.norm()) > 1e-3 * float(found.fresh.norm())


def test_one_layer_has_no_way_through_the_prompt(tmp_path: Path) -> None:
    model = opened(tmp_path, "llada", layers=1)
    tokens = torch.from_numpy(np.concatenate((PROMPT, state_of(model).response[0])))
    found = along(model, tokens, len(PROMPT), POSITION, TOKEN)
    assert float(found.fresh.norm()) > 0
    assert float(found.feedback.abs().max()) < 1e-12
