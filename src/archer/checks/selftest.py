"""Is decoding right on this device, in this dtype?  Checks without a download, within a `Tolerance`."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from time import perf_counter
from typing import Any

import numpy as np
import torch
from pydantic.dataclasses import dataclass as pydantic_dataclass

from archer.engine.walk import steps_of
from archer.files import bundled_json
from archer.methods.build import build
from archer.model import Model, load
from archer.passes.canvas import Canvas, Flags, Prompt, Scope
from archer.passes.memory import Memory
from archer.policies.base import Policy
from archer.results.completion import Completion

ANSWERS = 8
"""Recorded problems that are answered again."""
BATCH = 4
"""Problems that are answered together and alone."""
STEP_PROMPT, STEP_RESPONSE, STEP_ROUNDS = 512, 256, 3
"""Columns of the timed steps, and how many rounds of them there are at least."""
STEP_SECONDS = 120.0
"""For so long an accelerator goes on with rounds; on a processor there are no more than the least."""
STEP_SHAPE = "llada-8b"


@dataclass(frozen=True)
class Tolerance:
    """What rounding may do."""

    answers: float
    """Share of answers that must be the same."""
    confidence: float
    """Largest difference of a probability."""


TOLERANCES = {
    torch.float64: Tolerance(0.99, 1e-9),
    torch.float32: Tolerance(0.85, 1e-4),
    torch.bfloat16: Tolerance(0.5, 0.1),
    torch.float16: Tolerance(0.5, 0.05),
}


@dataclass(frozen=True)
class Finding:
    """What one check found."""

    name: str
    passed: bool
    report: str
    seconds: float = 0.0
    figures: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SelftestPlan:
    """What is to be checked, and where."""

    device: str | None = None
    dtype: str | None = None
    compiled: bool = False
    timing: bool = False
    """Time steps as well, which takes minutes on a processor."""
    shape: str = STEP_SHAPE


def selftest(plan: SelftestPlan) -> Iterator[Finding]:
    """Every check in turn; one that raises has failed, and the others still run."""
    model = load("pocket", device=plan.device, dtype=plan.dtype)
    checks: list[tuple[str, Callable[[], Finding]]] = [
        ("recorded answers", lambda: recorded_answers(model)),
        ("cached equals full", lambda: cached_equals_full(model)),
        ("batch equals singles", lambda: batch_equals_singles(model)),
    ]
    if plan.compiled:
        checks.append(
            ("compiled equals plain", lambda: compiled_equals_plain(model, _compiled(plan)))
        )
    if plan.timing:
        checks.append(("steps", lambda: steps(plan)))
    for name, check in checks:
        started = perf_counter()
        try:
            finding = check()
        except Exception as error:  # noqa: BLE001 - whatever a device does wrong is a finding
            finding = Finding(name, passed=False, report=f"raised {type(error).__name__}: {error}")
        yield replace(finding, seconds=perf_counter() - started)


def verdict(findings: Sequence[Finding]) -> str:
    """One line."""
    failed = [each.name for each in findings if not each.passed]
    if failed:
        return f"FAILED: {', '.join(failed)}. Please report it with the file."
    return f"passed: all {len(findings)} checks."


def to_dict(
    plan: SelftestPlan, findings: Sequence[Finding], machine: dict[str, Any]
) -> dict[str, Any]:
    """Everything worth attaching to a report."""
    return {
        "verdict": verdict(findings),
        "passed": all(each.passed for each in findings),
        "asked": asdict(plan),
        "findings": [asdict(each) for each in findings],
        "machine": machine,
    }


def recorded_answers(model: Model) -> Finding:
    """The bundled model writes what it wrote when it was made."""
    recorded = bundled_json("archer.pocket", "recorded.json")
    texts = dict(list(recorded["completions"].items())[:ANSWERS])
    prompts = _prompts(list(texts))
    method, radius = recorded["settings"]["method"], recorded["settings"]["radius"]
    answers = [model.generate(prompt, method, radius=radius)[0] for prompt in prompts]
    return _same("recorded answers", [each.text for each in answers], list(texts.values()), model)


def batch_equals_singles(model: Model) -> Finding:
    """A prompt's answer does not depend on its neighbours."""
    prompts = _prompts([f"pocket-test-{number}" for number in range(BATCH)])
    alone = [_tokens(model.generate(prompt)[0]) for prompt in prompts]
    together = [_tokens(done) for done in model.generate(prompts)]
    return _same("batch equals singles", together, alone, model)


def compiled_equals_plain(model: Model, compiled: Model) -> Finding:
    """torch.compile changes nothing."""
    prompts = _prompts(["pocket-test-0", "pocket-test-2"])
    answers = [[_tokens(each.generate(p)[0]) for p in prompts] for each in (compiled, model)]
    return _same("compiled equals plain", answers[0], answers[1], model)


@pydantic_dataclass(frozen=True)
class _ResponseOnly(Policy):
    """A cached pass in any case, even where the answer is at hand."""

    answers = Scope.RESPONSE
    counts_passes = True

    def recompute(self, canvas: Canvas, memory: Memory) -> Flags:
        return canvas.revisable()


