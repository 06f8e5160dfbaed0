"""What the first shard tells the others: a kind, a few plain values and arrays.  Nothing is unpickled."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

HEADER = 8
"""Bytes that say how long the JSON is."""
DTYPES = {"int64": np.int64, "bool": np.bool_, "uint8": np.uint8}


@dataclass(frozen=True)
class Message:
    """One thing to do."""

    kind: str
    fields: Mapping[str, Any]
    arrays: tuple[NDArray[Any], ...] = ()

    def encoded(self) -> bytes:
        described = [[str(each.dtype), each.shape] for each in self.arrays]
        header = {"kind": self.kind, "fields": dict(self.fields), "arrays": described}
        text = json.dumps(header).encode()
        return b"".join((len(text).to_bytes(HEADER, "big"), text, *map(_packed, self.arrays)))

    @classmethod
    def decoded(cls, raw: bytes) -> Message:
        first = HEADER + int.from_bytes(raw[:HEADER], "big")
        header = json.loads(raw[HEADER:first])
        arrays = []
        for name, shape in header["arrays"]:
            count = math.prod(shape)
            size = -(-count // 8) if name == "bool" else count * np.dtype(DTYPES[name]).itemsize
            arrays.append(_unpacked(raw[first : first + size], name, count).reshape(shape))
            first += size
        return cls(header["kind"], header["fields"], tuple(arrays))


def _packed(array: NDArray[Any]) -> bytes:
    """Flags take a bit each."""
    return np.packbits(array).tobytes() if array.dtype == np.bool_ else array.tobytes()


def _unpacked(raw: bytes, name: str, count: int) -> NDArray[Any]:
    """To be written to, as torch wants the arrays that it shares memory with."""
    if name == "bool":
        return np.unpackbits(np.frombuffer(raw, np.uint8), count=count).astype(np.bool_)
    return np.frombuffer(raw, DTYPES[name]).copy()
