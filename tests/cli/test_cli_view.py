"""`archer view`: from a recorded run to a page, and what is refused."""

import re
import webbrowser
from pathlib import Path

import pytest

from archer.cli import main
from archer.results.trace import Writer
from support.folders import make_llada
from support.recorded import Events, ended, simulate, start

Capture = pytest.CaptureFixture[str]


def write(path: Path, events: Events) -> str:
    with Writer(path) as writer:
        for event in events:
            writer.write(event)
    return str(path)


def one_run(path: Path, seed: int = 1) -> str:
    return write(path, [start(24), *simulate(seed), ended()])


def test_a_generated_trace_becomes_a_page(tmp_path: Path, capsys: Capture) -> None:
    model = str(make_llada(tmp_path / "model", tokenizer=True))
    trace, page = tmp_path / "run.jsonl", tmp_path / "run.html"
    command = ["generate", "hi", "ho", "--model", model, "--length", "8", "--plain"]
    assert main([*command, "--trace", str(trace)]) == 0
    capsys.readouterr()
    assert main(["view", str(trace)]) == 0
    assert capsys.readouterr() == (f"{page}\n", "")
    html = page.read_text(encoding="utf-8")
    titles = re.findall("<summary>(.*?)</summary>", html)
    assert len(titles) == 2
    assert titles[0].startswith("Prompt 1 of 2: ")
    assert titles[0].endswith(" tokens in, 8 out")
    assert html.count('<details class="trajectory" open>') == 1


def test_two_traces_stand_side_by_side(tmp_path: Path, capsys: Capture) -> None:
    one, two = one_run(tmp_path / "a.jsonl"), one_run(tmp_path / "b.jsonl", seed=2)
    target = tmp_path / "both.html"
    assert main(["view", one, two, "-o", str(target)]) == 0
    html = target.read_text(encoding="utf-8")
    assert "<title>Archer · a.jsonl and b.jsonl</title>" in html
    assert html.count('<details class="trajectory pair" open>') == 1
    assert capsys.readouterr().out == f"{target}\n"


def refused(capsys: Capture, *words: str) -> str:
    assert main(["view", *words]) == 2
    out, said = capsys.readouterr()
    assert out == ""
    return said


def test_what_is_refused(tmp_path: Path, capsys: Capture) -> None:
    one = one_run(tmp_path / "a.jsonl")
    assert "would overwrite the trace" in refused(capsys, one, "-o", one)
    assert "cannot be read" in refused(capsys, str(tmp_path / "none.jsonl"))
    nowhere = str(tmp_path / "no" / "page.html")
    assert "cannot be written (No such file" in refused(capsys, one, "-o", nowhere)
    several = write(tmp_path / "c.jsonl", [start(24, prompts=2)])
    assert "different numbers of prompts" in refused(capsys, one, several)
    shorter = write(tmp_path / "d.jsonl", [start(8)])
    assert "Row 1 of the two traces cannot be compared" in refused(capsys, one, shorter)
    assert sorted(tmp_path.glob("*.html")) == []


@pytest.mark.parametrize("works", [True, False])
def test_a_browser_is_asked_to_open_the_page(
    works: bool, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def browse(url: str) -> bool:
        asked.append(url)
        return works

    monkeypatch.setattr(webbrowser, "open", browse)
    assert main(["view", one_run(tmp_path / "a.jsonl"), "--open"]) == (0 if works else 1)
    assert asked == [(tmp_path / "a.html").as_uri()]
    assert ("No browser could be started" in capsys.readouterr().err) == (not works)
