"""Finding the program in a response, for repaired readings: fences, and the longest part that is Python."""

import ast
import re
import warnings
from collections.abc import Callable, Iterable, Sequence

FENCE = re.compile(r"^[ \t]*```.*$", re.MULTILINE)
CUTS = 100
"""How often a text that is not Python is shortened before it is given up."""


def segments(text: str) -> list[str]:
    """What lies before, between and after the lines that start with three backticks."""
    return [part.strip("\n") for part in FENCE.split(text)]


def parsed(source: str) -> ast.Module | None:
    """The syntax tree, or None for what is no Python."""
    tree, _ = _parse(source)
    return tree


def _parse(source: str) -> tuple[ast.Module | None, int]:
    """The tree, or None and the line of the first error; 0 where no line is known."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tree = ast.parse(source)
            compile(tree, "program.py", "exec", dont_inherit=True)  # finds a stray return, too
            return tree, 0
        except SyntaxError as error:
            return None, error.lineno or 0
        except (ValueError, RecursionError, MemoryError):
            return None, 0


def functions(tree: ast.Module) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def implements(source: str, name: str) -> bool:
    """Whether a program gives a top-level name a body that is more than a docstring."""
    tree = parsed(source)
    if tree is None:
        return False
    bodies = [node.body for node in functions(tree) if node.name == name]
    if bodies:
        return any(not _is_text(statement) for statement in bodies[-1])
    return any(
        isinstance(node, ast.Assign)
        and any(isinstance(target, ast.Name) and target.id == name for target in node.targets)
        for node in tree.body
    )


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def first_good(candidates: Sequence[str], good: Callable[[str], bool]) -> str | None:
    """The first good candidate; failing that, the first with a good beginning, cut to it."""
    for candidate in candidates:
        if candidate.strip() and good(candidate):
            return candidate
    return next(filter(None, (_beginning(candidate, good) for candidate in candidates)), None)


def _beginning(source: str, good: Callable[[str], bool]) -> str | None:
    """The longest run of lines from the start that is Python, if it is good."""
    lines = source.split("\n")
    for _ in range(CUTS):
        tree, error = _parse("\n".join(lines))
        if tree is not None or not lines:
            break
        lines = lines[: error - 1] if 0 < error <= len(lines) else lines[:-1]
    shortened = "\n".join(lines)
    return shortened if shortened.strip() and good(shortened) else None


def called_names(tests: Iterable[str]) -> set[str]:
    """Names that tests call as functions; tests that are no Python call nothing."""
    trees = filter(None, map(parsed, tests))
    calls = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call))
    return {call.func.id for call in calls if isinstance(call.func, ast.Name)}
