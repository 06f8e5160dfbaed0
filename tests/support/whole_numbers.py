"""Products in whole numbers on processors that are refused them, for tests of what is built on such products.

Axes: N token rows, n inputs, m outputs (channels) of a product.

Without VNNI the sums of oneDNN's operator saturate.  Plain arithmetic stands in for it there, and the
processor is said to have VNNI; torch's other operator is right anyway.  Child processes know nothing of it.
"""

from functools import cache
from pathlib import Path

import pytest
from torch import Tensor

from archer.machine import description
from archer.machine.devices import Attempt
from archer.network import linear, rounded
from archer.network.rounded import ZERO, probe


def pretend(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """From here on w8a8 is loaded and computed, by plain arithmetic where it would be refused."""
    if probe().operator is not None:
        return
    listing = folder / "cpuinfo"
    listing.write_text("model name : Pretended\nflags : avx512_vnni\n", encoding="utf-8")
    patch.setattr(description, "LISTING", listing)
    patch.setattr(rounded, "attempt", lambda command: Attempt("ok"))
    patch.setattr(rounded, "probe", cache(probe.__wrapped__))
    for module in (rounded, linear):
        patch.setattr(module, "packed", Tensor.clone)
        patch.setattr(module, "by_packed", by_plain_arithmetic)


def by_plain_arithmetic(numbers: Tensor, values: Tensor, scale: Tensor) -> Tensor:
    """UInt8[N, n], Int8[m, n], Float32[m] -> Float32[N, m]"""
    return ((numbers.double() - ZERO) @ values.double().mT).float() * scale


def skip_where_refused() -> None:
    """For tests of the operators themselves, and of child processes that use them."""
    if probe().operator is None:
        pytest.skip(f"w8a8 is refused here: {probe().refusal}")
