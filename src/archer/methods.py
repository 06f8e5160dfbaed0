"""Names for pairs of decoder and cache policy, and the settings each pair takes.

A method is spelled `decoder`, `decoder+policy` or `decoder+policy:value`, or is one of the names below.
Tables only: no decoding, no model.  A setting that a method does not use is refused, never ignored.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import Field, asdict, dataclass, fields
from typing import Any

from pydantic import ValidationError

from archer.decoders.base import Decoder
from archer.decoders.dream import Dream
from archer.decoders.editing import Editing
from archer.decoders.ordered import Ordered
from archer.decoders.parallel import EntropyBound, Factor, Threshold
from archer.decoders.remdm import Remdm
from archer.decoders.remdm_sampling import RemdmSampling
from archer.decoders.saber import Saber
from archer.decoders.saber_dream import SaberDream
from archer.decoders.scheduled import Scheduled
from archer.decoders.wino import Wino
from archer.decoders.wrappers import EndOfText, Guided
from archer.errors import BadRequest
from archer.policies.base import Policy
from archer.policies.blockwise import Dual, Prefix
from archer.policies.dkv import DkvDecode, DkvGreedy
from archer.policies.dllm import DllmCache
from archer.policies.prompt_cache import Age, Archer, Eager


@dataclass(frozen=True)
class Part:
    """A decoder or a policy under a name, with the settings that the name fixes."""

    make: type[Any]
    summary: str
    fixed: Mapping[str, Any]
    main: str | None = None
    """The setting that `name:value` gives."""


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
        "the same schedule, in an order drawn anew each time",
        {"score": "random"},
        "steps",
    ),
    "fixed-order": Part(
        Ordered,
        "the same schedule, in one order drawn beforehand",
        {"score": "confidence"},
        "steps",
    ),
    "threshold": Part(
        Threshold, "Fast-dLLM: every mask above a confidence, at least one", {}, "threshold"
    ),
    "factor": Part(Factor, "Fast-dLLM: as many as their confidences bear together", {}, "factor"),
    "entropy-bound": Part(
        EntropyBound, "EB-Sampler: as many as a joint entropy allows", {}, "gamma"
    ),
    "dream": Part(Dream, "Dream's own sampler", {}, "steps"),
    "saber": Part(
        Saber, "accept above a running bar, take back what grew least", {"rollback": True}, "n"
    ),
    "no-rollback": Part(
        Saber, "the control: Saber's acceptance, nothing taken back", {"rollback": False}, "n"
    ),
    "saber-dream": Part(SaberDream, "Saber as released for Dream: another rule", {}, "n"),
    "wino": Part(Wino, "accept boldly, verify each token by a shadow", {}, "threshold"),
    "remdm": Part(Remdm, "ReMDM on LLaDA: fill, re-mask and refill, fill the rest", {}, "loops"),
    "remdm-sampling": Part(
        RemdmSampling, "the original ReMDM: fill and re-mask by chance", {}, "strategy"
    ),
    "editing": Part(Editing, "LLaDA2.1: replace placed tokens outright", {}, "edit"),
}

POLICIES: Mapping[str, Part] = {
    "eager": Part(Eager, "recompute everything at every update", {}),
    "archer": Part(
        Archer, "keep the prompt until the response moved `radius` tokens", {}, "radius"
    ),
    "age": Part(Age, "keep the prompt for a fixed number of passes", {}, "every"),
    "prefix": Part(Prefix, "Fast-dLLM: within a block, recompute from it to the end", {}),
    "dual": Part(Dual, "Fast-dLLM: within a block, recompute it alone", {}),
    "dkv-decode": Part(DkvDecode, "dKV-Cache: freeze a token once it is decoded", {}, "reload"),
    "dkv-greedy": Part(
        DkvGreedy, "dKV-Cache: recompute what comes next and a window", {}, "reload"
    ),
    "dllm-cache": Part(
        DllmCache,
        "dLLM-Cache: keep layer features, redo the rows that moved most",
        {},
        "prompt_interval",
    ),
}

METHODS: Mapping[str, tuple[str, str]] = {
    "archer": ("saber+archer", "Saber with its prompt cached the Archer way"),
    "saber": ("saber+eager", "Saber as published: a full pass at every update"),
    "no-rollback": ("no-rollback+eager", "the control: Saber's acceptance, nothing taken back"),
    "llada-confidence": ("confidence+eager", "LLaDA's own decoding: a full pass at every update"),
    "fast-dllm-cache": ("confidence+dual", "Fast-dLLM's dual cache, one token per update"),
    "fast-dllm-parallel": ("factor+dual", "Fast-dLLM's dual cache, several tokens per update"),
    "dkv-decode": ("confidence+dkv-decode", "dKV-Cache-Decode"),
    "dkv-greedy": ("fixed-order+dkv-greedy", "dKV-Cache-Greedy in a random order"),
    "dllm-cache": ("confidence+dllm-cache", "dLLM-Cache"),
}
"""The rows of the paper's main table, and the control it lacks."""

