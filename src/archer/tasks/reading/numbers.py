"""Numbers as people write them in financial text: $ 1,234.5, (12), -4.4 %, 1.5e3, 3/4; never rescaled."""

import re
from dataclasses import dataclass

DIGITS = r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|\.\d+"
NUMBER = re.compile(
    rf"""
    (?<![\w.,/])                                    # not inside a word, a date or another number
    (?P<open>\(\s*)?
    (?P<sign>[-+\u2212\u2013]\s*)?
    (?:(?:us)?[$\u20ac\u00a3]\s*(?P<inner>[-\u2212]\s*)?)?
    (?P<value>{DIGITS})
    (?P<exponent>e[-+]?\d+)?
    (?:\s*/\s*(?P<divisor>{DIGITS}))?
    (?![\d]|\.\d|,\d)
    (?P<percent>\s*(?:\\?%|percent\b))?
    (?P<close>\s*\))?
    """,
    re.VERBOSE | re.IGNORECASE,
)
LATEX_FRACTION = re.compile(r"\\[dt]?frac\s*\{([^{}]+)\}\s*\{([^{}]+)\}")
LATEX_SPACING = re.compile(r"\\[!,;: ]|\\text\s*\{([^{}]*)\}")


@dataclass(frozen=True)
class Number:
    """A number as written; `percent` says whether it was followed by a percent sign."""

    written: float
    percent: bool

    @property
    def value(self) -> float:
        return self.written / 100 if self.percent else self.written


def find_numbers(text: str) -> list[Number]:
    plain = LATEX_FRACTION.sub(r"\1/\2", text)
    plain = LATEX_SPACING.sub(r"\1", plain).replace("\\$", "$").replace("{,}", ",")
    return [number for match in NUMBER.finditer(plain) if (number := _number(match)) is not None]


def _number(match: re.Match[str]) -> Number | None:
    size = float(match["value"].replace(",", "") + (match["exponent"] or ""))
    if match["divisor"]:
        divisor = float(match["divisor"].replace(",", ""))
        if divisor == 0:
            return None
        size /= divisor
    bracketed = bool(match["open"]) and bool(match["close"])
    signs = f"{match['sign'] or ''}{match['inner'] or ''}"
    negative = any(sign in signs for sign in "-\u2212\u2013") or (bracketed and not match["sign"])
    return Number(-size if negative else size, bool(match["percent"]))
