"""Before weights are loaded: all shards must be of the same Archer and of the same checkpoint."""

import torch

from archer import __version__
from archer.errors import ShardLost
from archer.loading import fingerprint
from archer.loading.checkpoint import Folder
from archer.loading.fingerprint import SIZE, plain
from archer.network.group import Group


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
    versions = plain([__version__, str(torch.__version__)])
    return {"other versions of Archer or torch": versions, **fingerprint.digests(folder)}
