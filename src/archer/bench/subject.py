"""What is put on the bench: a network, the prompts it is given, and a recorded state to step from.

Axes: P prompt columns, G response columns.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from archer.bench.weights import filled
from archer.costs.shapes import published, shapes
from archer.decoders.saber import Saber, SaberState
from archer.errors import BadRequest
from archer.loading.hub import BUNDLED
from archer.machine.devices import place
from archer.machine.heap import keep_freed_memory
from archer.model import load
from archer.network.network import Shape, Transformer, kept_by
from archer.network.rounded import Operator, operator_on
from archer.network.shape import Scheme
from archer.passes.canvas import Prompt
from archer.request.request import Window


@dataclass(frozen=True)
class Subject:
    """A network on the bench, and all that a loop needs besides."""

    name: str
    network: Transformer
    mask: int
    depth: int
    """Layers of the whole model, of which `network` may hold the first few."""


def open_subject(
    name: str,
    layers: int | None,
    prompt: int,
    response: int,
    *,
    device: str | None = None,
    dtype: str | None = None,
) -> Subject:
    """A shape with random weights, or a model, of its first `layers` layers, with room for the columns."""
    if name in shapes():
        _check_room(published(name).shape, prompt, response)
        return _drawn(name, layers or published(name).layers, device, dtype)
    if "/" not in name and name not in BUNDLED and not Path(name).exists():
        raise BadRequest(
            f"There is no shape {name!r}. Shapes: {', '.join(shapes())}; or give the folder or the "
            f"hub id of a model, or {', '.join(BUNDLED)}."
        )
    subject = _loaded(name, layers, device, dtype)
    _check_room(subject.network.shape, prompt, response)
    return subject


def in_eight_bits(subject: Subject, scheme: Scheme) -> Subject:
    """The same with its large matrices kept by a scheme."""
    network = subject.network
    operator = operator_on(network.device, network.shape, scheme) if scheme.whole else None
    packed = operator is Operator.PACKED
    return replace(subject, network=kept_by(network, scheme, packed=packed).eval())


def first_layers(network: Transformer, layers: int) -> Transformer:
    """A network of the first layers, sharing the weights."""
    part = Transformer(replace(network.shape, layers=layers), device=torch.device("meta"))
    part.borrow(network)
    return part.eval()


def some_ids(subject: Subject, count: int, seed: int) -> Tensor:
    """Long[count]: ids of the vocabulary, never the mask."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(subject.network.shape.vocabulary - 1, (count,), generator=generator)
    return ids + (ids >= subject.mask)


def some_prompt(subject: Subject, columns: int, rows: int = 1, seed: int = 0) -> Prompt:
    """The same ids in every row."""
    return Prompt.of(some_ids(subject, columns, seed).tolist(), subject.mask, samples=rows)


def half_placed(subject: Subject, prompt: int, response: int) -> SaberState:
    """Saber's state with a token at every second column of the response."""
    state = Saber().start(some_prompt(subject, prompt), response)
    tokens = some_ids(subject, response, seed=1).numpy()
    second = np.arange(response) % 2 == 1
    return replace(state, response=np.where(second, tokens, state.response))


def _drawn(name: str, layers: int, device: str | None, dtype: str | None) -> Subject:
    known = published(name)
    _check_depth(name, layers, known.shape.layers)
    where, kind = place(device, dtype)
    keep_freed_memory()
    network = Transformer(replace(known.shape, layers=layers), device=where, dtype=kind)
    return Subject(name, filled(network), known.mask, known.shape.layers)


def _loaded(name: str, layers: int | None, device: str | None, dtype: str | None) -> Subject:
    model = load(name, device=device, dtype=dtype)
    depth = model.folder.shape.layers
    kept = depth if layers is None else layers
    _check_depth(name, kept, depth)
    return Subject(name, first_layers(model.network, kept), model.folder.mask, depth)


def _check_room(shape: Shape, prompt: int, response: int) -> None:
    Window(shape.max_positions, trained=None).check(prompt, response)


def _check_depth(name: str, layers: int, depth: int) -> None:
    if layers > depth:
        raise BadRequest(f"{name} has {depth} layers; {layers} were asked for.")
