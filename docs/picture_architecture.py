"""Draw `docs/images/architecture.svg` from the imports of the package: `python docs/picture_architecture.py`.

Every room (a folder of the package, or a module beside them) stands above all rooms that it imports.  Lines
lead to the rooms that it uses directly; a line that follows from two others is left out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
TARGET = ROOT / "docs" / "images" / "architecture.svg"
ABOUT = {
    "errors": "whole sentences",
    "files": "atomic writes",
    "machine": "devices, threads, memory",
    "network": "weights to numbers",
    "passes": "one question, one answer",
    "decoders": "what to fill or take back",
    "policies": "which columns to compute",
    "methods": "decoders and caches by name",
    "structure": "schemas, patterns, choices",
    "results": "steps, completions, traces",
    "engine": "many requests, one network",
    "loading": "from a folder to a network",
    "shards": "one model, several devices",
    "request": "prompts and gaps, checked",
    "score": "how probable a text is",
    "model": "load, generate, stream",
    "comparison": "methods side by side",
    "extend": "for your own parts",
    "checks": "doctor, selftest",
    "judge": "running foreign programs",
    "tasks": "benchmarks",
    "runs": "evaluation that resumes",
    "terminal": "the live view",
    "pages": "players, tables, figures",
    "costs": "counted, not measured",
    "bench": "measured",
    "planning": "how many GPUs",
    "tune": "find the best method",
    "pocket": "the bundled benchmark",
    "server": "OpenAI's API",
    "integrations": "Ray, lm-eval",
    "archer_studies": "the paper's tables",
    "cli": "the command line",
}
"""What each room is for, in a few words."""
WIDE, HIGH, ACROSS, DOWN, MARGIN = 176, 42, 16, 34, 14
"""Of a box, of the gaps between boxes, and of the margin, in pixels."""
STYLE = """
text { font: 11px system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif; text-anchor: middle }
.name { font-weight: 600; font-size: 13px } .ink { fill: #1f2328 } .dim { fill: #57606a }
.room { fill: #f6f8fa; stroke: #8c959f } .core { fill: #ddf4ff; stroke: #0969da }
.line { stroke: #afb8c1; fill: none }
@media (prefers-color-scheme: dark) { .ink { fill: #e6edf3 } .dim { fill: #9198a1 }
.room { fill: #161b22; stroke: #6e7681 } .core { fill: #0c2d6b; stroke: #58a6ff } .line { stroke: #484f58 } }
"""
CORE = {"network", "passes", "decoders", "policies", "engine"}
"""Coloured: where a token is decided."""
HIDDEN = {"errors"}
"""Used by nearly all, so that its lines would say nothing."""


def main() -> None:
    TARGET.write_text(drawing(), encoding="utf-8")


def drawing() -> str:
    """The picture as SVG."""
    uses = {room: found - HIDDEN for room, found in imports(SOURCE).items() if room not in HIDDEN}
    levels = heights(uses)
    rows: dict[int, list[str]] = {}
    for room in sorted(uses, key=lambda room: (levels[room], list(ABOUT).index(room))):
        rows.setdefault(levels[room], []).append(room)
    widest = max(map(len, rows.values()))
    wide = 2 * MARGIN + widest * (WIDE + ACROSS) - ACROSS
    high = 2 * MARGIN + len(rows) * (HIGH + DOWN) - DOWN
    places = {
        room: (
            (wide - len(row) * (WIDE + ACROSS) + ACROSS) / 2 + number * (WIDE + ACROSS),
            high - MARGIN - HIGH - place * (HIGH + DOWN),
        )
        for place, row in enumerate(rows.values())
        for number, room in enumerate(row)
    }
    lines = [
        _line(places[room], places[used]) for room in uses for used in sorted(direct(uses, room))
    ]
    boxes = [_box(room, *places[room], uses[room]) for room in places]
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" role="img" '
            'aria-label="The rooms of the package, each above those it imports">',
            f"<style>{STYLE}</style>",
            *lines,
            *boxes,
            "</svg>\n",
        )
    )


def imports(source: Path) -> dict[str, set[str]]:
    """Every room with the rooms that it imports; what only the type checker reads does not count."""
    found: dict[str, set[str]] = {room: set() for room in ABOUT if _exists(source, room)}
    for path in sorted(source.rglob("*.py")):
        room = room_of(path.relative_to(source).with_suffix("").parts)
        if room is None:
            continue
        found.setdefault(room, set())
        for name in _imported(ast.parse(path.read_text(encoding="utf-8"))):
            other = room_of(tuple(name.split(".")))
            if other is not None and other != room:
                found[room].add(other)
    return found


def _exists(source: Path, room: str) -> bool:
    """As a folder of the package, as a module of it, or as a package beside it."""
    package = source / "archer"
    return any(p.exists() for p in (package / room, package / f"{room}.py", source / room))


def room_of(parts: tuple[str, ...]) -> str | None:
    """The room of a module or of an imported name; None for the package's own front."""
    if parts[0] == "archer_studies":
        return parts[0]
    if parts[0] != "archer" or len(parts) == 1 or parts[1].startswith("__"):
        return None
    return parts[1]


def _imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == "archer":
            yield from (f"archer.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        yield from _imported(node)


def heights(uses: Mapping[str, set[str]]) -> dict[str, int]:
    """How far above the ground each room stands; rooms that import each other share a height."""

    @cache
    def below(room: str) -> frozenset[str]:
        seen, waiting = {room}, [room]
        while waiting:
            new = uses[waiting.pop()] - seen
            seen |= new
            waiting += new
        return frozenset(seen)

    def height(room: str) -> int:
        lower = [other for other in below(room) if room not in below(other)]
        return 1 + max(map(height_of, lower), default=-1)

    height_of = cache(height)
    return {room: height_of(room) for room in uses}


def direct(uses: Mapping[str, set[str]], room: str) -> set[str]:
    """What a room imports and does not reach by another room as well."""

    def reach(start: str) -> set[str]:
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            new = uses[waiting.pop()] - seen
            seen |= new
            waiting += new
        return seen

    return {
        used
        for used in uses[room]
        if not any(used in reach(other) for other in uses[room] - {used} if other != room)
    }


def _box(room: str, x: float, y: float, uses: set[str]) -> str:
    kind = "core" if room in CORE else "room"
    middle = x + WIDE / 2
    return (
        f"<g><title>{escape(room)} imports {escape(', '.join(sorted(uses)) or 'nothing')}</title>"
        f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{WIDE}" height="{HIGH}" rx="5"/>'
        f'<text class="name ink" x="{middle:g}" y="{y + 18:g}">{escape(room)}</text>'
        f'<text class="dim" x="{middle:g}" y="{y + 33:g}">{escape(ABOUT[room])}</text></g>'
    )


def _line(upper: tuple[float, float], lower: tuple[float, float]) -> str:
    (x, y), (to, end) = upper, lower
    x, to, y = x + WIDE / 2, to + WIDE / 2, y + HIGH
    bend = (end - y) / 2
    return f'<path class="line" d="M{x:g} {y:g}C{x:g} {y + bend:g} {to:g} {end - bend:g} {to:g} {end:g}"/>'


if __name__ == "__main__":
    main()
