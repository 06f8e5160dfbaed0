"""A tiny LLaDA-shaped checkpoint with random weights, for showing how decoding proceeds.

What it writes means nothing: nobody has trained it.
"""

from __future__ import annotations

from pathlib import Path

from archer.bench.checkpoint import write_checkpoint
from archer.loading.architectures import LLADA

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


def write_random_model(folder: Path, seed: int = 0) -> Path:
    """Write config and weights into an existing folder."""
    return write_checkpoint(folder, CONFIG, seed=seed)
