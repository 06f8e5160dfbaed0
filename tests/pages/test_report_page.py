"""The page around tables, figures and players."""

from archer.pages.figures import Figure
from archer.pages.page import POLICY, Player, Section, page
from archer.pages.tables import Column, Table

TABLE = Table("A table", (Column("a"),), ((1,),))
FIGURE = Figure("A figure", '<?xml version="1.0"?><svg id="figure_1"></svg>', b"")


def test_a_page_holds_its_parts_in_order() -> None:
    html = page(
        "<T>", [Section("One", ["<p>", TABLE]), Section("Two", [FIGURE, "last"])], lead="a & b"
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
    assert "<script" not in page("T", [Section("One", [TABLE])])
    html = page("T", [Section("", [Player("P", [{"a": 1}], opened=True), Player("Q", [{}, {}])])])
    assert html.count("class Player") == 1
    assert '<details class="trajectory" open>' in html
    assert '<details class="trajectory pair">' in html
    assert "<nav" not in html
    assert "<h2>" not in html
