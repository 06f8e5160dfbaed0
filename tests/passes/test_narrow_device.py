"""Decoding on a device without float64, as Apple's GPUs are.  No such device is here: one is pretended."""

from __future__ import annotations

import logging
from functools import cache
from typing import Any

import pytest
import torch

from archer.errors import PassFailed
from archer.machine import devices
from archer.methods.catalogue import DECODERS
from archer.model import Model, load
from archer.passes import noise, reduction
from conftest import shared
from support.narrow_device import KIND, narrow_device

FULL, SHIFTED = "golden-2026/a2d-qwen3-tiny-a", "golden-2026/opendcoder-tiny-a"
OTHERS = {
    "llada2": "golden-moe/llada2-tiny-a",
    "llada2-edit": "golden-moe/llada2-tiny-a",
    "sdar": "golden-2026/sdar-tiny-a",
    "bd3lm": "golden-2026/a2d-qwen2-bd3lm-tiny-a",
    "p2": SHIFTED,
    "dream": SHIFTED,
    "saber": "golden-moe/lladamoe-tiny-a",
    "threshold": "golden/llada-tiny-a",
    "margin": "golden/dream-tiny",
    "confidence": "golden-2026/illada-tiny-a",
}
"""Which model a decoder is tried on, where not on the usual one: every family is there."""


@cache
def host(name: str) -> Model:
    folder, _, model = name.partition("/")
    return load(shared("data", folder, "checkpoints", model), device="cpu", dtype="float32")


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("temperature", [0.0, pytest.param(1.0, marks=pytest.mark.slow)])
def test_every_method_decodes_as_on_the_processor(decoder: str, temperature: float) -> None:
    model = host(OTHERS.get(decoder, FULL))
    method = f"{decoder}+surprise"
    expected = model.generate([7, 8, 9], method, length=4, temperature=temperature)[0]
    with narrow_device():
        there = load(model.folder.path, device=KIND, dtype="float32")
        assert there.device.type == KIND
        found = there.generate([7, 8, 9], method, length=4, temperature=temperature)[0]
    assert (found.tokens, found.updates) == (expected.tokens, expected.updates)


@pytest.mark.parametrize("method", ["dream", "entropy-bound+archer", "sdar"])
def test_what_is_drawn_is_drawn_on_the_host(method: str) -> None:
    model = host(OTHERS.get(method, FULL))
    settings: dict[str, Any] = {"length": 4, "temperature": 1.0} | (
        {} if "+" in method else {"top_k": 5}
    )
    expected = model.generate([7, 8, 9], method, **settings)[0]
    with narrow_device():
        there = load(model.folder.path, device=KIND, dtype="float32")
        assert there.generate([7, 8, 9], method, **settings)[0].tokens == expected.tokens


def test_the_pretended_device_refuses_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    """And a pass that does not ask first fails on it."""
    with narrow_device():
        with pytest.raises(TypeError, match=r"has no torch\.float64"):
            torch.zeros(2, device=KIND).double()
        assert not noise.has_float64(KIND)
        there = load(host(FULL).folder.path, device=KIND, dtype="float32")
        for asked in (noise, reduction):
            monkeypatch.setattr(asked, "has_float64", lambda kind: True)
        with pytest.raises(PassFailed, match=r"has no torch\.float64"):
            there.generate([7, 8, 9], "margin", length=4)


def test_a_device_is_chosen_only_if_it_passes_a_trial(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda *_: torch.device(KIND))
    devices.usable.cache_clear()
    with narrow_device():
        assert devices.default_device() == KIND
    devices.usable.cache_clear()
    with caplog.at_level(logging.WARNING):
        assert devices.default_device() == "cpu"
    (said,) = caplog.messages
    assert said.startswith(f"The device {KIND} is not used, because ")
    assert said.endswith("the processor is.")
    devices.usable.cache_clear()