ALIASES: Mapping[str, str] = {"max_new_tokens": "length", "block_length": "block"}
"""Names that users of transformers expect."""

_PAPER: Mapping[str, Any] = {
    "length": 256,
    "block": 256,
    "steps": 256,
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

dLLM-Cache has no published intervals for LiveCodeBench; those of its demonstration stand there.
"""

DEFAULT_LENGTH = 256


@dataclass(frozen=True)
class Method:
    """A decoder and a policy with all their settings."""

    name: str
    decoder: Decoder[Any]
    policy: Policy
    length: int

    @property
    def settings(self) -> dict[str, Any]:
        """Every setting, given and defaulted, as plain data."""
        parts: tuple[Any, Any] = (self.decoder, self.policy)
        return {"length": self.length} | asdict(parts[0]) | asdict(parts[1])


def build(name: str, settings: Mapping[str, Any], preset: str | None = None) -> Method:
    """Look `name` up and make its parts; refuses unknown names, unused settings and values out of range."""
    decoder_name, policy_name, given = _spelled(name)
    decoder, policy = DECODERS[decoder_name], POLICIES[policy_name]
    accepted = {"length"} | _settings_of(decoder) | _settings_of(policy)
    chosen = _canonical(settings)
    for key in chosen:
        if key not in accepted:
            raise BadRequest(
                f"The method {name!r} does not use the setting {key!r}. "
                f"It takes: {', '.join(sorted(accepted))}."
            )
    for key in given:
        if key in chosen:
            raise BadRequest(
                f"{key!r} is given twice, in the method's name {name!r} and as a setting."
            )
    wanted = {k: v for k, v in _preset(preset).items() if k in accepted} | chosen | given
    length = wanted.pop("length", DEFAULT_LENGTH)
    if not isinstance(length, int) or isinstance(length, bool) or length < 1:
        raise BadRequest(f"length must be a whole number of at least 1, not {length!r}.")
    return Method(
        name=name, decoder=_make(decoder, wanted), policy=_make(policy, wanted), length=length
    )


def _spelled(name: str) -> tuple[str, str, dict[str, Any]]:
    """Decoder name, policy name, and settings given as `part:value`."""
    spelled = METHODS[name][0] if name in METHODS else name
    parts = spelled.split("+")
    if len(parts) == 1:
        parts.append("eager")
    given: dict[str, Any] = {}
    names = []
    for part, table, what in zip(
        parts, (DECODERS, POLICIES), ("decoder", "cache policy"), strict=False
    ):
        bare, _, value = part.partition(":")
        if bare not in table or len(parts) > 2:
            raise BadRequest(_unknown(name, bare, table, what))
        names.append(bare)
        if value:
            main = table[bare].main
            if main is None:
                raise BadRequest(f"{bare!r} takes no value, so {part!r} means nothing.")
            given[main] = value
    return names[0], names[1], given


def _unknown(name: str, part: str, table: Mapping[str, Part], what: str) -> str:
    close = difflib.get_close_matches(name, (*METHODS, *DECODERS), n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return (
        f"There is no method {name!r}: {part!r} is no {what}.{hint} "
        f"Methods: {', '.join(METHODS)}; or decoder+policy with decoders {', '.join(DECODERS)} "
        f"and policies {', '.join(POLICIES)}."
    )


def _canonical(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Translate aliases and drop what was left unset."""
    chosen: dict[str, Any] = {}
    for key, value in settings.items():
        target = ALIASES.get(key, key)
        if value is None:
            continue
        if target in chosen:
            raise BadRequest(f"{key!r} and {target!r} are the same setting; give one of them.")
        chosen[target] = value
    return chosen


def _preset(name: str | None) -> Mapping[str, Any]:
    if name is None:
        return {}
    if name not in PRESETS:
        raise BadRequest(f"There is no preset {name!r}. Presets: {', '.join(PRESETS)}.")
    return PRESETS[name]


def _settings_of(part: Part) -> set[str]:
    declared: tuple[Field[Any], ...] = fields(part.make)
    return {item.name for item in declared} - set(part.fixed)


def _make(part: Part, wanted: Mapping[str, Any]) -> Any:
    own = _settings_of(part)
    try:
        return part.make(**{k: v for k, v in wanted.items() if k in own}, **part.fixed)
    except ValidationError as error:
        raise BadRequest(_sentence(error)) from error


def _sentence(error: ValidationError) -> str:
    """The first complaint of pydantic as one sentence."""
    first = error.errors(include_url=False)[0]
    name = str(first["loc"][0])
    reason = first["msg"].removeprefix("Value error, ").removeprefix("Input ")
    return f"{name} {reason[0].lower()}{reason[1:]}, not {first['input']!r}."
