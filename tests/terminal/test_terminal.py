"""The live view, drawn on a console of fixed size without colour and compared line by line."""

import io
import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from archer.errors import printable
from archer.results.completion import Completion, Seconds
from archer.results.trace import Placed, Update
from archer.terminal.glyphs import BRACKETS, TAKEN_SIGN, Look, Mark, fill
from archer.terminal.live import LiveView, Screen, bar, summary
from support import recorded

LEFT, RIGHT = BRACKETS
LEGEND = f"· masked  {LEFT}fresh{RIGHT}  settled  {TAKEN_SIGN} taken back"
CALLS = "R full  . cached  = reused"
WORDS = ["def", " f", "(", "x", "):", "\n    ", "return", " x", "\n", "\t", "世界", "\x1b[31m", "∎"]


def update(
    number: int,
    accepted: dict[int, int],
    remasked: Sequence[int] = (),
    *,
    replaced: dict[int, int] | None = None,
    confidence: float | None = 0.5,
    **changes: Any,
) -> Update:
    placed, other = (
        [Placed(at=at, token=token, confidence=confidence) for at, token in each.items()]
        for each in (accepted, replaced or {})
    )
    return recorded.update(number, accepted=placed, replaced=other, remasked=remasked, **changes)


def words(id: int) -> str:
    return WORDS[id]


def drawn(view: LiveView, width: int = 100, height: int = 25) -> list[str]:
    """The lines of a frame as a terminal without colour shows them."""
    file = io.StringIO()
    console = Console(file=file, width=width, height=height, color_system=None)
    console.print(view, end="")
    return [line.rstrip() for line in file.getvalue().split("\n")][:-1]


def text_view(length: int = 8, rows: int = 1, radius: float | None = 8.0) -> LiveView:
    return LiveView(
        responses=[[None] * length] * rows, look=Look(words), title="archer · tiny", radius=radius
    )


def test_before_the_first_update_everything_is_masked() -> None:
    assert drawn(text_view(length=5)) == [
        "archer · tiny",
        f"{LEGEND}  {CALLS}",
        "",
        "first pass",
        "",
        "",
        "·····",
    ]


def test_the_four_states_differ_without_colour() -> None:
    view = text_view()
    view.follow(update(1, {0: 0, 1: 1, 2: 2}, call="full"))
    view.follow(update(2, {3: 3, 4: 4}, [2], distance=5, confidence=0.875))
    assert drawn(view) == [
        "archer · tiny",
        f"{LEGEND}  {CALLS}",
        "",
        "update 2  cached  distance 5/8 ▓▓▓▓▓░░░  4/8 placed  +2 -1  confidence 0.88 ▓▓▓▓▓▓▓▓▓░",
        "R.",
        "",
        f"def f{TAKEN_SIGN}{LEFT}x{RIGHT}{LEFT}):{RIGHT}···",
    ]


def test_a_position_accepted_and_taken_back_at_once_is_taken_back() -> None:
    view = text_view(length=2)
    view.follow(update(1, {0: 0, 1: 1}, [1]))
    assert drawn(view)[-1] == f"{LEFT}def{RIGHT}{TAKEN_SIGN}"
    view.follow(update(2, {}))
    assert drawn(view)[-1] == "def·"


def test_replaced_tokens_are_fresh_and_counted() -> None:
    view = text_view(length=2)
    view.follow(update(1, {0: 0, 1: 1}))
    view.follow(update(2, {}, replaced={0: 3}, call="reused", confidence=None))
    lines = drawn(view)
    assert lines[-1] == f"{LEFT}x{RIGHT} f"
    assert lines[3] == "update 2  reused  distance 0/8 ░░░░░░░░  2/2 placed  +0 -0 ~1"
    assert lines[4] == ".="


def test_code_looks_like_code() -> None:
    view = text_view(length=10)
    view.follow(update(1, dict(enumerate(range(10)))))
    view.follow(update(2, {}))
    assert drawn(view)[-3:] == ["def f(x):↵", "    return x↵", ""]


def coloured() -> str:
    """A fresh token on a console with colours, unless the environment forbids them."""
    view = text_view(length=2)
    view.follow(update(1, {0: 0}))
    file = io.StringIO()
    Console(file=file, width=80, height=25, force_terminal=True, color_system="standard").print(
        view
    )
    return file.getvalue()


def test_styles_mark_fresh_tokens_where_there_is_colour() -> None:
    assert "\x1b[1;7;32mdef\x1b[0m" in coloured()
    assert LEFT not in coloured()


