"""The engine with a model whose products are made in whole numbers: the same tests on that model."""

from typing import Any

import pytest

from archer.model import Model, load
from engine import test_engine as usual
from engine import test_engine_mixes as mixes
from support.folders import make_llada
from support.pairs import ids


@pytest.fixture(scope="module")
def model(whole_numbers: None, tmp_path_factory: pytest.TempPathFactory) -> Model:
    """In float32, where other products round by their company."""
    folder = make_llada(tmp_path_factory.mktemp("llada"), tokenizer=True)
    return load(folder, device="cpu", dtype="float32", quantize="w8a8-head")


test_samples = usual.test_samples_are_those_of_a_batch_and_need_one_row_when_nothing_is_drawn
test_numbering = usual.test_generate_numbers_samples_as_a_batch_of_all_prompts_would
test_streams = usual.test_a_stream_of_several_prompts_tells_one_update_of_one_prompt_at_a_time
test_stops = usual.test_stop_strings_cut_the_text_and_end_what_only_fills
test_equal_first_passes = usual.test_equal_first_passes_are_computed_once
test_halving = usual.test_a_pass_that_raises_is_halved_until_the_guilty_request_is_alone
test_swapping = usual.test_without_memory_the_youngest_is_swapped_out_and_comes_back
test_settled_text = usual.test_settled_text_adds_up_to_the_final_text


@pytest.mark.parametrize(
    "seeds", [range(3), pytest.param(range(2000, 2070), marks=pytest.mark.slow)]
)
def test_drawn_requests_come_out_as_if_alone(
    model: Model, monkeypatch: pytest.MonkeyPatch, seeds: range
) -> None:
    """Any method, with samples, guidance, gaps, cancels, budgets and shortages of memory."""
    ended = mixes.mixed(model, seeds, monkeypatch)
    assert ended.total() == len(seeds) * mixes.REQUESTS
    assert ended["NoneType"] > ended.total() // 3


def test_guidance_and_gaps_in_company(model: Model) -> None:
    prompt = ids(5, 4)
    guided: dict[str, Any] = {"length": 8, "guidance": 1.5}
    engine = model.engine()
    handles = [
        engine.submit(prompt, "archer", **guided),
        engine.submit(ids(9, 7), "saber", length=12),
    ]
    (alone,) = model.generate(prompt, "archer", **guided)
    assert handles[0].result().tokens == alone.tokens
    (filled,) = model.infill("ab", "cd", "archer", length=6)
    several = model.infill(["ab", "xyz"], ["cd", "q"], "archer", length=6)
    assert several[0].tokens == filled.tokens
