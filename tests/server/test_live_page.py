"""The page at / in Chromium: what one sees while a model decodes, and what is left at the end."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from archer.model import Model
from archer.pages.page import Player, Section, page
from archer.pages.player import player_data
from archer.pages.trajectory import rows
from archer.pocket import grids
from archer.request.fill import Fill
from archer.results.trace import End, Speller, start, updates
from archer.server.app import page as live_page
from server.running import PROBLEM, SLOW, Client, serving, until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

DESKTOP, PHONE = (1280, 900), (390, 844)
KEY = "a-key-that-is-typed-in"
Open = Callable[..., "Page"]


@pytest.fixture
def show(client: Client, browser: Browser) -> Iterator[Open]:
    """Opens the page; at the end its console was silent and it asked nobody but its server."""
    wrong: list[str] = []
    pages: list[Page] = []

    def opened(
        at: Client = client,
        size: tuple[int, int] = DESKTOP,
        complaints: bool = False,
        **options: Any,
    ) -> Page:
        home = f"http://127.0.0.1:{at.port}/"
        made = browser.new_page(viewport={"width": size[0], "height": size[1]}, **options)
        if not complaints:
            made.on("console", lambda message: wrong.append(message.text))
        made.on("pageerror", lambda error: wrong.append(str(error)))
        made.on(
            "request",
            lambda request: (
                None
                if request.url.startswith((home, "data:", "blob:"))
                else wrong.append(request.url)
            ),
        )
        made.goto(home)
        pages.append(made)
        return made

    yield opened
    for each in pages:
        each.close()
    assert wrong == []


def fill(at: Page, **fields: str) -> None:
    for name, value in fields.items():
        at.locator(f"#{name}").fill(value)


def finish(at: Page) -> None:
    at.get_by_role("button", name="Run").click()
    at.get_by_text("Done.", exact=True).wait_for(timeout=60_000)


def said(at: Page) -> list[str]:
    return at.locator("#texts pre").all_text_contents()


def told(model: Model, method: str, prompt: str, length: int) -> dict[str, Any]:
    """The same run by the library, as data of the player."""
    stream = model.stream(prompt, method, length=length)
    speller = Speller(stream.request)
    events: list[Any] = [start(stream.request)]
    for step in stream:
        events += [speller.spelled(event) for event in updates(step.record)]
    (done,) = stream.finish()
    (found,) = rows([*events, End(row=0, completion=done.to_dict())])
    return player_data(found)


TEXT = f"{PROBLEM}\n    result = 0\n    for value in nums:\n        ___\n    return ___"


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["1280", "390"])
def test_a_gap_is_typed_filled_and_watched(
    pocket: Model, show: Open, size: tuple[int, int], tmp_path: Path
) -> None:
    at = show(size=size)
    before, between, behind = TEXT.split("___")
    fill(at, prompt=before, first="archer-doubt", second="saber", length="16")
    at.locator("#prompt").press("Control+End")
    for part in (between, behind):
        at.get_by_role("button", name="Insert a gap").click()
        assert at.evaluate("document.activeElement.id") == "prompt"
        at.keyboard.insert_text(part)
    assert at.locator("#gap").input_value() == "___"
    assert at.locator("#prompt").input_value() == TEXT
    finish(at)
    filled = [
        pocket.fill(TEXT, method, gap="___", max_length=16)[0]
        for method in ("archer-doubt", "saber")
    ]
    assert said(at) == [done.whole for done in filled]
    assert all(done.probed_columns for done in filled), "the start waited for the length"
    shown = at.locator(".player .response").first
    assert shown.locator('.slot[data-mark="given"]').count() == sum(
        token is not None for token in filled[0].given
    )
    runs = saved_runs(save(at, tmp_path))
    for run, method in zip(runs, ("archer-doubt", "saber"), strict=True):
        (expected,) = map(
            player_data,
            rows(pocket.record(Fill.marked(TEXT, "___"), method, max_length=16).events),
        )
        assert run == expected
    assert at.evaluate("document.documentElement.scrollWidth") <= size[0]


WATCHED = """() => {
  window.seen = { boards: [], taken: 0 };
  new MutationObserver(() => {
    const board = document.querySelector(".player.live .board");
    if (board === null) return;
    const cells = [...board.querySelectorAll(":scope > .cell")];
    window.seen.boards.push(cells.map((cell) => cell.textContent).join(""));
    window.seen.taken += board.querySelectorAll('[data-mark="remasked"]').length;
  }).observe(document.getElementById("stage"), { childList: true });
}"""


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["1280", "390"])
def test_a_grid_is_typed_solved_and_watched(
    sudoku: Model, show: Open, size: tuple[int, int], tmp_path: Path
) -> None:
    puzzle = grids.load("dev")[0]
    with serving(sudoku) as own:
        at = show(own, size=size)
        at.get_by_label("Sudoku grid (4x4, 6x6, 9x9)").wait_for()
        assert at.locator("#prompt").input_value() == grids.lines(puzzle.givens)
        for field in ("length", "gap", "schema", "mark"):
            assert at.locator(f"#{field}").is_hidden(), "a grid has no use for it"
        at.evaluate(WATCHED)
        fill(at, prompt=puzzle.givens.replace(".", "0"), first="saber", second="archer-doubt")
        finish(at)
        methods = ("saber", "archer-doubt")
        done = [sudoku.generate(grids.fill(puzzle.givens), each)[0] for each in methods]
        assert said(at) == [each.whole for each in done]
        assert grids.solves(grids.cells(said(at)[1]), puzzle.givens)
        seen = at.evaluate("window.seen")
        assert len(seen["boards"]) > 3
        assert seen["taken"] > 0, "digits are seen being taken back"
        for board in seen["boards"]:
            given = zip(puzzle.givens, board, strict=True)
            assert all(digit in (grids.EMPTY, cell) for digit, cell in given)
        final = at.locator(".player .board").nth(1).locator(":scope > .cell").all_text_contents()
        assert "".join(final) == puzzle.solution
        for run, method in zip(saved_runs(save(at, tmp_path)), methods, strict=True):
            (same,) = rows(sudoku.record(grids.fill(puzzle.givens), method).events)
            assert run == player_data(same)
        assert at.evaluate("document.documentElement.scrollWidth") <= size[0]


def test_a_grid_that_is_none_is_refused_on_the_page(sudoku: Model, show: Open) -> None:
    with serving(sudoku) as own:
        at = show(own, complaints=True)
        at.locator("form.grid").wait_for()
        fill(at, prompt="12", second="")
        at.get_by_role("button", name="Run").click()
        at.get_by_text("A grid has 16, 36 or 81 cells, not 2.").wait_for()


def test_a_page_that_is_there_before_the_model_learns_of_grids(
    sudoku: Model, browser: Browser
) -> None:
    with serving(sudoku) as own:
        at = browser.new_page()
        error = {"message": "The model is being loaded.", "code": "loading"}
        asked = []

        def answer(route: Any) -> None:
            asked.append(route.request.url)
            if len(asked) == 1:
                route.fulfill(status=503, json={"error": error})
            else:
                route.continue_()

        at.route("**/v1/models", answer)
        try:
            at.goto(f"http://127.0.0.1:{own.port}/")
            fill(at, prompt="1...")
            at.locator("form.grid").wait_for()
            assert at.locator("#prompt").input_value() == "1...", "what was typed stays"
        finally:
            at.close()


def test_two_methods_side_by_side_are_those_of_the_library(
    pocket: Model, show: Open, tmp_path: Path
) -> None:
    at = show()
    fill(at, prompt=PROBLEM, first="archer:4", second="saber", length="32")
    at.evaluate(
        """() => {
          window.heard = [];
          new MutationObserver(() => {
            const words = document.querySelector(".player.live .parted");
            if (words !== null) window.heard.push(words.textContent);
          }).observe(document.getElementById("stage"), { childList: true });
        }"""
    )
    finish(at)
    heard = at.evaluate("window.heard")
    assert heard[0] == "Identical so far."
    assert "The two are identical." not in heard, "nobody knows before the end"
    expected = [told(pocket, method, PROBLEM, 32) for method in ("archer:4", "saber")]
    texts = [
        pocket.generate(PROBLEM, method, length=32)[0].text for method in ("archer:4", "saber")
    ]
    assert said(at) == texts
    saved = save(at, tmp_path)
    assert saved_runs(saved) == expected
    title = "Archer · archer:4 and saber"
    summary = expected[0]["prompt"].partition("\n")[0][:80]
    alike = page(title, [Section("", [Player(summary, expected, opened=True)])])
    around = re.compile(r'(<script type="application/json">).*?(</script>)')
    assert around.sub(r"\1\2", saved) == around.sub(r"\1\2", alike)
    one, two = (responses(run) for run in expected)
    parted = next(
        (n for n, (a, b) in enumerate(zip(one, two, strict=False), 1) if a != b),
        min(len(one), len(two)) + 1,
    )
    words = at.locator(".parted").inner_text()
    same = one == two
    assert words == ("The two are identical." if same else f"First divergence: update {parted}.")


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["1280", "390"])
def test_habit_of_looking_at_the_answer_when_it_is_done(
    pocket: Model, show: Open, size: tuple[int, int]
) -> None:
    at = show(size=size)
    fill(at, prompt=PROBLEM, first="archer", second="", length="24", temperature="0.8", seed="3")
    finish(at)
    (same,) = pocket.generate(PROBLEM, "archer", length=24, temperature=0.8, seed=3)
    assert said(at) == [same.text]
    (cost,) = at.locator("#texts .cost").all_text_contents()
    passes = f"{same.full_passes} full and {same.cached_passes} cached passes"
    assert re.fullmatch(rf"{same.updates} updates: {passes}, \d+\.\d\d s", cost)
    assert int(at.locator(".player").get_attribute("data-update") or 0) == same.updates
    text, player = (at.locator(each).bounding_box() for each in ("#texts pre", ".player"))
    assert text is not None
    assert player is not None
    assert text["y"] + text["height"] <= player["y"]
    if size == DESKTOP:
        assert text["y"] + text["height"] <= size[1], "without scrolling"


def test_habit_of_choosing_a_method_from_a_list(show: Open) -> None:
    at = show()
    first, second = at.locator("select.methods").all()
    kinds = first.locator("optgroup").evaluate_all("each => each.map((one) => one.label)")
    assert kinds == ["takes tokens back", "keeps what it writes"]
    first.select_option("archer-stream")
    second.select_option("llada-confidence")
    fill(at, prompt=PROBLEM, length="8")
    finish(at)
    assert at.locator("#texts h2").all_text_contents() == ["archer-stream", "llada-confidence"]


def test_habit_of_taking_what_the_server_offers(pocket: Model, show: Open) -> None:
    with serving(pocket, method="llada-confidence") as own:
        at = show(own)
        fill(at, prompt=PROBLEM, second="", length="8")
        finish(at)
        assert at.locator("#texts h2").all_text_contents() == ["llada-confidence"]


def test_habit_of_asking_for_json(pocket: Model, show: Open) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    at = show(complaints=True)
    fill(at, prompt=PROBLEM, first="saber", second="", length="24", schema=json.dumps(schema))
    finish(at)
    (same,) = pocket.generate(PROBLEM, "saber", length=24, schema=schema)
    assert said(at) == [same.text]
    assert type(json.loads(same.text or "")["a"]) is int
    fill(at, schema="{")
    at.get_by_role("button", name="Run").click()
    at.locator("#told.wrong").wait_for()
    assert "schema" in at.locator("#told").inner_text()


def save(at: Page, folder: Path) -> str:
    with at.expect_download() as waiting:
        at.get_by_role("button", name="Save").click()
    path = folder / "saved.html"
    waiting.value.save_as(path)
    return path.read_text(encoding="utf-8")


def saved_runs(saved: str) -> Any:
    found = re.search(r'<script type="application/json">(.*?)</script>', saved)
    assert found is not None
    return json.loads(found[1])["runs"]


@pytest.mark.thinned(3)
@pytest.mark.parametrize(
    "prompt",
    [
        'say %summary% "x" \\ now',
        """%title%%runs%[{"runs":"%runs%"}]%summary%""",
        "$& $1 $` $' <b>",
    ],
)
def test_a_prompt_that_looks_like_a_mark_of_the_file_is_saved_as_it_is(
    show: Open, browser: Browser, tmp_path: Path, prompt: str
) -> None:
    at = show()
    fill(at, prompt=prompt, first="saber", second="", length="4")
    finish(at)
    saved = save(at, tmp_path)
    (run,) = saved_runs(saved)
    assert prompt in run["prompt"]
    wrong: list[str] = []
    reader = browser.new_page()
    try:
        reader.on("pageerror", lambda error: wrong.append(str(error)))
        reader.goto((tmp_path / "saved.html").as_uri())
        assert reader.title() == "Archer · saber"
        assert reader.locator(".player").count() == 1
        summary = run["prompt"].partition("\n")[0][:80]
        assert reader.locator("summary").first.inner_text() == summary
    finally:
        reader.close()
    assert wrong == []


def test_escape_wherever_the_focus_is_and_stop_free_the_slot(client: Client, show: Open) -> None:
    at = show()
    for focus in ("run", "prompt", None, "stop"):
        cancelled = client.metric("requests_cancelled_total")
        fill(at, prompt=PROBLEM, first=SLOW, second="", length="512")
        if focus in (None, "stop"):
            at.get_by_role("button", name="Run").click()
        else:
            at.locator(f"#{focus}").focus()
            at.keyboard.press("Enter" if focus == "run" else "Control+Enter")
        at.locator(".player.live").wait_for()
        if focus is None:
            at.evaluate("document.activeElement.blur()")
        assert at.get_by_role("button", name="Save").is_disabled()
        if focus == "stop":
            at.get_by_role("button", name="Stop").click()
        else:
            at.keyboard.press("Escape")
        at.get_by_text("Stopped.", exact=True).wait_for()
        assert at.get_by_role("button", name="Run").is_enabled()
        until(client.idle)
        assert client.metric("requests_cancelled_total") == cancelled + 1


def responses(run: dict[str, Any]) -> list[list[int | None]]:
    """The response after every update."""
    response: list[int | None] = [None] * run["length"]
    seen = []
    for _, _, _, accepted, replaced, remasked, _, _ in run["updates"]:
        for changes in (accepted, replaced):
            for at, token in zip(changes[::3], changes[1::3], strict=True):
                response[at] = run["ids"][token]
        for at in remasked[::2]:
            response[at] = None
        seen.append(list(response))
    return seen


def test_a_token_is_seen_being_taken_back_while_it_runs(show: Open) -> None:
    at = show()
    at.evaluate(
        """() => {
          window.seen = { taken: 0, frames: 0 };
          new MutationObserver(() => {
            const live = document.querySelector(".player.live");
            if (live === null) return;
            window.seen.frames += 1;
            window.seen.taken += live.querySelectorAll('.response [data-mark="remasked"]').length;
          }).observe(document.getElementById("stage"), { childList: true });
        }"""
    )
    fill(at, prompt=PROBLEM, first="archer", second="")
    finish(at)
    seen = at.evaluate("window.seen")
    assert seen["frames"] > 3
    assert seen["taken"] > 0
    assert at.locator(".player.live").count() == 0, "at the end it is the ordinary player"
    at.keyboard.press("Home")
    assert at.locator(".player").get_attribute("data-update") is not None


def test_markup_stays_text(show: Open) -> None:
    evil = "<img src=x onerror=window.hacked=1></script><script>window.hacked=1</script>"
    at = show()
    fill(at, prompt=evil, first="archer", second="", length="8")
    finish(at)
    at.get_by_text("Prompt", exact=True).nth(-1).click()
    assert "onerror" in at.locator(".about pre").inner_text()
    assert at.evaluate("window.hacked") is None


EVIL = "<img src=x onerror=window.hacked=1></script><script>window.hacked=1</script>"


def test_markup_in_the_names_of_model_and_method_stays_text(
    pocket: Model, show: Open, tmp_path: Path
) -> None:
    """On the page, in a refusal, in the trace and in the file that is saved."""
    with serving(pocket, served_model_name=EVIL) as named:
        at = show(named, complaints=True)
        fill(at, prompt=EVIL, first=EVIL, second="", length="8")
        at.get_by_role("button", name="Run").click()
        at.locator("#told.wrong").wait_for()
        assert "onerror" in at.locator("#told").inner_text()
        fill(at, first="archer", second="saber")
        finish(at)
        saved = save(at, tmp_path)
        assert at.evaluate("window.hacked") is None
        at.set_content(saved)
        at.locator(".player").first.wait_for()
        assert EVIL in {run["model"] for run in saved_runs(saved)}
        assert at.evaluate("window.hacked") is None


def test_what_the_server_refuses_is_shown(show: Open) -> None:
    at = show(complaints=True)
    fill(at, prompt=PROBLEM, first="sabre", second="")
    at.get_by_role("button", name="Run").click()
    at.locator("#told.wrong").wait_for()
    assert "Did you mean 'saber'?" in at.locator("#told").inner_text()


def test_a_schema_is_typed_and_kept(pocket: Model, show: Open) -> None:
    at = show(complaints=True)
    schema = '{"type": "object", "properties": {"a": {"enum": [1, 22]}}, "required": ["a"]}'
    fill(at, prompt=PROBLEM, second="saber", length="12", schema=schema)
    finish(at)
    methods = ("archer-doubt", "saber")
    kept = [pocket.generate(PROBLEM, each, schema=schema, length=12)[0].text for each in methods]
    assert said(at) == kept
    assert all(text in ('{"a": 1}', '{"a": 22}') for text in kept)
    fill(at, schema='{"not": {}}')
    at.get_by_role("button", name="Run").click()
    at.get_by_text("The schema says not").wait_for()


def test_a_key_is_typed_and_kept_nowhere(pocket: Model, show: Open) -> None:
    with serving(pocket, keys=(KEY,)) as locked:
        at = show(locked, complaints=True)
        fill(at, prompt=PROBLEM, first="archer", second="", length="8")
        at.get_by_role("button", name="Run").click()
        at.get_by_text("The API key is missing or wrong.").wait_for()
        fill(at, key=KEY)
        finish(at)
        kept = at.evaluate("[localStorage.length, sessionStorage.length, document.cookie]")
        assert kept == [0, 0, ""]
        assert KEY not in at.url


def test_by_keys_alone(show: Open) -> None:
    at = show()
    at.keyboard.press("Tab")
    assert at.evaluate("document.activeElement.id") == "prompt"
    order = []
    for _ in range(12):
        at.keyboard.press("Tab")
        order.append(at.evaluate("document.activeElement.id || document.activeElement.className"))
    fields = ["length", "gap", "temperature", "seed", "key", "schema", "mark", "run"]
    assert order == ["first", "methods", "second", "methods", *fields]
    fill(at, length="8")
    at.locator("#prompt").focus()
    at.keyboard.press("Control+Enter")
    at.get_by_text("Done.", exact=True).wait_for(timeout=60_000)
    for role in ("button", "textbox", "spinbutton", "slider"):
        found = at.get_by_role(role)
        assert found.count() == at.get_by_role(role, name=re.compile(r"\w")).count() > 0


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_sticks_out(show: Open, size: tuple[int, int], scheme: str) -> None:
    at = show(size=size, color_scheme=scheme)
    sticking = "document.documentElement.scrollWidth - innerWidth"
    assert at.evaluate(sticking) <= 0
    fill(at, prompt=PROBLEM, length="24")
    at.get_by_role("button", name="Run").click()
    at.locator(".player").first.wait_for()
    assert at.evaluate(sticking) <= 0
    at.get_by_text("Done.", exact=True).wait_for(timeout=60_000)
    assert at.evaluate(sticking) <= 0
    paper = at.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(255, 255, 255)") == (scheme == "light")


def test_the_page_is_one_file_and_the_same_for_all() -> None:
    text = live_page()
    assert "pocket" not in text
    assert not re.search(r"""(?:src|href)=["'](?!data:|#)""", text.split("<script>")[0])
    assert "/* " not in text.split("<style>")[0]
