"""Take the picture of the player in `docs/view.md`: `python docs/picture_player.py`. Needs Chromium.

To be run after the page has changed, or the bundled model.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

import archer
from archer.cli.demo import EXAMPLE
from archer.pages.page import Player, Section, page
from archer.pages.player import player_data
from archer_studies.probes.trajectories import decoded

TARGET = Path(__file__).parent / "images" / "player.png"
WIDTH, HEIGHT = 1180, 780
UPDATE = 36
"""Before either run has ended: the slider of the shorter one has no further place."""


def main() -> None:
    model = archer.load("pocket", device="cpu", dtype="float32")
    prompt = model.request([EXAMPLE], "archer").prompts[0].prefix
    runs = [
        player_data(decoded(model, prompt, method, settings).trajectory)
        for method, settings in (("saber", {}), ("archer", {"radius": 8}))
    ]
    shortest = min(len(run["updates"]) for run in runs)
    if shortest <= UPDATE:
        raise SystemExit(f"The shorter run has {shortest} updates: choose an UPDATE below that.")
    player = Player("Saber beside Archer on one problem", runs, opened=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = Path(folder) / "player.html"
        path.write_text(page("", [Section("", [player])]), encoding="utf-8")
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        at = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        at.goto(path.as_uri())
        at.get_by_role("slider", name="Update").first.fill(str(UPDATE))
        at.locator(".player").first.screenshot(path=TARGET)
        browser.close()


if __name__ == "__main__":
    main()
