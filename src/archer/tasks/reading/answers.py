"""Finding the answer in a response, for each answer task, and comparing it with the right one."""

import re
from collections.abc import Sequence
from importlib import import_module
from math import isfinite

from .marked import marked_answer
from .numbers import find_numbers

TOLERANCE = 1e-2
LABELS = ("yes", "no", "maybe")
LABEL = re.compile(rf"\b({'|'.join(LABELS)})\b", re.IGNORECASE)
BOXED = "\\boxed{"
WORD = re.compile(r"\b(yes|no)\b", re.IGNORECASE)


def math_answer(response: str) -> str:
    """A marked answer without what people put around it."""
    return (marked_answer(response) or "").removesuffix(".").strip("$ ")


def finqa_answer(response: str, marks: bool, word: bool) -> str:
    """A number, or yes or no; `marks` says whether a marked answer goes before the last number."""
    marked = marked_answer(response) if marks else None
    if word:
        return yes_or_no(marked) or yes_or_no(response)
    return (_result(marked) if marked else "") or _last(response)


def finqa_accepted(answer: str, right: float | str, factors: Sequence[float]) -> bool:
    """Whether an answer is the right word, or one of its readings is near the right number."""
    if isinstance(right, str):
        return yes_or_no(answer) == right
    numbers = find_numbers(answer)
    if len(numbers) != 1:
        return False
    number = numbers[0]
    readings = [number.value * factor for factor in factors]
    return any(isfinite(each) and abs(each - right) <= TOLERANCE * abs(right) for each in readings)


def yes_or_no(text: str | None) -> str:
    """The first such word, in small letters; empty if there is none."""
    match = WORD.search(text or "")
    return match.group(1).lower() if match else ""


def gsm8k_answer(response: str, published: bool) -> str:
    """A number as text. As published: the first in a box, else the last in a tag; commas end a number."""
    if not published:
        return finqa_answer(response, marks=True, word=False).removesuffix("%")
    for content in _boxes(response):
        if content.strip(". "):
            number = _published_number(content.strip(), 0)
            if number:
                return number
    start = response.find("<answer>")
    end = response.find("</answer>", start) if start >= 0 else -1
    if end < 0:
        return ""
    return _published_number(response[start + len("<answer>") : end].strip(), -1)


def gsm8k_right(answer: str, right: str) -> bool:
    """Whether a number is the right one."""
    try:
        return float(answer) == float(right)
    except ValueError:
        return False


def _boxes(response: str) -> list[str]:
    """What stands from the opening of a box to the next closing brace, line by line."""
    boxes = []
    for line in response.split("\n"):
        at = line.find(BOXED)
        while at >= 0:
            end = line.find("}", at)
            if end < 0:
                break
            boxes.append(line[at + len(BOXED) : end])
            at = line.find(BOXED, end)
    return boxes


def _published_number(text: str, which: int) -> str:
    """The text if it is a number, else its first or last one."""
    try:
        return repr(float(text))
    except ValueError:
        numbers = re.findall(r"-?\d+\.?\d*", text)
        return repr(float(numbers[which])) if numbers else ""


def infilled_line(response: str, published: bool) -> str:
    """The line that was written, without its indentation.

    As published: the first one, or the second where the first is empty or one space.
    """
    lines = response.split("\n")
    if published:
        second = len(lines) > 1 and lines[0] in ("", " ")
        return lines[1 if second else 0].strip()
    return next((line.strip() for line in lines if line.strip()), "")


def pubmedqa_answer(response: str, marks: bool) -> str:
    """The label in a marked answer, else the first label anywhere."""
    marked = marked_answer(response) if marks else None
    return label(marked) or label(response)


def label(text: str | None) -> str:
    """The first of yes, no and maybe, in small letters; empty if there is none."""
    match = LABEL.search(text or "")
    return match.group(1).lower() if match else ""


def math_equal(answer: str, right: str) -> bool:
    """Whether math-verify finds two answers equal; only a confined process with a time limit may ask."""
    math_verify = import_module("math_verify")
    gold, target = (
        math_verify.parse(f"\\boxed{{{text}}}", parsing_timeout=None) for text in (right, answer)
    )
    return bool(math_verify.verify(gold, target, timeout_seconds=None))


def _result(marked: str) -> str:
    """The first number behind the last equals sign of a marked answer."""
    numbers = find_numbers(marked.rpartition("=")[2])
    return _written(numbers[0].written, numbers[0].percent) if numbers else ""


def _last(text: str) -> str:
    numbers = find_numbers(text)
    return _written(numbers[-1].written, numbers[-1].percent) if numbers else ""


def _written(size: float, percent: bool) -> str:
    return f"{size!r}%" if percent else repr(size)
