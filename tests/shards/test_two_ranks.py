"""Two gloo ranks on loopback against one process, in float64: every update of every method."""

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from archer.engine.walk import Walk, steps_of
from archer.errors import BadRequest
from archer.methods.build import Method, build
from archer.methods.catalogue import DECODERS, POLICIES
from archer.model import Model
from archer.network.group import Group
from archer.network.shape import Blocks
from archer.passes.memory import Memory
from archer.policies.dllm import DllmCache
from archer.request.request import Form
from archer.results.step import Kind
from archer.shards.orders import order
from archer.shards.start import network_of
from engine.mixes import alone, draw_block_causal, draw_request, record, together
from shards.pairs_of_models import FOLDERS, PROMPT, Two, leader_of, twice, walked

LENGTH = 6
OFTEN: dict[str, dict[str, Any]] = {
    "archer": {"radius": 2},
    "age": {"every": 3},
    "prefix": {"block": 3},
    "dual": {"block": 3},
    "dllm-cache": {"prompt_interval": 4, "response_interval": 2},
}
"""Settings with which a cache refreshes within so few tokens."""
CERTAIN = tuple(name for name in POLICIES if name != "dllm-cache")
"""Caches that rank no columns by likeness: unchanged ones are equally alike but for the last bit, and shards
add up in another order.  `test_every_decoder_and_every_cache_makes_the_same_updates` has no such ties."""


@pytest.fixture(scope="module", params=FOLDERS)
def two(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    folder = FOLDERS[request.param](tmp_path_factory.mktemp("model") / "model")
    with twice(folder) as made:
        yield made


def methods(model: Model, every: int = 1) -> Iterator[tuple[str, str, Method]]:
    """Decoders with caches that go with them and with the model: all pairs, or one in `every`."""
    shift = model.folder.shape.shift
    for one, decoder in enumerate(DECODERS):
        for other, policy in enumerate(POLICIES):
            if (one + other) % every or (shift and decoder == "wino"):
                continue
            whole = {"block": LENGTH} if "block" in DECODERS[decoder].settings else {}
            for often in (OFTEN.get(policy, {}), {}, whole):
                try:
                    method = build(f"{decoder}+{policy}", {"length": LENGTH, **often})
                    yield decoder, policy, model.request([list(PROMPT)], method).method
                    break
                except ValueError:
                    continue


def refreshes(records: list[Any]) -> bool:
    """Whether some passes after the first were full ones, and some were not."""
    full: list[bool] = [call[0] == Kind.FULL.value for each in records for call in each[2]]
    return 1 < sum(full) < len(full)


@pytest.mark.parametrize("family", ["llada", "llada2"])
def test_int8_is_the_same_over_shards(tmp_path: Path, family: str) -> None:
    with twice(FOLDERS[family](tmp_path / "model"), quantize="int8") as two:
        for name in ("confidence", "saber+archer"):
            try:
                method = two.whole.request([list(PROMPT)], name, length=8).method
            except ValueError:
                continue
            assert walked(two.shared, method) == walked(two.whole, method)


@pytest.mark.thinned(4)
@pytest.mark.parametrize(
    ("every", "least"), [(7, (7, 21)), pytest.param(1, (50, 150), marks=pytest.mark.slow)]
)
def test_every_decoder_and_every_cache_makes_the_same_updates(
    two: Two, every: int, least: tuple[int, int]
) -> None:
    """All pairs in the slow suite."""
    decoders, policies, refreshed, counted = set(), set(), set(), 0
    for decoder, policy, method in methods(two.whole, every):
        counted += 1
        found = walked(two.shared, method)
        assert found == walked(two.whole, method), method.name
        decoders.add(decoder)
        policies.add(policy)
        if refreshes(found):
            refreshed.add(policy)
    assert counted >= least[not isinstance(two.whole.folder.shape.attention, Blocks)]
    if isinstance(two.whole.folder.shape.attention, Blocks):
        assert len(decoders) >= 6
        assert policies == {"eager", "archer", "late", "surprise", "age"}
    else:
        blocks = {"llada2", "llada2-edit", "bd3lm", "sdar"}
        assert decoders >= DECODERS.keys() - {"wino"} - blocks
        assert policies == set(POLICIES)
        assert refreshed >= {"archer", "age", "prefix", "dual", "dllm-cache"}


@pytest.mark.thinned(4)
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("confidence", {"temperature": 0.8}),
        ("saber", {"temperature": 0.6}),
        ("dream", {"temperature": 0.5, "top_p": 0.9, "top_k": 7}),
        ("confidence+archer", {"guidance": 1.5}),
        ("entropy", {}),
        ("margin", {}),
    ],
)
def test_noise_guidance_and_cut_distributions(
    two: Two, name: str, settings: dict[str, Any]
) -> None:
    if isinstance(two.whole.folder.shape.attention, Blocks) and "guidance" in settings:
        pytest.skip("a masked prompt and block-causal attention do not go together")
    method = build(name, {"length": 8, **settings})
    assert walked(two.shared, method, 2, 5) == walked(two.whole, method, 2, 5)


def check_mix(two: Two, seed: int, count: int) -> None:
    """Drawn requests in company over shards, against each of them alone in one process."""
    one, other = two.nets
    draw = random.Random(seed)
    if isinstance(two.whole.folder.shape.attention, Blocks):
        requests = [draw_block_causal(draw) for _ in range(count)]
    else:
        requests = [draw_request(draw, one.shift, CERTAIN) for _ in range(count)]
    found = together(requests, other, random.Random(seed), swaps=0.2)
    assert found == [alone(each, one) for each in requests]


