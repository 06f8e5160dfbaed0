"""`archer methods` and `archer models`: what there is to choose from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from archer.cli.output import write_json, write_line
from archer.loading.architectures import ARCHITECTURES
from archer.loading.hub import BUNDLED

if TYPE_CHECKING:
    from archer.catalogue import Part

"""Models that come with the package."""


def methods(*, matrix: bool = False, json: bool = False) -> int:
    """List methods, decoders and caches with their settings.

    Parameters
    ----------
    matrix
        Print which decoder goes with which cache instead.
    json
        Print one JSON object instead of lines.
    """
    from archer.catalogue import ALIASES, COMMON, DECODERS, METHODS, POLICIES, PRESETS
    from archer.compatibility import as_markdown
    from archer.compatibility import matrix as pairs

    if matrix:
        full = pairs(DECODERS, POLICIES)
        causal = pairs(DECODERS, POLICIES, block_causal=True)
        if json:
            write_json({"full": full, "block_causal": causal})
            return 0
        write_line(as_markdown(full))
        write_line("")
        write_line("With a model that attends block-causally (LLaDA2):")
        write_line("")
        write_line(as_markdown(causal))
        return 0
    common = _described(COMMON)
    named = {
        name: {"means": means, "summary": summary} for name, (means, summary) in METHODS.items()
    }
    decoders = {name: _described(part) for name, part in DECODERS.items()}
    policies = {name: _described(part) for name, part in POLICIES.items()}
    if json:
        write_json(
            {
                "methods": named,
                "decoders": decoders,
                "policies": policies,
                "presets": {name: dict(settings) for name, settings in PRESETS.items()},
                "aliases": dict(ALIASES),
                "common": common,
            }
        )
        return 0
    _section("methods, by name", ((n, f"{m['summary']} ({m['means']})") for n, m in named.items()))
    _section("decoders, before the +", _lines(decoders))
    _section("caches, after the +", _lines(policies))
    _section("presets", ((name, _settings(values)) for name, values in PRESETS.items()))
    write_line(f"Every method takes {_settings(common['settings'])}.")
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


def _described(part: Part) -> dict[str, Any]:
    declared = {
        item.name: item.default for item in fields(part.make) if item.name not in part.fixed
    }
    return {"summary": part.summary, "settings": declared}


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
