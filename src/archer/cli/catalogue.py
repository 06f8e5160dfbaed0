"""`archer methods` and `archer models`: what there is to choose from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from archer.cli.output import write_json, write_line
from archer.loading.architectures import ARCHITECTURES
from archer.loading.hub import BUNDLED


def methods(*, matrix: bool = False, json: bool = False) -> int:
    """List methods, decoders and caches with their settings.

    Parameters
    ----------
    matrix
        Print which decoder goes with which cache instead.
    json
        Print one JSON object instead of lines.
    """
    from archer.catalogue import DECODERS, POLICIES
    from archer.compatibility import as_markdown
    from archer.compatibility import matrix as pairs
    from archer.method_list import method_list

    if matrix:
        table = pairs(DECODERS, POLICIES)
        write_json(table) if json else write_line(as_markdown(table))
        return 0
    listed = method_list()
    if json:
        write_json(listed)
        return 0
    named = ((n, f"{m['summary']} ({m['means']})") for n, m in listed["methods"].items())
    _section("methods, by name", named)
    _section("decoders, before the +", _lines(listed["decoders"]))
    _section("caches, after the +", _lines(listed["policies"]))
    _section("presets", ((name, _settings(values)) for name, values in listed["presets"].items()))
    write_line(f"Every method takes {_settings(listed['common']['settings'])}.")
    write_line("A setting on auto follows the length.")
    return 0


def models(*, json: bool = False) -> int:
    """List the supported architectures, hub ids that are known to work, and what is bundled.

    Parameters
    ----------
    json
        Print one JSON object instead of lines.
    """
    if json:
        rows = {
            name: {
                "models": [asdict(each) for each in row.models],
                "trained_window": row.trained_window,
            }
            for name, row in ARCHITECTURES.items()
        }
        write_json({"architectures": rows, "bundled": list(BUNDLED)})
        return 0
    for name, row in ARCHITECTURES.items():
        _section(name, ((each.id, each.note) for each in row.models))
    write_line(f"Bundled with this version: {', '.join(BUNDLED)}.")
    write_line("A local folder of one of these architectures works as well: --model FOLDER.")
    return 0


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
