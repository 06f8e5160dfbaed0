"""Whole numbers on the command line, taken as they are written or not at all."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any

from cyclopts import Parameter, Token

NUMBER = re.compile(r"[+-]?[0-9]{1,18}")


def whole(type_: Any, tokens: Sequence[Token]) -> int:
    """2 is 2; 2.7, 1e3, 0x10 and the like are refused rather than turned into something near."""
    (token,) = tokens
    if not NUMBER.fullmatch(token.value):
        raise ValueError(f"give a whole number such as 4, not {token.value!r}.")
    return int(token.value)


Whole = Annotated[int, Parameter(converter=whole)]
MaybeWhole = Annotated[int | None, Parameter(converter=whole)]
