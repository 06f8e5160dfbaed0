"""Two trajectories, many players, hostile text, small screens: the player where it must fit in."""

import re

import pytest

from archer.pages.page import Player, Section, page
from archer.pages.player import player_data
from pages.playing import LENGTH, Show, html_of, now, replay, scrub, shown, trajectory
from support.recorded import END, MASK, PIECES, simulate, update

DESKTOP, PHONE = (1280, 900), (390, 844)


def test_two_trajectories_start_where_they_part(show: Show) -> None:
    one, two = simulate(1, parts_at=4), simulate(2, parts_at=4)
    left, right = replay(one), replay(two)
    parted = next(n for n, (a, b) in enumerate(zip(left, right, strict=False)) if a != b)
    assert parted == 4
    at = show(html_of(trajectory(one), trajectory(two)))
    assert now(at) == parted
    assert (shown(at), shown(at, 1)) == (left[parted], right[parted])
    assert at.locator(".parted").inner_text() == "First divergence: update 4."
    apart = [n for n, (a, b) in enumerate(zip(left[4], right[4], strict=True)) if a != b]
    found = at.locator(".response").first.locator(".differs")
    assert found.evaluate_all("slots => slots.map(slot => +slot.dataset.at)") == apart
    at.keyboard.press("End")
    assert (shown(at), shown(at, 1)) == (left[-1], right[-1]), "the shorter one waits at its end"
    at.keyboard.press("d")
    assert now(at) == parted
    at.keyboard.press("ArrowLeft")
    assert at.locator(".response .differs").count() == 0


def test_a_trajectory_that_ends_sooner_parts_there(show: Show) -> None:
    events = simulate(1)
    at = show(html_of(trajectory(events), trajectory(events[:-2])))
    assert now(at) == len(events) - 1


def test_strips_beside_each_other_have_one_scale(show: Show) -> None:
    near = [update(1, distance=0), update(2, distance=4)]
    far = [update(1, distance=0), update(2, distance=40)]
    at = show(html_of(trajectory(near), trajectory(far)))
    lines = at.locator(".strip .radius").evaluate_all("all => all.map(e => e.getAttribute('y1'))")
    assert len(lines) == 2
    assert len(set(lines)) == 1


def test_equal_trajectories_are_said_to_be_so(show: Show) -> None:
    same = trajectory(simulate(1))
    at = show(html_of(same, same))
    assert now(at) == 0
    assert at.locator(".parted").inner_text() == "The two are identical."
    assert at.get_by_role("button", name="First divergence").count() == 0


def test_players_are_built_when_opened_and_do_not_disturb_each_other(show: Show) -> None:
    first, second = simulate(1), simulate(2)
    data = [[player_data(trajectory(events))] for events in (first, second)]
    players = [Player(f"Run {number}", runs) for number, runs in enumerate(data)]
    at = show(page("Runs", [Section("Runs", players)]))
    assert at.locator(".player").count() == 0
    at.get_by_text("Run 1").click()
    at.locator(".player").wait_for()
    assert at.locator(".player").count() == 1
    at.get_by_text("Run 0").click()
    at.locator(".player").nth(1).wait_for()
    at.keyboard.press("End")
    assert shown(at, 0) == replay(first)[-1]
    assert shown(at, 1) == [MASK] * LENGTH
    at.get_by_text("Run 0").click()
    at.get_by_text("Run 0").click()
    assert shown(at, 0) == replay(first)[-1], "closing forgets nothing"


def test_text_that_looks_like_markup_stays_text(show: Show) -> None:
    evil = "</script><script>window.hacked=1</script><img src=x onerror=window.hacked=1>"
    pieces = {**dict.fromkeys(PIECES, evil), END: "<|end|>"}
    at = show(html_of(trajectory(simulate(1), pieces=pieces)))
    at.keyboard.press("End")
    assert at.evaluate("window.hacked") is None
    assert evil in at.locator(".response").inner_text()
    at.locator(".response .slot").first.hover()
    at.get_by_text("Prompt", exact=True).click()
    assert at.locator(".about pre").inner_text() == evil * 3
    assert at.evaluate("window.hacked") is None


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_sticks_out(show: Show, size: tuple[int, int], scheme: str) -> None:
    pieces = {**PIECES, 5: " a_name_that_is_much_longer_than_any_line_of_a_telephone_can_be"}
    runs = trajectory(simulate(1), pieces=pieces), trajectory(simulate(2), pieces=pieces)
    at = show(html_of(*runs), size, color_scheme=scheme)
    at.keyboard.press("End")
    at.locator(".response .slot").first.hover()
    assert at.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    paper = at.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(255, 255, 255)") == (scheme == "light")
    boxes = [each.bounding_box() for each in at.locator(".buttons > *:visible").all()]
    middles = [box["y"] + box["height"] / 2 for box in boxes if box is not None]
    assert len(middles) >= 6
    assert max(middles) - min(middles) < 2, "all controls fit beside each other"


def test_everything_that_can_be_used_has_a_name_and_one_tab_stop(show: Show) -> None:
    at = show(html_of(trajectory(simulate(1))), reduced_motion="reduce")
    for role in ("button", "slider", "combobox", "listbox"):
        found = at.get_by_role(role)
        assert found.count() > 0
        assert found.count() == at.get_by_role(role, name=re.compile(r"\w")).count()
    assert at.locator(".slot[tabindex='0']").count() == 1
    scrub(at, 1)
    labels = at.get_by_role("option").evaluate_all("all => all.map(e => e.ariaLabel)")
    assert labels[0].startswith("position 1, ")
    seconds = "slot => getComputedStyle(slot).transitionDuration"
    assert at.locator(".response .slot").first.evaluate(seconds) == "0s"
