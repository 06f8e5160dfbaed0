"""From a training checkpoint to a model folder in its family's format, for the ordinary loader."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from archer.errors import BadRequest
from archer.loading.architecture import Architecture
from archer.loading.slots import named_tensors
from archer.network.network import Transformer
from archer.pocket import tokenizer as vocabulary
from pocket_training import checkpoint
from pocket_training.card import card
from pocket_training.learner import restore_weights
from pocket_training.model_config import model_config
from pocket_training.network import first_weights
from pocket_training.variants import variant


def export(source: Path, folder: Path) -> None:
    """Write the averaged weights of a checkpoint as a model folder, in float16.

    `source` is a checkpoint or the folder of a run, whose newest checkpoint is taken. `folder` must be
    new or empty.
    """
    checkpoints = checkpoint.existing(source)
    path = checkpoints[-1] if checkpoints else source
    progress, tensors = checkpoint.load(path)
    if folder.exists() and any(folder.iterdir()):
        raise BadRequest(f"{folder} is not empty. Name a new folder for the exported model.")
    made = variant(progress.model)
    subject = made.subject
    pieces = subject.pieces()
    network = first_weights(made.shape(len(pieces)), pieces, progress.seed).requires_grad_(False)
    restore_weights(network, tensors, "average")
    folder.mkdir(parents=True, exist_ok=True)
    end, begin = subject.token_id(vocabulary.END), subject.token_id(vocabulary.BEGIN)
    tensors = _named(network, made.architecture)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = model_config(made.architecture, network.shape, end, subject.mask)
    _write(folder / "config.json", config)
    _write(
        folder / "generation_config.json",
        {"bos_token_id": begin, "eos_token_id": end, "max_new_tokens": subject.response},
    )
    _write(folder / "tokenizer_config.json", subject.settings())
    subject.tokenizer().save(str(folder / "tokenizer.json"))
    (folder / "README.md").write_text(card(made, network.shape, progress), encoding="utf-8")


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _named(network: Transformer, architecture: Architecture) -> dict[str, Tensor]:
    """The tensors under the family's names, in float16; the tied head is written out a second time."""
    named = named_tensors(network, architecture)
    return {n: part.detach().to(torch.float16, copy=True) for n, part in named.items()}