def test_no_color_keeps_the_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert f"{LEFT}def{RIGHT}" in coloured()
    assert re.search(r"\x1b\[[\d;]*3\dm", coloured()) is None


@pytest.mark.parametrize(
    ("radius", "expected"),
    [(8.0, "distance 5/8 ▓▓▓▓▓░░░"), (float("inf"), "distance 5/∞"), (None, "distance 5")],
)
def test_distance_against_the_radius(radius: float | None, expected: str) -> None:
    view = text_view(radius=radius)
    view.follow(update(1, {0: 0}, distance=5))
    assert f"{expected}  1/8 placed" in drawn(view)[3]


def test_ids_stand_in_columns() -> None:
    view = LiveView(responses=[[None] * 6], look=Look(str, cell=3), title="t")
    view.follow(update(1, {0: 7, 1: 123}))
    view.follow(update(2, {2: 45}, [1]))
    assert drawn(view, width=20)[-2:] == [f"   7    {TAKEN_SIGN} {LEFT} 45{RIGHT}   ·", "   ·    ·"]


def test_nats_stand_where_the_cache_counts_them() -> None:
    view = LiveView(responses=[[None] * 8], look=Look(words), title="t", nats=0.5)
    view.follow(update(1, {0: 3}).model_copy(update={"drift": 0.1}))
    assert "unexpected 0.10/0.5 nats ▓▓░░░░░░░░" in drawn(view)[3]
    view.follow(update(2, {1: 3}))
    assert "distance" in drawn(view)[3]


def test_ends_are_one_sign() -> None:
    look = Look(words, ends=frozenset({0}))
    view = LiveView(responses=[[None] * 3], look=look, title="t")
    view.follow(update(1, {0: 3, 1: 0, 2: 0}))
    view.follow(update(2, {}))
    assert drawn(view)[-1] == "x∎ x 2"
    assert "∎ end" in drawn(view)[1]


def test_the_history_keeps_its_end() -> None:
    view = text_view(length=4)
    for number in range(60):
        view.follow(update(number + 1, {}, call="full" if number % 10 == 9 else "cached"))
    assert drawn(view, width=40)[-3] == "…" + ".........R.........R.........R.........R"[1:]


def test_a_response_higher_than_the_terminal_shows_what_is_fresh() -> None:
    view = LiveView(
        responses=[[None] * 600], look=Look(lambda id: f"{id:04}"), title="t", radius=None
    )
    view.follow(update(1, {at: at for at in range(600)}))
    view.follow(update(2, {}, replaced={150: 150}))
    lines = drawn(view, width=80, height=16)
    assert len(lines) <= 15
    assert any(f"{LEFT}0150{RIGHT}" in line for line in lines)
    assert lines[-1].startswith("… ")
    assert lines[-1].endswith("lines below")
    above = next(line for line in lines if line.endswith("lines above"))
    view.follow(update(3, {}, replaced={151: 151}))
    assert above in drawn(view, width=80, height=16), (
        "the window stays while something fresh is in it"
    )


@given(width=st.integers(2, 120), height=st.integers(2, 40), rows=st.integers(1, 12))
def test_a_frame_fits_every_terminal(width: int, height: int, rows: int) -> None:
    view = text_view(length=40, rows=rows)
    for row in range(rows):
        changes = {at: (at * 7 + row) % len(WORDS) for at in range(30)}
        view.follow(update(1, changes, [3, 4], row=row))
    lines = drawn(view, width=width, height=height)
    assert len(lines) <= max(height - 1, 2)
    assert all(cell_len(line) <= width for line in lines)


def test_several_rows_are_stacked_and_the_rest_is_announced() -> None:
    view = text_view(length=3, rows=4)
    for row in range(4):
        view.follow(update(1, {0: 0}, row=row))
    lines = drawn(view, height=22)
    assert lines[1] == "2 of 4 rows are not shown"
    assert [line.split("  ")[0] for line in lines if line.startswith("row")] == ["row 1", "row 2"]
    assert not any("rows are not shown" in line for line in drawn(view, height=60))


def test_a_failed_row_says_so() -> None:
    view = text_view(length=3)
    view.fail(0, "The full pass of update 1 returned NaN.")
    assert f"{TAKEN_SIGN} The full pass of update 1 returned NaN." in drawn(view)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain text\n\tindented", "plain text\n\tindented"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("a\r\nb\rc", "a\nb\\rc"),
        ("\x07\x08\x7f", "\\x07\\x08\\x7f"),
        ("\x9b31m", "\\x9b31m"),
        ("safe\u202eevil", "safe\\u202eevil"),
        ("a\u00a0b\u3000c", "a\u00a0b\u3000c"),
        ("👩\u200d👩", "👩\u200d👩"),
        ("\ud800", "\\ud800"),
    ],
)
def test_nothing_steers_the_terminal(text: str, expected: str) -> None:
    assert printable(text) == expected


