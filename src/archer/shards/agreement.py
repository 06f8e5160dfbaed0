"""Before weights are loaded: all shards must be of the same Archer and of the same checkpoint.

Whole files would take minutes to digest.  What is digested are versions, the config, the name, type, shape
and place of every tensor, the size of every file, and a few weights of some tensors, so that another training
of the same network is noticed.  A weight here or there that differs is not.
"""

import hashlib
import json
from collections.abc import Mapping

import torch

from archer import __version__
from archer.errors import ShardLost
from archer.loading.checkpoint import Folder
from archer.loading.weight_files import Stored
from archer.network.group import Group

SOME = 64
"""Tensors of which weights are read."""
PIECE = 256
"""Bytes of each, from its middle."""
SIZE = 16


def agree(group: Group, folder: Folder) -> None:
    """Refuse to go on where a shard has something else than the first; every shard calls this."""
    own = digests(folder)
    answers = group.compare(b"".join(own.values()))
    for rank, theirs in enumerate(answers):
        for place, what in enumerate(own):
            piece = slice(place * SIZE, (place + 1) * SIZE)
            if theirs[piece] != answers[0][piece]:
                raise ShardLost(
                    f"Shard {rank + 1} of {len(answers)} has {what} than the first. Give all of them the "
                    "same folder, or the same commit of a hub id, and the same versions."
                )


def digests(folder: Folder) -> dict[str, bytes]:
    """By what a difference means."""
    layout = {
        name: [str(each.entry.dtype), list(each.entry.shape), each.entry.start, each.file.name]
        for name, each in sorted(folder.tensors.items())
    }
    sizes = {path.name: path.stat().st_size for path in {e.file for e in folder.tensors.values()}}
    return {
        "other versions of Archer or torch": _plain([__version__, str(torch.__version__)]),
        "another config.json": _plain(folder.config),
        "other weight files": _plain([layout, sorted(sizes.items())]),
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


def _plain(value: object) -> bytes:
    return _digest(json.dumps(value, sort_keys=True).encode())


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=SIZE).digest()
