"""Recorded trajectories run again, every field compared; a table maps the recorded method names to ours."""

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict

from archer.errors import BadModel, BadRequest, BadTrace
from archer.methods.build import build
from archer.model import Model, load
from archer.passes.canvas import Flags
from archer.request.fill import Fill
from archer.results.step import Kind, Step
from archer.results.trace import first_difference, parsed_lines

THRESHOLD_TOLERANCE = 1e-4

METHODS = {
    "confidence": "confidence+eager",
    "saber": "saber+eager",
    "wino": "wino+eager",
    "archer_saber": "saber+archer",
    "archer_confidence": "confidence+archer",
    "dkv_decode": "confidence+dkv-decode",
    "dkv_greedy": "fixed-order+dkv-greedy",
    "dllm_cache": "confidence+dllm-cache",
    "fastdllm_prefix": "confidence+prefix",
    "fastdllm_dual": "confidence+dual",
    "llada2": "llada2+eager",
    "llada2_edit": "llada2-edit+eager",
    "infill": "confidence+eager",
    "illada_var": "illada+eager",
    "illada_think": "illada+eager",
    "dllm_infill": "a2d+eager",
    "p2": "p2+eager",
    "dllm_mdlm": "a2d+eager",
    "a2d_bd3lm": "bd3lm+eager",
    "sdar_dynamic": "sdar+eager",
    "sdar_static": "sdar+eager",
    "sdar_sequential": "sdar+eager",
    "sdar_top1": "sdar+eager",
}
"""Recorded method -> ours."""

IMPLIED: dict[str, dict[str, Any]] = {
    "illada_var": {"canvas": "append"},
    "illada_think": {"canvas": "append"},
    "sdar_static": {"strategy": "static"},
    "sdar_sequential": {"strategy": "sequential"},
    "sdar_top1": {"temperature": 1.0},
}
"""Settings that a recorded method's name implies.  SDAR always draws: of one token, at any temperature."""

RULES = ("threshold", "factor")
"""Recorded settings that mean the decoder of this name instead of the schedule."""

SETTINGS = {
    "gen_length": "length",
    "block_length": "block",
    "accept_threshold": "threshold",
    "verify_threshold": "verify",
    "end_think_token_ids": "end_think",
    "end_think_logit_boost": "end_think_boost",
    "end_think_boost_power": "end_think_power",
}
"""Recorded setting -> ours, where the names differ."""


class Case(BaseModel):
    """One recorded trajectory."""

    model_config = ConfigDict(extra="forbid")

    id: str
    checkpoint: str
    method: str
    settings: dict[str, Any]
    prompt: list[int]
    canvas: list[int | None] | None = None
    """The response as it was given, null for what was written."""
    response: list[int]
    updates: int
    nfe: int
    states: list[list[int]]
    fed: list[int]
    full: list[bool] | None = None
    distance: list[int] | None = None
    accepted: list[list[int]] | None = None
    remasked: list[list[int]] | None = None
    replaced: list[list[int]] | None = None
    returned: list[int] | None = None
    tau: list[float] | None = None
    order: list[list[int]] | None = None


@dataclass(frozen=True)
class Mismatch:
    """The first update at which a field differs; None for fields without updates."""

    id: str
    field: str
    update: int | None


@dataclass
class ReplayReport:
    """What a replay found."""

    total: int = 0
    identical: int = 0
    unsupported: int = 0
    mismatches: list[Mismatch] = field(default_factory=list)

    def count(self, mismatches: list[Mismatch] | None) -> None:
        """Take one more case in; None where its method is not built."""
        self.total += 1
        self.unsupported += mismatches is None
        self.identical += mismatches == []
        self.mismatches += mismatches or []


def read_cases(paths: Sequence[Path]) -> list[Case]:
    """All cases of the given files and folders; refuses anything that is not one."""
    cases = [
        case
        for path in _files(paths)
        for case in parsed_lines(path, Case.model_validate_json, "a recorded trajectory")
    ]
    if not cases:
        raise BadTrace("There is no recorded trajectory in the given files.")
    return cases