@pytest.mark.thinned(4)
@pytest.mark.parametrize(
    ("seeds", "count"),
    [(range(3), 4), pytest.param(range(100, 160), 5, marks=pytest.mark.slow)],
    ids=["a few", "many"],
)
def test_requests_that_join_leave_and_are_swapped_out(two: Two, seeds: range, count: int) -> None:
    for seed in seeds:
        check_mix(two, seed, count)


def test_many_prompts_with_repetitions_give_the_same_completions(two: Two) -> None:
    prompts = [[3, 1, 4], [3, 1, 4], [1, 5, 9, 2, 6], [7]]
    options: dict[str, Any] = {"n": 2, "length": 8, "temperature": 0.5, "method": "confidence"}
    found = [model.generate(prompts, **options) for model in (two.whole, two.shared)]
    assert [each.tokens for each in found[0]] == [each.tokens for each in found[1]]


def test_a_memory_that_is_cloned_goes_on_by_itself(two: Two) -> None:
    method = build("confidence+archer", {"length": 8, "radius": 3})
    finals = []
    for model in (two.whole, two.shared):
        start = method.decoder.start(model.language.prompt(Form(PROMPT), 0), 8)
        steps = steps_of(model.network, method, start)
        for _ in range(3):
            step = next(steps)
        kept: Memory = step.memory.clone()
        first = [record(each) for each in steps]
        again = [record(each)[2:] for each in steps_of(model.network, method, step.after, kept)]
        assert again == [each[2:] for each in first]
        finals.append(first)
    assert finals[0] == finals[1]


@pytest.mark.parametrize("name", ["confidence", "confidence+dllm-cache"])
def test_what_is_sent_is_what_the_formula_says(two: Two, name: str) -> None:
    """docs/performance.md: d (N + 2 rows through layers) numbers are added up, 4 (N' + 1) are gathered.

    Under dLLM-Cache 3 more per row that is compared: those of the response, and one more where logits are
    shifted, in all layers but the first, in passes that do not refresh them.
    """
    shape = two.whole.folder.shape
    if "dllm" in name and isinstance(two.whole.folder.shape.attention, Blocks):
        pytest.skip("dLLM-Cache is for dense attention")
    method = two.whole.request([list(PROMPT)], name, length=8).method
    group = leader_of(two.shared).group
    rows = 8 + two.whole.folder.shape.shift
    before, compared = replace(group.traffic), 0
    start = method.decoder.start(two.shared.language.prompt(Form(PROMPT), 0), 8)
    steps = steps_of(two.shared.network, method, start)
    for number, step in enumerate(steps):
        fed = sum(call.fed for call in step.calls)
        work, now = step.work, group.traffic
        between = "dllm" in name and number % DllmCache().response_interval
        likened = shape.layers - 1 if between else 0
        summed = shape.width * (fed + 2 * work.mixed) + 3 * rows * likened
        assert now.summed - before.summed == summed
        assert now.sums - before.sums == 1 + 2 * shape.layers + likened
        assert now.gathered - before.gathered == 4 * (work.scored + 1)
        assert (now.gathers - before.gathers, now.messages - before.messages) == (1, 1)
        before = replace(now)
        compared += likened
        if "dllm" not in name:
            assert work.mixed == (shape.layers - 1) * fed + work.scored
    assert (compared > 0) == ("dllm" in name)


def test_what_looks_into_layers_by_itself_is_refused(two: Two) -> None:
    with pytest.raises(BadRequest, match="which is possible on one device only"):
        two.shared.network.embed(torch.tensor([3]))


def test_stores_and_logits_are_let_go_of_everywhere(two: Two) -> None:
    leader = leader_of(two.shared)
    two.shared.generate([[3, 1, 4]], "confidence", length=8)
    assert leader._stores == {}
    first = leader._count
    two.shared.generate([[3, 1, 4]], "confidence", length=8)
    gone = {*leader._dropped}
    assert leader._count > first
    assert len(gone) <= 2


def test_a_process_leads_one_group_at_a_time(two: Two) -> None:
    assert isinstance(leader_of(two.shared).group, Group)
    with pytest.raises(BadRequest, match="Close that one first"):
        network_of(two.whole.folder, two.shared.source)


def test_logits_can_be_had_whole(two: Two) -> None:
    method = build("confidence", {"length": 6})
    rows = []
    for model in (two.whole, two.shared):
        state = method.decoder.start(model.language.prompt(Form(PROMPT), 0), 6)
        step = next(steps_of(model.network, method, state))
        rows.append(step.logits.rows[0].values)
    torch.testing.assert_close(rows[1], rows[0], rtol=1e-9, atol=1e-11)
    assert rows[0].shape == (6, two.whole.folder.shape.vocabulary)


def test_a_rule_that_the_others_do_not_know_is_refused(two: Two) -> None:
    class Own:
        def __call__(self, index: int, layer: Any, hidden: Any, at: Any) -> Any:
            return hidden

    method = build("confidence+dllm-cache", {"length": 6})
    state = method.decoder.start(two.shared.language.prompt(Form(PROMPT), 0), 6)
    wanted = Walk(two.shared.network, method, state).wants
    assert wanted is not None
    with pytest.raises(BadRequest, match="The rule Own chooses rows inside layers"):
        order([replace(wanted, rule=Own())], 1, lambda store: [1, 1, 1])
