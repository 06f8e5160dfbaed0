"""Plans: as few cards as are enough, in the directions that theory and the engine's measurements have."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archer.costs.pass_times import Roofline, Timed
from archer.costs.roofline import DEVICES, Device
from archer.costs.shapes import shapes
from archer.costs.workload import even
from archer.errors import BadRequest
from archer.planning import pace as paces
from archer.planning.check import compared
from archer.planning.demand import Demand, Wanted, drawn, read_demand, repeated, sizes, small
from archer.planning.pace import Pace, pace, refreshed
from archer.planning.plan import (
    LEADS,
    Coming,
    Server,
    Setting,
    Target,
    _fewest,
    best,
    most_served,
    plan,
    side_by_side,
)
from archer.planning.recording import Recording, Run, read_recording, read_timed
from archer.planning.simulation import Arrivals, Outcome, SimulatedRequest, simulate
from archer.planning.ways import ByEngine
from conftest import REPOSITORY
from planning.drawing import COSTS

H100 = next(card for card in DEVICES if card.name.startswith("H100"))
A100 = next(card for card in DEVICES if card.name.startswith("A100"))
SHAPE = shapes()["llada-8b"].shape
SHORT = Pace(updates=0.1, refreshed=0.2)
"""Few updates, to be quick."""


@pytest.mark.parametrize("card", [A100, H100], ids=lambda card: card.name)
def test_a_budget_by_response_ratio_serves_best(card: object) -> None:
    """The directions of the table that the engine's schedule was chosen by."""
    assert card in (A100, H100)
    chosen = A100 if card is A100 else H100
    setting = Setting(Server(chosen.name, Roofline(chosen, SHAPE)), Pace(0.25, 0.18), 1024)
    found = side_by_side(
        lambda rate: drawn(rate, 400, "64-3072", "64,128,256,512"), [setting], load=0.8
    )
    told: dict[str, Outcome] = {each.way: each.outcome for each in found}
    ours, one = told["budget 1024, response ratio"], told["one at a time"]
    batches, all_rows = told["fixed batches of 8"], told["every row in every pass"]
    oldest = told["budget 1024, oldest first"]
    assert ours.mean < min(one.mean, batches.mean, all_rows.mean, oldest.mean)
    assert ours.slowdown < min(one.slowdown, batches.slowdown, all_rows.slowdown, oldest.slowdown)
    assert ours.in_time > max(one.in_time, batches.in_time, all_rows.in_time, oldest.in_time)
    for other in (one, batches, all_rows, oldest):
        assert other.p99_small is not None
        assert ours.p99_small is not None
        assert ours.p99_small < other.p99_small
    assert ours.slowdown < one.slowdown / 3
    assert told["budget 1024, shortest first"].mean < ours.mean


def demand(rate: float, count: int = 60) -> Demand:
    return drawn(rate, count, "512", "64")


def needs(rate: float, **target: float) -> int:
    setting = Setting(Server("H100", Roofline(H100, SHAPE)), SHORT, 1024)
    (found,) = plan(lambda *_: (demand(rate), range(60)), [setting], Target(**target))
    assert found.best in found.tried
    assert found.best.outcome.in_time >= 0.95
    fewer = [point for point in found.tried if point.cards < found.best.cards]
    assert not any(Target(**target).reached(point.outcome) for point in fewer)
    return found.best.cards


def test_more_requests_need_more_cards_and_a_stricter_target_no_fewer() -> None:
    some, more = needs(20.0), needs(80.0)
    assert 1 <= some < more
    assert needs(80.0, in_time=1.0) >= more
    assert needs(80.0, p99=0.3) >= more


def test_a_larger_radius_needs_no_more_cards_and_the_best_of_every_card_is_told() -> None:
    settings = [
        Setting(
            Server(card.name, Roofline(card, SHAPE)), Pace(0.1, refreshed(radius)), 1024, radius
        )
        for card in (A100, H100)
        for radius in (1, 8)
    ]
    found = plan(lambda *_: (demand(60.0), range(60)), settings, Target())
    slow, fast = found[0].best.cards, found[1].best.cards
    assert fast < slow
    assert [(each.card, each.radius) for each in best(found)] == [
        (A100.name, 8),
        (H100.name, 8),
    ]
    told = json.loads(json.dumps(found[0].as_dict(), allow_nan=False))
    assert told["cards"] == slow
    assert told["tried"][-1]["cards"] >= slow