def cached_equals_full(model: Model) -> Finding:
    """With a prompt computed for this very response, a pass over the response alone sees the same."""
    method = build("saber", {"length": model.folder.length})
    cached = replace(method, policy=_ResponseOnly())
    worst, compared = 0.0, 0
    starts = [
        method.decoder.start(Prompt.of(model.encode(prompt), model.folder.mask), method.length)
        for prompt in _prompts(["pocket-test-0", "pocket-test-5"])
    ]
    for step in chain.from_iterable(steps_of(model.network, method, each) for each in starts):
        if step.errors:
            return _failed("cached equals full", next(iter(step.errors.values())))
        if step.index % 8:
            continue
        again = next(steps_of(model.network, cached, step.before, step.memory.clone()))
        if again.errors:
            return _failed("cached equals full", next(iter(again.errors.values())))
        if any(call.kind != "cached" for call in again.calls):
            return _failed("cached equals full", "no cached pass was made")
        full, new = (each.logits.read(each.logits.greedy)[0].confidence for each in (step, again))
        looked = ~np.isnan(full) | ~np.isnan(new)
        gap = np.abs(full - new)[looked]
        worst = max(worst, float(np.where(np.isnan(gap), np.inf, gap).max(initial=0.0)))
        compared += gap.size
    if not compared:
        return _failed("cached equals full", "nothing could be compared")
    allowed = TOLERANCES[model.dtype].confidence
    return Finding(
        "cached equals full",
        passed=worst <= allowed,
        report=f"{compared:,} probabilities differ by {worst:.1e} at most; {allowed:.0e} is allowed",
        figures={"difference": worst if np.isfinite(worst) else None, "allowed": allowed}
        | {"compared": compared},
    )


def steps(plan: SelftestPlan) -> Finding:
    """A full and a cached step at the shape of a large layer, beside what counting allows."""
    from archer.bench.step import measure
    from archer.bench.subject import open_subject
    from archer.costs.roofline import GPUS, floors, named
    from archer.machine.description import device_name

    room = (STEP_PROMPT, STEP_RESPONSE)
    subject = open_subject(plan.shape, None, *room, device=plan.device, dtype=plan.dtype)
    device = subject.network.device
    seconds = 0.0 if device.type == "cpu" else STEP_SECONDS
    (row,) = measure(subject, [STEP_PROMPT], STEP_RESPONSE, STEP_ROUNDS, seconds=seconds)
    shape = subject.network.shape
    least = {
        each.name: [1e3 * floor.seconds for floor in floors(each, shape, *room)] for each in GPUS
    }
    gpu = named(device_name(device))
    rounds = f"{row.rounds} round{'s' * (row.rounds != 1)}"
    report = (
        f"{subject.name}, {row.layers} layers, {rounds}: full {row.full_ms:.1f} ms, "
        f"cached {row.cached_ms:.1f} ms, {row.speedup:.2f} times as fast; by counting, at most "
        f"{row.limit:.2f} times{' (more is noise)' if row.speedup > row.limit else ''}; "
    )
    if gpu is not None:
        full, cached = least[gpu.name]
        report += (
            f"by its data sheet the {gpu.name} needs at least {full:.2f} ms and {cached:.2f} ms "
            "in 16 bits"
        )
    elif device.type == "cpu":
        report += "limits by data sheet are only known for GPUs"
    else:
        report += f"no limits by data sheet are known for {device_name(device)}"
    return Finding(
        "steps",
        passed=row.speedup > 1,
        report=report,
        figures=asdict(row)
        | {"gpu": None if gpu is None else gpu.name, "least_ms_full_and_cached": least},
    )


def _tokens(done: Completion) -> tuple[int, ...] | None:
    """What was written; None of one that ended in an error, which equals nothing."""
    return None if done.error is not None else done.tokens


def _failed(name: str, why: object) -> Finding:
    return Finding(name, passed=False, report=str(why))


def _compiled(plan: SelftestPlan) -> Model:
    return load("pocket", device=plan.device, dtype=plan.dtype, compiled=True)


def _prompts(names: Sequence[str]) -> list[str]:
    from archer.pocket import frozen, prompts

    tasks = {task.name: task for task in frozen.load("test")}
    return [prompts.message(tasks[name]) for name in names]


def _same(name: str, answers: Sequence[object], others: Sequence[object], model: Model) -> Finding:
    """Answers side by side; an error, which is None, is the same as nothing."""
    same = sum(a == b and a is not None for a, b in zip(answers, others, strict=True))
    needed = TOLERANCES[model.dtype].answers
    errors = sum(each is None for each in answers)
    broken = f", {errors} ended in an error" if errors else ""
    return Finding(
        name,
        passed=bool(others) and not errors and same >= needed * len(others),
        report=f"{same} of {len(others)} the same{broken}",
        figures={"same": same, "of": len(others), "needed": needed},
    )
