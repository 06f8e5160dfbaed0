"""`archer bench step`, `profile`, `decode`, `batch`, `load` and `checkpoint`: a network by itself."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from archer.cli.bench import (
    PromptLength,
    Repeats,
    ResponseLength,
    SubjectOptions,
    emit_tables,
    measure_rows,
)
from archer.cli.numbers import MaybePositive, Names, Positive, Positives, Whole
from archer.cli.options import DEFAULT_MODEL, ModelOptions, use_threads
from archer.cli.output import Json, write_line
from archer.errors import BadRequest, reason_of

if TYPE_CHECKING:
    from archer.methods.build import Method

DEFAULT_SUBJECT = SubjectOptions()
QUIET = "6"
"""From this level on torch's profiler does not announce on stderr that it starts and stops."""


def step(
    *,
    subject: SubjectOptions = DEFAULT_SUBJECT,
    prompt: Positives = (128, 256, 512, 1024, 2048),
    response: ResponseLength = 256,
    repeats: Repeats = 5,
    library: bool = False,
    quantize: Names = (),
    json: Json = False,
) -> int:
    """Time a full and a cached update from one recorded state, beside the limit by counted operations.

    Args:
        prompt: Prompt lengths, comma-separated.
        library: Time a full pass of the transformers library as well.
        quantize: Time the same in eight bits as well, in turn: int8, w8a8, w8a8-head, comma-separated.
    """
    from archer.bench.facts import subject_facts
    from archer.bench.step import StepRow, measure, tables
    from archer.bench.transformers_pass import check_library
    from archer.loading.source import quantised_as

    if library:
        check_library()
    schemes = [quantised_as(name) for name in quantize]
    opened = subject.open("llada-8b", max(prompt), response)
    facts = subject_facts("step", opened, response=response, repeats=repeats)
    rows = partial(measure, opened, prompt, response, repeats, library=library, schemes=schemes)
    return measure_rows(facts, rows, tables, json=json, line=StepRow.line)


def profile(
    *,
    subject: SubjectOptions = DEFAULT_SUBJECT,
    prompt: PromptLength = 512,
    response: ResponseLength = 256,
    repeats: Repeats = 3,
    json: Json = False,
) -> int:
    """Split the time of a full and of a cached update by kind of work."""
    os.environ.setdefault("KINETO_LOG_LEVEL", QUIET)
    from archer.bench.facts import subject_facts
    from archer.bench.profiling import shares, table

    opened = subject.open("llada-8b", prompt, response)
    facts = subject_facts("profile", opened, prompt=prompt, response=response, repeats=repeats)
    rows = partial(shares, opened, prompt, response, repeats)
    return measure_rows(facts, rows, table, json=json)


def decode(
    *,
    subject: SubjectOptions = DEFAULT_SUBJECT,
    methods: Names = ("saber", "archer", "llada-confidence"),
    prompt: PromptLength = 512,
    response: ResponseLength = 256,
    prompts: Positive = 1,
    repeats: Repeats = 3,
    quantize: Names = (),
    json: Json = False,
) -> int:
    """Decode the same random prompts with every method, and compare with the cost model.

    Args:
        methods: Methods, comma-separated, also from files; speedups are over saber and llada-confidence.
        prompts: How many prompts.
        quantize: Decode in eight bits as well, in turn: int8, w8a8, w8a8-head, comma-separated.
    """
    from archer.bench.decode import decode as measure
    from archer.bench.decode import table
    from archer.bench.facts import subject_facts
    from archer.loading.source import quantised_as

    schemes = [quantised_as(name) for name in quantize]
    chosen = [_method(name, response) for name in methods]
    opened = subject.open("small", prompt, response)
    sizes = {"prompt": prompt, "response": response, "prompts": prompts, "repeats": repeats}
    facts = subject_facts("decode", opened, **sizes)
    rows = partial(measure, opened, chosen, prompt, prompts, repeats, schemes)
    return measure_rows(facts, rows, table, json=json)


