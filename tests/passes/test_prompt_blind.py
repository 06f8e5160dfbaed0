"""A model whose prompt does not see the response: its prompt cache is exact, whatever the radius."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np

import archer
from archer.decoders.saber import Saber
from archer.decoders.wino import Wino
from archer.decoders.wrappers import PromptBlind, seen_by
from archer.engine.loop import Loop
from archer.loading.families.llada import PROMPT_BLIND
from archer.passes.canvas import Prompt
from archer.policies.prompt_cache import Archer, Eager
from support.folders import make_llada
from support.networks import backbone

PROMPTS = [[3, 1, 4, 1, 5, 9, 2, 6], [2, 7, 1]]


def test_one_cache_serves_for_ever() -> None:
    """Completions of K = inf are those of eager decoding, and the prompt's keys are never other ones."""
    net, decoder = backbone(seed=4), PromptBlind(Saber())
    state = decoder.start(Prompt.of(PROMPTS, net.mask), 12)
    responses = []
    for policy in (Eager(), Archer(np.inf)):
        steps = list(Loop(net.network, False, decoder, policy).steps(state))
        responses.append([step.after.response.tolist() for step in steps])
    assert responses[0] == responses[1]


def test_without_blindness_it_would_not() -> None:
    """The same network as it is: the twin that shows that the test above can fail."""
    net, decoder = backbone(seed=4), Saber()
    state = decoder.start(Prompt.of(PROMPTS, net.mask), 12)
    steps = [
        list(Loop(net.network, False, decoder, p).steps(state)) for p in (Eager(), Archer(np.inf))
    ]
    kept = [[row.values for step in each for row in step.logits.rows] for each in steps]
    assert any(not np.allclose(a, b) for a, b in zip(*kept, strict=False))


def test_a_prompt_column_sees_the_prompt_and_all_others_see_all() -> None:
    decoder = PromptBlind(Saber())
    canvas = decoder.canvas(decoder.start(Prompt.of(PROMPTS, 45), 4))
    assert canvas.visible is not None
    assert canvas.visible[:, :8, :8].all()
    assert not canvas.visible[:, :8, 8:].any()
    assert canvas.visible[:, 8:].all()


def test_a_rule_of_the_decoder_stays() -> None:
    plain, blind = Wino(), PromptBlind(Wino())
    state = plain.start(Prompt.of(PROMPTS, 45), 4)
    state = replace(state, response=np.array([[1, 45, 2, 45]] * 2))
    rule, both = plain.canvas(state).visible, blind.canvas(state).visible
    assert rule is not None
    assert both is not None
    assert (both <= rule).all()
    assert not both[:, :8, 8:].any()
    assert np.array_equal(both[:, 8:], rule[:, 8:])


def test_a_folder_says_that_it_is_blind(tmp_path: Path) -> None:
    folder = make_llada(tmp_path / "model", tokenizer=True)
    seeing = archer.load(folder)
    config = json.loads((folder / "config.json").read_text())
    config["architectures"] = [PROMPT_BLIND.name]
    (folder / "config.json").write_text(json.dumps(config))
    blind = archer.load(folder)
    assert isinstance(blind.request([[1, 2, 3]], "saber", length=4).method.decoder, PromptBlind)
    assert seeing.request([[1, 2, 3]], "saber", length=4).method.decoder == Saber()
    assert seen_by(False, Saber()) == Saber()
    eager, kept = (blind.generate([[1, 2, 3]], name, length=8) for name in ("saber", "archer:inf"))
    assert eager[0].tokens == kept[0].tokens
