"""Options are weighed by one pass for each prompt, and made ready once for all of them."""

import json
from typing import Any

import pytest
import torch

from archer.errors import BadRequest
from archer.model import Model, load
from archer.network.network import Transformer
from archer.request.fill import Fill
from archer.structure import confined
from archer.structure.structures import Structure
from archer.structure.token_automaton import TokenAutomaton, over_tokens

PROMPTS = ["def f(nums):", "def g(a, b):", "x = "]


@pytest.fixture(scope="module")
def pocket() -> Model:
    return load("pocket")


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Columns of every pass that is made."""
    made: list[int] = []
    embed = Transformer.embed

    def counted(self: Transformer, tokens: torch.Tensor) -> torch.Tensor:
        made.append(tokens.shape[-1])
        return embed(self, tokens)

    monkeypatch.setattr(Transformer, "embed", counted)
    return made


def test_each_prompt_takes_one_pass(pocket: Model, passes: list[int]) -> None:
    pocket.choose(PROMPTS[0], ["yes, indeed", "no"], chat=False)
    assert len(passes) == 1
    passes.clear()
    pocket.choose(PROMPTS, ["yes, indeed", "no"], chat=False)
    assert len(passes) <= len(PROMPTS)


def test_options_are_made_ready_once_however_many_prompts_there_are(
    pocket: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More of them than are remembered."""
    made: list[Any] = []

    def counted(*of: Any) -> TokenAutomaton:
        made.append(of)
        return over_tokens(*of)

    monkeypatch.setattr("archer.structure.structures.over_tokens", counted)
    options = [f"{number:02} times" for number in range(40)]
    once = pocket.choose(PROMPTS[0], options, chat=False)
    work = len(made)
    several = pocket.choose(PROMPTS, options, chat=False)
    assert len(made) - work <= work
    assert several[0] == pytest.approx(once[0], abs=1e-4)
    assert sum(several[2].values()) == pytest.approx(1)


def test_an_option_that_is_given_twice_is_refused(pocket: Model) -> None:
    with pytest.raises(BadRequest, match="'a' is given twice"):
        pocket.choose("x", ["a", "b", "a"])


@pytest.mark.parametrize("prompts", [Fill.marked("x = {}"), ["x = ", Fill.marked("{} = 1")]])
def test_a_text_with_gaps_is_refused(pocket: Model, prompts: Any) -> None:
    with pytest.raises(BadRequest, match="weighs whole answers"):
        pocket.choose(prompts, ["a", "b"], chat=False)


def test_long_options_are_made_in_a_process_of_their_own(
    pocket: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confined, "COMMAND", ("false",))
    with pytest.raises(BadRequest, match="takes more time or memory"):
        pocket.choose("x", ["a", " " * 2001], chat=False)
    monkeypatch.undo()
    here = Structure("choices", json.dumps([" " * 2001]))
    assert here.known is None
