"""Networks to measure without a download: the shapes of published models, as data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import torch

from archer.bench.repeating import check_counts
from archer.bench.weights import filled
from archer.errors import BadRequest
from archer.loading.architecture import Architecture
from archer.loading.families.dream import DREAM
from archer.loading.families.llada import LLADA
from archer.loading.families.llada2 import LLADA2
from archer.loading.families.llada_moe import LLADA_MOE
from archer.loading.hub import BUNDLED
from archer.network.network import Shape, Transformer
from archer.network.shape import Blocks, Experts, Router
from archer.request import Window


@dataclass(frozen=True)
class Published:
    """A shape and what belongs to it."""

    architecture: Architecture
    shape: Shape
    mask: int
    eos: int
    layers: int
    """Layers that a measurement runs unless told otherwise."""


SHAPES = {
    "llada-8b": Published(
        LLADA,
        Shape(
            layers=32,
            width=4096,
            heads=32,
            kv_heads=32,
            head_dim=128,
            inner=12288,
            vocabulary=126464,
            norm_epsilon=1e-5,
            rope_theta=500000.0,
            qkv_bias=False,
            rope_float32=True,
            max_positions=4096,
        ),
        mask=126336,
        eos=126081,
        layers=2,
    ),
    "dream-7b": Published(
        DREAM,
        Shape(
            layers=28,
            width=3584,
            heads=28,
            kv_heads=4,
            head_dim=128,
            inner=18944,
            vocabulary=152064,
            norm_epsilon=1e-6,
            rope_theta=1000000.0,
            qkv_bias=True,
            rope_float32=False,
            max_positions=131072,
            shift=True,
        ),
        mask=151666,
        eos=151643,
        layers=2,
    ),
    "llada-moe-7b": Published(
        LLADA_MOE,
        Shape(
            layers=16,
            width=2048,
            heads=16,
            kv_heads=16,
            head_dim=128,
            inner=0,
            vocabulary=157184,
            norm_epsilon=1e-5,
            rope_theta=50000.0,
            qkv_bias=False,
            rope_float32=False,
            max_positions=8192,
            qk_norm=True,
            experts=Experts(
                count=64, active=8, inner=1024, shared=0, dense_layers=0, router=Router.SOFTMAX
            ),
        ),
        mask=156895,
        eos=156892,
        layers=2,
    ),
    "llada2-mini": Published(
        LLADA2,
        Shape(
            layers=20,
            width=2048,
            heads=16,
            kv_heads=4,
            head_dim=128,
            inner=5120,
            vocabulary=157184,
            norm_epsilon=1e-6,
            rope_theta=600000.0,
            qkv_bias=False,
            rope_float32=False,
            max_positions=16384,
            qk_norm=True,
            rotary=64,
            experts=Experts(
                count=256,
                active=8,
                inner=512,
                shared=512,
                dense_layers=1,
                router=Router.GROUPED_SIGMOID,
                groups=8,
                kept_groups=4,
                scale=2.5,
            ),
            attention=Blocks(32),
        ),
        mask=156895,
        eos=156892,
        layers=3,
    ),
    "small": Published(
        LLADA,
        Shape(
            layers=6,
            width=512,
            heads=8,
            kv_heads=8,
            head_dim=64,
            inner=1536,
            vocabulary=4096,
            norm_epsilon=1e-5,
            rope_theta=500000.0,
            qkv_bias=False,
            rope_float32=True,
            max_positions=4096,
        ),
        mask=4095,
        eos=4094,
        layers=6,
    ),
}
"""`small` is nobody's model: large enough to be bound by arithmetic, small enough for whole trajectories."""


@dataclass(frozen=True)
class Subject:
    """A network on the bench, and all that a loop needs besides."""

    name: str
    network: Transformer
    mask: int
    depth: int
    """Layers of the whole model, of which `network` may hold the first few."""


def published(name: str) -> Published:
    if name not in SHAPES:
        raise BadRequest(f"There is no shape {name!r}. Shapes: {', '.join(SHAPES)}.")
    return SHAPES[name]


@dataclass(frozen=True)
class Room:
    """Columns that will be needed."""

    prompt: int
    response: int

    def check(self, shape: Shape) -> None:
        check_counts(prompt=self.prompt, response=self.response)
        Window(shape.max_positions, trained=None).check(self.prompt, self.response)


def open_subject(
    name: str,
    layers: int | None,
    room: Room,
    *,
    device: str | None = None,
    dtype: str | None = None,
) -> Subject:
    """A named shape with random weights, or a model from a folder or the hub.

    `layers` keeps the first ones; without it a large shape gets two and a model all it has.
    """
    if layers is not None:
        check_counts(layers=layers)
    if name in SHAPES:
        room.check(SHAPES[name].shape)
        return _drawn(name, layers or SHAPES[name].layers, device, dtype)
    if "/" not in name and name not in BUNDLED and not Path(name).exists():
        raise BadRequest(
            f"There is no shape {name!r}. Shapes: {', '.join(SHAPES)}; or give the folder or the "
            f"hub id of a model, or {', '.join(BUNDLED)}."
        )
    subject = _loaded(name, layers, device, dtype)
    room.check(subject.network.shape)
    return subject


def first_layers(network: Transformer, layers: int) -> Transformer:
    """A network of the first layers, sharing the weights."""
    part = Transformer(replace(network.shape, layers=layers), device=torch.device("meta"))
    part.embedding, part.norm, part.head = network.embedding, network.norm, network.head
    for index in range(layers):
        part.layers[index] = network.layer(index)
    return part.eval()


def _drawn(name: str, layers: int, device: str | None, dtype: str | None) -> Subject:
    from archer.machine.devices import place

    known = SHAPES[name]
    _check_depth(name, layers, known.shape.layers)
    where, kind = place(device, dtype)
    network = Transformer(replace(known.shape, layers=layers), device=where, dtype=kind)
    return Subject(name, filled(network), known.mask, known.shape.layers)


def _loaded(name: str, layers: int | None, device: str | None, dtype: str | None) -> Subject:
    from archer.model import load

    model = load(name, device=device, dtype=dtype)
    depth = model.folder.shape.layers
    kept = depth if layers is None else layers
    _check_depth(name, kept, depth)
    return Subject(name, first_layers(model.network, kept), model.folder.mask, depth)


def _check_depth(name: str, layers: int, depth: int) -> None:
    if layers > depth:
        raise BadRequest(f"{name} has {depth} layers; {layers} were asked for.")
