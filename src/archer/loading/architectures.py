"""The table of model families, as data: config keys, refused settings, and which tensor fills what."""

from collections.abc import Iterator, Mapping

from archer.loading.architecture import Architecture, KnownModel
from archer.loading.families.dream import DREAM
from archer.loading.families.illada import ILLADA
from archer.loading.families.llada import LLADA, PROMPT_BLIND
from archer.loading.families.llada2 import LLADA2
from archer.loading.families.llada_moe import LLADA_MOE
from archer.loading.families.qwen import (
    A2D_QWEN2,
    A2D_QWEN2_BLOCKS,
    A2D_QWEN3,
    A2D_QWEN3_BLOCKS,
    CODA,
    OPDLM,
    OPEN_DCODER,
    RND1,
    SDAR,
)

_ROWS = (
    LLADA,
    ILLADA,
    DREAM,
    A2D_QWEN3,
    A2D_QWEN3_BLOCKS,
    A2D_QWEN2,
    A2D_QWEN2_BLOCKS,
    OPDLM,
    SDAR,
    CODA,
    OPEN_DCODER,
    LLADA_MOE,
    LLADA2,
    RND1,
    PROMPT_BLIND,
)
ARCHITECTURES: Mapping[str, Architecture] = {row.family: row for row in _ROWS}
"""By family."""


def row_for(architecture: str, model: str) -> Architecture | None:
    """The family of a config with this architecture; its row is the one whose hint the model's name holds."""
    rows = [row for row in ARCHITECTURES.values() if row.name == architecture]
    hinted = [row for row in rows if row.hint and row.hint in model.lower()]
    return next(iter([*hinted, *(row for row in rows if not row.hint)]), None)


def known_models() -> Iterator[tuple[Architecture, KnownModel]]:
    """Every hub repository of the table, with its row."""
    for row in ARCHITECTURES.values():
        for each in row.models:
            yield row, each


def known(model: str) -> KnownModel | None:
    """The entry of a hub id."""
    return next((each for _, each in known_models() if each.id.lower() == model.lower()), None)
