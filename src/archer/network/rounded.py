"""Products in whole numbers: rows and weights of eight bits, exact sums, and who can be trusted with them.

Axes: N token rows, n inputs, m outputs (channels) of a product.

A row is x = scale * q, its largest magnitude having q = 127; a channel of the weights likewise.  Each row has
a scale of its own, so its numbers do not depend on the rows beside it.  A product is the exact sum, in
float32, times the channel's scale, times the row's, in this order whichever operator makes the sum: both
give the same bits.  A row that is not finite has a scale that is not, and neither is what comes of it.

All operators are private to torch, and on processors without VNNI eight bits are slow or wrong.  So there an
operator is tried in a child process against plain arithmetic before it is used.  On GPUs since Ada the
eight bits are those of a float8, because products of whole numbers are slow on some of them: then a row is
the same scale times other numbers, and its sums are rounded.  No GPU was at hand to try it.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn import functional as F

from archer.errors import BadRequest
from archer.machine.description import instructions
from archer.machine.devices import WRONG_RESULT_CODE, Attempt, attempt
from archer.network.shape import Scheme, Shape, channels_of, inputs_of

LARGEST: Final = 127
ZERO: Final = 128
"""What stands for 0 in numbers without a sign."""
TINIEST: Final = 1e-36
"""Rows are scaled as if they had a number of this magnitude: 127 divided by less can be infinite."""
MOST_INPUTS: Final = (2**31 - 1) // (255 * LARGEST)
"""Inputs whose sum 32 bits hold, whatever the numbers."""
MAGIC: Final = float(3 << 22)
"""Added to a small float32 it leaves the nearest whole number, halves to even, in the lowest bits."""
POINTED: Final = torch.float8_e4m3fn
"""What stands for whole numbers on GPUs that multiply it."""
MOST: Final = {torch.int8: LARGEST, torch.uint8: LARGEST, POINTED: 448}
"""The largest magnitude of a number, by how it is kept."""
POINTED_SINCE: Final = (8, 9)
"""The compute capability that such products need."""
VNNI: Final = frozenset(("avx512_vnni", "avx_vnni"))
CARD_ROWS, CARD_SIZES, POINTED_SIZES = 32, 8, 16
"""On a GPU rows are filled up to a multiple of the first; sizes must be multiples of the second or third."""
INSTEAD: Final = "Use int8, which saves memory alone, or leave quantize out."
CHILD = "import sys; from archer.network.rounded import child; child(sys.argv[1])"


class Operator(StrEnum):
    """What makes the sums; the fastest first."""

    PACKED = "onednn"
    """oneDNN's, with weights in an order of its own, packed once."""
    PLAIN = "int_mm"
    """torch's, with weights as they are, which it orders anew each time."""
    SCALED = "scaled_mm"
    """torch's for float8, on GPUs alone."""

    @property
    def there(self) -> bool:
        """Whether this torch has it."""
        if self is not Operator.PACKED:
            return hasattr(torch, f"_{self.value}")
        names = "qlinear_prepack", "qlinear_pointwise"
        return all(hasattr(torch.ops.onednn, name) for name in names)


ON_PROCESSORS: Final = (Operator.PACKED, Operator.PLAIN)


@dataclass(frozen=True)
class Rounded:
    """Token rows in eight bits."""

    numbers: Tensor
    """UInt8[N, n], 128 for 0; or Float8[N, n]."""
    scale: Tensor
    """[N, 1], at least float32."""

    @classmethod
    def of(cls, rows: Tensor, kind: torch.dtype = torch.int8) -> Rounded:
        """[N, n] -> the same for weights of a `kind`.

        Whole numbers are off by at most half a scale; halves go to the even one.
        """
        most = MOST[kind]
        rows = rows if rows.dtype in (torch.float32, torch.float64) else rows.float()
        top = torch.maximum(rows.amax(dim=1, keepdim=True), -rows.amin(dim=1, keepdim=True))
        top = top.clamp(min=TINIEST * (most / LARGEST))
        moved = torch.mul(rows, most / top)
        if kind == POINTED:
            return cls(moved.to(POINTED), top / most)
        moved = moved.to(torch.float32).add_(MAGIC + ZERO)
        return cls(moved.view(torch.int32).to(torch.uint8), top / most)


def packed(values: Tensor) -> Tensor:
    """Int8[m, n] -> the same in oneDNN's order, which only `by_packed` can read."""
    layout: Tensor = torch.ops.onednn.qlinear_prepack(values, None)
    return layout


def by_packed(numbers: Tensor, values: Tensor, scale: Tensor) -> Tensor:
    """UInt8[N, n], packed [m, n], Float32[m] -> Float32[N, m]"""
    product: Tensor = torch.ops.onednn.qlinear_pointwise(
        numbers, 1.0, ZERO, values, scale, _zeros(len(scale)), *UNFUSED
    )
    return product


UNFUSED: Final[tuple[Any, ...]] = (None, 1.0, 0, torch.float32, "none", [], "")
"""No bias, nothing afterwards, and the sums in float32."""


def by_plain(numbers: Tensor, values: Tensor, scale: Tensor) -> Tensor:
    """UInt8[N, n], Int8[m, n], Float32[m] -> Float32[N, m]"""
    rows, signed = len(numbers), numbers.bitwise_xor(ZERO).view(torch.int8)
    if signed.device.type != "cpu":
        signed = F.pad(signed, (0, 0, 0, -rows % CARD_ROWS))
    summed = torch._int_mm(signed, values.t()).narrow(0, 0, rows)
    return summed.to(torch.float32).mul_(scale)