def stream(rate: float, count: int = 60) -> Coming:
    """Requests without end, as `archer plan` draws them."""

    def coming(before: float, after: float) -> tuple[Demand, range]:
        first, last = math.ceil(rate * before), math.ceil(rate * after)
        return demand(rate, first + count + last), range(first, first + count)

    return coming


@pytest.mark.parametrize("budget", [512, 2048])
@pytest.mark.parametrize("card", [A100, H100], ids=lambda card: card.name)
def test_cards_that_are_named_can_serve_the_rate_for_ever(card: Device, budget: int) -> None:
    """What is asked of a card is never more than it can do when somebody always waits."""
    setting = Setting(Server(card.name, Roofline(card, SHAPE)), SHORT, budget)
    (found,) = plan(stream(100.0), [setting], Target(in_time=0.5))
    crowd = [SimulatedRequest(Wanted(512, 64).trajectory(SHORT)) for _ in range(150)]
    ran = simulate(crowd, Arrivals((0.0,) * 150), setting.way, setting.server.times)
    most = 150 / max(each.ended for each in ran.answered)
    assert found.most == pytest.approx(most, rel=0.05)
    assert found.best.cards * most >= 100.0
    assert found.best.outcome.throughput == 100.0
    assert found.as_dict()["most"] == found.most


def test_an_answer_stands_when_the_stream_runs_longer() -> None:
    """Requests that count come ever later, until the same cards still do."""
    asked: list[float] = []
    whole = stream(100.0)

    def coming(before: float, after: float) -> tuple[Demand, range]:
        asked.append(before)
        return whole(before, after)

    setting = Setting(Server("H100", Roofline(H100, SHAPE)), SHORT, 1024)
    (found,) = plan(coming, [setting], Target())
    assert asked[:1] == [0.0]
    assert [before / found.alone for before in asked[1:3]] == pytest.approx(LEADS[:2])
    assert len(asked) <= 1 + len(LEADS)


def test_sizes_of_the_crowd_that_differ_from_all_are_made_up_for() -> None:
    setting = Setting(Server("H100", Roofline(H100, SHAPE)), SHORT, 1024)
    large, small = (
        SimulatedRequest(Wanted(prompt, 64).trajectory(SHORT)) for prompt in (2000, 100)
    )
    first = most_served([large] * 101 + [small] * 303, setting)
    mixed = most_served(([small] * 3 + [large]) * 101, setting)
    assert first == pytest.approx(mixed, rel=0.1)


def test_more_cards_than_a_plan_may_have_are_refused_before_anything_is_drawn() -> None:
    setting = Setting(Server("H100", Roofline(H100, SHAPE)), SHORT, 1024)
    drawn_for: list[float] = []

    def coming(before: float, after: float) -> tuple[Demand, range]:
        drawn_for.append(before)
        return demand(1e9), range(60)

    with pytest.raises(BadRequest, match=r"1e\+09 need \d+ cards, and plans end at 16384"):
        plan(coming, [setting], Target())
    assert drawn_for == [0.0]


@pytest.mark.parametrize("moments", [(3.0,), (3.0, 3.0, 3.0)])
def test_a_file_of_one_moment_is_planned(moments: tuple[float, ...]) -> None:
    setting = Setting(Server("H100", Roofline(H100, SHAPE)), SHORT, 1024)
    asked = Demand((Wanted(512, 64),) * len(moments), moments)
    (found,) = plan(lambda *_: (asked, range(len(moments))), [setting], Target())
    assert found.best.cards == 1
    assert 0 < found.best.outcome.goodput <= found.best.outcome.throughput < math.inf


def test_work_without_end_is_refused() -> None:
    setting = Setting(Server("H100", Roofline(H100, SHAPE)), Pace(1.0, 0.2), 1024)
    asked = Demand((Wanted(512, 65536),) * 300, (0.0,) * 300)
    with pytest.raises(BadRequest, match="make more than 16777216 updates"):
        plan(lambda *_: (asked, range(300)), [setting], Target())
    with pytest.raises(BadRequest, match="would make 999999 updates, and at most 65536"):
        even(8, 9999, 999_999, 3)


@given(st.integers(1, 3000), st.integers(1, 3000))
def test_the_fewest_are_found_from_anywhere(enough: int, guess: int) -> None:
    asked: list[int] = []

    def reached(cards: int) -> bool:
        asked.append(cards)
        return cards >= enough

    assert _fewest(reached, guess) == enough
    assert min(asked) >= 1
    asked.clear()
    least = min(guess, 7)
    assert _fewest(reached, guess, least) == max(enough, least)
    assert min(asked) >= least


