"""A model whose prompt does not see the response: its prompt cache is exact, whatever the cache's rule."""

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import archer
from archer.decoders.saber import Saber
from archer.engine.walk import steps_of
from archer.loading.families.llada import PROMPT_BLIND
from archer.methods.build import Method, build
from archer.network.attention import seen
from archer.network.shape import DENSE, AttentionKind, Blocks, PromptFirst
from archer.passes import layout
from archer.passes.canvas import Canvas, Prompt
from archer.policies.prompt_cache import Archer, Eager
from archer.results.step import Step
from engine.mixes import alone, draw_request, together
from support.folders import make_llada
from support.networks import Backbone, random_network, shape

PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]
BLIND = PromptFirst()


def net_of(attention: AttentionKind, shift: bool = False) -> Backbone:
    which = replace(shape(shift=shift), attention=attention)
    return Backbone(random_network(which, 4, torch.float64), mask=47)


def made_by(net: Backbone, name: str, **settings: Any) -> list[Step[Any]]:
    method = build(name, {"length": 12, **settings})
    state = method.decoder.start(Prompt.of(PROMPT, net.mask, eos=(1,)), 12)
    return list(steps_of(net.network, method, state))


def said(steps: list[Step[Any]]) -> list[Any]:
    return [step.after.response.tolist() for step in steps]


@pytest.mark.parametrize("shift", [False, True])
@pytest.mark.parametrize(
    "cache", ["archer", "archer:1", "late", "surprise", "archer-doubt", "age:3", "dllm-cache"]
)
def test_every_cache_writes_what_eager_decoding_writes(cache: str, shift: bool) -> None:
    """And but for those that count passes none ever refreshes: the default needs no radius of infinity."""
    net = net_of(BLIND, shift)
    name = cache if cache == "archer-doubt" else f"saber+{cache}"
    eager = "saber-doubt+eager" if cache == "archer-doubt" else "saber+eager"
    steps = made_by(net, name, **({"response_interval": 1} if cache == "dllm-cache" else {}))
    assert said(steps) == said(made_by(net, eager))
    if cache not in ("age:3", "dllm-cache"):
        full = [call.kind.value == "full" for step in steps for call in step.calls]
        assert full == [True] + [False] * (len(full) - 1)


def test_a_network_that_sees_would_be_told_apart() -> None:
    """The same weights: the twin that shows that the test above can fail."""
    net, decoder = net_of(DENSE), Saber()
    state = decoder.start(Prompt.of(PROMPT, net.mask), 12)
    runs = [
        list(steps_of(net.network, Method(decoder, p), state)) for p in (Eager(), Archer(np.inf))
    ]
    kept = [[row.values for step in each for row in step.logits.rows] for each in runs]
    assert any(not np.allclose(a, b) for a, b in zip(*kept, strict=False))


def test_a_resting_tail_still_grows_old() -> None:
    """Columns that rest see the response, so they are made again as with any other model."""
    net = net_of(BLIND)
    settings = {"ripe": 2, "edge": 0, "wake": "look", "rest": 8, "radius": 5}
    method = build("saber-tail+archer", {"length": 12, **settings})
    prompt = Prompt.of(PROMPT, net.mask, eos=tuple(range(46)))
    steps = list(steps_of(net.network, method, method.decoder.start(prompt, 12)))
    rested = [step.canvas for step in steps if step.canvas.resting is not None]
    assert rested
    assert not any(canvas.exact for canvas in rested if canvas.resting.any())  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", [DENSE, Blocks(3), Blocks(5), BLIND], ids=str)
@pytest.mark.parametrize("shift", [False, True])
def test_sights_say_what_the_mask_says(kind: AttentionKind, shift: bool) -> None:
    """Of any columns that are computed, each sees the keys that the rule as a mask shows it."""
    draw = np.random.default_rng(1)
    columns = torch.arange(14)
    rule = seen(kind, columns, columns, 8)
    for _ in range(50):
        asked = draw.random((1, 14)) < 0.6
        frame = layout.Frame((0,), 8, (0,), attention=kind)
        plan = layout.plan(
            asked, np.zeros_like(asked), frame, shift=shift, device=torch.device("cpu")
        )
        for group in plan.computed:
            own = columns[group.columns]
            stops = torch.full((len(own),), 14)
            for sight in group.sights:
                stops[sight.queries] = sight.stop
            wanted = torch.ones(len(own), 14, dtype=torch.bool) if rule is None else rule[own]
            assert torch.equal(columns < stops[:, None], wanted)


def test_a_rule_of_the_decoder_holds_beside_that_of_the_backbone() -> None:
    """WINO's shadow: logits of the first pass against attention with both rules as one mask."""
    net = net_of(BLIND)
    steps = made_by(net, "wino+archer:inf")
    assert said(steps) == said(made_by(net, "wino+eager"))
    assert said(steps) != said(made_by(net_of(DENSE), "wino+eager"))
    assert steps[0].canvas.visible is not None


def test_in_company_nothing_changes() -> None:
    """Drawn requests of all methods, in one batch and alone."""
    net = net_of(BLIND)
    draw = random.Random(5)
    requests = [draw_request(draw, shift=False) for _ in range(8)]
    assert together(requests, net, draw, swaps=0.2) == [alone(each, net) for each in requests]


def test_a_decoders_own_blocks_are_the_rule() -> None:
    prompt = Prompt.of([1, 2], 9)
    reads = np.ones((1, 4), dtype=np.bool_)
    plain = Canvas.plain(prompt, np.full((1, 4), 9), np.array([[0, 4]]), reads)
    assert plain.under(Blocks(32)).attention == Blocks(32)
    assert replace(plain, attention=Blocks(4)).under(Blocks(32)).attention == Blocks(4)


def test_a_folder_says_that_it_is_blind(tmp_path: Path) -> None:
    folder = make_llada(tmp_path / "model", tokenizer=True)
    assert archer.load(folder).network.shape.attention == DENSE
    config = json.loads((folder / "config.json").read_text())
    config["architectures"] = [PROMPT_BLIND.name]
    (folder / "config.json").write_text(json.dumps(config))
    blind = archer.load(folder)
    assert blind.network.shape.attention == PromptFirst()
    eager, kept = (blind.generate([[1, 2, 3]], name, length=8) for name in ("saber", "archer"))
    assert eager[0].tokens == kept[0].tokens
    assert kept[0].full_passes == 1