def by_scaled(numbers: Tensor, values: Tensor, scale: Tensor) -> Tensor:
    """Float8[N, n], Float8[m, n], Float32[m] -> Float32[N, m]"""
    one = torch.ones((), device=numbers.device)
    summed: Tensor = torch._scaled_mm(
        numbers, values.t(), scale_a=one, scale_b=one, out_dtype=torch.float32
    )
    return summed.mul_(scale)


def numbers_on(device: torch.device | None) -> torch.dtype:
    """What the numbers of a matrix that is kept whole are there."""
    if device is None or device.type != "cuda" or not Operator.SCALED.there:
        return torch.int8
    return POINTED if torch.cuda.get_device_capability(device) >= POINTED_SINCE else torch.int8


@functools.lru_cache(maxsize=64)
def _zeros(channels: int) -> Tensor:
    return torch.zeros(channels, dtype=torch.long)


@dataclass(frozen=True)
class Trials:
    """How trial products ended, by operator; those after the first good one were not tried."""

    attempts: Mapping[Operator, Attempt]
    obstacle: str | None = None
    """Why none was tried."""

    @property
    def operator(self) -> Operator | None:
        """The one to use."""
        return next((name for name, each in self.attempts.items() if each.ok), None)

    @property
    def refusal(self) -> str | None:
        """Why there are no products in whole numbers here, and what to do; None where there are."""
        if self.operator is not None:
            return None
        if self.obstacle is not None:
            return f"{self.obstacle} {INSTEAD}"
        ends = " and ".join(f"{each} ({name})" for name, each in self.attempts.items())
        return f"w8a8 is not safe on this machine: trial products ended as {ends}. {INSTEAD}"


def operator_on(device: torch.device, shape: Shape, scheme: Scheme) -> Operator:
    """What to multiply with; refuses a device that cannot, and sizes of products that it does not take."""
    if device.type == "cpu":
        trials = probe()
        if trials.operator is None:
            raise BadRequest(str(trials.refusal))
        odd = [size for size in sorted(inputs_of(shape)) if not 2 <= size <= MOST_INPUTS]
        if odd:
            raise BadRequest(
                f"w8a8 takes products of 2 to {MOST_INPUTS} inputs, and this model has one of {odd[0]}. "
                f"{INSTEAD}"
            )
        return trials.operator
    if device.type != "cuda" or not Operator.PLAIN.there:
        raise BadRequest(f"There is no w8a8 on a device of the kind {device.type}. {INSTEAD}")
    pointed = numbers_on(device) == POINTED
    multiple = POINTED_SIZES if pointed else CARD_SIZES
    sizes = inputs_of(shape) | channels_of(shape, scheme)
    odd = [size for size in sorted(sizes) if size % multiple]
    if odd:
        raise BadRequest(
            f"On this GPU w8a8 takes sizes in multiples of {multiple}, and this model has one of {odd[0]}. "
            f"{INSTEAD}"
        )
    return Operator.SCALED if pointed else Operator.PLAIN


@functools.cache
def probe() -> Trials:
    """Try the operators on this processor, each in a process of its own, until one is right."""
    if not _has_vnni():
        return Trials(
            {},
            "w8a8 needs a processor with VNNI instructions, and this one has none: products in eight bits "
            "would be slow there, or wrong.",
        )
    there = [operator for operator in ON_PROCESSORS if operator.there]
    if not there:
        return Trials(
            {},
            f"This torch ({torch.__version__}) has neither of the operators that w8a8 multiplies with "
            "(onednn.qlinear_pointwise, _int_mm); 2.13 has both.",
        )
    attempts: dict[Operator, Attempt] = {}
    for operator in there:
        attempts[operator] = attempt((sys.executable, "-P", "-c", CHILD, operator.value))
        if attempts[operator].ok:
            break
    return Trials(attempts)


def _has_vnni() -> bool:
    """As the system says; where it says nothing, as torch does."""
    flags = instructions()
    if flags is not None:
        return bool(VNNI & flags)
    ask = getattr(torch.cpu, "_is_vnni_supported", None)
    return ask is not None and bool(ask())


def child(name: str) -> None:
    """The other side: products of one operator beside plain arithmetic, extremes included."""
    sys.exit(0 if exact(Operator(name)) else WRONG_RESULT_CODE)


def exact(operator: Operator) -> bool:
    """Whether an operator gives the numbers that it must, bit by bit."""
    generator = torch.Generator().manual_seed(0)
    for rows, inputs, channels in product((1, 5, 64), (2, 33, 1024), (1, 48)):
        drawn = torch.randint(1, 256, (rows, inputs), generator=generator)
        other = torch.randint(-LARGEST, LARGEST + 1, (channels, inputs), generator=generator)
        scale = torch.rand(channels, generator=generator)
        for numbers, values in (
            (drawn, other),
            (torch.full_like(drawn, 255), torch.full_like(other, LARGEST)),
            (torch.full_like(drawn, 255), torch.full_like(other, -LARGEST)),
            (torch.full_like(drawn, 1), torch.full_like(other, LARGEST)),
        ):
            truth = ((numbers - ZERO).double() @ values.double().mT).float() * scale
            small, held = numbers.to(torch.uint8), values.to(torch.int8)
            if operator is Operator.PACKED:
                answer = by_packed(small, packed(held), scale)
            else:
                answer = by_plain(small, held, scale)
            if not torch.equal(answer, truth):
                return False
    return True
