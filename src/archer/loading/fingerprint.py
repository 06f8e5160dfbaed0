"""What tells one checkpoint from another without reading all of it.

Whole files would take minutes to digest.  What is digested are the config, the name, type, shape and place of
every tensor, the size of every file, and a few weights of some tensors, so that another training of the same
network is noticed.  A weight here or there that differs is not.
"""

import hashlib
import json
from collections.abc import Mapping

from archer.loading.checkpoint import Folder
from archer.loading.weight_files import Stored

SOME = 64
"""Tensors of which weights are read."""
PIECE = 256
"""Bytes of each, from its middle."""
SIZE = 16


def fingerprint(folder: Folder) -> str:
    """One digest of everything, adapters included."""
    own = b"".join(digests(folder).values()) + "".join(folder.adapters).encode()
    return _digest(own).hex()


def digests(folder: Folder) -> dict[str, bytes]:
    """By what a difference means."""
    layout = {
        name: [str(each.entry.dtype), list(each.entry.shape), each.entry.start, each.file.name]
        for name, each in sorted(folder.tensors.items())
    }
    sizes = {path.name: path.stat().st_size for path in {e.file for e in folder.tensors.values()}}
    return {
        "another config.json": plain(folder.config),
        "other weight files": plain([layout, sorted(sizes.items())]),
        "other weights": _digest(_some_weights(folder.tensors)),
    }


def _some_weights(tensors: Mapping[str, Stored]) -> bytes:
    names = sorted(tensors)
    pieces = []
    for name in names[:: max(1, len(names) // SOME)]:
        entry = tensors[name].entry
        middle = (entry.start + entry.stop) // 2
        first = max(entry.start, middle - PIECE // 2)
        with tensors[name].file.open("rb") as file:
            file.seek(first)
            pieces.append(file.read(min(PIECE, entry.stop - first)))
    return b"".join(pieces)


def plain(value: object) -> bytes:
    """The digest of plain data."""
    return _digest(json.dumps(value, sort_keys=True).encode())


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=SIZE).digest()
