"""Numbers on the command line, taken as they are written or not at all, and within their range."""

import math
import re
from collections.abc import Sequence
from typing import Annotated, Any

from cyclopts import Parameter, Token

MOST_PROCESSES = 512
NUMBER = re.compile(r"[+-]?[0-9]{1,18}")


def whole(type_: Any, tokens: Sequence[Token]) -> int:
    """2 is 2; 2.7, 1e3, 0x10 and the like are refused rather than turned into something near."""
    (token,) = tokens
    if not NUMBER.fullmatch(token.value):
        raise ValueError(f"give a whole number such as 4, not {token.value!r}.")
    return int(token.value)


def canvas_length(type_: Any, tokens: Sequence[Token]) -> int | str:
    """A number of tokens, or how a canvas follows its answer."""
    (token,) = tokens
    return token.value if token.value in ("auto", "append") else whole(type_, tokens)


def positive(type_: Any, tokens: Sequence[Token]) -> int:
    number = whole(type_, tokens)
    if number < 1:
        raise ValueError(f"give a whole number of at least 1, not {number}.")
    return number


def processes(type_: Any, tokens: Sequence[Token]) -> int:
    """As many as a machine can be for."""
    number = whole(type_, tokens)
    if not 1 <= number <= MOST_PROCESSES:
        raise ValueError(f"give a whole number from 1 to {MOST_PROCESSES}, not {number}.")
    return number


def amount(type_: Any, tokens: Sequence[Token]) -> float:
    """A number above 0 and below infinity."""
    (token,) = tokens
    numbers = _floats(token.value)
    if len(numbers) != 1 or not 0 < numbers[0] < math.inf:
        raise ValueError(f"give one number above 0 and below infinity, not {token.value}.")
    return numbers[0]


def positives(type_: Any, tokens: Sequence[Token]) -> tuple[int, ...]:
    """ "128,512" -> (128, 512)"""
    text = _joined(tokens)
    numbers = _wholes(text)
    if not numbers:
        raise _refused(tokens, f"give whole numbers of at least 1, as in 128,512, not {text!r}.")
    return numbers


def bounds(type_: Any, tokens: Sequence[Token]) -> tuple[int, int]:
    """ "40,400" -> (40, 400)"""
    text = _joined(tokens)
    match _wholes(text):
        case (low, high) if low <= high:
            return low, high
    raise _refused(tokens, f"give the shortest and the longest, as in 40,400, not {text!r}.")


def amounts(type_: Any, tokens: Sequence[Token]) -> tuple[float, ...]:
    """ "0.8,inf" -> (0.8, inf)"""
    text = _joined(tokens)
    numbers = _floats(text)
    if not numbers or not all(number > 0 for number in numbers):
        raise _refused(tokens, f"give numbers above 0, or inf, as in 0.8,inf, not {text!r}.")
    return numbers


def names(type_: Any, tokens: Sequence[Token]) -> tuple[str, ...]:
    """ "saber, archer" -> ("saber", "archer")"""
    return tuple(part.strip() for part in _joined(tokens).split(","))


def _joined(tokens: Sequence[Token]) -> str:
    """An option that is repeated adds to what it said before."""
    return ",".join(token.value for token in tokens)


def _refused(tokens: Sequence[Token], sentence: str) -> ValueError:
    """Names the option where it is repeated: cyclopts does so for a single value only."""
    named = f"Invalid value for {tokens[0].keyword}: " if len(tokens) > 1 else ""
    return ValueError(f"{named}{sentence}")


def _wholes(text: str) -> tuple[int, ...]:
    """Whole numbers above 0; nothing where one of them is not."""
    parts = [part.strip() for part in text.split(",")]
    good = all(NUMBER.fullmatch(part) and int(part) > 0 for part in parts)
    return tuple(map(int, parts)) if good else ()


def _floats(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        return ()


EXACT = frozenset((whole, canvas_length, positive, processes, positives, bounds))
"""Converters that take a whole number as it is written."""
Whole = Annotated[int, Parameter(converter=whole)]
MaybeWhole = Annotated[int | None, Parameter(converter=whole)]
Positive = Annotated[int, Parameter(converter=positive)]
MaybePositive = Annotated[int | None, Parameter(converter=positive)]
Processes = Annotated[int, Parameter(converter=processes)]
MaybeProcesses = Annotated[int | None, Parameter(converter=processes)]
Positives = Annotated[tuple[int, ...], Parameter(converter=positives, n_tokens=1)]
Bounds = Annotated[tuple[int, int], Parameter(converter=bounds, n_tokens=1, metavar="LOW,HIGH")]
Amount = Annotated[float, Parameter(converter=amount)]
Amounts = Annotated[tuple[float, ...], Parameter(converter=amounts, n_tokens=1)]
Names = Annotated[tuple[str, ...], Parameter(converter=names, n_tokens=1)]
