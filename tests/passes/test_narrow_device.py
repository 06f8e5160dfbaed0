"""Decoding on a device without float64, as Apple's GPUs are.  No such device is here: one is pretended."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cache
from itertools import cycle
from typing import Any

import pytest
import torch

from archer.decoders.base import Attention
from archer.errors import Incompatible, PassFailed
from archer.loading.architectures import ARCHITECTURES
from archer.machine import devices
from archer.methods.catalogue import DECODERS, METHODS
from archer.model import Model, load
from archer.network.shape import Blocks
from archer.passes import noise, reduction
from support.folders import MAKE
from support.narrow_device import KIND, narrow_device

USUAL = "a2d-qwen3"
CAUSAL = tuple(f for f in MAKE if isinstance(ARCHITECTURES[f].attention, Blocks))
EVERY = [*METHODS, *(f"{decoder}+surprise" for decoder in DECODERS)]
"""Every method by name, and every decoder with the cache of the default."""


Opened = Callable[[str], tuple[Model, Model]]


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    """A model of a family on the processor, and on the device."""
    root = tmp_path_factory.mktemp("families")

    @cache
    def both(family: str) -> tuple[Model, Model]:
        folder = MAKE[family](root)
        with narrow_device():
            there = load(folder, device=KIND, dtype="float32")
        return load(folder, device="cpu", dtype="float32"), there

    return both


def fits(method: str, model: Model) -> bool:
    """Whether it can be decoded so."""
    try:
        model.request([7, 8, 9], method, length=4)
    except Incompatible:
        return False
    return "wino" not in method or not model.folder.shape.shift


def one_each() -> list[tuple[str, str]]:
    """Every decoder once, and every family."""
    anywhere, causal = cycle(MAKE), cycle(CAUSAL)
    plain = cycle(f for f in MAKE if f not in CAUSAL and not ARCHITECTURES[f].shift)
    kinds = {Attention.BLOCK_CAUSAL: causal, Attention.FULL: plain}
    return [
        (f"{name}+surprise", next(kinds.get(part.make(**part.fixed).attention, anywhere)))
        for name, part in DECODERS.items()
    ]


def check(models: tuple[Model, Model], method: str, **how: Any) -> None:
    here, there = models
    expected = here.generate([7, 8, 9], method, length=4, **how)[0]
    with narrow_device():
        assert there.device.type == KIND
        found = there.generate([7, 8, 9], method, length=4, **how)[0]
    assert (found.tokens, found.updates) == (expected.tokens, expected.updates)


@pytest.mark.thinned(3)
@pytest.mark.parametrize(("method", "family"), one_each())
def test_every_decoder_decodes_as_on_the_processor(
    method: str, family: str, opened: Opened
) -> None:
    check(opened(family), method)


def test_the_quick_round_has_every_family() -> None:
    assert {family for _, family in one_each()} == set(MAKE)


@pytest.mark.slow
@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("family", MAKE)
def test_every_method_decodes_every_family_as_on_the_processor(
    family: str, temperature: float, opened: Opened
) -> None:
    models = opened(family)
    tried = [method for method in EVERY if fits(method, models[0])]
    assert len(tried) > 20
    for method in tried:
        check(models, method, temperature=temperature)


@pytest.mark.parametrize(
    ("method", "family"),
    [("dream", "coda"), ("entropy-bound+archer", USUAL), ("sdar", "sdar")],
)
def test_what_is_drawn_is_drawn_on_the_host(method: str, family: str, opened: Opened) -> None:
    check(opened(family), method, temperature=1.0, **({} if "+" in method else {"top_k": 5}))


def test_the_pretended_device_refuses_float64(
    monkeypatch: pytest.MonkeyPatch, opened: Opened
) -> None:
    """And a pass that does not ask first fails on it."""
    _, there = opened(USUAL)
    with narrow_device():
        with pytest.raises(TypeError, match=r"has no torch\.float64"):
            torch.zeros(2, device=KIND).double()
        assert not noise.has_float64(KIND)
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
