"""Ways to spoil a model folder, for the tests of what is refused."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from archer.loading.adapters import with_adapters
from archer.loading.checkpoint import load_network, read_folder
from archer.loading.text.text import read_text
from support.folders import make_llada, write_json

Spoil = Callable[[Path], object]


@dataclass(frozen=True)
class Case:
    """A sound folder, what is done to it, and a phrase of the refusal."""

    name: str
    spoil: Spoil
    phrase: str
    make: Callable[[Path], Path] = make_llada


def open_model(folder: Path) -> None:
    """All that loading does."""
    read = read_folder(folder)
    read_text(read)
    if (folder / "adapter_config.json").exists():
        read = with_adapters(read, [str(folder)])
    load_network(read, device=torch.device("cpu"), dtype=torch.float32)


def edited(name: str, change: Callable[[dict[str, Any]], object]) -> Spoil:
    """A file of JSON in which something has changed."""

    def spoil(folder: Path) -> None:
        value = json.loads((folder / name).read_text())
        change(value)
        write_json(folder / name, value)

    return spoil


def config(**changes: Any) -> Spoil:
    return edited("config.json", lambda held: held.update(changes))


def without(key: str) -> Spoil:
    return edited("config.json", lambda held: held.pop(key, None))


def index(change: Callable[[dict[str, Any]], object]) -> Spoil:
    return edited("model.safetensors.index.json", lambda held: change(held["weight_map"]))


def tokenizer_json(change: Callable[[dict[str, Any]], object]) -> Spoil:
    return edited("tokenizer.json", change)


def content(name: str, data: bytes) -> Spoil:
    return lambda folder: (folder / name).write_bytes(data)


def removed(*names: str) -> Spoil:
    def spoil(folder: Path) -> None:
        for name in names:
            (folder / name).unlink()

    return spoil


def link_outside(name: str) -> Spoil:
    """The file moves out of the folder, and a link to it stays behind."""

    def spoil(folder: Path) -> None:
        tempting = folder.parent / "outside" / name
        tempting.parent.mkdir()
        (folder / name).rename(tempting)
        (folder / name).symlink_to(tempting)

    return spoil


def instead(name: str, make: Callable[[Path], object]) -> Spoil:
    def spoil(folder: Path) -> None:
        (folder / name).unlink()
        make(folder / name)

    return spoil


def tensors(
    change: Callable[[dict[str, torch.Tensor]], object], file: str = "model.safetensors"
) -> Spoil:
    def spoil(folder: Path) -> None:
        held = load_file(folder / file)
        change(held)
        save_file(held, folder / file)

    return spoil


def whole_file(change: Callable[[bytes], bytes]) -> Spoil:
    def spoil(folder: Path) -> None:
        path = folder / "model.safetensors"
        path.write_bytes(change(path.read_bytes()))

    return spoil


def header(change: Callable[[bytes], bytes]) -> Spoil:
    """Rewrite the header as bytes, with the right length in front."""

    def changed(data: bytes) -> bytes:
        length = int.from_bytes(data[:8], "little")
        new = change(data[8 : 8 + length])
        return len(new).to_bytes(8, "little") + new + data[8 + length :]

    return whole_file(changed)


def all_shards_at(place: str) -> Spoil:
    """The shards move next to the folder, and the index follows them."""

    def spoil(folder: Path) -> None:
        for shard in folder.glob("*.safetensors"):
            shard.rename(folder.parent / shard.name)
        prefix = place.format(parent=folder.parent)
        index(lambda names: names.update({n: prefix + f for n, f in names.items()}))(folder)

    return spoil


def copied_into_other_shard(folder: Path) -> None:
    first, second = sorted(folder.glob("*.safetensors"))
    one, two = load_file(first), load_file(second)
    name = next(iter(one))
    save_file(two | {name: one[name]}, second)


def swapped_names(folder: Path) -> None:
    first, second = sorted(folder.glob("*.safetensors"))
    spare = folder / "spare"
    first.rename(spare)
    second.rename(first)
    spare.rename(second)


def pickled(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def doubled_name(raw: bytes) -> bytes:
    first = next(iter(json.loads(raw)))
    entry = json.dumps({first: json.loads(raw)[first]})
    return raw.rstrip()[:-1] + b"," + entry.encode()[1:]


def both(*ways: Spoil) -> Spoil:
    def spoil(folder: Path) -> None:
        for way in ways:
            way(folder)

    return spoil
