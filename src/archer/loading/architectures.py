"""The table of model families, as data: config keys, refused settings, and which tensor fills what."""

from collections.abc import Mapping

from archer.loading.architecture import Architecture
from archer.loading.families.dream import DREAM
from archer.loading.families.llada import LLADA, PROMPT_BLIND
from archer.loading.families.llada2 import LLADA2
from archer.loading.families.llada_moe import LLADA_MOE

ARCHITECTURES: Mapping[str, Architecture] = {
    row.name: row for row in (LLADA, DREAM, LLADA_MOE, LLADA2, PROMPT_BLIND)
}
