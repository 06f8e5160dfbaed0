"""A tiny LLaDA-shaped checkpoint with random weights, for showing how decoding proceeds.

What it writes means nothing: nobody has trained it.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file

from archer.loading.architectures import LLADA
from archer.loading.checkpoint import slots_of
from archer.loading.model_config import parse_config

CONFIG = {
    **LLADA.fixed,
    "architectures": [LLADA.name],
    "n_layers": 4,
    "d_model": 128,
    "n_heads": 4,
    "n_kv_heads": 4,
    "mlp_hidden_size": 256,
    "vocab_size": 512,
    "embedding_size": 512,
    "eos_token_id": 510,
    "mask_token_id": 511,
    "max_sequence_length": 1024,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
}
LIVELINESS = {"qkv": 2.5, "head": 4.0}
"""Parameters drawn larger than usual: otherwise all positions of a random network look alike."""


def write_random_model(folder: Path, seed: int = 0) -> Path:
    """Write config and weights into an existing folder."""
    model = parse_config(CONFIG, "the demo's config")
    generator = torch.Generator().manual_seed(seed)
    weights = {}
    for name, slot in slots_of(model.architecture, model.shape).items():
        drawn = torch.randn(slot.shape, generator=generator)
        if len(slot.shape) == 1:
            weights[name] = torch.ones(slot.shape)
        elif slot.parameter == "embedding":
            weights[name] = drawn
        else:
            scale = LIVELINESS.get(slot.parameter.rpartition(".")[2], 1.0)
            weights[name] = drawn * scale / slot.shape[1] ** 0.5
    (folder / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    save_file(weights, folder / "model.safetensors")
    return folder
