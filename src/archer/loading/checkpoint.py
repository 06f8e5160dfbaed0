"""A model folder -> a network with weights.

`read_folder` checks everything that can be checked without touching a weight: the config, the list
of files, and the name, shape and dtype of every tensor against what the config implies.
`load_network` then allocates once and streams. Nothing in the folder is executed or unpickled.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from archer.errors import BadModel, OutOfMemory
from archer.loading.architecture import Architecture
from archer.loading.architectures import known
from archer.loading.model_config import ModelConfig, Provenance, parse_config
from archer.loading.model_files import MEGABYTE, Json, find, is_folder, kind_of, read_json, some_of
from archer.loading.slots import Slot, slices_of, slots_of, target_of
from archer.loading.text.tokenizer_files import mask_id
from archer.loading.weight_files import Stored, read_tensors
from archer.loading.weights import Change, Copy, Entry, nothing, same_values, stream
from archer.machine.devices import out_of_memory
from archer.methods.build import NO_ADVICE, Recommended
from archer.network.network import Transformer
from archer.network.rounded import Operator, operator_on
from archer.network.shape import Blocks, Scheme, Shape
from archer.network.shard import Shard, shape_of

CONFIG = "config.json"
GENERATION = "generation_config.json"
LONGEST_CONFIG = MEGABYTE
TOLERATED = ".rotary_emb.inv_freq"
"""Tensors that some exports carry and nobody needs: rotary frequencies follow from the config."""


@dataclass(frozen=True)
class Folder:
    """A model folder that passed every check but the values of its weights."""

    path: Path
    architecture: Architecture
    shape: Shape
    mask: int
    eos: tuple[int, ...]
    config: Json
    dtype: str
    """The dtype in which most of the weights are stored, as torch names it."""
    weight_bytes: int
    """Size of the weights as stored."""
    tensors: Mapping[str, Stored]
    recommended: Recommended = NO_ADVICE
    """How its models are meant to be decoded."""
    copies: tuple[tuple[str, str], ...] = ()
    """Pairs of tensors that must be equal: a head that is stored although it is the embedding."""
    changes: Mapping[str, tuple[Change, ...]] = field(default_factory=dict)
    """What adapters make of tensors."""
    adapters: tuple[str, ...] = ()
    """Digests of the adapters."""

    @property
    def length(self) -> int | None:
        """Tokens of a response, where a number is recommended."""
        return self.recommended.length

    @property
    def parameters(self) -> int:
        """How many numbers its weights are made of."""
        copies = dict(self.copies)
        return sum(math.prod(t.entry.shape) for n, t in self.tensors.items() if n not in copies)


def read_folder(folder: Path, name: str | None = None, family: str | None = None) -> Folder:
    """Check the folder; no weight is read and nothing large is allocated.

    `name` is what the model was asked for by, and may tell which family it is of; `family` says it.
    """
    if not is_folder(folder):
        raise BadModel(f"{folder} is not a folder; give the folder that holds {CONFIG}.")
    path = find(folder, CONFIG)
    if path is None:
        raise BadModel(f"{folder} holds no {CONFIG}; give the folder of a model as the hub has it.")
    config = read_json(path, LONGEST_CONFIG)
    named = folder.resolve().name if name is None or is_folder(Path(name)) else name
    beside = Provenance(named, family, lambda row: mask_id(folder, row.mask_tokens))
    model = parse_config(config, str(path), beside)
    stored = read_tensors(folder)
    model, copies = _with_head(model, config, stored)
    slots = slots_of(model.architecture, model.shape)
    _compare(folder, slots, {n: each for n, each in stored.items() if n not in dict(copies)})
    used = {name: stored[name] for name in slots}
    sizes: dict[torch.dtype, int] = defaultdict(int)
    for each in used.values():
        sizes[each.entry.dtype] += each.entry.stop - each.entry.start
    return Folder(
        path=folder,
        architecture=model.architecture,
        shape=model.shape,
        mask=model.mask,
        eos=model.eos,
        config=config,
        dtype=str(max(sizes, key=sizes.__getitem__)).removeprefix("torch."),
        weight_bytes=sum(sizes.values()),
        tensors=used | {name: stored[name] for name, _ in copies},
        recommended=_recommended(folder, named, model),
        copies=copies,
    )


def _with_head(
    model: ModelConfig, config: Json, stored: Mapping[str, Stored]
) -> tuple[ModelConfig, tuple[tuple[str, str], ...]]:
    """The files decide whether there is a head of its own.

    Where the config itself says that it is the embedding, and both are stored, they must be equal.
    """
    if not model.shape.tied:
        return model, ()
    names = {place.parameter: place.tensor for place in model.architecture.placements}
    if names["head"] not in stored:
        return model, ()
    if model.architecture.keys.tied in config:
        return model, ((names["head"], names["embedding"]),)
    return replace(model, shape=replace(model.shape, tied=False)), ()


def _recommended(folder: Path, name: str, model: ModelConfig) -> Recommended:
    row, published = model.architecture, known(name)
    kind = model.shape.attention
    return Recommended(
        length=_recommended_length(folder, model.shape.max_positions) or row.length,
        method=(published and published.method) or row.method,
        block=kind.size if isinstance(kind, Blocks) else None,
    )


def _recommended_length(folder: Path, positions: int) -> int | None:
    """`max_new_tokens` of generation_config.json; nothing else in that file is used."""
    path = find(folder, GENERATION)
    length = None if path is None else read_json(path, LONGEST_CONFIG).get("max_new_tokens")
    if length is None:
        return None
    if not isinstance(length, int) or isinstance(length, bool) or not 0 < length < positions:
        raise BadModel(
            f"{path}: max_new_tokens must be a whole number from 1 to {positions - 1}; mend it or "
            "remove the key."
        )
    return length


def load_network(
    folder: Folder,
    *,
    device: torch.device,
    dtype: torch.dtype,
    scheme: Scheme = Scheme.PLAIN,
    shard: Shard | None = None,
    meanwhile: Callable[[], None] = nothing,
) -> Transformer:
    """The network with all weights in place; NaN or infinite weights are refused.

    Matrices are kept by the `scheme`, quantised piece by piece as they are read; one that is kept whole is
    packed as soon as it is complete, for which it takes its size once more.  So these are read first, and
    what is read afterwards, the embedding not least, finds that memory free again.  Of a `shard` only its own
    part is allocated and kept.  `meanwhile` is called between tensors.
    """
    shape = folder.shape if shard is None else shape_of(folder.shape, shard)
    operator = operator_on(device, shape, scheme) if scheme.whole else None
    for copy, original in folder.copies:
        _check_copy(folder, copy, original)
    try:
        network = Transformer(shape, scheme=scheme, device=device, dtype=dtype)
    except Exception as error:
        if not out_of_memory(error):
            raise
        raise OutOfMemory(
            f"There is not enough memory on {device} for the weights of {folder.path}. Use a smaller "
            "model, or quantize or shard it."
        ) from error
    filling = Filling(network, folder, shard, packs=operator is Operator.PACKED)
    copies: dict[Path, list[Copy]] = defaultdict(list)
    for name in filling.slots:
        stored = folder.tensors[name]
        copies[stored.file] += filling.copies(name, stored.entry)
    for packed in (True, False):
        for file, every in copies.items():
            group = [copy for copy in every if filling.packs(copy) is packed]
            if group:
                stream(file, group, meanwhile, filling.filled)
    return network.eval()


class Filling:
    """Which parts of a network's parameters the tensors of a checkpoint fill, wherever they come from."""

    def __init__(
        self, network: Transformer, folder: Folder, shard: Shard | None, *, packs: bool
    ) -> None:
        """`packs`: what is kept whole is packed as soon as it is complete."""
        self.network = network
        self.slots = slots_of(folder.architecture, folder.shape)
        self.missing: dict[str, int] = defaultdict(int)
        """By parameter, parts that are still to be filled."""
        self._folder, self._shard = folder, shard
        self._parameters = dict(network.named_parameters())
        self._scales = network.scales()
        self._packs = packs
        for slot in self.slots.values():
            for parameter in self._parameters_of(slot):
                self.missing[parameter] += len(list(slices_of(slot, folder.shape, shard)))

    def _parameters_of(self, slot: Slot) -> tuple[str, ...]:
        """A head that is the embedding is kept a second time where it is kept in eight bits."""
        shared = self._folder.shape.tied and slot.parameter == "embedding"
        return ("embedding", "head") if shared and "head" in self._scales else (slot.parameter,)

    def copies(self, name: str, entry: Entry) -> list[Copy]:
        """Where the tensor of this name goes; of a shard it may be nowhere."""
        slot = self.slots[name]
        scales = self._scales
        return [
            Copy(
                name,
                entry,
                target=target_of(self._parameters[parameter], own),
                scale=target_of(scales[parameter], own) if parameter in scales else None,
                dtype=self.network.dtype,
                rows=own.rows,
                columns=own.columns,
                parameter=parameter,
                changes=self._folder.changes.get(name, ()),
            )
            for parameter in self._parameters_of(slot)
            for own in slices_of(slot, self._folder.shape, self._shard)
        ]

    def packs(self, copy: Copy) -> bool:
        """Whether its parameter is packed when it is complete."""
        return self._packs and copy.parameter in self._scales

    def filled(self, copy: Copy) -> None:
        """One of these has been copied."""
        self.missing[copy.parameter] -= 1
        if self.packs(copy) and not self.missing[copy.parameter]:
            self.network.pack(copy.parameter)


