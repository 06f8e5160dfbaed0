"""Whose turn it is, as a pure function: budgets hold, memory holds, nobody waits for ever."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from archer.engine.schedule import PATIENCE, Application, Offer, Room, admit, choose

waiting = {
    "tag": st.integers(0, 10_000),
    "waited": st.floats(0, 100),
    "left": st.floats(1, 10_000),
    "priority": st.integers(0, 1),
    "passed_over": st.integers(0, 40),
}
offers = st.lists(
    st.builds(Offer, **waiting, columns=st.integers(0, 600), isolated=st.booleans()),
    max_size=12,
    unique_by=lambda offer: offer.tag,
)
owners = st.sampled_from([None, "a", "b"])
applications = st.lists(
    st.builds(
        Application, **waiting, bytes=st.integers(1, 100), rows=st.integers(1, 4), owner=owners
    ),
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
    if not together[0].isolated:
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
