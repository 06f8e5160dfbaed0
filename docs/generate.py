"""Writes the generated parts of the documentation from the tables of the package: `make docs`.

A generated part stands between `<!-- generated: NAME -->` and `<!-- end of NAME -->`.  The tests
check that every part is current.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from archer.bench import report
from archer.catalogue import DECODERS, METHODS, POLICIES
from archer.compatibility import as_markdown, matrix
from archer.engine.canvas import Scope
from archer.loading.architectures import ARCHITECTURES
from archer.pocket import results
from archer.studies.registry import BEYOND, STUDIES

ROOT = Path(__file__).resolve().parent.parent
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
RESULTS = ROOT / "docs" / "results"
NOT_MEASURED = "Nothing has been measured yet: `make bench` does, and writes this table."
NOT_REPRODUCED = (
    "Nothing has been reproduced yet: `make results` does, and `make docs` writes this table."
)
PART = re.compile(r"<!-- generated: (\w+) -->\n.*?<!-- end of \1 -->", re.DOTALL)
SCOPES = {
    Scope.MASKS: "masks of the block",
    Scope.BLOCK: "the block",
    Scope.RESPONSE: "the response",
}


def parts() -> dict[str, str]:
    """Every generated part by name."""
    return {
        "matrix": as_markdown(matrix(DECODERS, POLICIES)),
        "causal": as_markdown(matrix(DECODERS, POLICIES, block_causal=True)),
        "methods": _table(
            ("method", "the same as", "what it is"),
            ((f"`{name}`", f"`{means}`", text) for name, (means, text) in METHODS.items()),
        ),
        "decoders": _table(
            ("decoder", "rule", "reads"),
            (
                (f"`{name}`", part.summary, SCOPES[part.make(**part.fixed).reads])
                for name, part in DECODERS.items()
            ),
        ),
        "caches": _table(
            ("cache", "rule", "answers"),
            (
                (f"`{name}`", part.summary, SCOPES[part.make(**part.fixed).answers])
                for name, part in POLICIES.items()
            ),
        ),
        "backbones": _table(
            ("architecture", "hub id", "note", "logits"),
            (
                (f"`{row.name}`", f"`{model.id}`", model.note, "shifted" if row.shift else "plain")
                for row in ARCHITECTURES.values()
                for model in row.models
            ),
        ),
        "growth": _markdown(report.growth()),
        "roofline": _markdown(report.roofline()),
        "steps": _measured("step", (report.steps, report.depths)),
        "libraries": _measured("library", (report.libraries,)),
        "profiles": _measured("profile", (report.profiles,)),
        "trajectories": _measured("decode", (report.trajectories,)),
        "batches": _measured("batch", (report.batches,)),
        "traffics": _measured("traffic", (report.traffics,)),
        "loads": _measured("load", (report.loads,)),
        "serves": _measured("serve", (report.serves, report.serving_costs)),
        "encodings": _measured("encode", (report.encodings,)),
        "scores": _scores(),
        "studies": _studies(),
    }


def refreshed(text: str) -> str:
    """The page with every generated part as it should be now."""
    known = parts()
    return PART.sub(
        lambda found: (
            f"<!-- generated: {found[1]} -->\n{known[found[1]]}\n<!-- end of {found[1]} -->"
        ),
        text,
    )


def _measured(kind: str, tables: Sequence[Callable[[report.Found], report.Table]]) -> str:
    """What `make bench` left of one kind, one paragraph and its tables per file."""
    found = [
        json.loads(path.read_text(encoding="utf-8")) for path in RESULTS.glob(f"{kind}-*.json")
    ]
    pieces = []
    for each in sorted(found, key=report.setting):
        pieces.append(report.setting(each))
        filled = (table(each) for table in tables)
        pieces.extend(_markdown(rows) for rows in filled if len(rows) > 1)
    return "\n\n".join(pieces) or NOT_MEASURED


def _scores() -> str:
    """The main comparison in short: per task the score, the score on hidden tests, and the speedup."""
    path = RESULTS / "main.json"
    if not path.exists():
        return NOT_REPRODUCED
    result = json.loads(path.read_text(encoding="utf-8"))
    tasks = result["settings"]["tasks"]
    by_method: dict[str, list[str]] = {}
    for row in result["rows"]:
        if row["task"] in tasks:
            low, high = row["base_interval"]
            by_method.setdefault(row["arm"], []).extend(
                (
                    f"{row['base']:.1f} [{low:.1f}, {high:.1f}]",
                    f"{row['extended']:.1f}",
                    f"{row['speedup']:.2f}",
                )
            )
    sizes = {row["task"]: row["n"] for row in result["rows"]}
    head = [
        title
        for task in tasks
        for title in (f"{task}, n = {sizes[task]}: Pass@1 (%)", "hidden tests (%)", "speedup")
    ]
    return _table(["method", *head], [[name, *cells] for name, cells in by_method.items()])


def _studies() -> str:
    """What every study measured, and how long it took beside the arms that were run ahead."""
    found = [json.loads((RESULTS / f"{name}.json").read_text()) for name in _reproduced()]
    rows = [
        (f"[`{each['study']}`](results/{each['study']}.md)", each["title"], f"{each['n']}")
        for each in found
    ]
    return _table(("study", "what it is about", "n"), rows) if rows else NOT_REPRODUCED


def _reproduced() -> list[str]:
    return [name for name in STUDIES | BEYOND if (RESULTS / f"{name}.json").exists()]


def _markdown(table: report.Table) -> str:
    return _table(table[0], table[1:])


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def bundled() -> str:
    """What the package tells of its model's scores, from the results."""
    found = json.loads((RESULTS / "main.json").read_text(encoding="utf-8"))
    return json.dumps(results.excerpt(found), indent=1) + "\n"


if __name__ == "__main__":
    Path(results.__file__).with_name(results.FILE).write_text(bundled(), encoding="utf-8")
    for page in PAGES:
        before = page.read_text(encoding="utf-8")
        after = refreshed(before)
        if after != before:
            page.write_text(after, encoding="utf-8")
