"""The scripts in `examples` run as they are and print what their first line promises."""

import re
import runpy

import pytest

from conftest import REPOSITORY

EXAMPLES = {
    "first_steps": "return len",
    "watch_updates": r"update 39: position 2 was ' num', now ' ='",
    "compare_methods": r"dkv-decode +9 full +55 cached",
    "own_decoder": r"return .*\n+\d+ updates, \d+ of them cached",
    "samples": r"prompt 2, sample 3: return",
}


def test_all_examples_are_known() -> None:
    assert {path.stem for path in (REPOSITORY / "examples").glob("*.py")} == set(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(REPOSITORY / "examples" / f"{name}.py"))
    assert re.search(EXAMPLES[name], capsys.readouterr().out)