@given(st.text())
def test_no_control_character_survives(text: str) -> None:
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", printable(text))


def test_escapes_in_pieces_are_drawn_as_text() -> None:
    view = text_view(length=1)
    view.follow(update(1, {0: WORDS.index("\x1b[31m")}))
    view.follow(update(2, {}))
    assert drawn(view)[-1] == "\\x1b[31m"


@given(
    pieces=st.lists(st.sampled_from([*WORDS, "a long word indeed", "宽宽宽宽宽"]), max_size=30),
    width=st.integers(2, 30),
)
def test_filling_loses_nothing_and_fits(pieces: list[str], width: int) -> None:
    lines = fill([(printable(piece), Mark.SETTLED) for piece in pieces], width)
    assert all(cell_len(line.text.plain) == line.width <= width for line in lines)
    whole = "".join(line.text.plain for line in lines)
    expected = "".join(map(printable, pieces)).replace("\n", "↵").replace("\t", "    ")
    assert whole == expected


def test_a_token_moves_to_the_next_line_as_a_whole() -> None:
    lines = fill([("abcd", Mark.SETTLED), ("efgh", Mark.FRESH), ("0123456789", Mark.SETTLED)], 6)
    assert [line.text.plain for line in lines] == ["abcd", "efgh", "012345", "6789"]
    assert [line.fresh for line in lines] == [False, True, False, False]


@pytest.mark.parametrize(
    ("share", "expected"), [(0, "░░░░"), (0.5, "▓▓░░"), (7, "▓▓▓▓"), (-1, "░░░░")]
)
def test_bars(share: float, expected: str) -> None:
    assert bar(share, 4) == expected


def completion(**changes: object) -> Completion:
    values: dict[str, object] = {
        "text": "x",
        "tokens": (1,) * 32,
        "finish_reason": "length",
        "updates": 20,
        "full_passes": 5,
        "cached_passes": 14,
        "reused_passes": 1,
        "revised_positions": 7,
        "revised_text": 4,
        "prompt_tokens": 3,
        "seconds": Seconds(full=0.5, cached=0.7, control=0.05),
    }
    return Completion(**(values | changes))  # type: ignore[arg-type]


def test_the_summary_is_one_line() -> None:
    assert summary(completion()) == (
        "20 updates: 5 full, 14 cached, 1 reused · refreshed 25% · 4 text positions revised, 3 end marks"
        " · 1.68 tokens/forward · 1.25 s"
    )
    assert "· 7 text positions revised · 1.68" in summary(completion(revised_text=7))
    assert "reused" not in summary(completion(reused_passes=0))
    failed = completion(finish_reason="error", error="It broke.", updates=3)
    assert summary(failed) == "stopped after 3 updates: It broke."


def terminal(width: int, height: int) -> tuple[Console, io.StringIO]:
    file = io.StringIO()
    console = Console(
        file=file,
        width=width,
        height=height,
        force_terminal=True,
        legacy_windows=False,
        _environ={},
    )
    return console, file


def test_the_screen_hides_and_shows_the_cursor_and_cleans_up() -> None:
    console, file = terminal(60, 20)

    def interrupted() -> None:
        with Screen(text_view(), console) as screen:
            screen.draw()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    written = file.getvalue()
    assert written.index("\x1b[?25l") < written.index("\x1b[?25h")
    assert written.rindex("\x1b[?25h") > written.rindex("archer · tiny")
    assert written.endswith("\x1b[2K"), "the frame is erased, the cursor at the start of a line"


def test_a_resized_terminal_is_drawn_anew() -> None:
    console, file = terminal(60, 20)
    with Screen(text_view(), console) as screen:
        screen.draw(now=True)
        assert "\x1b[2J" not in file.getvalue()
        console.width = 40
        screen.draw(now=True)
        assert file.getvalue().count("\x1b[2J") == 1


def test_frames_are_not_drawn_faster_than_the_eye() -> None:
    console, file = terminal(60, 20)
    with Screen(text_view(), console) as screen:
        for _ in range(100):
            screen.draw()
        assert file.getvalue().count("archer · tiny") < 20
