"""What one update costs with and without the prompt's cache, beside what counting operations allows.

Axes: P prompt columns, G response columns.

Measured is the engine's own loop: pass, decoder, policy and the question of the next pass, from one
recorded state.  A cached step at full depth follows from the time of its parts: every layer but the last
costs the same.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial

from archer.bench.counted_tables import PAPER, PAPER_SETTING
from archer.bench.facts import Result
from archer.bench.repeating import interleaved, spread
from archer.bench.step_variants import NEVER, StepSample, StepVariants
from archer.bench.subject import Subject, in_eight_bits
from archer.bench.transformers_pass import library_twin
from archer.costs.counting import Counts, count_passes
from archer.costs.shapes import shapes
from archer.network.shape import Scheme
from archer.pages.tables import Field, Table, Value, percent, table_of
from archer.passes.work import Work, operations

STEPS = ("full", "cached", "naive")
Pair = tuple[float, float]


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
    paper: float | None = None
    """The speedup that the paper measured."""

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
class EightBits:
    """The same steps with the large matrices kept by a scheme, made in turn with the others."""

    scheme: str
    full_ms: float
    cached_ms: float
    gain_full: float
    """How much longer the plain step takes."""
    gain_cached: float
    weight_bytes: int
    plain_bytes: int

    @classmethod
    def of(cls, subject: Subject, plain: Subject, full: Pair, cached: Pair) -> EightBits:
        """From the seconds of both steps, those of the plain network second."""
        return cls(
            scheme=subject.network.scheme.value,
            full_ms=1e3 * full[0],
            cached_ms=1e3 * cached[0],
            gain_full=full[1] / full[0],
            gain_cached=cached[1] / cached[0],
            weight_bytes=_bytes(subject),
            plain_bytes=_bytes(plain),
        )


def _bytes(subject: Subject) -> int:
    return sum(each.nbytes for each in subject.network.parameters())


@dataclass(frozen=True, kw_only=True)
class StepRow(Figures):
    """One prompt length, at the layers that were run."""

    prompt: int
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
    rounds: int
    """How often each step was made."""
    eight_bits: tuple[EightBits, ...] = ()
    """By scheme, where any was asked for."""
    eight_bits_whole: tuple[EightBits, ...] = ()
    """The same at the depth of the model, where fewer layers were run; bytes are theirs."""

    def line(self) -> str:
        """What it tells as soon as it is measured."""
        times = f"full {self.full_ms:.1f} ms, cached {self.cached_ms:.1f} ms"
        return f"prompt {self.prompt}: {times}, speedup {self.speedup:.2f}"


def measure(
    subject: Subject,
    prompts: Sequence[int],
    response: int,
    repeats: int,
    *,
    library: bool = False,
    seconds: float = 0.0,
    schemes: Sequence[Scheme] = (),
) -> Iterator[StepRow]:
    """One row per prompt length: `repeats` rounds, and more for `seconds`."""
    others = [in_eight_bits(subject, scheme) for scheme in schemes]
    for prompt in prompts:
        alternatives = StepVariants.at(subject, prompt, response)
        subjects: dict[str, Callable[[], StepSample]] = {
            "full": alternatives.refreshing(1),
            "cached": alternatives.refreshing(NEVER),
            "naive": alternatives.naive_step,
        }
        if library:
            twin = library_twin(subject.network)
            subjects["all"] = partial(alternatives.library_step, twin, 0)
            subjects["response"] = partial(alternatives.library_step, twin, response)
        for other in others:
            variants = StepVariants.at(other, prompt, response)
            for step, every in (("full", 1), ("cached", NEVER)):
                subjects[f"{step} {other.network.scheme}"] = variants.refreshing(every)
        samples = interleaved(subjects, repeats, seconds)
        yield replace(
            _row(subject, prompt, response, samples),
            eight_bits=tuple(_eight_bits(each, subject, samples, None) for each in others),
            eight_bits_whole=tuple(
                _eight_bits(each, subject, samples, subject.depth)
                for each in others
                if _dense(subject) + 2 <= subject.network.shape.layers < subject.depth
            ),
        )


def _eight_bits(
    subject: Subject, plain: Subject, samples: dict[str, list[StepSample]], depth: int | None
) -> EightBits:
    """Beside the plain network, at the layers that were run or at a depth."""

    def median(name: str) -> float:
        return statistics.median(
            each.seconds if depth is None else each.at_depth(depth, _dense(plain))
            for each in samples[name]
        )

    full, cached = (
        (median(f"{step} {subject.network.scheme}"), median(step)) for step in ("full", "cached")
    )
    return EightBits.of(subject, plain, full, cached)


def _dense(subject: Subject) -> int:
    """Layers at the front that are a case of their own."""
    shape = subject.network.shape
    return 0 if shape.experts is None else shape.dense_layers


def _row(
    subject: Subject, prompt: int, response: int, samples: dict[str, list[StepSample]]
) -> StepRow:
    shape = subject.network.shape
    seconds = {name: [each.seconds for each in taken] for name, taken in samples.items()}
    layers = {
        name: statistics.median(sum(each.parts.layers) for each in samples[name]) for name in STEPS
    }
    run = {name: statistics.median(values) for name, values in seconds.items()}
    full, cached = (operations(samples[name][0].work, shape) for name in ("full", "cached"))
    counted = count_passes(shape, prompt, response)
    counts = replace(counted, full=full, cached=cached)
    return StepRow(
        **asdict(Figures.of(shape.layers, [run[name] for name in STEPS], counts)),
        prompt=prompt,
        spread={name: spread(values) for name, values in seconds.items()},
        control=statistics.median(each.control for each in samples["cached"]),
        head=statistics.median(each.parts.head / each.seconds for each in samples["cached"]),
        naive_gain=run["naive"] / run["cached"],
        naive_gain_layers=layers["naive"] / layers["cached"],
        library=_library(samples) if "all" in samples else None,
        whole=_whole(subject, prompt, response, samples),
        rounds=len(samples["full"]),
    )


def _whole(
    subject: Subject, prompt: int, response: int, samples: dict[str, list[StepSample]]
) -> Figures | None:
    shape, depth = subject.network.shape, subject.depth
    dense = _dense(subject)
    if shape.layers < dense + 2:
        return None
    seconds = [
        statistics.median(each.at_depth(depth, dense) for each in samples[name]) for name in STEPS
    ]
    whole = replace(shape, layers=depth)
    counts = count_passes(whole, prompt, response)
    paper = PAPER.get(prompt) if (subject.name, response) == PAPER_SETTING else None
    return replace(Figures.of(depth, seconds, counts), paper=paper)


def _library(samples: dict[str, list[StepSample]]) -> Library:
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


def tables(result: Result) -> list[Table]:
    """At the layers that were run, at full depth, and beside the transformers library."""
    tables = (
        table(result),
        whole_table(result),
        library_table(result),
        *eight_bits_tables(result),
    )
    return [each for each in tables if each.rows]


def table(result: Result) -> Table:
    """The layers that were run."""
    fields = (
        Field("prompt"),
        *(Field(f"{name}_ms", f"{name} ms", 1) for name in STEPS),
        Field("speedup"),
        Field("limit"),
        Field("fraction", of=lambda row: fraction(row["fraction"], row["spread"])),
        Field("limit_naive", "limit, naive"),
        Field("naive_gain", "naive / cached", 3),
        Field("naive_gain_layers", "layers alone", 3),
        percent("head", "head"),
        percent("control", "control"),
        Field("spread (%)", digits=1, of=lambda row: 100 * max(row["spread"].values())),
    )
    rows = result["rows"]
    return table_of("Steps", fields, rows, noise(row["fraction"] for row in rows))


def whole_table(result: Result) -> Table:
    """The same extrapolated to full depth, beside the paper."""
    rows = [{"prompt": row["prompt"], **row["whole"]} for row in result["rows"] if row["whole"]]
    fields = (
        Field("prompt"),
        Field("full_ms", "full ms", 0),
        Field("cached_ms", "cached ms", 0),
        Field("speedup", of=lambda row: Value(row["speedup"], paper=row["paper"])),
        Field("limit"),
        Field("fraction"),
    )
    title = f"Extrapolated to {rows[0]['layers']} layers" if rows else ""
    return table_of(title, fields, rows, noise(row["fraction"] for row in rows))


def library_table(result: Result) -> Table:
    """Full passes of the transformers library, where they were timed; gains as measured and by count."""
    rows = [
        {"prompt": row["prompt"], **row["library"], **counted_gains(result, row["prompt"])}
        for row in result["rows"]
        if row["library"]
    ]
    fields = (
        Field("prompt"),
        Field("ours_ms", "ours ms", 1),
        Field("all_ms", "all rows ms", 1),
        Field("gain_all", "gain"),
        Field("counted_all", "counted"),
        Field("response_ms", "response rows ms", 1),
        Field("gain_response", "gain"),
        Field("counted_response", "counted"),
    )
    return table_of("A full pass of the transformers library, without the update", fields, rows)


def eight_bits_tables(result: Result) -> list[Table]:
    """At the layers that were run, and at full depth; none where no scheme was asked for."""
    names = ("eight_bits", "eight_bits_whole")
    return [
        _eight_bits_table(result, name)
        for name in names
        if any(row.get(name) for row in result["rows"])
    ]


def _eight_bits_table(result: Result, name: str) -> Table:
    """Steps in eight bits beside those of the plain network."""
    depth = result["layers"] if name == "eight_bits" else result["depth"]
    rows = [
        {"prompt": row["prompt"], **each} for row in result["rows"] for each in row.get(name, ())
    ]
    fields = (
        Field("prompt"),
        Field("scheme", "kept"),
        Field("full_ms", "full ms", 0),
        Field("gain_full", "gain"),
        Field("cached_ms", "cached ms", 0),
        Field("gain_cached", "gain"),
        Field("", "weights / plain", of=lambda row: row["weight_bytes"] / row["plain_bytes"]),
    )
    note = f"Gain: the plain step over this one, in turn. Bytes are those of {result['layers']} layers."
    return table_of(f"In eight bits, {depth} layers", fields, rows, (note,))


def counted_gains(result: Result, prompt: int) -> dict[str, float | None]:
    """Of our full pass over one with the head on every row, and on the response's; of published shapes."""
    if (known := shapes().get(result["shape"])) is None:
        return {"counted_all": None, "counted_response": None}
    shape = replace(known.shape, layers=result["layers"])
    counts = count_passes(shape, prompt, result["response"])
    unread = operations(Work(scored=prompt), shape)
    return {
        "counted_all": counts.naive / counts.full,
        "counted_response": (counts.naive - unread) / counts.full,
    }


def fraction(reached: float, spread: Mapping[str, float]) -> Value:
    """Of the limit; the interval is what both times would make if off by half their middle half's width."""
    full, cached = spread["full"] / 2, spread["cached"] / 2
    low = reached * (1 - full) / (1 + cached)
    return Value(reached, low, reached * (1 + full) / max(1 - cached, 1e-9))


def noise(fractions: Iterable[float]) -> tuple[str, ...]:
    """What to make of fractions above 1; nothing where there are none."""
    beyond = [each for each in fractions if each > 1]
    if not beyond:
        return ()
    return (
        f"A fraction above 1 (here up to {max(beyond):.2f}) does not mean that less was computed: times are "
        "noisy, and the limit assumes that every operation is equally fast.",
    )
