"""Notebooks without Jupyter: cells are run in order in one namespace, and what each ends with is shown."""

import ast
import contextlib
import html
import io
import json
from pathlib import Path
from typing import Any


def run(path: Path) -> list[str]:
    """The output of every code cell as HTML, as a notebook would show it."""
    names: dict[str, Any] = {"__name__": "__main__"}
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [_run("".join(each["source"]), names) for each in cells if each["cell_type"] == "code"]


def page(path: Path, outputs: list[str]) -> str:
    """The notebook with these outputs as one page, to look at."""
    rest = iter(outputs)
    parts = ['<!doctype html><meta charset="utf-8"><title>Notebook</title>']
    for each in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        parts.append(f"<pre>{html.escape(''.join(each['source']))}</pre>")
        if each["cell_type"] == "code":
            parts.append(next(rest))
    return "\n".join(parts)


def _run(code: str, names: dict[str, Any]) -> str:
    tree = ast.parse(code)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    said, value = io.StringIO(), None
    with contextlib.redirect_stdout(said):
        exec(compile(tree, "<cell>", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)  # noqa: S307
    shown = f"<pre>{html.escape(said.getvalue())}</pre>" if said.getvalue() else ""
    if value is None:
        return shown
    rich = getattr(value, "_repr_html_", None)
    return shown + (rich() if rich is not None else f"<pre>{html.escape(repr(value))}</pre>")
