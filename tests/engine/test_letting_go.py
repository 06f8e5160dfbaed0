"""What an update has computed goes with it: memory is not kept until Python looks for cycles.

A reference cycle through the logits of an update keeps a matrix as wide as the vocabulary, and on a GPU that
is the memory of the next request.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from archer.model import Model

METHODS: dict[str, dict[str, Any]] = {
    "llada-confidence": {},
    "archer-doubt": {},
    "archer-cut": {},
    "wino": {},
    "remdm": {},
    "entropy": {"eos": "confidence"},
    "dream": {"temperature": 0.5, "top_p": 0.9},
    "dllm-cache": {},
    "saber+archer:2": {"guidance": 1.5},
}


@contextmanager
def without_collecting() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def as_wide_as(vocabulary: int) -> list[tuple[int, ...]]:
    """The sizes of all tensors that have a number for every token, whoever holds them."""
    tensors = [each for each in gc.get_objects() if issubclass(type(each), torch.Tensor)]
    return [tuple(each.shape) for each in tensors if each.shape[-1:] == (vocabulary,)]


@pytest.mark.parametrize("method", METHODS)
def test_nothing_as_wide_as_the_vocabulary_outlives_a_request(model: Model, method: str) -> None:
    def generate() -> None:
        model.generate([[3, 1, 4, 1, 5]], method, length=8, **METHODS[method])

    generate()
    vocabulary = model.folder.shape.vocabulary
    with without_collecting():
        before = as_wide_as(vocabulary)
        generate()
        assert as_wide_as(vocabulary) == before


def test_a_stream_holds_the_logits_of_its_last_update_alone(model: Model) -> None:
    vocabulary, held = model.folder.shape.vocabulary, []
    with without_collecting():
        before = len(as_wide_as(vocabulary))
        for _ in model.stream([3, 1, 4, 1, 5], "llada-confidence", length=8):
            held.append(len(as_wide_as(vocabulary)) - before)
    assert len(held) == 8
    assert max(held) <= 2
