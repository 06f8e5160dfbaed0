"""The table of model families: what distinguishes LLaDA from Dream, as data.

A row says which config keys describe the network, which settings the network here does not know
and therefore refuses, and which tensor of the checkpoint fills which rows of which parameter. No
code asks for a family by name.
"""

from collections.abc import Mapping

from archer.loading.architecture import Architecture
from archer.loading.families.dream import DREAM
from archer.loading.families.llada import LLADA, PROMPT_BLIND
from archer.loading.families.llada2 import LLADA2
from archer.loading.families.llada_moe import LLADA_MOE

ARCHITECTURES: Mapping[str, Architecture] = {
    row.name: row for row in (LLADA, DREAM, LLADA_MOE, LLADA2, PROMPT_BLIND)
}
