"""`archer methods`, `archer models` and `archer tasks`: what there is to choose from."""

import inspect
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

from archer.cli.messages import complain
from archer.cli.output import Json, emit, side_by_side, write_grid, write_line, write_lines
from archer.loading.architectures import ARCHITECTURES
from archer.loading.hub import BUNDLED


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
            write_line("With a model that attends block-causally (LLaDA2):")
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


def models(*, json: Json = False) -> int:
    """List the supported architectures, hub ids that are known to work, and what is bundled."""
    rows = {
        name: {
            "models": [asdict(each) for each in row.models],
            "trained_window": row.trained_window,
        }
        for name, row in ARCHITECTURES.items()
    }
    return emit({"architectures": rows, "bundled": list(BUNDLED)}, _show_models, json=json)


def _show_models() -> None:
    for name, row in ARCHITECTURES.items():
        if row.models:
            _section(name, ((each.id, each.note) for each in row.models))
    _section("Bundled with Archer", ((name, each.note) for name, each in BUNDLED.items()))
    write_line("A local folder of one of these architectures works as well: --model FOLDER.")


def _settings_of(name: str, *, json: bool) -> int:
    from archer.methods.build import settings
    from archer.methods.catalogue import METHODS

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
