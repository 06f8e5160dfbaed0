"""Where the time of one update goes on a processor, by torch's profiler around the engine's own loop."""

import statistics
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch.autograd.profiler import profile

from archer.bench.facts import Result
from archer.bench.step_variants import NEVER, StepVariants
from archer.bench.subject import Subject
from archer.errors import BadRequest
from archer.pages.tables import Field, Table, percent, table_of

OUTSIDE = "outside operations"
OTHER = "other operations"
KINDS: Mapping[str, str] = {
    "aten::mm": "matrix products",
    "aten::addmm": "matrix products",
    "aten::bmm": "matrix products",
    "aten::_int_mm": "matrix products",
    "onednn::qlinear_pointwise": "matrix products",
    "aten::_scaled_dot_product_flash_attention_for_cpu": "attention",
    "aten::_scaled_dot_product_flash_attention": "attention",
    "aten::_scaled_dot_product_efficient_attention": "attention",
    "aten::_scaled_dot_product_attention_math": "attention",
    "aten::copy_": "copies",
    "aten::cat": "copies",
    "aten::index": "copies",
    "aten::roll": "rotation, norms, activation",
    "aten::mul": "rotation, norms, activation",
    "aten::mul_": "rotation, norms, activation",
    "aten::add": "rotation, norms, activation",
    "aten::add_": "rotation, norms, activation",
    "aten::sub_": "rotation, norms, activation",
    "aten::silu": "rotation, norms, activation",
    "aten::pow": "rotation, norms, activation",
    "aten::mean": "rotation, norms, activation",
    "aten::rsqrt": "rotation, norms, activation",
    "aten::_fused_rms_norm": "rotation, norms, activation",
    "aten::sub": "reduction over the vocabulary",
    "aten::exp_": "reduction over the vocabulary",
    "aten::sum": "reduction over the vocabulary",
    "aten::scatter_": "reduction over the vocabulary",
}
"""Operation -> what it does here.  An operation that is not named counts as another."""


@dataclass(frozen=True)
class Shares:
    """One way to take the step: milliseconds by kind of work, the longest first."""

    step: str
    total_ms: float
    kinds_ms: dict[str, float]


def shares(subject: Subject, prompt: int, response: int, repeats: int) -> list[Shares]:
    """A full and a cached step, each measured `repeats` times after one that is not."""
    device = subject.network.device
    if device.type != "cpu":
        raise BadRequest(
            f"Operations are timed on a processor only, not on {device}, where they begin before "
            "the last one has ended. Use the device cpu, or `archer bench step`, which times layers and head."
        )
    alternatives = StepVariants.at(subject, prompt, response)
    measured = []
    for name, every in (("full", 1), ("cached", NEVER)):
        step = alternatives.refreshing(every)
        step()
        with profile(use_kineto=False) as watched:
            seconds = [step().seconds for _ in range(repeats)]
        spent: defaultdict[str, float] = defaultdict(float)
        for each in watched.key_averages():
            spent[KINDS.get(each.key, OTHER)] += each.self_cpu_time_total / 1e3 / repeats
        total = 1e3 * statistics.mean(seconds)
        spent[OUTSIDE] = max(0.0, total - sum(spent.values()))
        longest_first = sorted(spent.items(), key=lambda kind: -kind[1])
        measured.append(Shares(name, total, dict(longest_first)))
    return measured


def table(result: Result) -> Table:
    """Time by kind of work, of a full and of a cached step."""
    steps = result["rows"]
    rows: list[dict[str, Any]] = []
    for kind in dict.fromkeys(kind for step in steps for kind in step["kinds_ms"]):
        row: dict[str, Any] = {"work": kind}
        for step in steps:
            spent = step["kinds_ms"].get(kind, 0.0)
            row |= {step["step"]: spent, f"{step['step']} share": spent / step["total_ms"]}
        rows.append(row)
    fields = [Field("work")]
    for name in (step["step"] for step in steps):
        fields += [Field(name, f"{name} ms", 1), percent(f"{name} share", "share")]
    return table_of("Where the time of an update goes", fields, rows)
