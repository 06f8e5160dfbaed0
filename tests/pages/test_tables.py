"""Tables in five formats: the same content, each format's own dangers escaped."""

import csv
import io
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archer.errors import BadRequest
from archer.pages.figures import Figure
from archer.pages.page import POLICY, Player, Section, page
from archer.pages.tables import Column, Table, Value

TABLE = Table(
    "Main",
    (Column("method"), Column("pass", digits=1), Column("n"), Column("seconds")),
    (
        ("archer", Value(41.25, 38.0, 44.5, paper=43.3), 120, 1.5),
        ("saber", Value(None, paper=42.0), 120, None),
        ("none", Value(40.0), 0, 2.0),
    ),
    ("n problems per arm.",),
)


def test_markdown() -> None:
    assert TABLE.markdown() == (
        "**Main**\n\n"
        "| method | pass | paper | n | seconds |\n"
        "| --- | ---: | ---: | ---: | ---: |\n"
        "| archer | 41.2 \\[38.0, 44.5\\] | 43.3 | 120 | 1.50 |\n"
        "| saber | n/a | 42.0 | 120 | n/a |\n"
        "| none | 40.0 |  | 0 | 2.00 |\n"
        "\n- n problems per arm.\n"
    )


def test_csv_keeps_numbers_as_they_are() -> None:
    assert TABLE.csv() == (
        "method,pass,pass low,pass high,pass paper,n,seconds\n"
        "archer,41.25,38.0,44.5,43.3,120,1.5\n"
        "saber,,,,42.0,120,\n"
        "none,40.0,,,,0,2.0\n"
    )


def test_records_keep_numbers_as_they_are() -> None:
    assert TABLE.records()[1] == {
        "method": "saber",
        "pass": None,
        "pass low": None,
        "pass high": None,
        "pass paper": 42.0,
        "n": 120,
        "seconds": None,
    }


def test_latex() -> None:
    lines = TABLE.latex().splitlines()
    assert r"\begin{tabular}{lrrrr}" in lines
    assert r"archer & 41.2 [38.0, 44.5] & 43.3 & 120 & 1.50 \\" in lines
    assert r"\par\footnotesize n problems per arm." in lines


class Cells(HTMLParser):
    """What a browser sees of a table."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.tags: set[str] = set()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        if self.rows and self.rows[-1] and self.get_starttag_text() in ("<td>", "<th>"):
            self.rows[-1][-1] += data


def test_several_columns_of_the_paper_say_which_they_are() -> None:
    columns = (Column("Pass@1"), Column("speedup"), Column("seconds"))
    values = (Value(41.0, paper=43.0), Value(2.0, paper=2.5), 1.0)
    (head, _), _ = Table("", columns, [values]).shown()
    assert head == ["Pass@1", "paper: Pass@1", "speedup", "paper: speedup", "seconds"]


def test_html_has_the_paper_beside_ours() -> None:
    html = TABLE.html()
    cell = '<td class="numeric">41.2 <span class="interval">[38.0, 44.5]</span></td>'
    assert f'{cell}<td class="numeric paper">43.3</td>' in html
    assert "<figcaption>Main</figcaption>" in html
    assert "<li>n problems per arm.</li>" in html


def one(text: str) -> Table:
    return Table(text, (Column(text),), ((text,),), (text,))


HOSTILE = '<b>&"|\\_*`[x](y){}$%#~^\n=1+1,;'


def test_markup_in_html_is_text() -> None:
    seen = Cells(one(HOSTILE).html())
    assert "b" not in seen.tags
    assert [cell.strip() for row in seen.rows for cell in row] == [HOSTILE, HOSTILE]


def test_markup_in_markdown_is_text() -> None:
    escaped = '&lt;b&gt;&"\\|\\\\\\_\\*\\`\\[x\\](y){}$%#~^ =1+1,;'
    assert f"| {escaped} |\n| --- |\n| {escaped} |\n" in one(HOSTILE).markdown()


def test_commands_in_latex_are_text() -> None:
    escaped = (
        r'$<$b$>$\&"|\textbackslash{}\_*`[x](y)\{\}\$\%\#\textasciitilde{}\textasciicircum{} =1+1,;'
    )
    assert f"{escaped} \\\\" in one(HOSTILE).latex()
    assert r"K = $\infty$ \\" in one("K = ∞").latex()


@given(st.text(st.characters(codec="utf-8", exclude_characters="\r\0")))
def test_any_text_survives_csv(text: str) -> None:
    head, row = csv.reader(io.StringIO(one(text).csv(), newline=""))
    assert [head, row] == [[text], [text]]


def test_a_row_of_another_width_is_refused() -> None:
    with pytest.raises(BadRequest, match="Row 2 of the table 'T' has 1 cells for 2 columns"):
        Table("T", (Column("a"), Column("b")), ((1, 2), (1,)))


def test_a_tiny_probability_is_not_told_as_none() -> None:
    table = Table("", (Column("p", 4, chance=True), Column("x", 4)), [[3e-6, 3e-6], [6e-5, 0.5]])
    assert [line.split(" | ") for line in table.markdown().splitlines() if "0.0" in line] == [
        ["| &lt; 0.0001", "0.0000 |"],
        ["| 0.0001", "0.5000 |"],
    ]


ONE_CELL = Table("A table", (Column("a"),), ((1,),))
FIGURE = Figure("A figure", '<?xml version="1.0"?><svg id="figure_1"></svg>', b"")


def test_a_page_holds_its_parts_in_order() -> None:
    html = page(
        "<T>", [Section("One", ["<p>", ONE_CELL]), Section("Two", [FIGURE, "last"])], lead="a & b"
    )
    marks = ["<h1>&lt;T&gt;</h1>", "a &amp; b", ">One</a>", "<h2>One</h2>", "<p>&lt;p&gt;</p>"]
    places = [
        html.index(mark) for mark in [*marks, "A table", "<h2>Two</h2>", "<svg", "<p>last</p>"]
    ]
    assert places == sorted(places)
    assert '<a href="#section-2">' in html
    assert '<section id="section-2">' in html


def test_a_page_forbids_itself_the_network() -> None:
    assert POLICY.startswith("default-src 'none'")
    assert f'content="{POLICY}"' in page("T", [])


def test_scripts_come_only_with_players() -> None:
    assert "<script" not in page("T", [Section("One", [ONE_CELL])])
    html = page("T", [Section("", [Player("P", [{"a": 1}], opened=True), Player("Q", [{}, {}])])])
    assert html.count("class Player") == 1
    assert '<details class="trajectory" open>' in html
    assert '<details class="trajectory pair">' in html
    assert "<nav" not in html
    assert "<h2>" not in html
