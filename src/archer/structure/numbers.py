"""Numbers between two bounds, as regular expressions over how JSON writes them, without exponents."""

from __future__ import annotations

import math
from decimal import Decimal
from itertools import pairwise

from archer.structure.byte_automaton import Empty

INTEGER = "-?(?:0|[1-9][0-9]*)"
NUMBER = rf"{INTEGER}(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
FRACTION = r"(?:\.[0-9]+)?"
MOST_DIGITS = 30
"""Of a bound."""
LEAST = Decimal("1e-20")
"""What is more than 0 is at least that."""


def whole_between(low: int | None, high: int | None) -> str:
    """Whole numbers from `low` to `high`, both included; None is no bound."""
    if low is not None and high is not None and low > high:
        raise _empty(low, high)
    if low is None and high is None:
        return INTEGER
    parts = []
    if low is None or low < 0:
        near = 1 if high is None or high >= 0 else -high
        parts.append(f"-{_magnitudes(near, None if low is None else -low)}")
    if high is None or high >= 0:
        parts.append(_magnitudes(max(0, low or 0), high))
    return _one_of(parts)


def between(low: Decimal | None, high: Decimal | None) -> str:
    """Numbers from `low` to `high`, both included; whatever is written reads as such a float, too."""
    if low is None and high is None:
        return NUMBER
    low, high = _readable(low, math.inf), _readable(high, -math.inf)
    if low is not None and high is not None and low > high:
        raise _empty(low, high)
    parts = []
    zero = Decimal(0)
    if low is None or low < 0:
        near = zero if high is None or high > 0 else high.copy_negate()
        parts.append(f"-{_sized(near, None if low is None else low.copy_negate())}")
    if high is None or high >= 0:
        parts.append(_sized(low if low is not None and low >= 0 else zero, high))
    return _one_of(parts)


def beside(bound: Decimal, towards: float) -> Decimal:
    """The next number that is another float: the bound of what has to be more or less than one.

    Digits without end would come so near to the bound that whoever reads them as a float reads the bound.
    """
    if not bound:
        return LEAST.copy_sign(Decimal(towards))
    return Decimal(repr(math.nextafter(float(bound), towards)))


def _readable(bound: Decimal | None, inwards: float) -> Decimal | None:
    """A bound that reads as a float within it: whole ones beyond 2^53 may read as one outside."""
    if bound is None or bound != bound.to_integral_value():
        return bound
    read = Decimal(float(bound))
    outside = read < bound if inwards > 0 else read > bound
    return beside(bound, inwards) if outside else bound


def _sized(low: Decimal, high: Decimal | None) -> str:
    """Numbers without a sign."""
    first, least = _split(low)
    parts: list[tuple[str, str | None]]
    if high is None:
        parts = [(_magnitudes(first + 1, None), FRACTION), (str(first), _fraction(least, None))]
    else:
        last, most = _split(high)
        if first == last:
            return f"{first}{_fraction(least, most)}"
        parts = [(str(first), _fraction(least, None))]
        if last - first > 1:
            parts.append((_magnitudes(first + 1, last - 1), FRACTION))
        parts.append((str(last), _fraction("", most)))
    return _one_of([whole + behind for whole, behind in parts if behind is not None])


def _fraction(low: str, high: str | None) -> str | None:
    """What may follow a whole number, a point and digits or nothing; None where nothing may.

    The digits are from `low` to `high`; None is no bound.
    """
    more = _digits(low, high)
    parts = [] if low else [""]
    if more is not None:
        parts.append(rf"\.{more}")
    return _one_of(parts) if parts else None


def _digits(low: str | None, high: str | None) -> str | None:
    """One or more digits; None where there are none, or as a bound where what stands before keeps it."""
    if not low and high is None:
        return "[0-9]+"
    if high == "":
        return None if low else "0+"
    first = int(low[0]) if low else 0
    last = 9 if high is None else int(high[0])
    parts: dict[str, str] = {}
    for digit in range(first, last + 1):
        lower = None if not low or digit > first else low[1:]
        upper = high[1:] if high is not None and digit == last else None
        more = _digits(lower, upper)
        if more is not None or not lower:
            rest = "" if more is None else more if lower else f"(?:{more})?"
            parts[rest] = parts.get(rest, "") + str(digit)
    return _one_of([f"[{digits}]{rest}" for rest, digits in parts.items()]) if parts else None


def _magnitudes(low: int, high: int | None) -> str:
    """Whole numbers without a sign from `low` to `high`."""
    if high is None:
        digits = len(str(low))
        more = f"[1-9][0-9]{{{digits},}}"
        return _one_of([_magnitudes(low, 10**digits - 1), more])
    parts = [0, *(10**digits for digits in range(1, len(str(high)))), high + 1]
    spans = [(max(low, start), stop - 1) for start, stop in pairwise(parts)]
    return _one_of([_same_length(str(a), str(b)) for a, b in spans if a <= b])


def _same_length(low: str, high: str) -> str:
    """Digits from `low` to `high`, which are equally long."""
    if low == high:
        return low
    if len(low) == 1:
        return f"[{low}-{high}]"
    rest = len(low) - 1
    if low[0] == high[0]:
        return low[0] + _same_length(low[1:], high[1:])
    parts = []
    first, last = int(low[0]), int(high[0])
    if low[1:].strip("0"):
        parts.append(low[0] + _same_length(low[1:], "9" * rest))
        first += 1
    if high[1:].strip("9"):
        parts.append(high[0] + _same_length("0" * rest, high[1:]))
        last -= 1
    if first <= last:
        parts.append(f"[{first}-{last}][0-9]{{{rest}}}")
    return _one_of(parts)


def _split(number: Decimal) -> tuple[int, str]:
    """The whole part of a number that is not negative, and the digits behind its point."""
    whole, _, digits = f"{number:f}".partition(".")
    return int(whole), digits.rstrip("0")


def _one_of(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"(?:{'|'.join(parts)})"


def _empty(low: object, high: object) -> Empty:
    return Empty(f"The schema allows no number: the least is {low} and the greatest {high}.")
