"""Whose turn it is, as a pure function: budgets hold, memory holds, nobody waits for ever."""

from collections import Counter
from collections.abc import Hashable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archer.engine.schedule import (
    EVEN,
    HALF_LIFE,
    KNEES,
    PATIENCE,
    Application,
    Offer,
    Room,
    Usage,
    admit,
    choose,
    columns_by_owner,
    may_wait,
    shortage,
)

waiting = {
    "tag": st.integers(0, 10_000),
    "waited": st.floats(0, 100),
    "left": st.floats(1, 10_000),
    "priority": st.integers(0, 1),
    "passed_over": st.integers(0, 40),
    "owner": st.sampled_from([None, "a", "b"]),
}
offers = st.lists(
    st.builds(Offer, **waiting, columns=st.integers(0, 600), isolated=st.booleans()),
    max_size=12,
    unique_by=lambda offer: offer.tag,
)
applications = st.lists(
    st.builds(Application, **waiting, bytes=st.integers(1, 100), rows=st.integers(1, 4)),
    max_size=12,
    unique_by=lambda each: each.tag,
)


@given(offers, st.integers(1, 1024))
def test_a_pass_keeps_to_its_budget_and_to_its_order(drawn: list[Offer[int]], budget: int) -> None:
    chosen = choose(drawn, budget)
    by_tag = {offer.tag: offer for offer in drawn}
    assert bool(chosen) == bool(drawn)
    assert len(set(chosen)) == len(chosen)
    if not chosen:
        return
    assert by_tag[chosen[0]].rank == min(offer.rank for offer in drawn)
    together = [by_tag[tag] for tag in chosen]
    if len(chosen) > 1:
        assert sum(offer.columns for offer in together) <= budget
        assert not any(offer.isolated for offer in together)
    left = budget - sum(offer.columns for offer in together)
    if not together[0].isolated and len({offer.owner for offer in drawn}) == 1:
        others = [o for o in drawn if o.tag not in chosen and not o.isolated]
        assert all(offer.columns > left for offer in others)


def test_the_higher_response_ratio_goes_first_and_priority_before_it() -> None:
    long = Offer(tag="long", waited=10.0, left=1000.0, columns=5)
    short = Offer(tag="short", waited=1.0, left=10.0, columns=5)
    assert choose([long, short], 5) == ["short"]
    assert choose([replace(long, waited=200.0), short], 5) == ["long"]
    assert choose([long, replace(short, priority=1)], 5) == ["long"]
    assert choose([long, replace(short, priority=1, passed_over=PATIENCE)], 5) == ["short"]


@given(st.integers(2, 12), st.integers(0, 2**16))
def test_nobody_is_left_out_for_long(count: int, seed: int) -> None:
    """However the ratios stand, with room for one in a pass everyone has had a turn in time."""
    passed = dict.fromkeys(range(count), 0)
    served: set[int] = set()
    for _ in range(PATIENCE + 2 * count):
        drawn = [
            Offer(tag=tag, waited=float(tag), left=1.0 + (seed >> tag) % 7, passed_over=over)
            for tag, over in passed.items()
        ]
        (tag,) = choose(drawn, 1)
        served.add(tag)
        passed = {each: 0 if each == tag else over + 1 for each, over in passed.items()}
    assert served == set(passed)


@given(applications, st.integers(0, 200), st.none() | st.integers(1, 6))
def test_admission_keeps_to_memory_and_to_what_an_owner_may_have(
    drawn: list[Application[int]], free: int, per_owner: int | None
) -> None:
    room: Room[int] = Room(free, {"a": 1}, per_owner)
    admitted = [each for each in drawn if each.tag in set(admit(drawn, room))]
    assert sum(each.bytes for each in admitted) <= free
    left = free - sum(each.bytes for each in admitted)
    if per_owner is None and not any(each.passed_over >= PATIENCE for each in drawn):
        assert all(each.bytes > left for each in drawn if each not in admitted)
    for owner in ("a", "b"):
        rows = sum(each.rows for each in admitted if each.owner == owner)
        if per_owner is not None and rows:
            assert rows + room.rows.get(owner, 0) <= per_owner


def test_a_large_request_is_overtaken_for_a_while_only() -> None:
    large = Application(tag="large", waited=9.0, left=1.0, bytes=100)
    small = Application(tag="small", waited=1.0, left=1.0, bytes=10)
    room: Room[str] = Room(50, {})
    assert admit([large, small], room) == ["small"]
    assert admit([replace(large, passed_over=PATIENCE), small], room) == []
    assert admit([replace(large, passed_over=PATIENCE), small], Room(110, {})) == ["large", "small"]


