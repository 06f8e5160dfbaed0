"""What one update costs with and without the prompt's cache, beside what counting operations allows.

Axes: P prompt columns, G response columns.

Measured is the engine's own loop: pass, decoder, policy and the question of the next pass, from one
recorded state.  A cached step at full depth follows from the time of its parts: every layer but the last
costs the same.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from archer.bench.repeating import interleaved, spread
from archer.bench.step_variants import Sample, StepVariants
from archer.bench.subject import Subject
from archer.bench.transformers_pass import library_twin
from archer.costs.counting import Counts, count_passes
from archer.passes.work import operations

PAPER = {128: 1.30, 256: 1.59, 512: 2.07, 1024: 3.15, 2048: 4.62}
"""Speedup of a cached step that the paper measured on LLaDA-8B with a response of 256, by prompt length."""
PAPER_SETTING = ("llada-8b", 256)
STEPS = ("full", "cached", "naive")
NEVER = 10**6
"""Passes that one prompt cache serves in the cached loop: more than are ever made."""


@dataclass(frozen=True)
class Figures:
    """Times and ratios at one depth."""

    layers: int
    full_ms: float
    cached_ms: float
    naive_ms: float
    speedup: float
    limit: float
    fraction: float
    limit_naive: float

    @classmethod
    def of(cls, layers: int, seconds: Sequence[float], counts: Counts) -> Figures:
        """From the median seconds of the full, the cached and the naive cached step."""
        full, cached, naive = seconds
        limit = counts.full / counts.cached
        return cls(
            layers=layers,
            full_ms=1e3 * full,
            cached_ms=1e3 * cached,
            naive_ms=1e3 * naive,
            speedup=full / cached,
            limit=limit,
            fraction=full / cached / limit,
            limit_naive=counts.naive / counts.cached,
        )


@dataclass(frozen=True)
class Library:
    """A full pass of the transformers library beside ours, both without the update."""

    ours_ms: float
    """Our full pass: layers and head."""
    all_ms: float
    """Theirs with the head on every row, as it comes."""
    response_ms: float
    """Theirs with the head on the response alone."""
    gain_all: float
    gain_response: float


@dataclass(frozen=True)
class Row:
    """One prompt length."""

    prompt: int
    figures: Figures
    spread: dict[str, float]
    control: float
    """Median share of decoder, policy and loop in the cached step."""
    head: float
    """Median share of the vocabulary head in it."""
    naive_gain: float
    """How much longer the naive cached step takes."""
    naive_gain_layers: float
    """The same for the layers alone."""
    library: Library | None
    """The transformers library, where it was asked for."""
    whole: Figures | None
    """Extrapolated to the depth of the model; None without a layer between the first, or dense, ones and the
    last."""
    paper: float | None
    rounds: int
    """How often each step was made."""

    def as_dict(self) -> dict[str, Any]:
        whole = None if self.whole is None else asdict(self.whole) | {"paper": self.paper}
        return {
            "prompt": self.prompt,
            **asdict(self.figures),
            "spread": self.spread,
            "control": self.control,
            "head": self.head,
            "naive_gain": self.naive_gain,
            "naive_gain_layers": self.naive_gain_layers,
            "library": None if self.library is None else asdict(self.library),
            "whole": whole,
            "rounds": self.rounds,
        }


def measure(
    subject: Subject,
    prompts: Sequence[int],
    response: int,
    repeats: int,
    *,
    library: bool = False,
    seconds: float = 0.0,
) -> Iterator[Row]:
    """One row per prompt length, as soon as it is measured: `repeats` rounds, and more for `seconds`."""
    for prompt in prompts:
        alternatives = StepVariants.at(subject, prompt, response)
        subjects: dict[str, Callable[[], Sample]] = {
            "full": alternatives.refreshing(1),
            "cached": alternatives.refreshing(NEVER),
            "naive": alternatives.naive_step,
        }
        if library:
            twin = library_twin(subject.network)
            subjects["all"] = partial(alternatives.library_step, twin, 0)
            subjects["response"] = partial(alternatives.library_step, twin, response)
        yield _row(subject, prompt, response, interleaved(subjects, repeats, seconds))


def _row(subject: Subject, prompt: int, response: int, samples: dict[str, list[Sample]]) -> Row:
    shape = subject.network.shape
    seconds = {name: [each.seconds for each in taken] for name, taken in samples.items()}
    layers = {
        name: statistics.median(sum(each.parts.layers) for each in samples[name]) for name in STEPS
    }
    run = {name: statistics.median(values) for name, values in seconds.items()}
    full, cached = (operations(samples[name][0].work, shape) for name in ("full", "cached"))
    counted = count_passes(shape, prompt, response)
    counts = replace(counted, full=full, cached=cached)
    setting = (subject.name, response)
    return Row(
        prompt=prompt,
        figures=Figures.of(shape.layers, [run[name] for name in STEPS], counts),
        spread={name: spread(values) for name, values in seconds.items()},
        control=statistics.median(each.control for each in samples["cached"]),
        head=statistics.median(each.parts.head / each.seconds for each in samples["cached"]),
        naive_gain=run["naive"] / run["cached"],
        naive_gain_layers=layers["naive"] / layers["cached"],
        library=_library(samples) if "all" in samples else None,
        whole=_whole(subject, prompt, response, samples),
        paper=PAPER.get(prompt) if setting == PAPER_SETTING else None,
        rounds=len(samples["full"]),
    )


def _whole(
    subject: Subject, prompt: int, response: int, samples: dict[str, list[Sample]]
) -> Figures | None:
    shape, depth = subject.network.shape, subject.depth
    dense = 0 if shape.experts is None else shape.dense_layers
    if shape.layers < dense + 2:
        return None
    seconds = [
        statistics.median(each.at_depth(depth, dense) for each in samples[name]) for name in STEPS
    ]
    whole = replace(shape, layers=depth)
    counts = count_passes(whole, prompt, response)
    return Figures.of(depth, seconds, counts)


def _library(samples: dict[str, list[Sample]]) -> Library:
    ours = statistics.median(each.parts.total for each in samples["full"])
    theirs = {
        name: statistics.median(each.seconds for each in samples[name])
        for name in ("all", "response")
    }
    return Library(
        ours_ms=1e3 * ours,
        all_ms=1e3 * theirs["all"],
        response_ms=1e3 * theirs["response"],
        gain_all=theirs["all"] / ours,
        gain_response=theirs["response"] / ours,
    )
