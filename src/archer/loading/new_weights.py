"""New values for the weights of a network that is at work, made ready beside it and taken over at once.

Tensors come under the names and in the shapes of the checkpoint, and go the way of those that are read from a
file: fused, merged with adapters, quantised, cut into shards.  So the network computes afterwards, bit for
bit, what one computes that is loaded from files with these tensors.  Nothing of it changes before every one
of them has been found good.  Meanwhile there is room for the parameters that change twice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

from archer.errors import BadModel, BadRequest, quoted
from archer.loading.checkpoint import Filling, Folder, read_folder
from archer.loading.model_files import kind_of, some_of
from archer.loading.weights import DTYPES, entry_of, take
from archer.network.linear import Linear
from archer.network.network import Transformer
from archer.network.shard import Shard

Named = Iterable[tuple[str, Tensor]]
"""Tensors under the names of the checkpoint."""


@dataclass
class Staging:
    """What some tensors make of a network's parameters; `commit` puts it in their place."""

    network: Transformer
    folder: Folder
    shard: Shard | None = None
    names: list[str] = field(default_factory=list)
    """Of the tensors so far."""

    def __post_init__(self) -> None:
        live = self.network
        self._own = dict(live.named_parameters())
        self._large = live.large()
        with torch.inference_mode(mode=False):
            self._fresh = Transformer(
                live.shape, scheme=live.scheme, device=live.device, dtype=live.dtype
            )
        packs = any(linear.blocks for linear in self._large.values())
        self._filling = Filling(self._fresh, self.folder, self.shard, packs=packs)
        self._copied: dict[str, Tensor] = {}
        self._touched: set[str] = set()

    def check(self, name: object, tensor: object) -> None:
        """Refuse a name that the model does not have, another shape, and what is no tensor of numbers."""
        slots, copies = self._filling.slots, dict(self.folder.copies)
        if not isinstance(name, str) or not isinstance(tensor, Tensor):
            raise BadRequest(
                "New weights are pairs of a name and a tensor, not "
                f"{type(name).__name__} and {type(tensor).__name__}. Nothing was changed."
            )
        if name not in slots and name not in copies:
            raise BadModel(
                f"The model has no tensor {quoted(name)}. Names are those of its checkpoint, such as "
                f"{some_of(list(slots))}. Nothing was changed."
            )
        if name in self.names:
            raise BadModel(f"The tensor {kind_of(name)} is given twice. Nothing was changed.")
        shape = slots[copies.get(name, name)].shape
        if tuple(tensor.shape) != shape:
            raise BadModel(
                f"The tensor {kind_of(name)} is {list(tensor.shape)}, and the model's is {list(shape)}. "
                "Nothing was changed."
            )
        if tensor.dtype not in DTYPES.values():
            raise BadModel(
                f"The tensor {kind_of(name)} holds {str(tensor.dtype).removeprefix('torch.')}; give one of "
                f"{', '.join(str(each).removeprefix('torch.') for each in DTYPES.values())}. "
                "Nothing was changed."
            )

    def add(self, name: str, tensor: Tensor) -> None:
        """Make one tensor ready that was checked."""
        self.names.append(name)
        if name in dict(self.folder.copies):
            self._copied[name] = tensor.detach().clone()
            return
        with torch.no_grad():
            for copy in self._filling.copies(name, entry_of(tensor)):
                self._begin(copy.parameter)
                take(tensor, copy)
                self._filling.filled(copy)
        if name in dict(self.folder.copies).values():
            self._copied[name] = tensor.detach().clone()

    def _begin(self, parameter: str) -> None:
        """Fused parameters may get some of their parts only: the others stay what they are."""
        if parameter in self._touched:
            return
        self._touched.add(parameter)
        own, linear = self._own.get(parameter), self._large.get(parameter)
        if own is None:
            return  # packed: complete or refused
        dict(self._fresh.named_parameters())[parameter].copy_(own)
        if linear is not None and linear.scale is not None:
            _scale(self._fresh.large()[parameter]).copy_(linear.scale)

    def finish(self) -> None:
        """Refuse what is not complete; afterwards nothing can go wrong any more."""
        if not self.names:
            raise BadRequest("There are no new weights: give at least one tensor.")
        for parameter in self._touched:
            if parameter not in self._own and self._filling.missing[parameter]:
                names = [n for n, s in self._filling.slots.items() if s.parameter == parameter]
                raise BadModel(
                    f"{some_of(names)} are packed into one matrix of eight bits, so they change together. "
                    "Give all of them. Nothing was changed."
                )
        for copy, original in self.folder.copies:
            given = copy in self._copied, original in self._copied
            same = all(given) and torch.equal(self._copied[copy], self._copied[original])
            if given[0] and not same:
                raise BadModel(
                    f"Head and embedding of this model are one, and {kind_of(copy)} is given without an "
                    f"equal {kind_of(original)}. Give the latter alone, or the same values for both. "
                    "Nothing was changed."
                )

    @torch.no_grad()
    def commit(self) -> None:
        """Put the new values in the place of the old ones; the parameters stay the same objects."""
        fresh, large = dict(self._fresh.named_parameters()), self._fresh.large()
        for parameter in self._touched:
            own, linear = self._own.get(parameter), self._large.get(parameter)
            if own is not None:
                own.copy_(fresh[parameter])
            if linear is not None:
                _scale(linear).copy_(_scale(large[parameter]))
                if own is None:
                    _exchange(linear, large[parameter])


