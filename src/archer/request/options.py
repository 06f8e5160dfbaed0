"""The keywords of `generate`, `stream`, `record`, `infill` and `submit`, for editors and type checkers.

Declarations only: what a value may be is checked where it is used.  A setting of a method of your own, which
no checker can know, goes into `settings`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypedDict

from archer.request.fill import Fill, Given, Length

OnError: TypeAlias = Literal["raise", "return"]
"""What becomes of a prompt among several that is refused or fails."""


class MethodSettings(TypedDict, total=False):
    """Settings of decoders and caches; `archer.settings(METHOD)` says which of them a method takes."""

    length: Length | Sequence[Length] | None
    """Tokens of the response, or of each gap; "auto" for what it takes."""
    max_length: int | None
    """The most, where the length is "auto"."""
    max_new_tokens: int | None
    """As transformers calls the length."""
    block_length: int | None
    least: int | None
    """Saber's n: the fewest positions accepted per update."""
    alg: Literal["origin", "maskgit_plus", "topk_margin", "entropy"] | None
    alg_temp: float | None
    alpha_on: float | None
    block: int | None
    canvas: Literal["fixed", "auto", "append"] | None
    cap: float | None
    cut: float | None
    doubt: float | None
    doubt_by: Literal["confidence", "own", "kept", "lead", "rival", "moved"] | None
    edge: int | None
    edit: float | None
    editing_threshold: float | None
    end_think: Sequence[int] | None
    end_think_boost: float | None
    end_think_power: float | None
    eos: Literal["none", "logits", "confidence"] | None
    eos_early_stop: bool | None
    eos_penalty: float | None
    eps: float | None
    eta: float | None
    every: int | None
    factor: float | None
    fill: float | None
    gamma: float | None
    grow: int | None
    guidance: float | None
    k: int | None
    keep: int | None
    loops: int | None
    margin: int | None
    max_post_steps: int | None
    minimal_topk: int | None
    mu: int | None
    nats: float | None
    num_to_transfer: int | None
    order: Sequence[Sequence[int]] | None
    order_seed: int | None
    pool: Literal["ever", "current"] | None
    precision: Literal["float64", "bfloat16"] | None
    prompt_interval: int | None
    proxy: Literal["entropy", "confidence", "margin"] | None
    radius: float | Literal["inf"] | None
    ratio: float | None
    reload: int | None
    remask: Literal["ceil", "floor"] | None
    response_interval: int | None
    rest: int | None
    ripe: int | None
    score: Literal["confidence", "entropy", "margin", "random"] | None
    settle: int | None
    share: float | None
    start_length: int | None
    steps: int | None
    strategy: Literal["cap", "rescale", "conf", "loop", "dynamic", "static", "sequential"] | None
    sure: float | None
    t_off: float | None
    t_on: float | None
    temperature: float | None
    threshold: float | None
    top_k: int | None
    top_p: float | None
    verify: float | None
    wake: Literal["boundary", "look"] | None
    watch: Literal["argmax", "placed"] | None
    window: int | None


class RequestOptions(MethodSettings, total=False):
    """What every request takes beside its prompts and its method."""

    prefill: Given | Fill | Sequence[Given | Fill | None] | None
    """How the answer begins."""
    healing: bool
    """Whether tokens next to a gap may be written anew where the cut is inside a word."""
    curve: Sequence[float] | None
    """By which the length of a gap is searched for, as `archer study gap-length` fits it."""
    seed: int
    """Of the noise at a temperature above 0."""
    chat: bool
    """Whether texts go through the chat template."""
    allow_special: bool
    """Whether texts may spell special tokens."""
    preset: str | None
    """Named settings of the paper."""
    settings: Mapping[str, Any] | None
    """More settings of the method, by the names they are recorded by."""

    schema: Any
    """A JSON schema or a Pydantic model that the answer has to keep."""
    regex: str | None
    """A regular expression that the whole answer has to match."""
    choices: Sequence[str] | None
    """Texts of which the answer has to be one."""


class StreamOptions(RequestOptions, total=False):
    """Those of `request`, `stream`, `record` and an engine's `submit`."""

    suffix: Given | Sequence[Given | None] | None
    """What stands behind the response."""
    gap: str
    """How a gap is marked in a prefill."""


class GenerateOptions(RequestOptions, total=False):
    """Those of `fill`, which are those of `generate` without what a text with gaps says itself."""

    n: int
    stop: str | Sequence[str]
    batch: int | None
    memory: int | None
    progress: bool
    on_error: OnError


class InfillOptions(GenerateOptions, total=False):
    """Those of `infill`."""

    gap: str
