"""Tensors into existing parameters: what a safetensors file claims to hold, and its values streamed.

The safetensors library is asked first whether the file is sound. The header is then read once more
here, because the library lets duplicate names pass and does not tell where a tensor lies. Values go
from the mapped file to the parameter in small pieces, and the pages are given back at once: loading
needs hardly more memory than the weights themselves.
"""

import math
import mmap
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from archer.errors import BadModel, cause_of
from archer.loading.model_files import MEGABYTE, kind_of, parse_json
from archer.machine.devices import out_of_memory
from archer.network.linear import SCALES, largest, quantised, scales, scales_of

DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
}
LONGEST_HEADER = 16 * MEGABYTE
MOST_TENSORS = 1 << 16
PIECE = 1 << 18
"""Elements copied at a time."""


@dataclass(frozen=True)
class Entry:
    """One tensor as the header describes it: `start` and `stop` are byte positions in the file."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    start: int
    stop: int


Change = Callable[[Tensor, slice], Tensor]
"""What becomes of some rows of a stored tensor, [rows, n] in at least float32, and which rows they are."""


@dataclass(frozen=True)
class Copy:
    """Rows and columns of one tensor to be read, and the part of a parameter that they fill (contiguous)."""

    name: str
    entry: Entry
    target: Tensor
    scale: Tensor | None = None
    """Where the target holds whole numbers: the scales of its rows, filled with them."""
    dtype: torch.dtype = torch.float32
    """Where the target holds whole numbers: what they are multiplied out in later."""
    rows: slice | None = None
    """None means all."""
    columns: slice | None = None
    """None means all.  The scale of a row is that of the whole row, whichever columns are kept."""
    parameter: str = ""
    """What the target is a part of."""
    changes: tuple[Change, ...] = ()
    """Made to whole rows, in this order, before anything else."""


def read_header(path: Path) -> dict[str, Entry]:
    """All tensors of the file by name, checked against the file's size; no value is read."""
    try:
        raw = _header_bytes(path)
        with safe_open(path, framework="numpy"):
            size = path.stat().st_size
    except (OSError, SafetensorError, MemoryError) as error:
        raise _unread(path, error) from error
    header = parse_json(raw, f"The header of {path}")
    header.pop("__metadata__", None)
    if len(header) > MOST_TENSORS:
        raise BadModel(f"{path} holds {len(header)} tensors; at most {MOST_TENSORS} are read.")
    first = 8 + len(raw)
    return {name: _entry(path, name, value, first, size) for name, value in header.items()}


def nothing() -> None:
    """What happens between two tensors where nobody has to be looked after."""


def _nobody(copy: Copy) -> None:
    """What happens after a tensor where nobody waits for it."""


def stream(
    path: Path,
    copies: Iterable[Copy],
    meanwhile: Callable[[], None] = nothing,
    filled: Callable[[Copy], None] = _nobody,
) -> None:
    """Copy tensors of the file into their targets, converted to each target's dtype and device.

    Every value is checked: NaN, infinity and values beyond the range of the target, or of what whole numbers
    are multiplied out in, are refused.  `meanwhile` is called before each tensor, and may raise; `filled`
    after it.
    """
    with path.open("rb") as file:
        # A private writable mapping, because torch warns about read-only memory; never written.
        # Its last user closes it: closing it here would fail while a refusal refers to it.
        try:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        except (OSError, ValueError, MemoryError) as error:  # a ValueError where it is empty by now
            raise _unread(path, error) from error
    for copy in sorted(copies, key=lambda copy: copy.entry.start):
        if copy.entry.stop > len(mapped):
            raise _damaged(path, "it became shorter while it was read")
        meanwhile()
        _copy(_InFile(str(path), mapped, copy.entry), copy)
        filled(copy)


def entry_of(tensor: Tensor) -> Entry:
    """A tensor in memory, as the header of a file would describe it."""
    return Entry(tensor.dtype, tuple(tensor.shape), 0, tensor.numel() * tensor.itemsize)


def take(tensor: Tensor, copy: Copy) -> None:
    """Fill a target from a tensor in memory as `stream` does from a file, with the same bits."""
    _copy(_InMemory(tensor.detach().contiguous().view(-1)), copy)


class _Numbers(Protocol):
    """The numbers of one tensor, wherever they are."""

    @property
    def where(self) -> str: ...
    @property
    def remedy(self) -> str: ...
    def read(self, first: int, count: int) -> Tensor: ...
    def give_back(self, first: int, count: int) -> None: ...


@dataclass(frozen=True)
class _InFile:
    where: str
    mapped: mmap.mmap
    entry: Entry
    remedy: str = "download the file again"

    def read(self, first: int, count: int) -> Tensor:
        at = self.entry.start + first * self.entry.dtype.itemsize
        return torch.frombuffer(self.mapped, dtype=self.entry.dtype, count=count, offset=at)

    def give_back(self, first: int, count: int) -> None:
        size = self.entry.dtype.itemsize
        _give_back(self.mapped, self.entry.start + first * size, count * size)


@dataclass(frozen=True, eq=False)
class _InMemory:
    numbers: Tensor
    where: str = "The new weights"
    remedy: str = "look for what went wrong in training"

    def read(self, first: int, count: int) -> Tensor:
        return self.numbers[first : first + count]

    def give_back(self, first: int, count: int) -> None:
        """They belong to somebody else."""


