"""A workspace with a tiny model that is sure of what it says, and a benchmark of three problems."""

from pathlib import Path
from typing import ClassVar

from archer.model import Model, load
from archer.runs.workspace import Scale, Workspace
from archer.tasks import Data
from runs.toy import Quiet, Toy
from support.folders import (
    LLADA_MARKERS,
    LLADA_TEMPLATE,
    byte_tokenizer,
    llada_config,
    llada_tensors,
    write_folder,
    write_json,
)


class Short(Toy):
    """Three problems with short answers."""

    name = "short"
    length = 16
    size: ClassVar[int] = 3


def sharp_model(folder: Path, layers: int = 3) -> Model:
    """Random weights, scaled so that confidences lie on both sides of 0.9 and prompts matter."""
    config = llada_config(n_layers=layers)
    tensors = llada_tensors(config)
    for name, tensor in tensors.items():
        norm = "norm" in name or "ln_f" in name
        tensors[name] = 1 + tensor if norm else _scale(name) * tensor
    write_folder(folder, config, tensors)
    byte_tokenizer(LLADA_MARKERS).save(str(folder / "tokenizer.json"))
    names = {"bos_token": "<|startoftext|>", "eos_token": "<|endoftext|>"}
    write_json(folder / "tokenizer_config.json", names | {"chat_template": LLADA_TEMPLATE})
    return load(folder, device="cpu", dtype="float32")


def _scale(name: str) -> float:
    """Of weights that are drawn with a deviation of 0.1."""
    if name.endswith("transformer.ff_out.weight"):
        return 40.0
    return 10.0 if name.endswith("wte.weight") else 2.0


def make_workspace(folder: Path) -> Workspace:
    return Workspace(
        sharp_model(folder / "model"),
        folder / "out",
        Scale(problems=3, long_problems=2, probed=3, timed=2, repeats=2, stride=2),
        Quiet(),
        task="short",
        _tasks={"short": Short(Data())},
    )