def test_what_no_number_of_cards_can_do_is_said() -> None:
    with pytest.raises(BadRequest, match=r"cannot end within 0\.001 s"):
        needs(20.0, p99=0.001)
    with pytest.raises(BadRequest, match=r"Not even \d+ devices reach the target"):
        _fewest(lambda _: False, 1)


@pytest.mark.parametrize(
    ("target", "phrase"),
    [({"in_time": 0.0}, "in_time takes"), ({"in_time": 1.5}, "in_time"), ({"p99": 0}, "p99 takes")],
)
def test_targets_that_make_no_sense(target: dict[str, float], phrase: str) -> None:
    with pytest.raises(BadRequest, match=phrase):
        Target(**target)


def test_weights_and_requests_must_fit_the_card() -> None:
    times = Roofline(H100, SHAPE)
    with pytest.raises(BadRequest, match="weights take 16 GB and H100 has 10 GB"):
        Server.holding("H100", times, 1, memory=10e9, weights=16e9)
    server = Server.holding("H100", times, 1 << 19, memory=18e9, weights=16e9)
    setting = Setting(server, SHORT, 1024)
    large = Demand((Wanted(3000, 64),), (0.0,))
    with pytest.raises(BadRequest, match=r"3000 \+ 64 tokens holds 1.6 GB, and on H100"):
        plan(lambda *_: (large, range(1)), [setting], Target())


def test_paces_are_those_of_the_results() -> None:
    results = REPOSITORY / "docs" / "results"
    main, radius = (
        json.loads((results / f"{name}.json").read_text()) for name in ("main", "radius")
    )
    assert paces.published() == paces.excerpt(main, radius)
    assert set(paces.published()["methods"]) >= {"archer", "saber", "llada-confidence"}


def test_paces_follow_the_radius() -> None:
    radii = [1, 1.5, 2, 3, 4, 6, 8, 11, 16, 20, 32, 100, math.inf]
    shares = [refreshed(radius) for radius in radii]
    assert shares == sorted(shares, reverse=True)
    assert (shares[0], shares[-1]) == (1.0, 0.0)
    assert pace("archer", 8) == pace("archer")
    assert pace("saber").refreshed == 1.0
    assert pace("archer", shape="llada-8b").updates == 147.51 / 256
    assert pace("no-rollback+archer", 2).refreshed == 1.0
    made = pace("archer", math.inf, "llada-8b").trajectory(512, 256)
    assert made.updates == 148
    assert sum(share.columns == 768 for share in made.shares) == 1


def test_what_is_not_known_of_methods_is_said() -> None:
    with pytest.raises(BadRequest, match="How many updates 'wino' takes is not known"):
        pace("wino")
    with pytest.raises(BadRequest, match="saber has no radius"):
        pace("saber", 8)
    with pytest.raises(BadRequest, match="A radius is a number, at least 1"):
        refreshed(0.5)
    with pytest.raises(BadRequest, match="Of 3 updates at least 1 and at most all"):
        even(8, 8, 3, 4)


@pytest.mark.parametrize(
    "spelled",
    ["", "0", "8-", "9-3", "1,0", "much", "1.5", "-3", "999999999", "8-999999", "8,999999"],
)
def test_sizes_that_are_none(spelled: str) -> None:
    with pytest.raises(BadRequest, match="prompt takes a number of tokens"):
        sizes(spelled, "prompt")


def test_demand_is_drawn_as_asked() -> None:
    made = drawn(5.0, 2000, "10-20", "8,16")
    assert {each.length for each in made.wanted} == {8, 16}
    assert {each.prompt for each in made.wanted} == set(range(10, 21))
    assert made.rate == 5.0
    for count in (1, 7, 2000):
        assert drawn(5.0, count, "8", "8").times[-1] == pytest.approx(count / 5.0)
    assert made == drawn(5.0, 2000, "10-20", "8,16")
    assert 0.05 < sum(small(made.wanted)) / 2000 < 0.35
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
    assert made.wanted[0].trajectory(SHORT).updates == 3
    assert made.wanted[1].trajectory(Pace(0.5, 0.0)).updates == 4
    assert len(read_demand(path, 3.0).times) == 2
    assert read_demand(path, 3.0).wanted[0].prompt == 9