# ----------------------------------------------------------------------------------------------- owners


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 40)),
    st.sampled_from("abcdefg"),
    st.integers(1, 16),
    st.integers(1, 64),
)
def test_nobody_below_an_equal_share_of_the_queue_is_refused(
    queued: dict[Hashable, int], owner: str, more: int, limit: int
) -> None:
    owners = {each for each, count in queued.items() if count} | {owner}
    allowed = may_wait(queued, owner, more, limit)
    assert allowed == (
        sum(queued.values()) + more <= limit
        or queued.get(owner, 0) + more <= max(1, limit // len(owners))
    )
    assert may_wait({}, owner, min(more, limit), limit), "who is there alone may have all of it"


@pytest.mark.parametrize("owners", [65, 1_000])
def test_however_many_owners_there_are_each_may_have_one_wait(owners: int) -> None:
    limit = 64
    queued: Counter[Hashable] = Counter({"greedy": limit})
    for owner in range(owners):
        assert may_wait(queued, owner, 1, limit)
        queued[owner] += 1
        assert not may_wait(queued, "greedy", 1, limit)
    assert not any(may_wait(queued, owner, 1, limit) for owner in range(owners))


@given(st.lists(st.integers(0, 9), max_size=400), st.integers(1, 64))
def test_a_queue_is_bounded_however_many_share_it(asking: list[int], limit: int) -> None:
    queued: Counter[Hashable] = Counter()
    for owner in asking:
        queued[owner] += may_wait(queued, owner, 1, limit)
    assert queued.total() <= sum(max(1, limit / place) for place in range(1, 11))
    assert max(queued.values(), default=0) <= limit


def offer(tag: str, columns: int = 64, **fields: object) -> Offer[str]:
    """Of the owner that its first letter names."""
    made = Offer(tag=tag, waited=1.0, left=100.0, columns=columns, owner=tag[0])
    return replace(made, **fields)  # type: ignore[arg-type]


def test_who_had_less_goes_first_and_is_not_held_up_by_who_had_more() -> None:
    greedy = [offer(f"a{n}", waited=99.0, passed_over=PATIENCE) for n in range(16)]
    modest = [offer("b0"), offer("c0")]
    had: dict[Hashable, float] = {"a": 6.0, "b": 1.0, "c": 2.0}
    assert set(choose([*greedy, *modest], 1024, had)) == {"b0", "c0"}
    assert choose([*greedy, modest[0]], 1024, had) == ["b0"]
    assert len(choose(greedy, 1024, {"a": 6.0})) == 16, "who is there alone has the whole pass"
    assert len(choose(greedy, 1024, had)) == 16 // KNEES, "others may ask while it is made"
    large = [replace(each, columns=512) for each in greedy]
    assert len(choose(large, 1024, had)) == 1
    assert set(choose([*greedy, *modest], 1024, {})) == {"a0", "b0", "c0"}, (
        "where nobody had anything, all get on"
    )


def test_even_owners_share_a_pass() -> None:
    both = [offer("a0"), offer("b0")]
    cases: list[dict[Hashable, float]] = [
        {"a": 1.0, "b": 1.0},
        {"a": 1.0, "b": 0.9},
        {"a": 1.2, "b": 0.9},
    ]
    for had in cases:
        assert sorted(choose(both, 1024, had)) == ["a0", "b0"], had
        assert len(choose([*both, offer("a1"), offer("b1")], 1024, had)) == 4, had
        assert sorted(choose([*both, offer("a1")], 1024, had)) == ["a0", "b0"], had
    assert choose([*both, offer("a1")], 1024, {"a": 2.0, "b": 0.1}) == ["b0"]


def test_who_comes_anew_and_asks_for_much_holds_up_nobody_who_asks_for_little() -> None:
    greedy = [offer(f"a{n}") for n in range(16)]
    modest = [offer("b0"), offer("c0", columns=32)]
    had: dict[Hashable, float] = {"a": 0.0, "b": 4.0, "c": 5.0}
    assert set(choose([*greedy, *modest], 1024, had)) == {"a0", "b0", "c0"}
    large = [offer(f"a{n}", columns=512) for n in range(16)]
    assert set(choose([*large, *modest], 1024, had)) == {"a0", "b0", "c0"}, "its turn all the same"
    several = [*greedy, offer("b0"), offer("b1"), modest[1]]
    assert set(choose(several, 1024, had)) == {"a0", "c0"}, "who asks for more than the least waits"


def test_work_that_may_wait_does_so_also_of_an_owner_that_had_little() -> None:
    had: dict[Hashable, float] = {"a": 6.0, "b": 1.0}
    batch, other = offer("b0", priority=1), offer("a0")
    assert choose([batch, other], 64, had) == ["a0"]
    assert choose([replace(batch, passed_over=PATIENCE), other], 64, had) == ["b0"]


@given(offers, st.integers(1, 1024), st.dictionaries(waiting["owner"], st.floats(0, 9)))
def test_no_owner_fills_a_pass_that_others_want(
    drawn: list[Offer[int]], budget: int, had: dict[Hashable, float]
) -> None:
    drawn = [replace(each, priority=0, isolated=False) for each in drawn]
    chosen = choose(drawn, budget, had)
    assert bool(chosen) == bool(drawn)
    assert len(set(chosen)) == len(chosen)
    present = {each.owner: had.get(each.owner, 0.0) for each in drawn}
    if len(present) < 2:
        return
    first = next(each for each in drawn if each.tag == chosen[0])
    asked = columns_by_owner(drawn, [each.tag for each in drawn])
    columns = columns_by_owner(drawn, chosen)
    least = max(min(asked.values()), first.columns)
    assert max(columns.values()) <= least
    share = sum(present.values()) / len(present)
    below = {owner for owner, seconds in present.items() if seconds < share}
    if below:
        assert first.owner in below
        over = {owner for owner in present if present[owner] > EVEN * share}
        assert not any(asked[owner] > least and columns.get(owner) for owner in over)
    left = budget - sum(columns.values())
    for each in drawn:
        waits = below and asked[each.owner] > least and present[each.owner] > EVEN * share
        full = columns.get(each.owner, 0) + each.columns > least
        assert each.tag in chosen or each.columns > left or full or waits, "nobody else is left out"


def test_what_was_had_long_ago_counts_less_and_is_forgotten() -> None:
    usage = Usage()
    usage.add({"a": 30, "b": 10}, 4.0)
    usage.add({"a": 0}, 1.0)
    assert usage.now(0.0) == {"a": 3.0, "b": 1.0}
    assert usage.now(HALF_LIFE) == {"a": 1.5, "b": 0.5}
    assert usage.now(HALF_LIFE - 5.0) == {"a": 1.5, "b": 0.5}, (
        "a clock that goes back changes nothing"
    )
    assert usage.now(100 * HALF_LIFE) == {}


def test_who_had_next_to_nothing_does_not_shorten_the_passes_of_one_who_is_alone() -> None:
    """A client that is alone should not make short passes for minutes because somebody asked once."""
    usage = Usage()
    usage.spent("once", 1.0)
    asks = [offer(f"a{n}", columns=10, owner="alone") for n in range(100)]
    for second in range(60):
        usage.spent("alone", 1.0)
        chosen = choose(asks, 1000, usage.now(float(second)))
        assert len(chosen) == (100 // KNEES if second < 40 else 100)


@pytest.mark.parametrize("seconds", [0.002, 0.02, 0.2])
def test_small_passes_add_up_beside_an_owner_that_had_much(seconds: float) -> None:
    """However short they are: who makes many of them is not always the one that had nothing."""
    usage, now = Usage(), 0.0
    for _ in range(500):
        usage.spent("much", 0.2)
        now += 0.2
        usage.now(now)
    came = now
    asks = [offer("m", columns=4096, owner="much"), offer("f", columns=64, owner="few")]
    while (chosen := choose(asks, 4096, usage.now(now))) == ["f"]:
        usage.add(columns_by_owner(asks, chosen), seconds)
        now += seconds
    assert now - came < 1.5 * HALF_LIFE


def wants(tag: str, bytes: int, **fields: object) -> Application[str]:
    made = Application(tag=tag, waited=1.0, left=1.0, bytes=bytes, owner=tag[0])
    return replace(made, **fields)  # type: ignore[arg-type]


def test_memory_is_shared_and_the_rest_is_lent() -> None:
    many = [wants(f"a{n}", 10, waited=99.0) for n in range(20)]
    few = [wants("b0", 10), wants("c0", 10)]
    admitted = admit([*many, *few], Room(100, {}))
    assert len(admitted) == 10
    assert {"b0", "c0"} < set(admitted), "others have eight, though they waited longer"
    assert len(admit(many, Room(100, {}))) == 10


def test_nothing_is_lent_while_somebody_lacks_a_share() -> None:
    room: Room[str] = Room(20, {}, held={"a": 80})
    assert admit([wants("a8", 10, waited=99.0), wants("b0", 30)], room) == []
    assert admit([wants("a8", 10, waited=99.0), wants("b0", 60)], room) == ["a8"], (
        "beyond its share"
    )
    assert shortage([wants("a8", 10), wants("b0", 30)], room) == 10
    assert shortage([wants("a8", 10), wants("b0", 60)], room) == 0
    assert shortage([wants("a8", 30)], room) == 0, "nobody else is there"
    assert shortage([wants("b0", 30, rows=3)], Room(20, {}, 2, held={"a": 80})) == 0


def test_a_request_beyond_its_owner_s_share_has_its_turn_when_it_waited_for_long() -> None:
    giant, small = wants("a0", 90), wants("b1", 10, waited=99.0)
    held: Room[str] = Room(90, {}, held={"b": 10})
    assert admit([giant, small], held) == ["b1"]
    late = replace(giant, passed_over=PATIENCE)
    assert admit([late, small], Room(90, {}, held={"b": 10})) == ["a0"]
    assert admit([late, small], Room(80, {}, held={"b": 20})) == [], "others wait until it fits"
