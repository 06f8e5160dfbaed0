"""LoRA adapters as PEFT saves them, merged into the weights while these are read.

Axes: m outputs and n inputs of a matrix, r rank of a change.

A folder holds `adapter_config.json` and `adapter_model.safetensors`.  Both are data from outside: every
tensor of the file must find its place in the model, and a field of the config that asks for something else
than what is done here is refused by name.  Weights are changed row by row, in at least float32, before
anything is quantised or cut into shards.  After loading nothing is left of the adapter: a pass costs what it
always costs.
"""

from __future__ import annotations

import logging
import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor

from archer.errors import BadModel, BadRequest
from archer.loading.checkpoint import Folder
from archer.loading.hub import locate
from archer.loading.model_files import MEGABYTE, Json, find, kind_of, read_json, some_of
from archer.loading.weights import Change, Entry, read_header
from archer.network.shape import Blocks

CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"
PICKLED = "adapter_model.bin"
PREFIX = "base_model.model."
LARGEST_RANK = 1 << 16
LARGEST_WEIGHT = 1e3
LARGEST_ALPHA = 1e6

KNOWN = frozenset(
    (
        "r",
        "lora_alpha",
        "use_rslora",
        "use_dora",
        "rank_pattern",
        "alpha_pattern",
        "lora_bias",
        "bias",
    )
)
"""Fields that are done as they say."""
WITHOUT_EFFECT = frozenset(
    (
        *("peft_type", "peft_version", "task_type", "auto_mapping", "base_model_name_or_path"),
        *("revision", "inference_mode", "lora_dropout", "runtime_config", "megatron_core"),
        *("target_modules", "exclude_modules", "layers_to_transform", "layers_pattern"),
        *("modules_to_save", "qalora_group_size", "fan_in_fan_out", "eva_config"),
    )
)
"""Fields about training, or about what the names of the tensors tell as well.

`fan_in_fan_out` has no effect on linear layers in PEFT either, and there are no others here.
"""
PLAIN_STARTS = (None, True, False, "gaussian", "orthogonal", "eva")
"""Ways to begin training that leave the model's own weights as they are."""
BLOCKWISE = "d2f"
"""In the names of adapters that were trained for block-causal attention."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Adapter:
    """One folder that passed every check but the values of its weights."""

    folder: Path
    weight: float
    changes: Mapping[str, Sequence[Change]]
    """By tensor of the model, in the order in which they are made."""

    @property
    def digest(self) -> str:
        """Of both files and the weight."""
        whole = sha256(repr(self.weight).encode())
        for name in (CONFIG, WEIGHTS):
            with (self.folder / name).open("rb") as file:
                while piece := file.read(MEGABYTE):
                    whole.update(piece)
        return whole.hexdigest()


@dataclass(frozen=True)
class Pair:
    """The change B A of a matrix, and for DoRA the length that each of its rows then gets."""

    file: Path
    down: str
    """[r, n]; of an embedding [r, m]."""
    up: str
    """[m, r]; of an embedding [n, r]."""
    scale: float
    magnitude: str | None = None
    """[m]"""
    embedding: bool = False

    def __call__(self, rows: Tensor, at: slice) -> Tensor:
        down, up = (_tensor(self.file, name, rows.dtype) for name in (self.down, self.up))
        update = (up @ down[:, at]).T if self.embedding else up[at] @ down
        changed: Tensor = rows + update * self.scale
        if self.magnitude is None:
            return changed
        length = _tensor(self.file, self.magnitude, rows.dtype)[at]
        lengthened: Tensor = changed * (length / torch.linalg.norm(changed, dim=1))[:, None]
        return lengthened


@dataclass(frozen=True)
class Sum:
    """What is added to a bias."""

    file: Path
    name: str
    scale: float

    def __call__(self, rows: Tensor, at: slice) -> Tensor:
        return rows + _tensor(self.file, self.name, rows.dtype)[at][:, None] * self.scale


@dataclass(frozen=True)
class Replacement:
    """A tensor that was trained as a whole."""

    file: Path
    name: str

    def __call__(self, rows: Tensor, at: slice) -> Tensor:
        return _tensor(self.file, self.name, rows.dtype)[at].reshape(rows.shape)


def _tensor(file: Path, name: str, dtype: torch.dtype) -> Tensor:
    with safe_open(file, framework="pt") as held:
        tensor: Tensor = held.get_tensor(name)
    return tensor.to(dtype)


def with_adapters(folder: Folder, specs: Sequence[str], *, forced: bool = False) -> Folder:
    """The model with the changes of all `specs`, in order: folders or hub ids, with @WEIGHT or without."""
    changes: dict[str, list[Change]] = defaultdict(list)
    digests = []
    for spec in specs:
        name, weight = parsed(spec)
        _check_kind(name, folder, forced)
        adapter = read_adapter(locate(name), folder, weight)
        for tensor, own in adapter.changes.items():
            changes[tensor] += own
        digests.append(adapter.digest)
    return replace(
        folder,
        changes={name: tuple(each) for name, each in changes.items()},
        adapters=tuple(digests),
    )


def parsed(spec: str) -> tuple[str, float]:
    """`folder@0.5` -> the folder and its weight, 1 where none is given."""
    name, at, text = spec.rpartition("@")
    try:
        weight = float(text) if at else None
    except ValueError:
        weight = None
    if weight is None:
        return spec, 1.0
    if not (math.isfinite(weight) and abs(weight) <= LARGEST_WEIGHT) or not name:
        raise BadRequest(
            f"The weight of an adapter is a number from {-LARGEST_WEIGHT:g} to {LARGEST_WEIGHT:g}, as in "
            f"folder@0.5, not {text!r}."
        )
    return name, weight


def _check_kind(name: str, folder: Folder, forced: bool) -> None:
    """Nothing in its files tells for which attention an adapter was trained; some names do."""
    if BLOCKWISE in name.lower() and not isinstance(folder.shape.attention, Blocks) and not forced:
        raise BadRequest(
            f"By its name the adapter {name!r} is one of D2F's, trained for block-causal attention; this "
            "model sees the whole response from everywhere, and would compute something else with it. If it "
            "is not one of these, or to see what happens, add force_adapter=True."
        )


def read_adapter(path: Path, model: Folder, weight: float = 1.0) -> Adapter:
    """Check the folder against the model; only headers are read."""
    config_file, file = find(path, CONFIG), find(path, WEIGHTS)
    if config_file is None:
        raise BadModel(f"{path} holds no {CONFIG}; give the folder of an adapter as PEFT saves it.")
    if file is None:
        pickled = find(path, PICKLED) is not None
        raise BadModel(
            f"{path} holds its weights only as {PICKLED}, a pickle, which can run any code when opened; "
            "save it as safetensors."
            if pickled
            else f"{path} holds no {WEIGHTS}; download it too."
        )
    settings = _Settings(read_json(config_file, MEGABYTE), str(config_file))
    settings.check()
    entries = read_header(file)
    changes: dict[str, list[Change]] = defaultdict(list)
    for tensor, change in _changes(_Held(file, entries, settings, model, weight)):
        changes[tensor].append(change)
    if not changes:
        raise BadModel(f"{file} changes nothing: it holds no tensor.")
    head = next(p.tensor for p in model.architecture.placements if p.parameter == "head")
    if head in changes:
        log.warning("The adapter %s changes the vocabulary head, %s, as well.", path, head)
    return Adapter(path, weight, changes)


@dataclass(frozen=True)
class _Settings:
    """adapter_config.json, checked by name."""

    config: Json
    where: str

    def check(self) -> None:
        if self.config.get("peft_type") != "LORA":
            raise self._refused("peft_type", "only LORA is merged")
        for key, value in self.config.items():
            if key == "init_lora_weights":
                if value not in PLAIN_STARTS or (type(value) is int):
                    raise self._refused(key, "it changes the model's own weights as well")
            elif key == "bias":
                if value not in ("none", "all", "lora_only"):
                    raise self._refused(key, "known are none, all and lora_only")
            elif key not in KNOWN | WITHOUT_EFFECT and value not in (None, False, [], {}, ""):
                raise self._refused(key, "it is not known here, and nothing is left out silently")
        for key in ("use_rslora", "use_dora", "lora_bias"):
            self.flag(key)
        self.scale("")

    def flag(self, key: str) -> bool:
        value = self.config.get(key, False)
        if not isinstance(value, bool):
            raise self._refused(key, "it must be true or false")
        return value

    def rank(self, module: str) -> int:
        value = self._of("r", "rank_pattern", module)
        if type(value) is not int or not 1 <= value <= LARGEST_RANK:
            raise self._refused("r", f"it must be a whole number from 1 to {LARGEST_RANK}")
        return value

    def scale(self, module: str) -> float:
        """What the product of both halves is multiplied with."""
        value = self._of("lora_alpha", "alpha_pattern", module)
        usable = isinstance(value, int | float) and not isinstance(value, bool)
        if not usable or not abs(float(value)) <= LARGEST_ALPHA:  # type: ignore[arg-type]
            raise self._refused("lora_alpha", f"it must be a number up to {LARGEST_ALPHA:g}")
        rank = self.rank(module)
        divisor = math.sqrt(rank) if self.flag("use_rslora") else rank
        return float(value) / divisor  # type: ignore[arg-type]

    def _of(self, key: str, pattern: str, module: str) -> object:
        """The value for a module: of the first pattern that matches its name, else that for all."""
        special = self.config.get(pattern) or {}
        if not isinstance(special, dict):
            raise self._refused(pattern, "it must be an object of pattern -> number")
        for each, value in special.items():
            try:
                if re.fullmatch(rf"(.*\.)?({each})", module):
                    return value
            except re.error as error:
                raise self._refused(pattern, f"{kind_of(each)} is no pattern") from error
        return self.config.get(key)

    def _refused(self, key: str, reason: str) -> BadModel:
        return BadModel(
            f"{self.where}: {kind_of(key)} is {kind_of(self.config.get(key))}, which cannot be merged: "
            f"{reason}."
        )


@dataclass(frozen=True)
class _Held:
    """The tensors of one adapter and the model they are for."""

    file: Path
    entries: Mapping[str, Entry]
    settings: _Settings
    model: Folder
    weight: float

    def target(self, name: str, tensor: str) -> tuple[int, ...]:
        """The shape of a tensor of the model; refused where it has none of this name."""
        if tensor not in self.model.tensors:
            tied = self.model.shape.tied and tensor in self._heads
            raise self.refused(
                name,
                "head and embedding of this model are one"
                if tied
                else f"the model has no {tensor}",
            )
        return self.model.tensors[tensor].entry.shape

    @property
    def _heads(self) -> tuple[str, ...]:
        return tuple(p.tensor for p in self.model.architecture.placements if p.parameter == "head")

    def refused(self, name: str, reason: str) -> BadModel:
        return BadModel(
            f"{self.file}: the tensor {kind_of(name)} fits nothing in the model: {reason}."
        )

    def require(self, name: str, shape: tuple[int, ...]) -> None:
        have = self.entries.get(name)
        if have is None:
            raise BadModel(f"{self.file}: the tensor {kind_of(name)} is missing.")
        if have.shape != shape:
            raise self.refused(name, f"it is {list(have.shape)}, and {list(shape)} is needed")


ENDINGS = re.compile(
    r"(?P<module>.+)\.(?P<kind>lora_A|lora_B|lora_embedding_A|lora_embedding_B|lora_magnitude_vector)"
    r"(\.(?P<of>weight|bias))?"
)


def _changes(held: _Held) -> Iterator[tuple[str, Change]]:
    """What each tensor of the model becomes; every tensor of the file is used, or refused.

    A tensor that was saved as a whole comes before what is added to it.
    """
    modules: dict[str, dict[tuple[str, str], str]] = defaultdict(dict)
    for name in held.entries:
        if not name.startswith(PREFIX):
            raise held.refused(name, f"its name does not begin with {PREFIX}")
        match = ENDINGS.fullmatch(name.removeprefix(PREFIX))
        if match is None:
            yield _replaced(held, name)
        else:
            kind, of = match["kind"], match["of"] or "weight"
            parts = modules[match["module"]]
            if (kind, of) in parts:
                raise held.refused(name, f"so does {kind_of(parts[kind, of])}, for the same place")
            parts[kind, of] = name
    for module, parts in modules.items():
        yield from _of_module(held, module, parts)


def _replaced(held: _Held, name: str) -> tuple[str, Change]:
    tensor = name.removeprefix(PREFIX).replace(".base_layer.", ".")
    if held.weight != 1.0:
        raise BadModel(
            f"{held.file}: the tensor {kind_of(name)} was trained as a whole, which has no weight but 1; "
            f"not {held.weight:g}."
        )
    held.require(name, held.target(name, tensor))
    return tensor, Replacement(held.file, name)


def _of_module(
    held: _Held, module: str, parts: dict[tuple[str, str], str]
) -> Iterator[tuple[str, Change]]:
    embedding = any(kind.startswith("lora_embedding") for kind, _ in parts)
    stem = f"{PREFIX}{module}.lora_{'embedding_' if embedding else ''}"
    ending = "" if embedding else ".weight"
    down, up = f"{stem}A{ending}", f"{stem}B{ending}"
    first = next(iter(parts.values()))
    shape = held.target(first, f"{module}.weight")
    if len(shape) != 2:
        raise held.refused(first, "it is no matrix")
    rank, scale = held.settings.rank(module), held.weight * held.settings.scale(module)
    outputs, inputs = shape
    held.require(down, (rank, outputs if embedding else inputs))
    held.require(up, (inputs if embedding else outputs, rank))
    length = parts.pop(("lora_magnitude_vector", "weight"), None)
    if (length is not None) != held.settings.flag("use_dora"):
        raise BadModel(
            f"{held.file}: use_dora in {CONFIG} and the tensors of {kind_of(module)} disagree about lengths."
        )
    if length is not None:
        if embedding:
            raise held.refused(length, "DoRA of an embedding is not merged")
        held.require(length, (outputs,))
    yield f"{module}.weight", Pair(held.file, down, up, scale, length, embedding)
    bias = parts.pop(("lora_B", "bias"), None)
    if (bias is not None) != (held.settings.flag("lora_bias") and not embedding):
        raise BadModel(
            f"{held.file}: lora_bias in {CONFIG} and the tensors of {kind_of(module)} disagree about biases."
        )
    if bias is not None:
        held.require(bias, held.target(bias, f"{module}.bias"))
        yield f"{module}.bias", Sum(held.file, bias, scale)
    left = [name for name in parts.values() if name not in (down, up)]
    if left:
        raise held.refused(left[0], f"{some_of([module])} has no such part")
