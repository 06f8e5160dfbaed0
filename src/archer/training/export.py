"""From a training checkpoint to a model folder in LLaDA's format, for the ordinary loader."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from archer.engine.network import Shape, Transformer
from archer.errors import BadRequest
from archer.loading.architectures import LLADA
from archer.loading.checkpoint import named_tensors
from archer.loading.model_config import config_for
from archer.pocket import tokenizer as vocabulary
from archer.training import checkpoint
from archer.training.card import card
from archer.training.learner import restore_weights
from archer.training.network import first_weights, pocket_shape
from archer.training.samples import RESPONSE


def export(source: Path, folder: Path) -> None:
    """Write the averaged weights of a checkpoint as a model folder, in float16.

    `source` is a checkpoint or the folder of a run, whose newest checkpoint is taken. `folder` must be
    new or empty.
    """
    found = checkpoint.existing(source)
    path = found[-1] if found else source
    progress, tensors = checkpoint.load(path)
    if folder.exists() and any(folder.iterdir()):
        raise BadRequest(f"{folder} is not empty. Name a new folder for the exported model.")
    pieces = vocabulary.vocabulary()
    network = first_weights(pocket_shape(len(pieces)), pieces, progress.seed).requires_grad_(False)
    restore_weights(network, tensors, "average")
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = vocabulary.build()
    end, begin = vocabulary.token_id(vocabulary.END), vocabulary.token_id(vocabulary.BEGIN)
    save_file(_named(network), folder / "model.safetensors", metadata={"format": "pt"})
    _write(
        folder / "config.json", _config(network.shape, end, vocabulary.token_id(vocabulary.MASK))
    )
    _write(
        folder / "generation_config.json",
        {"bos_token_id": begin, "eos_token_id": end, "max_new_tokens": RESPONSE},
    )
    _write(folder / "tokenizer_config.json", vocabulary.settings())
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "README.md").write_text(card(network.shape, progress), encoding="utf-8")


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _named(network: Transformer) -> dict[str, Tensor]:
    """The tensors under LLaDA's names, in float16; the tied head is written out a second time."""
    named = named_tensors(network, LLADA)
    return {name: tensor.to(torch.float16, copy=True) for name, tensor in named.items()}


def _config(shape: Shape, end: int, mask: int) -> dict[str, Any]:
    """config.json with every key that LLaDA's own has, those included that only its own code reads."""
    unread = {
        "alibi_bias_max": 8.0,
        "attention_dropout": 0.0,
        "attention_layer_norm_with_affine": True,
        "embedding_dropout": 0.0,
        "flash_attention": False,
        "init_cutoff_factor": None,
        "init_device": "meta",
        "init_fn": "mitchell",
        "init_std": 0.02,
        "mlp_ratio": 4,
        "model_type": "llada",
        "multi_query_attention": None,
        "pad_token_id": end,
        "precision": "fp32",
        "residual_dropout": 0.0,
        "transformers_version": "4.46.3",
        "use_cache": False,
    }
    config = unread | config_for(LLADA, shape, mask, end)
    return {key: config[key] for key in sorted(config)}
