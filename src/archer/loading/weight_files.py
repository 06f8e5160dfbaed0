"""Which safetensors files make up a checkpoint; an index may name plain files of its folder alone."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from archer.errors import BadModel
from archer.loading.model_files import MEGABYTE, find, kind_of, read_json, some_of
from archer.loading.weights import Entry, read_header

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
LONGEST_INDEX = 16 * MEGABYTE
PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*\.safetensors")
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")


@dataclass(frozen=True)
class Stored:
    """One tensor of the checkpoint: its file and its place there."""

    file: Path
    entry: Entry


def read_tensors(folder: Path) -> dict[str, Stored]:
    """All tensors of the folder by name; only headers are read."""
    index = find(folder, INDEX)
    if index is not None:
        return _read_sharded(folder, index)
    single = find(folder, SINGLE)
    if single is None:
        raise _no_weights(folder)
    return {name: Stored(single, entry) for name, entry in read_header(single).items()}


def _read_sharded(folder: Path, index: Path) -> dict[str, Stored]:
    weight_map = _weight_map(index)
    tensors: dict[str, Stored] = {}
    for shard in sorted(set(weight_map.values())):
        file = find(folder, shard)
        if file is None:
            raise BadModel(f"{folder} lacks {shard}, which {INDEX} names; download it again.")
        for name, entry in read_header(file).items():
            if weight_map.get(name, shard) != shard:
                where = f"{shard}, but {INDEX} says {weight_map[name]}"
                raise BadModel(f"{folder}: the tensor {kind_of(name)} is in {where}.")
            tensors[name] = Stored(file, entry)
    absent = [name for name in weight_map if name not in tensors]
    if absent:
        raise BadModel(f"{folder}: {INDEX} names tensors that its files lack: {some_of(absent)}.")
    return tensors


def _weight_map(index: Path) -> Mapping[str, str]:
    entries = read_json(index, LONGEST_INDEX).get("weight_map")
    if not isinstance(entries, dict) or not entries:
        raise BadModel(f'{index} must hold an object "weight_map" with the file of each tensor.')
    for shard in entries.values():
        if not isinstance(shard, str) or not PLAIN_NAME.fullmatch(shard):
            raise BadModel(
                f"{index} names the file {kind_of(shard)}; "
                "only plain names of .safetensors files in the same folder are read."
            )
    return entries


def _no_weights(folder: Path) -> BadModel:
    names = sorted(path.name for path in folder.iterdir())
    pickles = [name for name in names if name.endswith(PICKLES)]
    shards = [name for name in names if name.endswith(".safetensors")]
    if shards:
        return BadModel(f"{folder} holds {some_of(shards)} but no {INDEX}; download that file too.")
    if pickles:
        return BadModel(
            f"{folder} holds its weights only as pickles ({some_of(pickles)}), which can run any "
            "code when opened; get the model as safetensors, or convert it with transformers' "
            "save_pretrained(safe_serialization=True) where you trust it."
        )
    return BadModel(f"{folder} holds no weights: neither {SINGLE} nor {INDEX} is there.")
