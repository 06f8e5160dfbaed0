"""Folders that the transformers library saved itself: its names, its keys, its numbers."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from archer.bench.transformers_pass import library_pass
from archer.loading.architectures import ARCHITECTURES
from archer.model import load
from archer.network.shape import DENSE, AttentionKind, Blocks
from support.networks import Backbone
from support.one_pass import ask, blank, canvas_of

SIZES: dict[str, Any] = {
    "vocab_size": 96,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


@pytest.mark.parametrize(
    ("family", "library", "own", "kind"),
    [
        ("a2d-qwen3", "Qwen3", {"head_dim": 16, "tie_word_embeddings": True}, DENSE),
        (
            "a2d-qwen3-bd3lm",
            "Qwen3",
            {"head_dim": 16, "tie_word_embeddings": True},
            Blocks(32, True),
        ),
        ("a2d-qwen2", "Qwen2", {"tie_word_embeddings": True}, DENSE),
        ("a2d-qwen2-bd3lm", "Qwen2", {"tie_word_embeddings": True}, Blocks(32, True)),
        ("opdlm", "Qwen3", {"head_dim": 16, "tie_word_embeddings": False}, Blocks(4, True)),
        ("open-dcoder", "Qwen2", {"tie_word_embeddings": True}, DENSE),
        ("coda", "Qwen3", {"head_dim": 16, "tie_word_embeddings": False}, DENSE),
        (
            "sdar",
            "Qwen3",
            {"head_dim": 16, "tie_word_embeddings": False, "block_size": 4},
            Blocks(4),
        ),
        (
            "sdar",
            "Qwen3",
            {"head_dim": 16, "tie_word_embeddings": True, "block_size": 16},
            Blocks(16),
        ),
        ("illada", "Llama", {"tie_word_embeddings": True}, DENSE),
        (
            "rnd1",
            "Qwen3Moe",
            {
                "head_dim": 16,
                "num_experts": 4,
                "num_experts_per_tok": 2,
                "moe_intermediate_size": 16,
                "norm_topk_prob": True,
                "tie_word_embeddings": False,
            },
            DENSE,
        ),
    ],
)
def test_a_folder_of_the_library_computes_what_the_library_computes(
    family: str, library: str, own: dict[str, Any], kind: AttentionKind, tmp_path: Path
) -> None:
    """Only what makes a diffusion model of it is added to its config: architecture, kind and mask."""
    transformers = importlib.import_module("transformers")
    torch.manual_seed(3)
    config = getattr(transformers, f"{library}Config")(**SIZES | own)
    config.is_causal = False
    config._attn_implementation = "sdpa"
    theirs = getattr(transformers, f"{library}ForCausalLM")(config).eval()
    for layer in theirs.model.layers:
        layer.self_attn.is_causal = False
    theirs.save_pretrained(tmp_path)
    row = ARCHITECTURES[family]
    held = json.loads((tmp_path / "config.json").read_text())
    held |= {"architectures": [row.name], "mask_token_id": 90, **own}
    held |= {} if row.model_type is None else {"model_type": row.model_type}
    (tmp_path / "config.json").write_text(json.dumps(held))
    model = load(tmp_path, device="cpu", dtype="float32", family=family)
    assert model.folder.shape.attention == kind
    net = Backbone(model.network, model.folder.mask)
    prompt, response = list(range(5, 42)), [90, 7, 8, 90, 11, 90]
    asked = canvas_of(prompt, torch.tensor([response]), net.mask, kind)
    (ours,), _, _ = ask(net, asked, blank(net.network, asked), asked.everything())
    tokens = torch.tensor(prompt + response)
    expected = library_pass(theirs, tokens, len(response) + net.shift, kind, len(prompt))
    torch.testing.assert_close(ours, expected[: len(response)], rtol=1e-4, atol=1e-5)
