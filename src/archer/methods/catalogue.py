"""The names as tables: decoders, cache policies, the methods that pair them, and the paper's settings."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass as pydantic_dataclass

from archer.decoders.dllm import A2D, Bd3lm, Illada
from archer.decoders.dream import Dream
from archer.decoders.editing import Editing
from archer.decoders.llada2 import LLaDA2, LLaDA2Edit, Sdar
from archer.decoders.p2 import P2
from archer.decoders.parallel import EntropyBound, Factor, Threshold
from archer.decoders.rcr import Rcr
from archer.decoders.remdm import Remdm
from archer.decoders.remdm_sampling import RemdmSampling
from archer.decoders.saber import Saber, SaberRest, SaberStream, SaberTail
from archer.decoders.saber_dream import SaberDream
from archer.decoders.scheduled import Ordered, Scheduled
from archer.decoders.wino import Wino
from archer.methods import DEFAULT_METHOD as DEFAULT_METHOD
from archer.methods import PAPER_METHOD as PAPER_METHOD
from archer.passes.bounds import Count, CountOrNone, Share, Tokens
from archer.passes.layer_rule import RowRule
from archer.policies.blockwise import DkvDecode, DkvGreedy, Dual, Prefix
from archer.policies.dllm import DllmCache, DllmRule
from archer.policies.prompt_cache import Age, Archer, Eager, Late
from archer.policies.surprise import Surprise

MOST_GUIDANCE = 100.0
"""Logits are multiplied by it, and have to stay finite in every dtype."""


@dataclass(frozen=True)
class Part:
    """A decoder or a policy under a name, with the settings that the name fixes."""

    make: type[Any]
    summary: str
    fixed: Mapping[str, Any]
    main: str | None = None
    """The setting that `name:value` gives."""

    @cached_property
    def settings(self) -> frozenset[str]:
        """The names of the settings that its own name leaves open."""
        return frozenset(each.name for each in fields(self.make)) - set(self.fixed)


@pydantic_dataclass(frozen=True)
class Shared:
    """Settings that every method takes."""

    length: Tokens = 256
    """Tokens of the response, or the most of them; what the model has room for is checked with the prompt."""
    canvas: Literal["fixed", "auto", "append"] = "fixed"
    """How the length is reached: all at once, cut and grown by the answer, or block after block."""
    start_length: Tokens = 64
    """`auto`: columns before anything is known; they double while no end is in sight."""
    cut: Share = 0.9
    """`auto`: how probable the end marks are that the first pass gives away; 1 cuts nothing."""
    margin: Count = 2
    """`auto`: end marks next to the answer that stay masks."""
    keep: CountOrNone = 8
    """`auto`: end marks behind them that are placed and rest."""
    grow: Tokens = 16
    """`auto`: masks for a response that is full and has not ended."""
    guidance: Annotated[float, Field(ge=0, le=MOST_GUIDANCE)] = 0.0
    """Scale of classifier-free guidance; 0 is off and asks the model once."""
    eos: Literal["none", "logits", "confidence"] = "none"
    """To keep answers from ending early: forbid end-of-text (logits), or choose it last (confidence)."""


COMMON = Part(Shared, "settings of every method", {})

DECODERS: Mapping[str, Part] = {
    "confidence": Part(
        Scheduled, "LLaDA's schedule: fill the surest masks", {"score": "confidence"}, "steps"
    ),
    "entropy": Part(
        Scheduled, "the same schedule, least entropy first", {"score": "entropy"}, "steps"
    ),
    "margin": Part(
        Scheduled,
        "the same schedule, widest lead over the runner-up first",
        {"score": "margin"},
        "steps",
    ),
    "random": Part(
        Scheduled,
        "the same schedule, in a random order, drawn at every update",
        {"score": "random"},
        "steps",
    ),
    "fixed-order": Part(
        Ordered,
        "the same schedule, in one random order, drawn at the start",
        {"score": "confidence"},
        "steps",
    ),
    "threshold": Part(
        Threshold, "Fast-dLLM: every mask above a confidence, at least one", {}, "threshold"
    ),
    "factor": Part(Factor, "Fast-dLLM: as many as their joint confidence allows", {}, "factor"),
    "entropy-bound": Part(
        EntropyBound, "EB-Sampler: as many as a bound on their joint entropy allows", {}, "gamma"
    ),
    "dream": Part(Dream, "Dream's own sampler", {}, "steps"),
    "saber": Part(
        Saber, "accept above a running bar, take back what gained least", {"rollback": True}, "n"
    ),
    "saber-doubt": Part(
        Saber,
        "Saber that takes back only tokens that have lost confidence",
        {"rollback": True, "doubt": 1.0, "doubt_by": "kept"},
        "n",
    ),
    "no-rollback": Part(
        Saber,
        "the control: Saber's acceptance, nothing taken back",
        {
            "rollback": False,
            "mu": 2,
            "remask": "ceil",
            "watch": "argmax",
            "pool": "ever",
            "doubt": None,
            "doubt_by": "confidence",
            "settle": None,
        },
        "n",
    ),
    "saber-rest": Part(
        SaberRest,
        "Saber that lets sure tokens rest between looks, wherever they stand",
        {"rollback": True, "block": None},
        "rest",
    ),
    "saber-tail": Part(
        SaberTail,
        "the same for settled end marks behind the answer alone",
        {"rollback": True, "block": None, "sure": 1.0},
        "rest",
    ),
    "rcr": Part(Rcr, "MDPO: fill every mask, then re-mask the least sure", {}, "steps"),
    "saber-stream": Part(
        SaberStream,
        "Saber from left to right with tokens that settle, so that text streams",
        {"rollback": True, "doubt": 1.0, "doubt_by": "kept"},
        "settle",
    ),
    "saber-dream": Part(SaberDream, "Saber as released for Dream: a different rule", {}, "n"),
    "wino": Part(Wino, "accept boldly, verify each token with a shadow column", {}, "threshold"),
    "remdm": Part(Remdm, "ReMDM on LLaDA: fill, re-mask and refill, fill the rest", {}, "loops"),
    "remdm-sampling": Part(
        RemdmSampling, "the original ReMDM: fill and re-mask at random", {}, "strategy"
    ),
    "editing": Part(Editing, "LLaDA2.1's idea on any model: replace placed tokens", {}, "edit"),
    "p2": Part(P2, "Open-dCoder as released: the least sure columns become masks", {}, "steps"),
    "illada": Part(Illada, "iLLaDA as released: LLaDA's schedule, block after block", {}, "steps"),
    "a2d": Part(A2D, "A2D as released: LLaDA's schedule in blocks of 32", {}, "steps"),
    "bd3lm": Part(Bd3lm, "A2D's block models as released: block by block, to the end", {}, "steps"),
    "sdar": Part(Sdar, "SDAR as released: small blocks, by threshold or schedule", {}, "threshold"),
    "llada2": Part(LLaDA2, "LLaDA2.0 as released: block by block, by threshold", {}, "threshold"),
    "llada2-edit": Part(
        LLaDA2Edit, "LLaDA2.1 as released: it edits what it placed", {}, "editing_threshold"
    ),
}

POLICIES: Mapping[str, Part] = {
    "eager": Part(Eager, "recompute everything at every update", {}),
    "archer": Part(
        Archer, "keep the prompt until the response has moved `radius` tokens", {}, "radius"
    ),
    "late": Part(Late, "as `archer`, with a radius of `share` x the masks left", {}, "share"),
    "surprise": Part(
        Surprise,
        "keep the prompt until tokens it did not expect add up to `nats`",
        {},
        "nats",
    ),
    "age": Part(Age, "keep the prompt for a fixed number of passes", {}, "every"),
    "prefix": Part(Prefix, "Fast-dLLM: within a block, recompute from the block to the end", {}),
    "dual": Part(Dual, "Fast-dLLM: within a block, recompute that block alone", {}),
    "dkv-decode": Part(DkvDecode, "dKV-Cache: freeze a token once it is decoded", {}, "reload"),
    "dkv-greedy": Part(
        DkvGreedy, "dKV-Cache: recompute what comes next and a window", {}, "reload"
    ),
    "dllm-cache": Part(
        DllmCache,
        "dLLM-Cache: keep layer features, recompute the rows that changed most",
        {},
        "prompt_interval",
    ),
}

RULES: Mapping[str, Callable[..., RowRule]] = {"dllm": DllmRule}
"""Rules inside layers that one shard can tell the others of, by name."""

METHODS: Mapping[str, tuple[str, str]] = {
    "archer-cut": (
        "saber-doubt+surprise",
        "beyond the paper: archer-doubt on a canvas that is cut to the answer, its bar capped",
    ),
    "archer-doubt": (
        "saber-doubt+surprise",
        "beyond the paper: takes back what it doubts, keeps the prompt until surprised",
    ),
    "archer-stream": (
        "saber-stream+surprise",
        "archer-doubt for streaming: left to right, tokens that have stood a while stay",
    ),
    "archer": ("saber+archer", "the paper's Archer: Saber, the prompt kept within a radius"),
    "saber": ("saber+eager", "Saber as published: a full pass at every update"),
    "no-rollback": ("no-rollback+eager", "the control: Saber's acceptance, nothing taken back"),
    "llada-confidence": ("confidence+eager", "LLaDA's own decoding: a full pass at every update"),
    "fast-dllm-cache": ("confidence+dual", "Fast-dLLM's dual cache, one token per update"),
    "fast-dllm-parallel": ("factor+dual", "Fast-dLLM's dual cache, several tokens per update"),
    "dkv-decode": ("confidence+dkv-decode", "dKV-Cache-Decode"),
    "dkv-greedy": ("fixed-order+dkv-greedy", "dKV-Cache-Greedy in a random order"),
    "dllm-cache": ("confidence+dllm-cache", "dLLM-Cache"),
    "p2": ("p2+eager", "Open-dCoder's own decoding: a full pass at every update"),
    "illada": ("illada+eager", "iLLaDA's own decoding: block after block until one holds an end"),
    "a2d": ("a2d+eager", "A2D's own decoding: a full pass at every update"),
    "bd3lm": ("bd3lm+archer", "A2D block models' own decoding, finished blocks kept"),
    "sdar": ("sdar+archer", "SDAR's own decoding, finished blocks kept"),
    "llada2": ("llada2+archer", "LLaDA2.0's own decoding, finished blocks kept"),
    "llada2-edit": ("llada2-edit+archer", "LLaDA2.1's own decoding, finished blocks kept"),
}
"""The rows of the paper's main table, the control it lacks, and our own methods (docs/beyond.md)."""

