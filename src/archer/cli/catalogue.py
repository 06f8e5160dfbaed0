"""`archer methods`, `archer models` and `archer tasks`: what there is to choose from."""

import inspect
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from functools import partial
from textwrap import fill
from typing import Any

from archer.cli.messages import complain
from archer.cli.output import Json, emit, side_by_side, write_grid, write_line, write_lines
from archer.loading.architecture import KnownModel
from archer.loading.architectures import ARCHITECTURES
from archer.loading.hub import BUNDLED
from archer.methods import DEFAULT_METHOD


def methods(name: str | None = None, *, matrix: bool = False, json: Json = False) -> int:
    """List methods, decoders and caches with their settings, including those from other packages.

    Args:
        name: Show the settings of this method, with their defaults, ranges and meanings.
        matrix: Print which decoder goes with which cache instead.
    """
    from archer.methods.compatibility import matrix as pairs
    from archer.methods.settings import DECODERS, POLICIES, method_list

    if name is not None:
        return _settings_of(name, json=json)
    rules, caches = dict(DECODERS.usable(complain)), dict(POLICIES.usable(complain))
    if matrix:
        full = pairs(rules, caches)
        causal = pairs(rules, caches, block_causal=True)

        def show_matrix() -> None:
            _write_matrix(full)
            write_line("")
            write_line("With a model that attends block-causally (LLaDA2, SDAR, OPDLM, bd3lm):")
            write_line("")
            _write_matrix(causal)

        return emit({"full": full, "block_causal": causal}, show_matrix, json=json)
    listed = method_list(rules, caches)
    return emit(listed, partial(_show_methods, listed), json=json)


def _show_methods(listed: Mapping[str, Any]) -> None:
    named = ((n, f"{m['summary']} ({m['means']})") for n, m in listed["methods"].items())
    _section("methods, by name", named)
    _section("decoders, before the +", _lines(listed["decoders"]))
    _section("caches, after the +", _lines(listed["policies"]))
    _section("presets", ((name, _settings(values)) for name, values in listed["presets"].items()))
    write_line(f"Every method takes {_settings(listed['common']['settings'])}.")
    write_line("A setting on auto follows the length. `archer methods NAME` explains the settings.")


def tasks(*, json: Json = False) -> int:
    """List the benchmarks, how they are scored, and whether their data is on this machine."""
    from archer.tasks import ALL_TASKS, Data
    from archer.tasks.registry import ABOUT

    data = Data()
    rows: dict[str, dict[str, Any]] = {
        name: {
            "what": capital(ABOUT.get(name) or _first_line(task)),
            "metric": task.metric,
            "length": task.length,
            "data": data.whereabouts(task.files),
        }
        for name, task in ALL_TASKS.usable(complain)
    }

    def show() -> None:
        write_grid(
            ("task", "what it is", "score", "data"),
            [(name, row["what"], row["metric"], row["data"]) for name, row in rows.items()],
        )
        write_line("")
        write_line(
            "archer eval TASK scores a model; archer grade TASK judges completions you have."
        )

    return emit(rows, show, json=json)


def capital(line: str) -> str:
    """As a sentence begins; the rest stays as it is."""
    return line[:1].upper() + line[1:]


def _first_line(task: type) -> str:
    return (inspect.getdoc(task) or "").partition("\n")[0].rstrip(".")


LAPTOP = 5e9
"""Bytes of weights in 16 bits that a common laptop has room for."""
ROOM = 1.2
"""What a model takes beside its weights, as a factor: keys, values and logits of a few requests."""


WIDTH, INDENT = 80, "    "
"""Of lists that are no grids."""


def models(*, json: Json = False) -> int:
    """List the supported families, hub ids with their size, and whether this machine has memory for them."""
    from archer.machine.available import available

    free = available()
    rows = {
        family: {
            "architecture": row.name,
            "method": row.method or DEFAULT_METHOD,
            "trained_window": row.trained_window,
            "models": [_sized(each, free) for each in row.models],
        }
        for family, row in ARCHITECTURES.items()
    }
    listed = {"families": rows, "memory_bytes": free, "bundled": list(BUNDLED)}
    return emit(listed, partial(_show_models, rows, free), json=json)


