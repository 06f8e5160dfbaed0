"""Players in a page, and what one sees of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from archer.pages.page import Player, Section, page
from archer.pages.player import player_data
from archer.pages.trajectory import Trajectory, rows
from archer.results.trace import Update, states
from support.recorded import MASK, ended, start

if TYPE_CHECKING:
    from playwright.sync_api import Page

LENGTH = 24
Show = Callable[..., "Page"]
"""The fixture that opens a page."""


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