def _check_copy(folder: Folder, copy: str, original: str) -> None:
    first, second = folder.tensors[copy], folder.tensors[original]
    if not same_values((first.file, first.entry), (second.file, second.entry)):
        raise BadModel(
            f"{folder.path}: {CONFIG} says that head and embedding are the same, but {kind_of(copy)} differs "
            f"from {kind_of(original)}; remove one, or set {folder.architecture.keys.tied} to false."
        )


def _compare(folder: Path, slots: Mapping[str, Slot], stored: Mapping[str, Stored]) -> None:
    """Refuse unless the folder holds exactly the expected tensors, each with the expected shape."""
    missing = [name for name in slots if name not in stored]
    if missing:
        raise BadModel(f"{folder}: {_count(missing)} missing from the weights: {some_of(missing)}.")
    surplus = [name for name in stored if name not in slots and not name.endswith(TOLERATED)]
    if surplus:
        raise BadModel(f"{folder}: {_count(surplus)} of no use to this model: {some_of(surplus)}.")
    wrong = [name for name, slot in slots.items() if stored[name].entry.shape != slot.shape]
    if wrong:
        have, want = stored[wrong[0]].entry.shape, slots[wrong[0]].shape
        example = f"{kind_of(wrong[0])} is {list(have)}, {CONFIG} asks for {list(want)}"
        raise BadModel(
            f"{folder}: {_count(wrong)} of the wrong shape: {some_of(wrong)} ({example})."
        )


def _count(names: list[str]) -> str:
    return "1 tensor is" if len(names) == 1 else f"{len(names)} tensors are"
