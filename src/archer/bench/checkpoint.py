"""A checkpoint of random weights on disk, written shard by shard: something to measure loading with.

At the full size of LLaDA-8B it is as large as the real one; no more than one shard is in memory at a time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from archer.bench.weights import drawn
from archer.costs.shapes import Published
from archer.errors import BadRequest
from archer.files import replace_json
from archer.loading.checkpoint import CONFIG, Slot, slots_of
from archer.loading.model_config import config_for, parse_config
from archer.loading.weight_files import INDEX, SINGLE

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
    """Write config and weights into an existing folder that holds no checkpoint."""
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