IMPLIED: Mapping[str, Mapping[str, Any]] = {
    "archer-cut": {"canvas": "auto", "cap": 0.99},
    "illada": {"canvas": "append"},
}
"""Settings that the name of a method stands for, besides its parts; whatever is said takes precedence."""

CANVASES = ("auto", "append")
"""What `length` may say instead of a number; the number is then the most, `max_length`."""
SIZING = ("canvas", "start_length", "cut", "margin", "keep", "grow")
"""Settings that mean nothing where the length is fixed."""

ALIASES: Mapping[str, str] = {
    "max_new_tokens": "length",
    "max_length": "length",
    "block_length": "block",
    "least": "n",
}
"""Names that users of transformers expect, and Saber's n where `n` counts samples."""
LENGTHS = {"length"} | {alias for alias, name in ALIASES.items() if name == "length"}
"""Every name of the length of a response."""

HABITS: Mapping[str, str] = {
    **dict.fromkeys(("max_tokens", "max_completion_tokens", "gen_length"), "length"),
    **dict.fromkeys(("num_return_sequences", "num_samples", "samples", "best_of"), "n"),
    **dict.fromkeys(("stop_strings", "stop_sequences"), "stop"),
    **dict.fromkeys(("num_steps", "diffusion_steps", "denoising_steps"), "steps"),
    **dict.fromkeys(("cfg", "cfg_scale", "guidance_scale"), "guidance"),
    **dict.fromkeys(("decoder", "policy", "cache", "sampler", "remasking"), "method"),
    "batch_size": "batch",
    "random_seed": "seed",
    "do_sample": "temperature, which is 0 unless you give one",
    "confidence_threshold": "threshold",
}
"""What other libraries call something, and its name here; they are refused, with that name."""

_PAPER: Mapping[str, Any] = {
    "length": 256,
    "temperature": 0.0,
    "n": 2,
    "mu": 2,
    "radius": 8,
    "factor": 1.0,
    "ratio": 0.25,
    "window": 4,
    "order_seed": 42,
    "prompt_interval": 100,
    "response_interval": 7,
}

PRESETS: Mapping[str, Mapping[str, Any]] = {
    "paper": _PAPER,
    "paper:mbpp": {**_PAPER, "radius": 11, "response_interval": 5},
    "paper:livecodebench": {**_PAPER, "radius": 10},
    "paper:humaneval": {**_PAPER, "prompt_interval": 50, "response_interval": 8},
}
"""The paper's settings; what a method does not take is left out.  Only by name, never a default.

Block and steps stand on their defaults, which follow the length: 256 in the paper.
dLLM-Cache has no published intervals for LiveCodeBench; those of its demonstration stand there.
"""
