"""`archer serve`: what it refuses before anything listens."""

import logging
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from archer.cli import main
from archer.cli.messages import at_level, reporting
from archer.cli.serve import AddressOptions, LimitOptions, ServingOptions
from archer.request.request import Window
from archer.server.settings import ServerSettings


def run(argv: list[str]) -> int:
    """On a thread of its own: tests in a browser keep a loop on this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(main, argv).result()


WRONG = [
    (["--host", "0.0.0.0"], "no key protects the server"),
    (["--queue", "0"], "--queue should be greater than or equal to 1, not 0"),
    (["--max-length", "0"], "--max-length should be greater than or equal to 1, not 0."),
    (["--budget", "0"], "--budget should be greater"),
    (["--drain", "inf"], "--drain should be a finite number, not inf"),
    (["--timeout", "0"], "--timeout should be greater than 0, not 0.0"),
    (["--memory", "nan"], "--memory should be a finite number, not nan"),
    (["--port", "99999"], "cannot listen at 127.0.0.1 port 99999"),
    (["--cors-origin", "*"], "--cors-origin should be an origin such as https://chat.example"),
    (
        ["--cors-origin", "https://a.example", "--cors-origin", "https://*.example"],
        "--cors-origin should be an origin",
    ),
    (["--ignore", "min_p,max_tokens"], "--ignore should name fields that are refused otherwise ("),
    (["--served-model-name", ""], "--served-model-name should have at least 1"),
    (["--host", "no.such.host.example", "--without-key"], "cannot listen at no.such.host.example"),
]


@pytest.mark.parametrize(("options", "phrase"), WRONG, ids=lambda value: str(value)[:30])
def test_what_makes_no_sense_is_refused(
    options: list[str], phrase: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["serve", *options]) == 2
    assert phrase in capsys.readouterr().err


def test_a_key_file_is_read_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keys = tmp_path / "keys"
    keys.write_text("short\n")
    assert run(["serve", "--port", "0", "--api-key-file", str(keys)]) == 2
    assert "shorter than 16" in capsys.readouterr().err


def test_a_model_that_cannot_be_loaded_ends_the_server(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["serve", "--port", "0", "--model", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert str(tmp_path) in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("level", "heard"),
    [
        ("error", ["error"]),
        ("warning", ["warning", "error"]),
        ("info", ["info", "warning", "error"]),
    ],
)
def test_a_level_says_which_lines_are_written(
    level: str, heard: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with reporting():
        with at_level(level):
            for each in ("info", "warning", "error"):
                getattr(logging.getLogger("archer.access"), each)("the line: %s", each)
        logging.getLogger("archer.access").info("the line: afterwards")
    assert re.findall(r"the line: (\w+)", capsys.readouterr().err) == heard


def test_options_are_the_settings_of_a_server(capsys: pytest.CaptureFixture[str]) -> None:
    """Each is there once, with the type and the default of its field, and with its help."""
    assert run(["serve", "--help"]) == 0
    shown = " ".join(re.sub("[│╭╮╰╯─]", " ", capsys.readouterr().out).split())
    groups = (ServingOptions, AddressOptions, LimitOptions)
    options = [each for group in groups for each in fields(group)]
    types = {each.name: each.type for each in options}
    for name, field in ServerSettings.model_fields.items():
        assert field.description, name
        if name == "page":
            continue
        (option,) = [each for each in options if each.name == name]
        assert option.default == field.default
        assert get_args(types[name])[0] == get_type_hints(ServerSettings)[name]
        first = " ".join(field.description.split()).split(" [default")[0].split(",")[0]
        assert first in shown, name
        assert f"--{name.replace('_', '-')} " in shown


@pytest.mark.parametrize(("level", "lines"), [("error", 0), ("warning", 1)])
def test_long_prompts_make_one_line_in_all(
    level: str, lines: int, capsys: pytest.CaptureFixture[str]
) -> None:
    window = Window(maximum=4096, trained=2048)
    with reporting():
        with at_level(level):
            for number in range(20):
                window.check(2000 + number, 100)
        assert capsys.readouterr().err.count("archer: A prompt and its response") == lines
        for _ in range(2):
            window.check(2000, 100)
    assert capsys.readouterr().err.count("exceed the 2048 positions") == 2, "a command tells always"


def test_an_unknown_level_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serve", "--log-level", "trace"]) == 2
    assert "log-level" in capsys.readouterr().err