def same_values(first: tuple[Path, Entry], second: tuple[Path, Entry]) -> bool:
    """Whether two stored tensors hold the same bytes as the same numbers."""
    (one, own), (other, its) = first, second
    if (own.dtype, own.shape) != (its.dtype, its.shape):
        return False
    with one.open("rb") as left, other.open("rb") as right:
        left.seek(own.start)
        right.seek(its.start)
        for begin in range(own.start, own.stop, MEGABYTE):
            count = min(MEGABYTE, own.stop - begin)
            if left.read(count) != right.read(count):
                return False
    return True


def _copy(numbers: _Numbers, copy: Copy) -> None:
    entry, scale, columns = copy.entry, copy.scale, copy.columns
    width = entry.shape[-1] if entry.shape else 1
    if copy.changes:
        width = math.prod(entry.shape[1:])
    skipped = 0 if copy.rows is None else copy.rows.start
    first, count_of_numbers = 0, math.prod(entry.shape)
    if copy.rows is not None and entry.shape:
        each = count_of_numbers // max(1, entry.shape[0])
        first = copy.rows.start * each
        count_of_numbers = (copy.rows.stop - copy.rows.start) * each
    target, together = copy.target.view(-1), PIECE
    if scale is not None or columns is not None or copy.changes:
        together = max(1, PIECE // width) * width
    kept = 0
    for begin in range(0, count_of_numbers, together):
        count = min(together, count_of_numbers - begin)
        piece = numbers.read(first + begin, count)
        own, factors = piece, None
        rows = piece
        if scale is not None or copy.changes:
            rows = piece.view(-1, width).to(torch.promote_types(torch.float32, piece.dtype))
        for change in copy.changes:
            at = skipped + begin // width
            own = rows = change(rows, slice(at, at + len(rows)))
        if copy.changes and _finite(piece) and not _finite(own):
            raise BadModel(
                f"{numbers.where}: an adapter makes NaN or infinite values of the tensor "
                f"{kind_of(copy.name)}; leave it out, or download it again."
            )
        if scale is not None:
            count_of_scales = scales(width) if scale.dtype == SCALES else 1
            own, factors = quantised(rows, count_of_scales, scale.dtype, target.dtype)
            kept_scales = (
                factors if columns is None else scales_of(factors, width, columns, scale.shape[-1])
            )
            scale.narrow(0, begin // width, count // width).copy_(kept_scales)
        if columns is not None:
            own = own.view(-1, width)[:, columns]
        part = target[kept : kept + own.numel()]
        part.copy_(own.reshape(-1))
        kept += own.numel()
        checked = part if factors is None else largest(factors, copy.dtype, target.dtype)
        if not _finite(checked):
            raise _bad_values(numbers, copy.name, piece, factors, checked.dtype)
        numbers.give_back(first + begin, count)


def _bad_values(
    numbers: _Numbers, name: str, piece: Tensor, scale: Tensor | None, dtype: torch.dtype
) -> BadModel:
    what = f"{numbers.where}: the tensor {kind_of(name)} holds"
    if not _finite(piece):
        return BadModel(f"{what} NaN or infinite values; {numbers.remedy}.")
    if scale is not None and not _finite(scale):
        return BadModel(f"{what} values too large for int8; load the model without quantize.")
    kind = str(dtype).removeprefix("torch.")
    return BadModel(f"{what} values too large for {kind}; load the model in float32.")


def _finite(values: Tensor) -> bool:
    low, high = values.aminmax()
    return math.isfinite(low) and math.isfinite(high)


def _give_back(mapped: mmap.mmap, start: int, length: int) -> None:
    """Tell the system that these bytes of the mapping need not stay in memory."""
    if sys.platform != "win32":
        page = start - start % mmap.PAGESIZE
        mapped.madvise(mmap.MADV_DONTNEED, page, start + length - page)


def _header_bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > LONGEST_HEADER:
            raise _damaged(path, f"its header would take {length} bytes")
        return file.read(length)


def _entry(path: Path, name: str, value: object, first: int, size: int) -> Entry:
    match value:
        case {"dtype": str(dtype), "shape": [*shape], "data_offsets": [int(begin), int(end)]}:
            if dtype not in DTYPES:
                what = f"the tensor {kind_of(name)} has dtype {kind_of(dtype)}"
                raise BadModel(f"{path}: {what}; only {', '.join(DTYPES)} are read.")
            dims = tuple(dim for dim in shape if isinstance(dim, int))
            entry = Entry(DTYPES[dtype], dims, first + begin, first + end)
            length = math.prod(dims) * entry.dtype.itemsize
            if len(dims) == len(shape) and end - begin == length and entry.stop <= size:
                return entry
    raise _damaged(path, f"the description of {kind_of(name)} is not valid")


def _unread(path: Path, error: Exception) -> BadModel:
    """What to say of a file that cannot be mapped: it is damaged, or larger than this process may map."""
    if not out_of_memory(error):
        return _damaged(path, cause_of(error))
    return BadModel(
        f"{path} has {path.stat().st_size / 1e9:.3g} GB, and this process may not map as much. Raise its "
        "limit on address space (`ulimit -v`), or use a model whose weights fit."
    )


def _damaged(path: Path, reason: str) -> BadModel:
    return BadModel(f"{path} is damaged ({reason}); download it again.")
