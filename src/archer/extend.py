"""All that a decoder or a cache policy of your own needs, in one module whose names stay.

    from archer.extend import Canvas, Decision, DecodeState, Logits, Rule, leading, one_block

Re-exports only; `Saber`, `Scheduled`, `Archer` and `Eager` are there to compare with and to build on.
docs/add-a-decoder.md and docs/add-a-policy.md build one of each with nothing else.
"""

from archer.decoders.base import (
    Attention,
    Decision,
    Decoder,
    DecodeState,
    Rule,
    above_or_surest,
    blank,
    chance,
    finished,
    grow,
    kept,
    leading,
    one_block,
    trailing,
)
from archer.decoders.blocks import BlockState, Blockwise, whole_block
from archer.decoders.saber import Saber
from archer.decoders.scheduled import Scheduled, ended, ends_now
from archer.passes.canvas import Blocks, Canvas, Flags, Ints, Prompt, Reals, Scope
from archer.passes.layer_rule import Ruled
from archer.passes.logits import Answers, Candidates, Logits
from archer.passes.memory import Memory, Notes
from archer.policies.base import Policy, PromptCache, prompt_kept
from archer.policies.prompt_cache import Archer, Eager

__all__ = [
    "Answers",
    "Archer",
    "Attention",
    "BlockState",
    "Blocks",
    "Blockwise",
    "Candidates",
    "Canvas",
    "Decision",
    "DecodeState",
    "Decoder",
    "Eager",
    "Flags",
    "Ints",
    "Logits",
    "Memory",
    "Notes",
    "Policy",
    "Prompt",
    "PromptCache",
    "Reals",
    "Rule",
    "Ruled",
    "Saber",
    "Scheduled",
    "Scope",
    "above_or_surest",
    "blank",
    "chance",
    "ended",
    "ends_now",
    "finished",
    "grow",
    "kept",
    "leading",
    "one_block",
    "prompt_kept",
    "trailing",
    "whole_block",
]