def _method(name: str, length: int) -> Method:
    from archer.methods.build import build
    from archer.methods.own_files import bring

    bring(name)
    return build(name, {"length": length})


def batch(
    *,
    subject: SubjectOptions = DEFAULT_SUBJECT,
    method: str = "archer",
    sizes: Positives = (1, 2, 4, 8, 16),
    prompt: PromptLength = 128,
    response: ResponseLength = 64,
    repeats: Repeats = 3,
    json: Json = False,
) -> int:
    """Decode one prompt once, twice, ... in the same batch: equal work per row.

    Args:
        method: A name, or decoder+cache such as saber+age:4.
        sizes: Rows per batch, with commas between them.
    """
    from archer.bench.batch import batch as measure
    from archer.bench.batch import table
    from archer.bench.facts import subject_facts

    chosen = _method(method, response)
    opened = subject.open("small", prompt, response)
    options = {"method": chosen.name, "prompt": prompt, "response": response, "repeats": repeats}
    facts = subject_facts("batch", opened, **options)
    rows = partial(measure, opened, chosen, sizes, prompt, repeats)
    return measure_rows(facts, rows, table, json=json)


def structure(
    tokenizer: Path,
    *,
    subject: SubjectOptions = DEFAULT_SUBJECT,
    prompt: PromptLength = 512,
    response: ResponseLength = 256,
    repeats: Repeats = 3,
    json: Json = False,
) -> int:
    """Time schemas: their automata, and what they add to an update, beside a cached pass.

    Args:
        tokenizer: The tokenizer.json of a model of the shape [a2d-qwen3-0.6b unless another is named].
    """
    from archer.bench.facts import subject_facts
    from archer.bench.structure import measure, table, vocabulary_of
    from archer.loading.text.tokenizer_files import read_pieces

    pieces = read_pieces(tokenizer)
    opened = subject.open("a2d-qwen3-0.6b", prompt, response)
    vocabulary = vocabulary_of(pieces, opened)
    facts = subject_facts("structure", opened, prompt=prompt, response=response, repeats=repeats)
    rows = partial(measure, opened, vocabulary, prompt, response, repeats)
    return measure_rows(facts, rows, table, json=json)


def load(model: ModelOptions = DEFAULT_MODEL, *, updates: Whole = 0, json: Json = False) -> int:
    """Load a checkpoint in a process of its own, and report its time and peak memory.

    Args:
        updates: Updates of a short response to decode afterwards.
    """
    from archer.bench.load import measure_load, table

    if model.threads is not None:
        use_threads(model.threads)
    result = {"bench": "load", **measure_load(model, updates=updates).to_dict()}
    return emit_tables(result, table, json=json)


def checkpoint(
    folder: Path,
    *,
    shape: str = "llada-8b",
    layers: MaybePositive = None,
    dtype: str = "bfloat16",
) -> int:
    """Write a checkpoint of random weights, shard by shard.  The full LLaDA-8B takes 16 GB of disk.

    Args:
        folder: Folder to write; must be empty or not exist yet.
        shape: llada-8b, dream-7b, a2d-qwen3-0.6b, a2d-qwen2-0.5b, illada-8b, sdar-4b, llada-moe-7b,
            llada2-mini or small.
        layers: Layers to write [default: all].
        dtype: float32, bfloat16, float16 or float64.
    """
    from archer.bench.weights import config_of, write_checkpoint
    from archer.costs.shapes import published
    from archer.machine.devices import dtype_named

    known = published(shape)
    kind = dtype_named(dtype)
    if layers is not None:
        known = replace(known, shape=replace(known.shape, layers=layers))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_checkpoint(folder, config_of(known), dtype=kind)
    except OSError as error:
        raise BadRequest(f"{folder} cannot be written: {reason_of(error)}.") from error
    write_line(str(folder))
    return 0
