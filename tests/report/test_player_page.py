"""The player in a browser: what it shows is what a plain replay of the trace gives."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from archer.report.page import Player, Section, page
from archer.report.player import player_data
from archer.report.trajectory import Trajectory, rows
from archer.trace import Placed, Update, states
from recorded import END, MASK, PIECES, ended, simulate, start, update

if TYPE_CHECKING:
    from playwright.sync_api import Page

LENGTH = 24
DESKTOP, PHONE = (1280, 900), (390, 844)
Show = Callable[..., "Page"]


def trajectory(events: list[Update], **options: Any) -> Trajectory:
    (found,) = rows([start(LENGTH, **options), *events, ended()])
    return found


def html_of(*runs: Trajectory) -> str:
    data = [player_data(run) for run in runs]
    return page("Runs", [Section("", [Player("Run", data, opened=True)])])


def replay(events: list[Update]) -> list[list[int]]:
    """The responses, the one before any update first."""
    return [[MASK] * LENGTH, *states(start(LENGTH), events)]


def shown(at: Page, panel: int = 0) -> list[int]:
    """The response that a panel holds now."""
    slots = at.locator(".response").nth(panel).locator(".slot")
    ids = slots.evaluate_all("slots => slots.map(slot => slot.dataset.id)")
    return [MASK if each == "" else int(each) for each in ids]


def marks(at: Page) -> list[str]:
    slots = at.locator(".response .slot")
    found: list[str] = slots.evaluate_all("slots => slots.map(slot => slot.dataset.mark)")
    return found


def now(at: Page) -> int:
    return int(at.locator(".player").first.get_attribute("data-update") or -1)


def scrub(at: Page, update: int) -> None:
    at.get_by_role("slider", name="Update").fill(str(update))


@pytest.mark.parametrize("seed", range(3))
def test_every_update_shows_the_response_of_a_plain_replay(show: Show, seed: int) -> None:
    events = simulate(seed)
    at = show(html_of(trajectory(events)))
    for number, response in enumerate(replay(events)):
        assert now(at) == number
        assert shown(at) == response
        at.keyboard.press("ArrowRight")
    assert now(at) == len(events), "there is nothing behind the end"


def test_scrubbing_shows_the_response_of_that_update(show: Show) -> None:
    events = simulate(5)
    at = show(html_of(trajectory(events)))
    responses = replay(events)
    for number in (3, len(events), 1, 0, 2):
        scrub(at, number)
        assert (now(at), shown(at)) == (number, responses[number])


def test_it_plays_to_the_end_and_again_from_the_start(show: Show) -> None:
    events = simulate(1)
    at = show(html_of(trajectory(events)))
    at.get_by_label("Updates per second").select_option("32")
    at.get_by_role("button", name="Play").click()
    at.locator(f".player[data-update='{len(events)}']").wait_for()
    assert shown(at) == replay(events)[-1]
    at.get_by_role("button", name="Play").click()
    at.locator(f".player:not([data-update='{len(events)}'])").wait_for()


def test_it_pauses_where_it_is(show: Show) -> None:
    events = simulate(1, length=LENGTH)
    at = show(html_of(trajectory(events)))
    at.get_by_label("Updates per second").select_option("16")
    at.locator(".player").focus()
    at.keyboard.press("Space")
    at.locator(".player:not([data-update='0'])").wait_for()
    at.keyboard.press("Space")
    here = now(at)
    at.wait_for_timeout(200)
    assert now(at) == here
    assert shown(at) == replay(events)[here]
    assert at.get_by_role("button", name="Play").is_visible()


def test_the_keyboard_is_enough(show: Show) -> None:
    events = simulate(2)
    at = show(html_of(trajectory(events)))
    keys = ["End", "ArrowLeft", "Home", "ArrowLeft", "ArrowRight", "ArrowRight"]
    seen = []
    for key in keys:
        at.keyboard.press(key)
        seen.append(now(at))
    assert seen == [len(events), len(events) - 1, 0, 0, 1, 2]
    at.locator(".slot[tabindex='0']").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowUp", "ArrowRight"):
        at.keyboard.press(key)
    assert at.locator(".slot[aria-selected='true']").get_attribute("data-at") == "1"
    assert "position 2" in at.locator(".history").inner_text()
    assert now(at) == 3
    at.keyboard.press("Escape")
    at.locator(".slot[data-at='7']").hover()
    assert "position 8" in at.locator(".history").inner_text()


def test_each_state_has_a_look_of_its_own_without_colour(show: Show) -> None:
    events = [
        update(1, accepted=[Placed(at=at, token=1, confidence=0.5) for at in range(5)]),
        update(2, remasked=[1, 2], doubts=[0.1, 0.2]),
        update(
            3,
            accepted=[Placed(at=at, token=5, confidence=0.9) for at in (2, 5)],
            replaced=[Placed(at=3, token=5, confidence=0.7)],
            remasked=[4],
        ),
        update(4),
    ]
    at = show(html_of(trajectory(events)))
    scrub(at, 3)
    expected = ["settled", "reopened", "accepted", "replaced", "remasked", "accepted", "masked"]
    assert marks(at)[:7] == expected
    looks = at.locator(".response .slot").evaluate_all(
        """slots => slots.slice(0, 7).map((slot) => {
             const style = getComputedStyle(slot);
             const lines = [style.textDecorationLine, style.outlineStyle, style.boxShadow !== "none"];
             const sign = "·∘".indexOf(slot.firstChild.data);
             return [...lines, style.fontWeight, sign].join();
           })"""
    )
    assert len(set(looks)) == 6, "both accepted ones look alike"
    scrub(at, 4)
    assert marks(at)[2:5] == ["revised", "revised", "reopened"]
    dotted = "slot => getComputedStyle(slot).borderBottomColor !== 'rgba(0, 0, 0, 0)'"
    assert at.locator("[data-mark='revised']").first.evaluate(dotted)


def test_the_history_of_a_position(show: Show) -> None:
    events = [
        update(1, call="full", accepted=[Placed(at=0, token=1, confidence=0.25)]),
        update(2, remasked=[0], doubts=[0.125]),
        update(3, call="reused", accepted=[Placed(at=0, token=5, confidence=None)]),
        update(4, replaced=[Placed(at=0, token=4, confidence=0.9996)]),
    ]
    at = show(html_of(trajectory(events)))
    at.locator(".slot[data-at='0']").click()
    entries = at.locator(".history li")
    told = [" ".join(each.split()) for each in entries.all_inner_texts()]
    assert told == [
        "update 1 placed f 0.250",
        "update 2 took back f 0.125",
        "update 3 placed x",
        "update 4 replaced by return 1.000",
    ]
    entries.nth(1).get_by_role("button").click()
    assert now(at) == 2
    assert entries.nth(1).get_attribute("aria-current") == "step"
    scrub(at, 4)
    said = at.locator(".history .now").inner_text()
    assert "id 4, confidence 1.000 when placed at update 4" in said
    at.locator(".slot[data-at='9']").click()
    assert "Nothing was ever placed here" in at.locator(".history").inner_text()


def test_a_re_mask_of_nothing_shows_a_mask(show: Show) -> None:
    at = show(html_of(trajectory([update(1, remasked=[0])])))
    at.keyboard.press("End")
    assert at.locator(".response .slot").first.inner_text() == "∘"
    at.locator(".response .slot").first.click()
    assert "took back" in at.locator(".history").inner_text()


def test_a_chosen_token_stays_until_the_focus_leaves_it(show: Show) -> None:
    at = show(html_of(trajectory(simulate(1))))
    chosen = at.locator(".history .now b")
    at.locator(".response .slot").nth(3).click()
    at.locator(".response .slot").nth(5).hover()
    assert chosen.inner_text() == "position 4"
    at.get_by_role("button", name="One update on").click()
    assert chosen.inner_text() == "position 4"
    at.locator(".response .slot").nth(5).hover()
    assert chosen.inner_text() == "position 6"


def test_the_numbers_of_an_update(show: Show) -> None:
    events = simulate(3)
    at = show(html_of(trajectory(events)))
    for number in (1, 4, len(events)):
        scrub(at, number)
        event, past = events[number - 1], [each.call for each in events[:number]]
        said = at.locator("p.numbers").inner_text().replace("\n", " ")
        counts = [f"{past.count(call)} {call}" for call in ("full", "cached", "reused")]
        placed = LENGTH - replay(events)[number].count(MASK)
        for words in (
            f"update {number} of {len(events)}",
            f"pass {event.call}",
            f"distance {event.distance} of 4",
            f"placed {placed} of {LENGTH}",
            f"+{len(event.accepted)} −{len(event.remasked)}",  # noqa: RUF001
            ", ".join(counts),
        ):
            assert words in re.sub(r"\s+", " ", said)
    assert "all positions filled" in said


def test_the_strip_marks_the_passes_and_can_be_scrubbed(show: Show) -> None:
    events = simulate(3)
    at = show(html_of(trajectory(events)))
    strip = at.locator(".strip")
    calls = [event.call for event in events]
    assert strip.locator("path.full").count() == calls.count("full")
    assert strip.locator("circle.cached").count() == calls.count("cached")
    assert strip.locator("path.reused").count() == calls.count("reused")
    heights = strip.locator("rect").evaluate_all(
        "bars => bars.map(bar => +bar.getAttribute('height'))"
    )
    ordered = sorted(zip((event.distance for event in events), heights, strict=True))
    assert [height for _, height in ordered] == sorted(heights)
    assert strip.locator("text").all_text_contents() == ["K = 4"]
    box = strip.bounding_box()
    assert box is not None
    strip.click(position={"x": box["width"] - 2, "y": 20})
    assert now(at) == len(events)


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


def test_a_row_that_failed_at_once_says_why(show: Show) -> None:
    (found,) = rows([start(LENGTH), ended(reason="error", error="The logits were NaN.")])
    at = show(html_of(found))
    assert shown(at) == [MASK] * LENGTH
    assert "The logits were NaN." in at.locator("p.numbers").inner_text()
    at.keyboard.press("Space")
    at.keyboard.press("ArrowRight")
    assert now(at) == 0


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
    buttons = at.locator(".controls button:visible")
    tops = buttons.evaluate_all("all => all.map(each => each.getBoundingClientRect().top)")
    assert len(set(tops)) == 1, "the buttons fit beside each other"


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


def test_ids_are_shown_where_there_is_no_tokenizer(show: Show) -> None:
    events = simulate(1)
    at = show(html_of(trajectory(events, pieces=None)))
    at.keyboard.press("End")
    texts = at.locator(".response .slot").all_inner_texts()
    final = replay(events)[-1]
    assert texts == ["∎" if token == END else str(token) for token in final]
