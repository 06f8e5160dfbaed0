"""Small random networks for tests, in both logit alignments."""

from dataclasses import dataclass, replace

import torch

from archer.bench.subject import Subject
from archer.network.network import Shape, Transformer
from archer.network.shape import DENSE, AttentionKind, Experts, Router


@dataclass(frozen=True)
class Backbone:
    """A network and its mask id: all the loop needs."""

    network: Transformer
    mask: int

    @property
    def shift(self) -> bool:
        return self.network.shape.shift


def shape(
    *,
    layers: int = 3,
    heads: int = 4,
    kv_heads: int = 4,
    head_dim: int = 8,
    inner: int = 48,
    vocabulary: int = 50,
    shift: bool = False,
) -> Shape:
    """A LLaDA-like shape, or a Dream-like one (bias, rotation in the model's dtype) with `shift`."""
    return Shape(
        layers=layers,
        width=heads * head_dim,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        inner=inner,
        vocabulary=vocabulary,
        norm_epsilon=1e-5,
        rope_theta=10000.0,
        qkv_bias=shift,
        rope_float32=not shift,
        max_positions=512,
        shift=shift,
    )


MIXTURES = {
    "softmax": Experts(
        count=8, active=3, inner=16, shared=0, dense_layers=0, router=Router.SOFTMAX
    ),
    "grouped": Experts(
        count=12,
        active=4,
        inner=8,
        shared=16,
        dense_layers=1,
        router=Router.GROUPED_SIGMOID,
        groups=4,
        kept_groups=2,
        scale=2.5,
    ),
}
"""As LLaDA-MoE's and as LLaDA2's."""


def mixture(
    kind: str,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
    attention: AttentionKind = DENSE,
) -> Backbone:
    """A network with experts, q/k norms and, as LLaDA2 has it, half of each head rotated."""
    grouped = kind == "grouped"
    which = replace(
        shape(kv_heads=2 if grouped else 4),
        qk_norm=True,
        rope_float32=False,
        rotary=4 if grouped else None,
        experts=MIXTURES[kind],
        attention=attention,
    )
    return Backbone(random_network(which, seed, dtype), mask=which.vocabulary - 3)


def random_network(which: Shape, seed: int = 0, dtype: torch.dtype = torch.float32) -> Transformer:
    """Weights drawn so that logits have a scale of a few units and attention is not uniform."""
    generator = torch.Generator().manual_seed(seed)
    network = Transformer(which, dtype=dtype)
    for name, parameter in network.named_parameters():
        size = parameter.shape
        drawn = torch.randn(size, generator=generator, dtype=torch.float64)
        if name.endswith("norm"):
            parameter.data.copy_(1 + 0.1 * drawn)
        elif len(size) == 1:
            parameter.data.copy_(0.2 * drawn)
        else:
            scale = 1.0 if name == "embedding" else 1.0 / size[-1] ** 0.5
            parameter.data.copy_(scale * drawn)
    return network


def backbone(shift: bool = False, seed: int = 0, dtype: torch.dtype = torch.float32) -> Backbone:
    """The usual test network: grouped key heads where the alignment is shifted."""
    which = shape(shift=shift, kv_heads=2 if shift else 4)
    return Backbone(random_network(which, seed, dtype), mask=which.vocabulary - 3)


def tiny(shift: bool = False) -> Subject:
    """On the bench: three layers of a model that claims to have five."""
    model = backbone(shift)
    return Subject("tiny", model.network, model.mask, depth=5)
