"""Plans: as few gpus as are enough, in the directions that theory and the engine's measurements have."""

import json
import math
import statistics
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archer.costs.pass_times import Roofline
from archer.costs.roofline import GPUS, Gpu
from archer.costs.service import percentile
from archer.costs.shapes import shapes
from archer.costs.workload import even
from archer.errors import BadRequest
from archer.planning.demand import (
    Demand,
    RequestSize,
    arrivals,
    drawn,
    read_demand,
    repeated,
    size_range,
)
from archer.planning.request import Target
from archer.planning.search import (
    LEADS,
    Coming,
    PlanSetting,
    ServingGpu,
    _fewest,
    best,
    most_served,
    reached_by,
    search,
)
from archer.planning.simulation import (
    UNBOUNDED,
    EngineScheduler,
    SimulatedRequest,
    each_alone,
    outcome,
    simulate,
)
from archer.planning.update_rates import UpdateRate, refreshed, update_rate
from planning.drawing import InBatches, OldestFirst, ShortestFirst

H100 = next(gpu for gpu in GPUS if gpu.name.startswith("H100"))
A100 = next(gpu for gpu in GPUS if gpu.name.startswith("A100"))
SHAPE = shapes()["llada-8b"].shape
SHORT = UpdateRate(updates=0.1, refreshed=0.2)
"""Few updates, to be quick."""
SETTING = PlanSetting(ServingGpu("H100", Roofline(H100, SHAPE)), SHORT, 1024)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("gpu", [A100, H100], ids=lambda gpu: gpu.name)
def test_a_budget_by_response_ratio_serves_best(gpu: Gpu) -> None:
    """The directions of the comparison that the engine's schedule was chosen by, at 0.8 of its load alone."""
    times, rate = Roofline(gpu, SHAPE), UpdateRate(0.25, 0.18)
    sizes = drawn(1.0, 400, "64-3072", "64,128,256,512").sizes
    requests = [SimulatedRequest(size.trajectory(rate)) for size in sizes]
    own = each_alone(requests, times)
    moments = arrivals(0.8 / statistics.mean(own), len(requests))
    schedulers: dict[str, Callable[[], EngineScheduler]] = {
        "ours": lambda: EngineScheduler(1024),
        "one at a time": lambda: InBatches(1),
        "batches": lambda: InBatches(8),
        "every row": lambda: EngineScheduler(UNBOUNDED),
        "oldest": lambda: OldestFirst(1024),
        "shortest": lambda: ShortestFirst(1024),
    }
    small = sorted(size.prompt + size.length for size in sizes)[len(sizes) // 10]
    outcomes, small_p99 = {}, {}
    for name, make in schedulers.items():
        answered = simulate(requests, moments, make, times).answered
        outcomes[name] = outcome(answered, own)
        waits = [
            each.seconds
            for each in answered
            if sizes[each.number].prompt + sizes[each.number].length <= small
        ]
        small_p99[name] = percentile(waits, 99)
    ours = outcomes["ours"]
    for name in ("one at a time", "batches", "every row", "oldest"):
        other = outcomes[name]
        assert ours.mean < other.mean
        assert ours.slowdown < other.slowdown
        assert ours.in_time > other.in_time
        assert small_p99["ours"] < small_p99[name]
    assert ours.slowdown < outcomes["one at a time"].slowdown / 3
    assert outcomes["shortest"].mean < ours.mean


def demand(rate: float, count: int = 60) -> Demand:
    return drawn(rate, count, "512", "64")


def needs(rate: float, **target: float) -> int:
    (found,) = search(lambda *_: (demand(rate), range(60)), [SETTING], Target(**target))
    assert found.best in found.tried
    assert found.best.outcome.in_time >= 0.95
    fewer = [point for point in found.tried if point.gpus < found.best.gpus]
    assert not any(reached_by(Target(**target), point.outcome) for point in fewer)
    return found.best.gpus


def test_more_requests_need_more_gpus_and_a_stricter_target_no_fewer() -> None:
    some, more = needs(20.0), needs(80.0)
    assert 1 <= some < more
    assert needs(80.0, in_time=1.0) >= more
    assert needs(80.0, p99=0.3) >= more


def test_a_larger_radius_needs_no_more_gpus_and_the_best_of_every_gpu_is_told() -> None:
    settings = [
        PlanSetting(
            ServingGpu(gpu.name, Roofline(gpu, SHAPE)),
            UpdateRate(0.1, refreshed(radius)),
            1024,
            radius,
        )
        for gpu in (A100, H100)
        for radius in (1, 8)
    ]
    found = search(lambda *_: (demand(60.0), range(60)), settings, Target())
    slow, fast = found[0].best.gpus, found[1].best.gpus
    assert fast < slow
    assert [(each.gpu, each.radius) for each in best(found)] == [
        (A100.name, 8),
        (H100.name, 8),
    ]
    told = json.loads(json.dumps(found[0].to_dict(), allow_nan=False))
    assert told["gpus"] == slow
    assert told["tried"][-1]["gpus"] >= slow


def stream(rate: float, count: int = 60) -> Coming:
    """Requests without end, as `archer plan` draws them."""

    def coming(before: float, after: float) -> tuple[Demand, range]:
        first, last = math.ceil(rate * before), math.ceil(rate * after)
        return demand(rate, first + count + last), range(first, first + count)

    return coming


@pytest.mark.parametrize("budget", [512, 2048])
@pytest.mark.parametrize("gpu", [A100, H100], ids=lambda gpu: gpu.name)
def test_gpus_that_are_named_can_serve_the_rate_for_ever(gpu: Gpu, budget: int) -> None:
    """What is asked of a gpu is never more than it can do when somebody always waits."""
    setting = PlanSetting(ServingGpu(gpu.name, Roofline(gpu, SHAPE)), SHORT, budget)
    (found,) = search(stream(100.0), [setting], Target(in_time=0.5))
    crowd = [SimulatedRequest(RequestSize(512, 64).trajectory(SHORT)) for _ in range(150)]
    ran = simulate(crowd, (0.0,) * 150, setting.scheduler, setting.gpu.times)
    most = 150 / max(each.ended for each in ran.answered)
    assert found.most == pytest.approx(most, rel=0.05)
    assert found.best.gpus * most >= 100.0
    assert found.best.outcome.throughput == 100.0
    assert found.to_dict()["most"] == found.most


def test_an_answer_stands_when_the_stream_runs_longer() -> None:
    """Requests that count come ever later, until the same gpus still do."""
    asked: list[float] = []
    whole = stream(100.0)

    def coming(before: float, after: float) -> tuple[Demand, range]:
        asked.append(before)
        return whole(before, after)

    (found,) = search(coming, [SETTING], Target())
    assert asked[:1] == [0.0]
    assert [before / found.alone for before in asked[1:3]] == pytest.approx(LEADS[:2])
    assert len(asked) <= 1 + len(LEADS)


def test_sizes_of_the_crowd_that_differ_from_all_are_made_up_for() -> None:
    large, small = (
        SimulatedRequest(RequestSize(prompt, 64).trajectory(SHORT)) for prompt in (2000, 100)
    )
    first = most_served([large] * 101 + [small] * 303, SETTING)
    mixed = most_served(([small] * 3 + [large]) * 101, SETTING)
    assert first == pytest.approx(mixed, rel=0.1)


def test_more_gpus_than_a_plan_may_have_are_refused_before_anything_is_drawn() -> None:
    drawn_for: list[float] = []

    def coming(before: float, after: float) -> tuple[Demand, range]:
        drawn_for.append(before)
        return demand(1e9), range(60)

    with pytest.raises(BadRequest, match=r"1e\+09 need \d+ GPUs, and plans end at 16384"):
        search(coming, [SETTING], Target())
    assert drawn_for == [0.0]


@pytest.mark.parametrize("moments", [(3.0,), (3.0, 3.0, 3.0)])
def test_a_file_of_one_moment_is_planned(moments: tuple[float, ...]) -> None:
    asked = Demand((RequestSize(512, 64),) * len(moments), moments)
    (found,) = search(lambda *_: (asked, range(len(moments))), [SETTING], Target())
    assert found.best.gpus == 1
    assert 0 < found.best.outcome.goodput <= found.best.outcome.throughput < math.inf


def test_work_without_end_is_refused() -> None:
    setting = PlanSetting(ServingGpu("H100", Roofline(H100, SHAPE)), UpdateRate(1.0, 0.2), 1024)
    asked = Demand((RequestSize(512, 65536),) * 300, (0.0,) * 300)
    with pytest.raises(BadRequest, match="make more than 16777216 updates"):
        search(lambda *_: (asked, range(300)), [setting], Target())
    with pytest.raises(BadRequest, match="would make 999999 updates, and at most 65536"):
        even(8, 9999, 999_999, 3)
    with pytest.raises(BadRequest, match="Of 3 updates at least 1 and at most all"):
        even(8, 8, 3, 4)


@given(st.integers(1, 3000), st.integers(1, 3000))
def test_the_fewest_are_found_from_anywhere(enough: int, guess: int) -> None:
    asked: list[int] = []

    def reached(gpus: int) -> bool:
        asked.append(gpus)
        return gpus >= enough

    assert _fewest(reached, guess) == enough
    assert min(asked) >= 1
    asked.clear()
    least = min(guess, 7)
    assert _fewest(reached, guess, least) == max(enough, least)
    assert min(asked) >= least


def test_what_no_number_of_gpus_can_do_is_said() -> None:
    with pytest.raises(BadRequest, match=r"cannot end within 0\.001 s"):
        needs(20.0, p99=0.001)
    with pytest.raises(BadRequest, match=r"Not even \d+ GPUs reach the target"):
        _fewest(lambda _: False, 1)


def test_weights_and_requests_must_fit_the_gpu() -> None:
    times = Roofline(H100, SHAPE)
    with pytest.raises(BadRequest, match="weights take 16 GB and H100 has 10 GB"):
        ServingGpu.holding("H100", times, 1, memory=10e9, weights=16e9)
    server = ServingGpu.holding("H100", times, 1 << 19, memory=18e9, weights=16e9)
    setting = PlanSetting(server, SHORT, 1024)
    large = Demand((RequestSize(3000, 64),), (0.0,))
    with pytest.raises(BadRequest, match=r"3000 \+ 64 tokens holds 1.6 GB, and on H100"):
        search(lambda *_: (large, range(1)), [setting], Target())


def test_update_rates_follow_the_radius() -> None:
    radii = [1, 1.5, 2, 3, 4, 6, 8, 11, 16, 20, 32, 100, math.inf]
    shares = [refreshed(radius) for radius in radii]
    assert shares == sorted(shares, reverse=True)
    assert (shares[0], shares[-1]) == (1.0, 0.0)
    assert update_rate("archer", 8) == update_rate("archer")
    assert update_rate("saber").refreshed == 1.0
    assert update_rate("archer", shape="llada-8b").updates == 147.51 / 256
    assert update_rate("no-rollback+archer", 2).refreshed == 1.0
    made = update_rate("archer", math.inf, "llada-8b").trajectory(512, 256)
    assert made.updates == 148
    assert sum(share.columns == 768 for share in made.shares) == 1
    follows = UpdateRate(0.5, 0.2, spare=9).trajectory(100, 20)
    assert sorted(share.columns for share in follows.shares) == [29] * 8 + [129] * 2
    assert update_rate("archer-cut").spare > 0


@pytest.mark.parametrize(
    "spelled",
    ["", "0", "8-", "9-3", "1,0", "much", "1.5", "-3", "999999999", "8-999999", "8,999999"],
)
def test_sizes_that_are_none(spelled: str) -> None:
    with pytest.raises(BadRequest, match="prompt takes a number of tokens"):
        size_range(spelled, "prompt")


def test_demand_is_drawn_as_asked() -> None:
    made = drawn(5.0, 2000, "10-20", "8,16")
    assert {each.length for each in made.sizes} == {8, 16}
    assert {each.prompt for each in made.sizes} == set(range(10, 21))
    assert made.rate == 5.0
    for count in (1, 7, 2000):
        assert drawn(5.0, count, "8", "8").times[-1] == pytest.approx(count / 5.0)
    assert made == drawn(5.0, 2000, "10-20", "8,16")
    with pytest.raises(BadRequest, match="rate takes requests per second"):
        drawn(0.0, 3, "8", "8")


def test_demand_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    lines = [
        {"at": 2.0, "prompt": 9, "length": 8},
        {"at": 0.5, "prompt": 7, "length": 4, "updates": 3, "full": 2},
    ]
    path.write_text("\n".join(map(json.dumps, lines)) + "\n\n")
    made = read_demand(path, None)
    assert made.times == (0.5, 2.0)
    assert made.sizes[0].trajectory(SHORT).updates == 3
    assert made.sizes[1].trajectory(UpdateRate(0.5, 0.0)).updates == 4
    assert len(read_demand(path, 3.0).times) == 2
    assert read_demand(path, 3.0).sizes[0].prompt == 9


@pytest.mark.parametrize(
    ("content", "phrase"),
    [
        ("", "holds no request"),
        ("{", "requests.jsonl:1 is no request .*JSON"),
        ("[]", "A line is an object with prompt and length"),
        ('{"prompt": 1, "length": 1, "tokens": 3}', "tokens: Unexpected"),
        ('{"prompt": 0, "length": 1}', "prompt: Input should be greater than or equal to 1"),
        ('{"prompt": true, "length": 1}', "prompt: Input should be a valid integer"),
        ('{"prompt": 1}', "length: Field required"),
        ('{"prompt": 1, "length": 131073}', "length: Input should be less than or equal to 131072"),
        ("\n" * 20_001, "has 20001 lines, and at most 20000 are simulated"),
        ('{"prompt": 1, "length": 1}', "Not every line .* says `at`"),
        ('{"prompt": 1, "length": 1, "at": -1}', "at: Input should be greater than or equal to 0"),
        ('{"prompt": 1, "length": 1, "updates": 3}', "full must be given with updates"),
        ('{"prompt": 1, "length": 1, "updates": 0, "full": 0}', "updates: Input should be greater"),
        ('{"prompt": 1, "length": 1, "updates": 2, "full": 3}', "full must be a whole number"),
    ],
)
def test_files_that_are_refused(tmp_path: Path, content: str, phrase: str) -> None:
    path = tmp_path / "requests.jsonl"
    path.write_text(content)
    with pytest.raises(BadRequest, match=phrase):
        read_demand(path, None)
    with pytest.raises(BadRequest, match="cannot be read"):
        read_demand(tmp_path / "none", None)


def test_bytes_are_no_demand(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadRequest, match="is not UTF-8"):
        read_demand(path, None)


def test_sizes_of_a_file_come_again_and_again() -> None:
    made = Demand(
        (RequestSize(1, 8), RequestSize(2, 8), RequestSize(3, 8)), (0.0, 0.0, 0.0), rate=2.0
    )
    found = repeated(made, 8, before=4)
    assert [each.prompt for each in found.sizes] == [3, 1, 2, 3, 1, 2, 3, 1]
    assert found.times[-1] == pytest.approx(4.0)
    assert found.rate == 2.0
