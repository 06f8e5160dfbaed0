"""The player in a browser: what it shows is what a plain replay of the trace gives."""

import re

import pytest

from archer.pages.trajectory import rows
from archer.results.trace import Placed, Update
from pages.playing import LENGTH, Show, html_of, marks, now, replay, scrub, shown, trajectory
from support.recorded import END, MASK, ended, simulate, start, update


@pytest.mark.parametrize("seed", range(3))
def test_every_update_shows_the_response_of_a_plain_replay(show: Show, seed: int) -> None:
    events = simulate(seed)
    at = show(html_of(trajectory(events)))
    for number, response in enumerate(replay(events)):
        assert now(at) == number
        assert shown(at) == response
        at.keyboard.press("ArrowRight")
    assert now(at) == len(events), "there is nothing behind the end"


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
    at.get_by_role("button", name="One update forward").click()
    assert chosen.inner_text() == "position 4"
    at.locator(".response .slot").nth(5).hover()
    assert chosen.inner_text() == "position 6"


def _counted(events: list[Update], number: int) -> str:
    """What one update changed: text, and end marks where there are some."""
    event, before = events[number - 1], replay(events)[number - 1]
    now = {change.at: change.token for change in event.accepted}
    lists = (
        [change.token for change in event.accepted],
        [now.get(at, before[at]) for at in event.remasked],
        [change.token for change in event.replaced],
    )
    ends = [tokens.count(END) for tokens in lists]
    text = [len(tokens) - count for tokens, count in zip(lists, ends, strict=True)]

    def said(placed: int, taken: int, replaced: int) -> str:
        return f"+{placed} −{taken}" + (f" ~{replaced}" if replaced else "")  # noqa: RUF001

    return said(*text) + (f", ∎ {said(*ends)}" if any(ends) else "")


def ending(length: int, marks: int) -> list[Update]:
    """Text, and end marks behind it, in two updates."""
    places = [
        Placed(at=at, token=END if at >= length - marks else 1, confidence=0.5)
        for at in range(length)
    ]
    return [update(1, call="full", accepted=places[-3:]), update(2, accepted=places[:-3])]


def test_end_marks_at_the_end_are_one_cell(show: Show) -> None:
    """Each can still be looked at by going to it; the data are those of every position."""
    at = show(html_of(trajectory(ending(LENGTH, 10))))
    folded = at.locator(".response .slot.folded")
    for number, count in ((1, 3), (2, 10)):
        scrub(at, number)
        assert folded.count() == count - 1
        lead = at.locator(f".slot[data-at='{LENGTH - count}']")
        assert lead.inner_text() == f"∎ x {count}"
        assert (
            lead.get_attribute("aria-label")
            == f"position {LENGTH - count + 1}, placed now: ∎ and {count - 1} more"
        )
        assert "fresh" in (lead.get_attribute("class") or "")
    assert folded.first.bounding_box()["width"] <= 1  # type: ignore[index]
    scrub(at, 1)
    assert shown(at)[-3:] == [END] * 3
    at.locator(f".slot[data-at='{LENGTH - 3}']").click()
    at.keyboard.press("ArrowDown")
    assert at.locator(".history .now b").inner_text() == f"position {LENGTH - 1}"
    assert at.locator(f".slot[data-at='{LENGTH - 2}']").bounding_box()["width"] > 1  # type: ignore[index]


def test_of_end_marks_that_differ_each_is_shown(show: Show) -> None:
    both = [trajectory(ending(LENGTH, marks)) for marks in (10, 6)]
    at = show(html_of(*both))
    at.keyboard.press("End")
    assert at.locator(".panel").nth(0).locator(".slot.folded").count() == 5
    assert (
        at.locator(".panel").nth(0).locator(f".slot[data-at='{LENGTH - 6}']").inner_text()
        == "∎ x 6"
    )


def test_a_cache_that_counts_nats_is_drawn_by_them(show: Show) -> None:
    """With a line at its limit; what is far above it is cut, and said to be."""
    counted = [
        event.model_copy(update={"drift": drift})
        for event, drift in zip(ending(LENGTH, 10), (0.2, 9.0), strict=True)
    ]
    run = trajectory(counted)
    run.start = run.start.model_copy(update={"settings": {"nats": 0.5}})
    at = show(html_of(run))
    scrub(at, 1)
    assert "unexpected nats 0.20 of 0.5" in re.sub(
        r"\s+", " ", at.locator("p.numbers").inner_text()
    )
    assert at.locator(".strip text").text_content() == "0.5 nats"
    key = at.locator(".strip-key").inner_text()
    assert key.startswith(
        "Bars: nats that the prompt's cache did not expect since the last full pass, cut at 2.0."
    )
    small, large = (
        box["height"]
        for box in at.locator(".strip rect").evaluate_all(
            "bars => bars.map(bar => bar.getBoundingClientRect().toJSON())"
        )
    )
    line = at.locator(".strip .radius").bounding_box()
    assert line is not None
    assert 0 < small < large
    assert large == pytest.approx(small * 10, rel=0.05), "2.0 of 0.2"


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
            f"change {_counted(events, number)} threshold",
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


def test_a_row_that_failed_at_once_says_why(show: Show) -> None:
    (found,) = rows([start(LENGTH), ended(reason="error", error="The logits were NaN.")])
    at = show(html_of(found))
    assert shown(at) == [MASK] * LENGTH
    assert "The logits were NaN." in at.locator("p.numbers").inner_text()
    at.keyboard.press("Space")
    at.keyboard.press("ArrowRight")
    assert now(at) == 0
    (nameless,) = rows([start(LENGTH, pieces=None), ended(reason="error", error="NaN")])
    assert show(html_of(nameless)).locator("[data-final='·']").count() == LENGTH


def test_what_is_given_stands_from_the_start_and_is_told_apart(show: Show) -> None:
    first = start(5).model_copy(update={"given": [[None, 1, None, 2, 5]]})
    placed = [Placed(at=0, token=4, confidence=0.5), Placed(at=2, token=4, confidence=0.75)]
    events = [update(1, accepted=placed[:1]), update(2, accepted=placed[1:])]
    end = ended()
    end.completion["parts"] = ["def f(x):", "", ""]
    (found,) = rows([first, *events, end])
    at = show(html_of(found))
    assert at.locator(".response > .before").inner_text() == "def f(x):", "the line before the gap"
    assert shown(at) == [MASK, 1, MASK, 2, 5]
    assert marks(at) == ["masked", "given", "masked", "given", "given"]
    assert "0 of 2" in at.locator(".numbers").inner_text()
    at.keyboard.press("End")
    assert shown(at) == [4, 1, 4, 2, 5]
    assert "2 of 2" in at.locator(".numbers").inner_text()
    assert "given" in at.get_by_label("Signs").inner_text()
    at.locator(".response .slot").nth(1).hover()
    assert "given" in at.locator(".history").inner_text()