def replay(
    cases: Sequence[Case], checkpoints: Path, *, skip_unsupported: bool = False
) -> Iterator[tuple[Case, list[Mismatch] | None]]:
    """Each case with its mismatches, or with None where its method is not built."""
    fetch: Callable[[str], Model] = cache(lambda name: _checkpoint(checkpoints, name))
    for case in cases:
        if case.method not in METHODS:
            if not skip_unsupported:
                yield case, None
            continue
        yield case, compare(case, list(_run(fetch(case.checkpoint), case)))


def compare(case: Case, steps: Sequence[Step[Any]]) -> list[Mismatch]:
    """Every recorded field against what the steps did."""
    lead = [] if case.canvas is None else case.canvas[: case.canvas.index(None)]

    def places(step: Step[Any], chosen: Flags) -> list[int]:
        """Where these stand in what was recorded as the response."""
        (whole,) = step.after.prompt.among_given(chosen[:1], given=False)
        return [len(lead) + at for at in np.flatnonzero(whole).tolist()]

    happened: dict[str, Any] = {
        "states": [lead + step.record.response[0, : _columns(step)].tolist() for step in steps],
        "fed": [step.calls[0].fed for step in steps],
        "full": [step.calls[0].kind is Kind.FULL for step in steps],
        "distance": [step.calls[0].distance for step in steps],
        "accepted": [places(step, step.decision.accepted) for step in steps],
        "remasked": [places(step, step.decision.remasked) for step in steps],
        "replaced": [places(step, step.decision.replaced) for step in steps],
        "tau": [step.decision.threshold[0].item() for step in steps],
    }
    whole = {"response": happened["states"][-1], "updates": len(steps), "nfe": len(steps)}
    if case.returned is not None:
        whole["returned"] = steps[-1].after.result(0).tolist()
    differences = [
        Mismatch(case.id, name, None)
        for name, value in whole.items()
        if value != getattr(case, name)
    ]
    for name, values in happened.items():
        recorded = getattr(case, name)
        if recorded is None:
            continue
        place = first_difference(recorded, values, _close if name == "tau" else operator.eq)
        if place is not None:
            differences.append(Mismatch(case.id, name, place + 1))
    return differences


def _columns(step: Step[Any]) -> int:
    """Of the response in this update: those that are appended after it do not exist yet."""
    given = step.before.prompt.given
    return int(step.before.stops[0]) if given is None else len(given)


def _run(model: Model, case: Case) -> Iterator[Step[Any]]:
    settings = {SETTINGS.get(name, name): value for name, value in case.settings.items()}
    settings |= IMPLIED.get(case.method, {})
    if case.method in ("illada_var", "illada_think"):
        settings["steps"] *= settings["length"] // settings["block"]  # recorded per block
    if case.method == "p2":
        del settings["block"]  # the whole response, which it always decodes together
    if case.order is not None:
        settings["order"] = case.order
    decoder, policy = METHODS[case.method].split("+")
    if decoder == "confidence":
        decoder = next((rule for rule in RULES if rule in case.settings), decoder)
    method = f"{decoder}+{policy}"
    prompt: list[int] | Fill = case.prompt
    if case.canvas is not None:
        settings["length"] = case.canvas.count(None)
        if case.method == "infill":
            settings["block"] = None  # all of them together
        prompt = Fill.of_ids([*case.prompt, *case.canvas])
    try:
        build(method, settings)
        for step in model.stream(prompt, method, settings=settings):
            for error in step.errors.values():
                raise error
            yield step
    except BadRequest as error:
        raise BadTrace(f"The recorded case {case.id!r} cannot be run: {error}") from error


def _close(recorded: float, happened: float) -> bool:
    return abs(recorded - happened) <= THRESHOLD_TOLERANCE


def _checkpoint(root: Path, name: str) -> Model:
    if Path(name).name != name or not (root / name).is_dir():
        raise BadModel(
            f"There is no checkpoint {name!r} in {str(root)!r}. Name the folder that holds them."
        )
    return load(root / name, device="cpu", dtype="float32")


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted(path.glob("*.jsonl"))
        else:
            yield path