@pytest.mark.parametrize(
    ("content", "phrase"),
    [
        ("", "holds no request"),
        ("{", "requests.jsonl:1 is not JSON"),
        ("[]", "must be an object with some of prompt, length"),
        ('{"prompt": 1, "length": 1, "tokens": 3}', "must be an object with some of"),
        ('{"prompt": 0, "length": 1}', "prompt must be a whole number above 0 and .*, not '0'"),
        ('{"prompt": 1}', "length must be a whole number above 0 and at most .*, not 'None'"),
        ('{"prompt": 1, "length": 131073}', "length must be .* at most 131072, not '131073'"),
        ("\n" * 20_001, "has 20001 lines, and at most 20000 are simulated"),
        ('{"prompt": 1, "length": 1}', "Not every line .* says `at`"),
        ('{"prompt": 1, "length": 1, "at": -1}', "at must be a number of seconds"),
        ('{"prompt": 1, "length": 1, "updates": 3}', "full must be given with updates"),
        ('{"prompt": 1, "length": 1, "updates": 0, "full": 0}', "updates must be a whole number"),
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
    with pytest.raises(BadRequest, match="not a text in UTF-8"):
        read_demand(path, None)


def test_sizes_of_a_file_come_again_and_again() -> None:
    made = Demand((Wanted(1, 8), Wanted(2, 8), Wanted(3, 8)), (0.0, 0.0, 0.0), rate=2.0)
    found = repeated(made, 8, before=4)
    assert [each.prompt for each in found.wanted] == [3, 1, 2, 3, 1, 2, 3, 1]
    assert found.times[-1] == pytest.approx(4.0)
    assert found.rate == 2.0


def recording(drift: float = 1.0) -> Recording:
    """As if the simulated machine had been measured; it was `drift` times as fast when turns were timed."""
    made = [even(20 + 7 * number, 16, 9, 3) for number in range(8)]
    asked = [SimulatedRequest(each) for each in made]
    arrivals = tuple(0.1 * number for number in range(8))
    ran = simulate(asked, Arrivals(arrivals), lambda: ByEngine(64), COSTS)
    waits = tuple((each.number, each.seconds) for each in ran.answered)
    timed = [
        Timed(shares[:rows], COSTS.seconds(shares[:rows]) / drift)
        for shares in (made[0].shares, made[5].shares, made[7].shares)
        for rows in (1, 2, 4)
    ]
    run = Run("arrivals", arrivals, seconds=9.0, waits=waits, cpu=ran.busy)
    alone = tuple(sum(COSTS.seconds((share,)) for share in each.shares) / drift for each in made)
    return Recording(64, tuple(timed), tuple(made), alone, (run,))


def test_a_simulation_of_what_was_simulated_is_right(tmp_path: Path) -> None:
    path = tmp_path / "serve.json"
    path.write_text(json.dumps({"recording": recording().as_dict()}))
    read = read_recording(path)
    assert read == recording()
    assert read_timed(path) == read.timed
    found = list(compared(read))
    assert [each.what for each in found] == ["p50", "p99"]
    assert max(abs(each.error) for each in found) < 0.02


@pytest.mark.parametrize("drift", [0.7, 1.25])
def test_a_machine_that_drifts_after_its_turns_were_timed_is_followed(drift: float) -> None:
    made = recording(drift)
    for each in compared(made):
        assert abs(each.error) < 0.02
        assert each.drift == pytest.approx(drift, rel=0.02)
    (run,) = made.runs
    unpaced = replace(made, runs=(replace(run, cpu=0.0),))
    assert max(abs(each.error) for each in compared(unpaced)) > 0.1, "nobody counted what it took"


@pytest.mark.parametrize(
    ("content", "phrase"),
    [
        ("{", "is not JSON"),
        ("[1]", "must hold one JSON object"),
        ("{}", "holds no recording .* Measure again"),
        ('{"recording": {"budget": 3}}', "is damaged"),
    ],
)
def test_recordings_that_are_none(tmp_path: Path, content: str, phrase: str) -> None:
    path = tmp_path / "serve.json"
    path.write_text(content)
    with pytest.raises(BadRequest, match=phrase):
        read_recording(path)
    with pytest.raises(BadRequest, match="cannot be read"):
        read_recording(tmp_path / "none")
    if content == "{}":
        with pytest.raises(BadRequest, match="holds no timed passes"):
            read_timed(path)
