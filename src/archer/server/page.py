"""The page at `/`: the player of `archer view`, fed by the API while the model decodes.

One file without any request but those to the API.  It knows nothing of the model by itself, so it needs no
key to be shown; the key that its user types stays in the memory of the page.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from archer.pages import embed, player
from archer.pages.page import POLICY, Player, Section
from archer.pages.page import page as report_page

HEADERS: Mapping[str, str] = {
    "content-security-policy": (
        f"{POLICY}; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "cache-control": "no-cache",
}
TITLE, SUMMARY, RUNS = "%title%", "%summary%", "%runs%"
"""What the page puts into the file that it saves."""


@cache
def page() -> str:
    """The whole page, the same for every model."""
    script = f"{player.script().removesuffix('})();' + chr(10))}{_asset('live.js')}}})();\n"
    saved = report_page(TITLE, [Section("", [Player(SUMMARY, [{"runs": RUNS}], opened=True)])])
    return (
        _asset("live.html")
        .replace("/* style */", embed.asset("page.css") + player.style() + _asset("live.css"))
        .replace("/* file */", embed.data(saved))
        .replace("/* script */", script)
    )


def _asset(name: str) -> str:
    return files("archer.server").joinpath("assets", name).read_text(encoding="utf-8")