def _scale(linear: Linear) -> Tensor:
    assert linear.scale is not None
    return linear.scale


def _exchange(linear: Linear, fresh: Linear) -> None:
    """Have the packed blocks of another matrix; whoever refers to the list sees them."""
    assert linear.blocks is not None
    assert fresh.blocks is not None
    for at, block in enumerate(fresh.blocks):
        linear.blocks[at] = block


def replaced(network: Transformer, folder: Folder, tensors: Iterable[Any], before: str = "") -> str:
    """Change the weights of a network and of its other shards; all of them or nothing.

    Returns a digest of these tensors and of `before`, the digest of what had been changed already.
    """
    shards = network.all_shards
    shard = None if shards is None else Shard(0, shards.shards)
    staging = Staging(network, folder, shard)
    digest = hashlib.sha256(before.encode())
    try:
        for pair in tensors:
            name, tensor = pair if isinstance(pair, tuple) and len(pair) == 2 else (pair, None)
            staging.check(name, tensor)
            assert tensor is not None
            here = tensor.detach().to(network.device)
            _note(digest, name, here)
            if shards is not None:
                shards.stage(name, here)
            staging.add(name, here)
        staging.finish()
    except BaseException:
        if shards is not None:
            shards.agree_to_stage(sound=False)
        raise
    if shards is not None and not shards.agree_to_stage(sound=True):
        raise BadModel(
            "Another shard cannot take over these weights: a value is not finite, or too large for its "
            "dtype. Nothing was changed."
        )
    staging.commit()
    return digest.hexdigest()


def _note(digest: hashlib._Hash, name: str, tensor: Tensor) -> None:
    numbers = tensor.cpu().contiguous()
    digest.update(f"{name} {numbers.dtype} {list(numbers.shape)} ".encode())
    digest.update(numbers.view(-1).view(torch.uint8).numpy().data)


@contextmanager
def tensors_in(path: Path, model: Folder) -> Iterator[Named]:
    """The weights of a folder of the same architecture and shape, read one by one as they are asked for."""
    folder = read_folder(path, model.architecture.name, model.architecture.family)
    if (folder.architecture, folder.shape) != (model.architecture, model.shape):
        raise BadModel(
            f"{path} holds a model of another architecture or shape. Load it by itself. Nothing was changed."
        )
    files = {name: stored.file for name, stored in folder.tensors.items()}

    def read() -> Iterator[tuple[str, Tensor]]:
        for file in sorted(set(files.values())):
            with safe_open(file, framework="pt") as held:
                for name in (name for name, own in files.items() if own == file):
                    yield name, held.get_tensor(name)

    yield read()
