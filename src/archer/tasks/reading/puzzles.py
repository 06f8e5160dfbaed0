"""Reading solutions of puzzles: arithmetic that reaches a target, and 4x4 grids of digits.

The released readers evaluate what a model wrote as Python; here it is parsed, and nothing but sums,
differences, products and quotients of numbers is worked out.
"""

import ast
import re
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

from .lineage import lineage_answer
from .marked import marked_answer

LATEX = {"\\div": "/", "\\times": "*", "\\cdot": "*"}
TYPED = {"\u00d7": "*", "\u00f7": "/", "\u2212": "-"}
"""Signs that the release does not know."""
RUN = re.compile(r"[0-9+\-*/() ]+")
RESULTS = frozenset("0123456789. ")
PLAIN = re.compile(r"[\d+\-*/().\s]+")
STEP = re.compile(r"(\d+)([+\-*/])(\d+)=(\d+)")
TOLERANCE = Fraction(1, 100_000)
LONGEST = 200
"""Characters of an expression that is worked out; a solution has a few dozen."""
CELLS = 16
SIZE = 4
FENCED = re.compile(r"```([\d\s]+)```")
BEFORE_THE_END = re.compile(rf"(\d{{{CELLS}}})\s*</answer>")
WHOLE = re.compile(rf"\b(\d{{{CELLS}}})\b")


def countdown_expression(response: str, published: bool) -> str:
    """The expression without what follows an equals sign.

    As published: the last box, else the first tag, else everything, and of that the first equation.
    """
    text = lineage_answer(response) if published else (marked_answer(response) or "")
    for written, sign in (LATEX if published else LATEX | TYPED).items():
        text = text.replace(written, sign)
    for run in RUN.finditer(text):
        if (
            text[run.end() : run.end() + 1] == "="
            and text[run.end() + 1 : run.end() + 2] in RESULTS
        ):
            return run[0].strip()
    return text.strip("$ .\n") if not published else text


def countdown_reached(expression: str, numbers: Sequence[int], target: int) -> bool:
    """Whether an expression uses each number once and has the target as its value."""
    used = sorted(map(int, re.findall(r"\d+", expression[:LONGEST])))
    if len(expression) > LONGEST or used != sorted(numbers) or not PLAIN.fullmatch(expression):
        return False
    value = evaluated(expression.strip())
    return value is not None and abs(value - target) < TOLERANCE


def evaluated(expression: str) -> Fraction | None:
    """The exact value; None of anything but numbers and the four operations."""
    try:
        return _value(ast.parse(expression, mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return None


def _value(node: ast.expr) -> Fraction:
    match node:
        case ast.Constant(value=int() | float() as value):
            return Fraction(value)
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_value(inner)
        case ast.UnaryOp(op=ast.UAdd(), operand=inner):
            return _value(inner)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _value(left) + _value(right)
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            return _value(left) - _value(right)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _value(left) * _value(right)
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            return _value(left) / _value(right)
    raise ValueError("no arithmetic")


def countdown_steps(response: str, published: bool) -> str:
    """The first line; repaired, the first that has a step, without spaces."""
    if published:
        return response.split("\n", 1)[0]
    lines = ("".join(line.split()) for line in response.split("\n"))
    return next((line.rstrip(".") for line in lines if STEP.match(line)), "")


def countdown_stepped(steps: str, numbers: Sequence[int], target: int) -> bool:
    """Whether every step is right, takes what is there, and the last leaves the target alone."""
    left = Counter(numbers)
    for step in steps[:LONGEST].split(","):
        match = STEP.fullmatch(step)
        if match is None or evaluated(f"{match[1]}{match[2]}{match[3]}") != int(match[4]):
            return False
        left.subtract([int(match[1]), int(match[3])])
        left[int(match[4])] += 1
        if min(left.values()) < 0:
            return False
    return len(steps) <= LONGEST and +left == Counter([target])


def sudoku_answer(response: str, published: bool) -> str:
    """Sixteen cells; what is missing is 0, and no answer at all is empty.

    As published by d1: the first of five places that holds something, whatever it is. Repaired: the
    digits of a marked answer, else the last sixteen that stand together.
    """
    if published:
        cells = "".join(_published(response).split())
    else:
        cells = re.sub(r"\D", "", marked_answer(response) or "")
        if len(cells) != CELLS:
            grids = WHOLE.findall(response)
            cells = grids[-1] if grids else cells
    return cells[:CELLS].ljust(CELLS, "0") if cells else ""


def _published(response: str) -> str:
    """Five places in turn."""
    start, end = response.find("<answer>"), response.find("</answer>")
    inside = response[start + len("<answer>") :] if start >= 0 else ""
    closed = inside.find("</answer>")
    for place in (
        _first(FENCED, inside),
        inside[:closed] if closed >= 0 else "",
        response[end + len("</answer>") :] if end >= 0 else "",
        _first(BEFORE_THE_END, response),
    ):
        if place.strip():
            return place.strip()
    return _first(WHOLE, response)


def _first(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.search(text)
    return str(match[1]) if match else ""


def grid_answer(response: str, published: bool) -> str:
    """The cells of the first paragraph, row by row with line breaks between; as published no further.

    Repaired: the first sixteen digits in four rows.
    """
    if published:
        return response.split("\n\n", 1)[0].replace(" ", "")[: CELLS + SIZE - 1].strip()
    digits = re.sub(r"\D", "", response)[:CELLS]
    return "\n".join(digits[at : at + SIZE] for at in range(0, len(digits), SIZE))
