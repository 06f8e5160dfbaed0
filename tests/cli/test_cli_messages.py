"""Advice of the library as the command line says it."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import archer
from archer.cli import messages

PACKAGE = Path(archer.__file__).parent


@cache
def sentences() -> tuple[str, ...]:
    """Every text in the sources beside the list itself; what is filled in later is left out."""
    return tuple(
        text
        for path in PACKAGE.rglob("*.py")
        if path != Path(messages.__file__)
        for text in texts(ast.parse(path.read_text(encoding="utf-8")))
    )


def texts(module: ast.Module) -> Iterator[str]:
    for node in ast.walk(module):
        if isinstance(node, ast.JoinedStr):
            made = (part.value if isinstance(part, ast.Constant) else "" for part in node.values)
            yield "".join(map(str, made))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@pytest.mark.parametrize("advice", messages.IN_A_SHELL)
def test_advice_that_is_said_in_other_words_is_still_given(advice: str) -> None:
    """A sentence that is reworded must not leave advice for Python on the command line."""
    assert any(advice in text for text in sentences())
