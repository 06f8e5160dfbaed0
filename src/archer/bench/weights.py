"""Random weights, in a network or on disk; large ones repeat a block of noise: no kernel is faster for it."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from archer.costs.shapes import Published
from archer.errors import BadRequest
from archer.files import replace_json
from archer.loading.checkpoint import CONFIG
from archer.loading.model_config import config_for, parse_config
from archer.loading.slots import Slot, slots_of
from archer.loading.weight_files import INDEX, SINGLE
from archer.network.network import Transformer

BLOCK = 4_000_037
"""Numbers drawn at most per parameter; prime, so that no two rows of a matrix are alike."""
LIVELINESS = {"qkv": 2.5, "head": 4.0}
"""Parameters drawn larger than usual: otherwise all positions of a random network look alike."""


def drawn(parameter: str, size: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Float32 values for a parameter, or for some rows of it."""
    if len(size) == 1:
        return torch.zeros(size) if parameter.endswith("bias") else torch.ones(size)
    values = _noise(size, generator)
    if parameter == "embedding":
        return values
    scale = LIVELINESS.get(parameter.rpartition(".")[2], 1.0)
    return values.mul_(scale / size[-1] ** 0.5)


def filled(network: Transformer, seed: int = 0) -> Transformer:
    """The network with random weights in place."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in network.named_parameters():
        parameter.copy_(drawn(name, tuple(parameter.shape), generator))
    return network.eval()


def _noise(size: tuple[int, ...], generator: torch.Generator) -> Tensor:
    whole = torch.empty(size)
    flat = whole.view(-1)
    block = torch.randn(min(BLOCK, flat.numel()), generator=generator)
    for start in range(0, flat.numel(), BLOCK):
        part = flat[start : start + BLOCK]
        part.copy_(block[: part.numel()])
    return whole


SHARD = 1 << 30
"""Numbers per file, unless a single tensor has more."""


def config_of(model: Published) -> dict[str, Any]:
    """A config.json that says what the shape says."""
    return config_for(model.architecture, model.shape, model.mask, model.eos)


def write_checkpoint(
    folder: Path,
    config: Mapping[str, Any],
    *,
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
    shard: int = SHARD,
) -> Path:
    """Write config and weights into a folder without a checkpoint; one shard is in memory at a time."""
    for name in (CONFIG, SINGLE, INDEX):
        if (folder / name).exists():
            raise BadRequest(f"{folder} holds a {name} already; give an empty folder.")
    model = parse_config(dict(config), CONFIG)
    generator = torch.Generator().manual_seed(seed)
    slots = slots_of(model.architecture, model.shape)
    shards = _shards(slots, shard)
    files = _file_names(len(shards))
    for file, names in zip(files, shards, strict=True):
        weights = {
            name: drawn(slots[name].parameter, slots[name].shape, generator).to(dtype)
            for name in names
        }
        save_file(weights, folder / file)
    if len(files) > 1:
        where = {name: file for file, names in zip(files, shards, strict=True) for name in names}
        replace_json(folder / INDEX, {"weight_map": where})
    replace_json(folder / CONFIG, config)
    return folder


def _shards(slots: Mapping[str, Slot], most: int) -> list[list[str]]:
    """Tensors in order, as many per file as fit."""
    shards: list[list[str]] = [[]]
    room = most
    for name, slot in slots.items():
        size = math.prod(slot.shape)
        if size > room and shards[-1]:
            shards.append([])
            room = most
        shards[-1].append(name)
        room -= size
    return shards


def _file_names(count: int) -> list[str]:
    if count == 1:
        return [SINGLE]
    return [f"model-{n:05}-of-{count:05}.safetensors" for n in range(1, count + 1)]