def _sized(model: KnownModel, free: int) -> dict[str, Any]:
    """One hub id, with the widest of two dtypes in which its weights fit into `free` bytes."""
    sizes = {"float32": 4 * model.parameters, "bfloat16": 2 * model.parameters}
    fits = [dtype for dtype, size in sizes.items() if ROOM * size <= free]
    return {
        "id": model.id,
        "note": model.note,
        "parameters": model.parameters,
        "bytes": sizes,
        "fits": fits[0] if fits else None,
        "laptop": sizes["bfloat16"] <= LAPTOP,
    }


def _show_models(rows: Mapping[str, Any], free: int) -> None:
    for family, row in rows.items():
        if row["models"]:
            write_line(family)
        for each in row["models"]:
            small, wide = (each["bytes"][dtype] / 1e9 for dtype in ("bfloat16", "float32"))
            fits = f"fits here in {each['fits']}" if each["fits"] else "does not fit here"
            laptop = "; for a laptop" if each["laptop"] else ""
            about = (
                f"{each['parameters'] / 1e9:.1f} B parameters, {small:.1f} GB in 16 bits, {wide:.1f} in 32; "
                f"{fits}{laptop}; {each['note']}"
            )
            write_line(f"  {each['id']}")
            write_lines(
                fill(
                    about,
                    WIDTH,
                    initial_indent=INDENT,
                    subsequent_indent=INDENT,
                    break_on_hyphens=False,
                )
            )
    write_line("")
    _section("Bundled with Archer", ((name, each.note) for name, each in BUNDLED.items()))
    write_line(
        f"{free / 1e9:.0f} GB of memory are free on this machine. A local folder of one of these families "
        "works as well: --model FOLDER."
    )


def _settings_of(name: str, *, json: bool) -> int:
    from archer.methods.build import settings
    from archer.methods.catalogue import METHODS
    from archer.methods.own_files import bring

    bring(name)
    known = settings(name)

    def show() -> None:
        if name in METHODS:
            means, summary = METHODS[name]
            write_line(f"{name} ({means})")
            write_line(f"  {summary}")
            write_line("")
        write_grid(
            ("setting", "default", "may be", "what it does"),
            [
                (each.name, each.shown_default, each.allowed, each.meaning)
                for each in known.values()
            ],
        )

    return emit({each.name: asdict(each) for each in known.values()}, show, json=json)


def _write_matrix(table: Mapping[str, Mapping[str, str]]) -> None:
    """Grids in a terminal, as many as it takes to break no word; Markdown in a pipe."""
    from archer.pages.tables import markdown_grid

    names = ("decoder", *table)
    columns = [
        (cache, *(row[cache] for row in table.values())) for cache in next(iter(table.values()))
    ]
    if not sys.stdout.isatty():
        head, *rows = zip(names, *columns, strict=True)
        write_lines(markdown_grid(head, rows))
        return
    for at, part in enumerate(side_by_side(names, columns, gap=1)):
        if at:
            write_line("")
        head, *rows = zip(names, *part, strict=True)
        write_grid(head, rows, gap=1)


def _lines(parts: Mapping[str, Mapping[str, Any]]) -> Iterable[tuple[str, str]]:
    for name, part in parts.items():
        yield name, part["summary"]
        if part["settings"]:
            yield "", _settings(part["settings"])


def _settings(values: Mapping[str, Any]) -> str:
    return "  ".join(f"{k}={'auto' if v is None else v}" for k, v in values.items())


def _section(title: str, entries: Iterable[tuple[str, str]]) -> None:
    rows = list(entries)
    width = max(len(name) for name, _ in rows) + 2
    write_line(title)
    for name, text in rows:
        write_line(f"  {name:<{width}}{text}")
    write_line("")
