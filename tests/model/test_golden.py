"""Recorded trajectories of published code, and reference logits, on checkpoints in the real folder format."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from archer.checks import replay
from archer.model import Model, load
from archer.passes.canvas import Canvas
from conftest import shared
from passes.test_forward import ask, blank, canvas_of
from support.networks import Backbone

CHECKPOINTS = ["llada-tiny-a", "llada-tiny-b", "dream-tiny"]


def traces(checkpoint: str, method: str) -> Path:
    return shared("data", "golden", "traces", f"{checkpoint}.{method}.jsonl")


def checkpoint(name: str, dtype: str = "float32") -> Model:
    return load(shared("data", "golden", "checkpoints", name), device="cpu", dtype=dtype)


ALIGNED_ONLY = {
    "dkv_decode",
    "dkv_greedy",
    "dllm_cache",
    "fastdllm_dual",
    "fastdllm_prefix",
    "wino",
}
RECORDED = [
    (name, method)
    for name in CHECKPOINTS
    for method in sorted(replay.METHODS)
    if not method.startswith(
        "llada2"
    )  # recorded on models of that family: tests/test_golden_moe.py
    if name != "dream-tiny" or method not in ALIGNED_ONLY
]


def test_every_recorded_file_is_replayed() -> None:
    """None is unsupported, and none is left out below."""
    files = {path.name for path in shared("data", "golden", "traces").glob("*.jsonl")}
    assert files == {f"{name}.{method}.jsonl" for name, method in RECORDED}


@pytest.mark.parametrize(("name", "method"), RECORDED)
def test_every_recorded_trajectory_is_reproduced(name: str, method: str) -> None:
    cases = replay.read_cases([traces(name, method)])
    root = shared("data", "golden", "checkpoints")
    outcome = replay.summarise(replay.replay(cases, root))
    assert outcome.mismatches == []
    assert outcome.identical == outcome.total == len(cases) > 0


@pytest.mark.parametrize("name", CHECKPOINTS)
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-6), ("float32", 1e-3)])
def test_reference_logits(name: str, dtype: str, tolerance: float) -> None:
    model = checkpoint(name, dtype)
    reference = np.load(shared("data", "golden", "logits", f"{name}.npz"))
    prompt = reference["prompt"].tolist()
    shift = model.folder.shape.shift
    net = Backbone(model.network, model.folder.mask)

    def rows(raw: NDArray[np.float64]) -> torch.Tensor:
        tensor = torch.from_numpy(raw)
        return tensor[len(prompt) - 1 : -1] if shift else tensor[len(prompt) :]

    def canvas(key: str) -> Canvas:
        return canvas_of(prompt, torch.from_numpy(reference[key])[None].long(), net.mask)

    for response, logits in (("masked_response", "masked_logits"), ("response", "full_logits")):
        asked = canvas(response)
        (ours,), _, _ = ask(net, asked, blank(net.network, asked), asked.everything())
        assert (ours.double() - rows(reference[logits])).abs().max() < tolerance
    anchor, state = canvas("anchor_response"), canvas("response")
    memory = blank(net.network, anchor)
    ask(net, anchor, memory, anchor.everything())
    (stale,), _, _ = ask(net, state, memory, state.revisable())
    assert (stale.double() - torch.from_numpy(reference["cached_logits"])).abs().max() < tolerance


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_a_batch_of_eight_equals_singles(name: str) -> None:
    """Token for token in float32, with the recorded prompts."""
    model = checkpoint(name)
    cases = replay.read_cases([traces(name, "archer_saber")])
    prompts = [list(prompt) for prompt in dict.fromkeys(tuple(case.prompt) for case in cases)][:8]
    for radius in (4, 8):
        together = model.generate(prompts, method="archer", radius=radius, length=24)
        for prompt, batched in zip(prompts, together, strict=True):
            (alone,) = model.generate(prompt, method="archer", radius=radius, length=24)
            assert batched.tokens == alone.tokens
            assert batched.full_passes == alone.full_passes


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_radius_one_is_saber_on_the_recorded_prompts(name: str) -> None:
    model = checkpoint(name)
    cases = replay.read_cases([traces(name, "saber")])
    prompts = [list(prompt) for prompt in dict.fromkeys(tuple(case.prompt) for case in cases)]
    for prompt in prompts:
        (eager,) = model.generate(prompt, method="saber", length=24)
        (cached,) = model.generate(prompt, method="archer", radius=1, length=24)
        assert eager.tokens == cached.tokens
        assert (eager.updates, 0) == (cached.updates, cached.cached_passes)
