"""Writes the generated parts of the documentation from the tables of the package: `make docs`.

A generated part stands between `<!-- generated: NAME -->` and `<!-- end of NAME -->`.  A generated number
in a sentence stands between `<!--=EXPRESSION-->` and `<!--/-->`, see `number`.  The tests check that
all of them are current.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from operator import add, sub, truediv
from pathlib import Path
from typing import Any

from archer.bench import batch, decode, judge, load, profiling, serve, step, structure, traffic
from archer.bench.counted_tables import PAPER_SETTING, growth, roofline
from archer.bench.facts import Result, setting
from archer.costs.counting import count_passes
from archer.costs.shapes import published
from archer.loading.architecture import Architecture
from archer.loading.architectures import ARCHITECTURES
from archer.methods import DEFAULT_METHOD
from archer.methods.build import build
from archer.methods.catalogue import DECODERS, METHODS, POLICIES
from archer.methods.compatibility import matrix
from archer.network.shape import Blocks
from archer.pages.figures import Labels, Series, lines, undominated
from archer.pages.page import files_of
from archer.pages.tables import Table
from archer.pages.tables import markdown_grid as _table
from archer.passes.canvas import Scope
from archer.planning import plan, update_rates
from archer.pocket import results
from archer.policies.prompt_cache import Archer, Eager
from archer.policies.surprise import Surprise
from archer_studies.beyond import confirm, frontier, infill, price
from archer_studies.beyond.confirm import DOUBT, FIXED, REFRESH, SABER
from archer_studies.beyond.refresh import DIALS
from archer_studies.paper import feedback
from archer_studies.registry import BEYOND, STUDIES

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "results"
WRITTEN = (RESULTS / "performance.md", RESULTS / "default-method.md")
"""Pages of results that have sentences between their tables."""
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *WRITTEN)
POCKET = "pocket"
NOT_MEASURED = "Nothing has been measured yet; `make bench` does that and writes this table."
NOT_REPRODUCED = (
    "Nothing has been reproduced yet: `make results` does, and `make docs` writes this table."
)
NOT_STREAMED = "Nothing has been measured yet: `archer study stream --out docs/results` does that."
NOT_PLANNED = "Nothing has been simulated yet: `make plan` does, and writes this table."
RULES = {
    "saber": "Saber, eager",
    "k4": "K = 4",
    "k8": "K = 8",
    "late4": "late, 1/4",
    "late2": "**late, 1/2**",
    "surprise1": "surprise, 0.1",
    "surprise3": "**surprise, 0.3**",
}
WATCHED = {"k8": "K = 8", "late2": "late, 1/2", "surprise3": "surprise, 0.3"}
DOUBTS = {
    "late2": "(whatever gained least)",
    "doubt-kept": "1 x its confidence at acceptance (`kept`)",
    "doubt-lead": "a lead of 0.99 over the next token (`lead`)",
    "doubt-confidence": "a confidence of 0.99",
}
TAILS = {
    "late": "late, 1/2",
    "boundary": "the same, tail wakes when its boundary moves back",
    "look": "the same, tail wakes at the next look (`--set wake=look`)",
    "look-kept": "the same, and only what lost confidence is taken back",
}
"""Rules of the studies beyond the paper, as their page calls them."""
CELLS: dict[str, tuple[str, Callable[[Any], str]]] = {
    "cost": ("cost", lambda row: f"{row['cost']:.3f}".removesuffix(".000")),
    "identical": ("identical", lambda row: f"{100 * row['same_completions'] / row['n']:.1f} %"),
    "solved": ("Pass@1, won/lost", lambda row: _solved(row)),
    "updates": ("updates", lambda row: f"{row['updates']:.1f}"),
    "resting": ("columns at rest", lambda row: f"{row['resting']:.1f}"),
    "longest": ("longest rest", lambda row: f"{row['longest']}"),
}
PART = re.compile(r"<!-- generated: (\w+) -->\n.*?<!-- end of \1 -->", re.DOTALL)
NUMBER = re.compile(r"<!--=([^>]+?)-->.*?<!--/-->", re.DOTALL)
OPERATIONS: dict[str, Callable[[float, float], float]] = {"/": truediv, "-": sub, "+": add}
SCOPES = {
    Scope.MASKS: "masks of the block",
    Scope.BLOCK: "the block",
    Scope.RESPONSE: "the response",
}


@cache
def parts() -> dict[str, str]:
    """Every generated part by name."""
    return {
        "matrix": _matrix(),
        "causal": _matrix(block_causal=True),
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
        "families": _table(
            ("family", "attention", "logits", "decoded by", "table", "refused beside"),
            (_family(row) for row in ARCHITECTURES.values() if row.models),
        ),
        "growth": _markdown(growth()),
        "roofline": _markdown(roofline()),
        "steps": _measured("step", step.tables),
        "libraries": _measured("library", step.library_table),
        "eight": _measured("eight", step.eight_bits_tables),
        "profiles": _measured("profile", profiling.table),
        "trajectories": _measured("decode", decode.table),
        "batches": _measured("batch", batch.table),
        "traffics": _measured("traffic", traffic.tables),
        "loads": _measured("load", load.table),
        "serves": _measured("serve", serve.tables),
        "judge": _measured("judge", judge.table),
        "structures": _measured("structure-", structure.table),
        "decisions": _decisions(),
        "plans": _planned(),
        "scores": _scores(),
        "studies": _studies(),
        "refreshes": _beyond("refresh", RULES, ("identical", "solved"), ("identical", "solved")),
        "fifths": _fifths(),
        "doubts": _beyond(
            "refresh", DOUBTS, *2 * (("updates", "solved"),), first="taken back only below"
        ),
        "tails": _beyond(
            "tail", TAILS, ("identical", "solved", "resting"), ("identical", "longest")
        ),
        "confirmed": _confirmed(),
        "doubted": _doubted(),
        "priced": _priced(0),
        "prices": _priced(1),
        "gains": _gains(),
        "in_turn": _in_turn(),
        "tuned": _tuned(),
        "streamed": _streamed(),
        "models": _models(),
        "training": _training(),
        "blind": _blind(),
        "rewarded": _rewarded(),
        "estimators": _estimators(),
        "looks": _looks(),
        "refused_schemas": _refused_schemas(),
        "held": _held(),
        "scaffolds": _scaffolds(),
        "dials": _dials(),
        "canvases": _canvases(),
        "gaps": _gaps(),
        "kept": _kept(),
        "parted": _parted("fifth", "fifth of the trajectory"),
        "surprised": _parted("surprise", "surprise (nats)"),
    }


def refreshed(text: str) -> str:
    """The page with every generated part as it should be now."""
    known = parts()
    text = PART.sub(
        lambda found: (
            f"<!-- generated: {found[1]} -->\n{known[found[1]]}\n<!-- end of {found[1]} -->"
        ),
        text,
    )
    return NUMBER.sub(lambda found: f"<!--={found[1]}-->{number(found[1])}<!--/-->", text)


def number(expression: str) -> str:
    """A number of a sentence, such as `main.pocket.archer.base` or `main.pocket.archer.saber_base_p:.3f`.

    The first word is a file of results.  Every further one is a key, or narrows the rows to those that have
    it as one of their texts, or with `key=value` in that field; at the end there must be one number.  A word
    with dots or colons stands in quotes, and a space in it is written as an underscore.  Two of these may
    stand around ` / `, ` - ` or ` + `, and a format may follow a colon: `.1f` is the usual one, and whole
    numbers have commas.
    """
    found = re.fullmatch(r"((?:'[^']*'|[^':])+)(?::(.+))?", expression)
    if found is None:
        raise ValueError(f"{expression} is not an expression for a number")
    terms, form = found.groups("")
    first, *others = terms.split(" ")
    value = _term(first)
    for sign, term in zip(others[::2], others[1::2], strict=True):
        value = OPERATIONS[sign](value, _term(term))
    return format(value, form or ("," if isinstance(value, int) else ".1f"))


def _term(path: str) -> float:
    name, *words = (word.strip("'") for word in re.findall(r"'[^']*'|[^.]+", path))
    value: Any = COMPUTED if name == "computed" else _result(f"{name}.json")
    for word in words:
        if isinstance(value, dict) and word not in value:
            value = value["rows"]
        if isinstance(value, list) and len(value) == 1 and word in value[0]:
            value = value[0]
        if isinstance(value, dict):
            value = value[word]
        elif all(isinstance(row, dict) for row in value):
            value = [row for row in value if _has(row, word)]
        else:
            value = value[int(word)]
    if callable(value):
        value = value()
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ValueError(f"{path} is not one number but {str(value)[:200]}")
    return value


def _has(row: dict[str, Any], word: str) -> bool:
    key, equals, value = word.partition("=")
    if equals:
        return str(row.get(key)) == value
    return word in (each.replace(" ", "_") for each in row.values() if isinstance(each, str))


def _parameters() -> int:
    """Of LLaDA-8B: attention, gated feed-forward and norms of every layer, embedding, norm and head."""
    shape = published("llada-8b").shape
    layer = 4 * shape.width**2 + 3 * shape.width * shape.inner + 2 * shape.width
    return shape.layers * layer + 2 * shape.vocabulary * shape.width + shape.width


def _column_bytes() -> int:
    """Keys and values of one column of LLaDA-8B in two bytes per number."""
    shape = published("llada-8b").shape
    return 2 * shape.layers * shape.kv_heads * shape.head_dim * 2


def _limit(prompt: int) -> float:
    """How much faster a cached pass of LLaDA-8B can be, by counted operations."""
    counts = count_passes(published("llada-8b").shape, prompt, PAPER_SETTING[1])
    return counts.full / counts.cached


def _adjusted(task: str) -> float:
    """The default's chance, in the second plan's test, of solving 2 points fewer than Saber."""
    rows = confirm.judged(DOUBT, _result("confirm-doubt.json")["rows"], "pocket")
    (row,) = [each for each in rows if each["task"] == task and each["method"] == "saber+surprise"]
    return float(row["not_worse_adjusted"])


@cache
def _third() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The tests and the prices of the third plan."""
    rows = _result("confirm-price.json")["rows"]
    return price.judged(rows), price.prices(rows)


def _planned_test(task: str, which: int) -> dict[str, Any]:
    return [test for test in _third()[0] if test["task"] == task][which]


def _price(task: str, which: int) -> float:
    return float([each for each in _third()[1] if each["task"] == task][which]["cost"])


@cache
def _frontier() -> dict[tuple[str, str], list[dict[str, Any]]]:
    return frontier.groups(_result("frontier.json")["rows"])


def _beside(task: str, field: str) -> float:
    """Of `archer-cut` on the model that a task is for, beside the arms that never take back."""
    model = frontier.GRIDS if task == frontier.PUZZLES else frontier.TRAINED
    (row,) = [row for row in _frontier()[model, task] if row["arm"] == "archer-cut"]
    return float(row[field])


COMPUTED: dict[str, Callable[[], float]] = {
    "billions": lambda: _parameters() / 1e9,
    "gigabytes-16": lambda: 2 * _parameters() / 1e9,
    "gigabytes-32": lambda: 4 * _parameters() / 1e9,
    "column-mib": lambda: _column_bytes() / (1 << 20),
    "request-mib": lambda: (1024 + 256) * _column_bytes() / (1 << 20),
    "limit-512": lambda: _limit(512),
    "limit-2048": lambda: _limit(2048),
    "doubt-p-short": lambda: _adjusted("pocket-confirm"),
    "doubt-p-long": lambda: _adjusted("pocket-confirm-long"),
    "price-short": lambda: _price(price.SHORT, 0),
    "price-long": lambda: _price(price.LONG, 0),
    "wider-short": lambda: _price(price.SHORT, 2),
    "answers-long": lambda: _planned_test(price.LONG, 0)["adjusted"],
    "cut-gain-short": lambda: _beside(frontier.SHORT, "gain"),
    "cut-gain-long": lambda: _beside(frontier.LONG, "gain"),
    "cut-gain-sudoku": lambda: _beside(frontier.PUZZLES, "gain"),
    "rollback-short": lambda: _planned_test(price.SHORT, -1)["points"],
    "rollback-long": lambda: _planned_test(price.LONG, -1)["points"],
    "rollback-sudoku": lambda: _planned_test(price.SUDOKU, -1)["points"],
    "rollback-sudoku-p": lambda: _planned_test(price.SUDOKU, -1)["adjusted"],
}
"""Numbers that are counted and not measured, by the code in this file."""


def _measured(kind: str, tables: Callable[[Result], Table | Iterable[Table]]) -> str:
    """What `make bench` left of one kind, one paragraph and its tables per file."""
    results = [
        json.loads(path.read_text(encoding="utf-8")) for path in RESULTS.glob(f"{kind}*.json")
    ]
    pieces = []
    for result in sorted(results, key=setting):
        made = tables(result)
        pieces.append(setting(result))
        pieces.extend(map(_markdown, [made] if isinstance(made, Table) else made))
    return "\n\n".join(pieces) or NOT_MEASURED


def _family(row: Architecture) -> tuple[str, ...]:
    """How the models of a family attend, what they are decoded by, and which of the two tables is theirs."""
    kind = row.attention
    blocks = isinstance(kind, Blocks)
    attention = "full"
    if isinstance(kind, Blocks):
        size = "the config's blocks" if row.keys.block else f"blocks of {kind.size}"
        attention = (
            f"{size}, counted {'back from the prompt' if kind.from_response else 'from the start'}"
        )
    return (
        f"`{row.family}`",
        attention,
        "shifted" if row.shift else "plain",
        f"`{row.method or DEFAULT_METHOD}`",
        "second" if blocks else "first",
        "`wino`, for its logits" if row.shift else "",
    )


def _decisions() -> str:
    """The index of the design decisions: a line per area, a link per decision."""
    text = (ROOT / "docs" / "design-decisions.md").read_text(encoding="utf-8")
    lines: list[str] = []
    for level, title in re.findall(r"^(##+) (.+)$", text, re.MULTILINE):
        if level == "##":
            lines += ["", f"**{title}**", ""]
        else:
            lines.append(f"- [{title}](#{slug(title)})")
    return "\n".join(lines).strip()


def slug(heading: str) -> str:
    """The anchor that a heading gets."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def _result(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / name).read_text(encoding="utf-8"))
    return found


def _planned() -> str:
    """What `make plan` found."""
    if not (RESULTS / "plan-llada-8b.json").exists():
        return NOT_PLANNED
    return _markdown(plan.tables(_result("plan-llada-8b.json"))[0])


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


def _beyond(
    study: str,
    rules: dict[str, str],
    short: Sequence[str],
    long: Sequence[str],
    first: str = "rule",
) -> str:
    """Some rules of a study, with short prompts and with long ones."""
    result = _result(f"{study}.json")
    rows = {(row["task"], row["rule"]): row for row in result["rows"]}
    wanted = [
        (task, ("cost", *names)) for task, names in zip(_tasks(result), (short, long), strict=True)
    ]
    head = [
        f"{'short' if task == _tasks(result)[0] else 'long'}: cost"
        if name == "cost"
        else CELLS[name][0]
        for task, names in wanted
        for name in names
    ]
    lines = [
        [called, *(CELLS[name][1](rows[task, rule]) for task, names in wanted for name in names)]
        for rule, called in rules.items()
    ]
    return _table([first, *head], lines)


def _tasks(result: dict[str, Any]) -> list[str]:
    """The task with short prompts, and the one with long ones."""
    short, long = result["settings"]["tasks"]
    return [short, long]


def _solved(row: dict[str, Any]) -> str:
    """The score; against Saber's problem by problem, unless it is Saber's."""
    apart = "" if row["rule"] == "saber" else f", {row['base_only']}/{row['base_only_other']}"
    return f"{row['base']:.1f}{apart}"


def _fifths() -> str:
    """Where full passes fall, with short prompts."""
    result = _result("refresh.json")
    rows = {row["rule"]: row for row in result["rows"] if row["task"] == _tasks(result)[0]}
    return _table(
        ("rule", "1st", "2nd", "3rd", "4th", "5th"),
        (
            [called, *(f"{share:.2f}" for share in rows[rule]["refreshes_by_fifth"])]
            for rule, called in WATCHED.items()
        ),
    )


def _confirmed() -> str:
    """The planned tests, a line for each rule on each task; in brackets what it is compared with."""
    if not (RESULTS / "confirm.json").exists():
        return NOT_REPRODUCED
    rows = _result("confirm.json")["rows"]
    known = {(row["task"], row["method"]): row for row in rows}
    lines = []
    for row in confirm.judged(REFRESH, rows):
        fixed, saber = (known[row["task"], each] for each in (FIXED, SABER))
        low, high = row["answers_interval"]
        lines.append(
            (
                row["arm"],
                row["task"],
                f"{row['identical']:.1f} ({fixed['identical']:.1f})",
                _chance(row["identical_adjusted"]),
                f"{row['cost']:.3f} ({fixed['cost']:.3f})",
                f"{row['base']:.1f} ({saber['base']:.1f})",
                f"{row['answers']:+.1f} [{low:+.1f}, {high:+.1f}]",
                _chance(row["not_worse_adjusted"]),
            )
        )
    head = ("rule", "task", "identical % (K = 8)", "p", "cost (K = 8)", "Pass@1 % (Saber)")
    return _table((*head, "difference", "p of 2 points lower"), lines)


def _priced(table: int) -> str:
    """The third plan: its tests, or the costs that it bounds."""
    if not (RESULTS / "confirm-price.json").exists():
        return NOT_REPRODUCED
    return _markdown(_third_tables()[table])


@cache
def _third_tables() -> Sequence[Table]:
    return price.present(_result("confirm-price.json")).tables


def _doubted() -> str:
    """The second plan's tests; of the model that is told beside them, what was found without a test."""
    if not (RESULTS / "confirm-doubt.json").exists():
        return NOT_REPRODUCED
    result = _result("confirm-doubt.json")
    rows = result["rows"]
    saber = {(row["model"], row["task"]): row for row in rows if row["method"] == SABER}
    tested = confirm.judged(DOUBT, rows, result["settings"]["tested"])
    others = [
        row
        for row in rows
        if row["method"] != SABER and row["model"] != result["settings"]["tested"]
    ]
    lines = []
    for row in (*tested, *others):
        low, high = row["answers_interval"]
        lines.append(
            (
                f"`{row['model']}`",
                row["arm"],
                row["task"],
                f"{row['cost']:.3f}",
                f"{row['base']:.1f} ({saber[row['model'], row['task']]['base']:.1f})",
                f"{row['base_only']}/{row['base_only_other']}",
                f"{row['answers']:+.1f} [{low:+.1f}, {high:+.1f}]",
                _chance(row["not_worse_adjusted"]) if "not_worse_adjusted" in row else "",
            )
        )
    head = ("model", "rule", "task", "cost", "Pass@1 % (Saber)", "won/lost", "difference")
    return _table((*head, "p of 2 points lower"), lines)


def _gains() -> str:
    """Every arm that takes tokens back, on every model and task: cost, score and points at equal cost."""
    found = _frontier()
    arms = dict.fromkeys(row["arm"] for rows in found.values() for row in rows if "gain" in row)
    known = {(key, row["arm"]): row for key, rows in found.items() for row in rows}
    head = [f"{model} on {task}, n = {rows[0]['n']}" for (model, task), rows in found.items()]
    lines = [[arm, *(_gain(known.get((key, arm))) for key in found)] for arm in arms]
    return _table(["arm", *head], lines)


def _gain(row: Mapping[str, Any] | None) -> str:
    if row is None:
        return ""
    low, high = row["gain_interval"]
    return f"{row['cost']:.3f}, {row['base']:.1f} %, {row['gain']:+.1f} [{low:+.1f}, {high:+.1f}]"


def _in_turn() -> str:
    """Seconds per problem of the arms of the bundled model with short prompts, the fastest last."""
    rows = [
        row
        for row in _result("frontier.json")["rows"]
        if (row["model"], row["task"]) == (frontier.TRAINED, frontier.SHORT)
    ]
    return _table(
        ("arm", "seconds", "times as fast as Saber with 64 tokens", "by operations"),
        (
            (
                row["arm"],
                f"{row['seconds']:.3f}",
                "{:.2f} [{:.2f}, {:.2f}]".format(row["speedup"], *row["speedup_interval"]),
                f"{row['speedup_predicted']:.2f}",
            )
            for row in sorted(rows, key=lambda row: -row["seconds"])
        ),
    )


def _tuned() -> str:
    """The methods that were left when the bundled model was searched for one; in bold the chosen one."""
    rows = [row for row in _result("tune-pocket.json")["rows"] if row["finalist"]]
    return _table(
        ("method", "solved (%)", "cost", "on the frontier"),
        (
            (
                f"**`{row['arm']}`**" if row["chosen"] else f"`{row['arm']}`",
                _share(row, "base"),
                f"{row['cost']:.3f}",
                "yes" if row["frontier"] else "",
            )
            for row in rows
        ),
    )


def _streamed() -> str:
    """What it costs to let tokens settle, and how early text can then be sent."""
    if not (RESULTS / "stream.json").exists():
        return NOT_STREAMED
    return _table(
        ("method", "Pass@1 (%)", "won/lost", "cost", "first text after", "sent before the end (%)"),
        (
            (
                row["arm"],
                _share(row, "base"),
                f"{row['base_only']}/{row['base_only_other']}",
                f"{row['cost']:.2f}",
                f"{100 * row['first_share']:.0f} % of the updates",
                f"{100 * row['early']:.0f}",
            )
            for row in _result("stream.json")["rows"]
        ),
    )


def _models() -> str:
    """What each bundled model solves on dev problems."""
    return _table(
        ("model", "architecture", "Pass@1 (%)", "hidden tests (%)"),
        (
            (
                f"`{row['model']}`",
                f"`{row['architecture']}`",
                _share(row, "base"),
                _share(row, "extended"),
            )
            for row in _result("models.json")["rows"]
        ),
    )


def _share(row: dict[str, Any], name: str) -> str:
    low, high = row[f"{name}_interval"]
    return f"{row[name]:.1f} [{low:.1f}, {high:.1f}]"


def _trained() -> list[dict[str, Any]]:
    """Recorded trainings, as `pocket_training.curve` writes them."""
    return [_result(path.name) for path in sorted(RESULTS.glob("training-*.json"))]


def _training() -> str:
    """Dev scores while the models learnt, on the problems that training watches."""
    return _table(
        ("model", "sequences", "loss", "Pass@1 on 60 dev problems (%)", "hidden tests (%)"),
        (
            (
                f"`{each['model']}`",
                f"{sequences:,}",
                f"{dict(each['loss'])[sequences]:.3f}",
                f"{100 * base:.1f}",
                f"{100 * extended:.1f}",
            )
            for each in _trained()
            for sequences, base, extended in each["dev"]
        ),
    )


def curves() -> str:
    """The losses of the recorded trainings, as an SVG."""
    series = [
        Series(
            each["model"],
            [sequences / 1000 for sequences, _ in each["loss"]],
            [loss for _, loss in each["loss"]],
        )
        for each in _trained()
    ]
    labels = Labels("Loss in training", "thousand sequences", "loss (nats per hidden token)")
    return lines(series, labels).svg


def _rewarded() -> str:
    """What training by reward did to the bundled model, from the record of `examples/grpo_pocket.py`."""
    run = json.loads((ROOT / "examples" / "grpo_pocket.json").read_text(encoding="utf-8"))
    machine = run["machine"]
    first, *_, last = (each for each in run["records"] if "pass@1" in each)
    rows = []
    for name in ("greedy", "sampled"):
        before, after = (_percent(each["pass@1"][name]) for each in (first, last))
        gain = last["gain"][name]
        verdict = "rose" if gain["low"] > 0 else "fell" if gain["high"] < 0 else "within chance"
        rows.append((name, before, after, f"{_percent(gain, '+.1f')}, {verdict}"))
    table = _table(("Pass@1 on `pocket-dev`", "before (%)", "after (%)", "gain (points)"), rows)
    minutes = sum(each["seconds"] for each in run["records"]) / 60
    return (
        f"{table}\n\n{last['step']} steps of {run['settings']['problems']} x "
        f"{run['settings']['samples']} rollouts in {minutes:.0f} minutes, seed {run['settings']['seed']}, "
        f"{run['date']}, {machine['threads']} of {machine['cores']} cores of an {machine['cpu']}. "
        + run.get("note", "")
    ).strip()


def _estimators() -> str:
    """Estimators of a log-likelihood on answers of two tokens."""
    return _table(
        ("estimator", "draws", "mean", "sd over seeds", "bias", "mean standard error"),
        (
            (row["estimator"], str(row["draws"] or ""), f"{row['mean']:.3f}", *_off(row))
            for row in _result("estimators.json")["two_tokens"]
        ),
    )


def _looks() -> str:
    """LLaDA's bound of whole answers by the number of draws."""
    return _table(
        ("draws", "sd over seeds", "bias", "mean standard error", "cached minus exact"),
        (
            (str(row["draws"]), *_off(row), f"{row['moved']:+.3f}")
            for row in _result("estimators.json")["whole"]
        ),
    )


def _off(row: Mapping[str, Any]) -> tuple[str, str, str]:
    error = row["standard_error"]
    told = "none" if error is None else f"{error:.2f}"
    return f"{row['spread']:.2f}", f"{row['bias']:+.2f}", told


def _refused_schemas() -> str:
    """Why schemas of the sample are refused, the commonest reasons first."""
    reasons = _result("schemas.json")["refused"]
    return _table(("reason", "schemas"), ((f"`{name}`", str(n)) for name, n in reasons.items()))


def _held() -> str:
    """Problems of the bundled model, free and held to a grammar of its bodies."""
    return _table(
        (
            "method",
            "held to the grammar",
            "solved",
            "in the grammar",
            "parsed",
            "updates",
            "passes",
        ),
        (
            (
                f"`{row['method']}`",
                "yes" if row["held"] else "no",
                *(f"{row[name]} of {row['problems']}" for name in ("solved", "valid", "parsed")),
                f"{row['updates']:.1f}",
                f"{row['full_passes']:.1f} full, {row['cached_passes']:.1f} cached",
            )
            for row in _result("structured.json")["bodies"]
        ),
    )


def _scaffolds() -> str:
    """Updates that an answer takes, by how much of it is placed because there is no choice."""
    return _table(
        ("schema", "method", "tokens given", "updates", "without what is certain", "nor given"),
        (
            (
                row["schema"],
                f"`{row['method']}`",
                *(str(row[name]) for name in ("given", "scaffold", "updates_given", "none")),
            )
            for row in _result("structured.json")["scaffold"]
        ),
    )


def _percent(found: Mapping[str, float], form: str = ".1f") -> str:
    low, high = (format(100 * found[end], form) for end in ("low", "high"))
    return f"{100 * found['mean']:{form}} [{low}, {high}]"


def _blind() -> str:
    """Saber on the seeing and on the blind model."""
    rows = [row for row in _result("feedback.json")["rows"] if row["part"] == feedback.TRAINING]
    return _table(
        ("task", "model", "cache", "Pass@1 (%)", "won/lost", "p", "cost"),
        (
            (
                f"{row['task']}, n = {row['n']}",
                f"`{row['model']}`",
                row["cache"],
                _share(row, "base"),
                f"{row['base_only']}/{row['base_only_other']}",
                _chance(row["base_p"]),
                f"{row['cost']:.3f}".removesuffix(".000"),
            )
            for row in rows
        ),
    )


def _parted(part: str, first: str) -> str:
    """Cached calls that diverge from fresh ones, by one of the bins of the study."""
    rows = [row for row in _result("mechanism.json")["rows"] if row["part"] == part]
    return _table(
        (first, "cached calls", "that diverge (%)", "distance", "surprise (nats)"),
        (
            (
                row["bin"],
                f"{row['n']:,}",
                _share(row, "parted"),
                f"{row['distance']:.1f}",
                f"{row['surprise']:.2f}",
            )
            for row in rows
        ),
    )


def _dials() -> str:
    """Tokens per update, refresh rule and doubt together; in bold what no other arm of the table beats."""
    result = _result("refresh.json")
    rows = {(row["task"], row["rule"]): row for row in result["rows"]}
    best = {
        task: undominated(
            [(row["cost"], row["base"]) for (of, _), row in rows.items() if of == task]
        )
        for task in _tasks(result)
    }
    lines = []
    for rule in DIALS:
        cells = [rule.label]
        for task in _tasks(result):
            row = rows[task, rule.name]
            told = f"{row['base']:.1f}, {row['base_only']}/{row['base_only_other']}"
            kept = (row["cost"], row["base"]) in best[task]
            cells += [f"{row['cost']:.3f}", f"**{told}**" if kept else told]
        lines.append(cells)
    head = ("short: cost", "Pass@1, won/lost", "long: cost", "Pass@1, won/lost")
    return _table(("arm", *head), lines)


def _canvases() -> str:
    """Canvases that follow the answer beside fixed ones, in short."""
    if not (RESULTS / "length.json").exists():
        return "Nothing has been measured yet; `archer study length` does that."
    table = _table(
        ("method", "canvas", "n", "Pass@1 (%)", "cost", "columns per token of the answer", "kB"),
        (
            (
                row["method"],
                row["canvas"],
                f"{row['n']}",
                f"{row['base']:.1f}",
                f"{row['cost']:.2f}",
                f"{row['paid']:.0f}",
                f"{row['kilobytes']:.0f}",
            )
            for row in _result("length.json")["rows"]
        ),
    )
    return (
        f"{table}\n\n[More of it](results/length.md): intervals, updates, and memory at its most."
    )


def _gaps() -> str:
    """What the default solves with each length of a gap, the given text kept, and what it pays."""
    result = _result("infill.json")
    tasks = result["settings"]["tasks"]
    rows = {
        (row["task"], row["rule"]): row
        for row in result["rows"]
        if row["decoder"] == "Saber, doubt"
    }
    kinds = [task.rpartition("-")[2] for task in tasks]
    head = [
        title
        for kind in kinds
        for title in (f"{kind}, n = {result['settings']['problems']}: Pass@1 (%)", "cost")
    ]
    return _table(
        ("length", *head),
        (
            (
                called,
                *(
                    cell
                    for task in tasks
                    for cell in (
                        f"{rows[task, rule]['solved_cached']:.1f}",
                        f"{rows[task, rule]['cost_cached']:.2f}",
                    )
                ),
            )
            for rule, called in infill.RULES.items()
        ),
    )


def _kept() -> str:
    """The prompt cache on gaps, by decoder."""
    return _markdown(infill.present(_result("infill.json")).tables[0])


def _chance(p: float) -> str:
    return "below 0.0001" if p < 1e-4 else f"{p:.4f}"


def _reproduced() -> list[str]:
    return [name for name in STUDIES | BEYOND if (RESULTS / f"{name}.json").exists()]


def _matrix(*, block_causal: bool = False) -> str:
    found = matrix(DECODERS, POLICIES, block_causal=block_causal)
    rows = [[name, *verdicts.values()] for name, verdicts in found.items()]
    return _table(["decoder", *next(iter(found.values()))], rows)


def _markdown(table: Table) -> str:
    return table.markdown().strip()


def present() -> None:
    """Tables and figures of the studies, from their JSON, in the two formats that are committed."""
    for name in _reproduced():
        presented = (STUDIES | BEYOND)[name].present(_result(f"{name}.json"))
        for file, content in files_of(name, presented):
            if file.endswith((".md", ".svg")):
                (RESULTS / file).write_bytes(content)


def bundled() -> str:
    """What the package says of its model's scores: rows of the study `main`."""
    rows = [row for row in _result("main.json")["rows"] if row.get("task") == POCKET]
    scores = (("visible", "base"), ("hidden", "extended"))
    methods = {
        row["method"]: {
            **{name: row[name] for name in ("arm", "updates", "full_passes", "cached_passes")},
            **{name: _score(row, suite) for name, suite in scores},
        }
        for row in rows
    }
    content = {"command": "archer study main", "n": rows[0]["n"], "methods": methods}
    return json.dumps(content, indent=1) + "\n"


def _score(row: Mapping[str, Any], suite: str) -> dict[str, Any]:
    low, high = row[f"{suite}_interval"]
    return {"score": row[suite], "low": low, "high": high}


def update_rates_file() -> str:
    """What the planner knows of methods: rows of the studies `main`, `radius` and `length`.

    Left out are caches whose passes are neither of everything nor of the response.
    """
    main, radius = _result("main.json"), _result("radius.json")
    content = {
        "commands": ["archer study main", "archer study radius", "archer study length"],
        "methods": {
            row["method"]: {
                "updates": row["updates"],
                "refreshed": row["refresh_fraction"],
                "radius": main["settings"]["methods"][POCKET][row["method"]].get("radius"),
            }
            for row in main["rows"]
            if row.get("task") == POCKET and _is_plain(row["method"])
        }
        | _cut_rate(),
        "refreshed": {
            row["radius"]: row["refresh_fraction"]
            for row in radius["rows"]
            if row.get("split") == POCKET and row["radius"] != "saber"
        },
    }
    return json.dumps(content, indent=1) + "\n"


def _cut_rate() -> dict[str, Any]:
    """The rule whose canvas follows the answer, by the length of its answers."""
    if not (RESULTS / "length.json").exists():
        return {}
    (row,) = [
        row
        for row in _result("length.json")["rows"]
        if (row["method"], row["canvas"]) == ("archer-doubt, cap 0.99", "auto, at most 64")
    ]
    rate = {
        "updates": row["updates"],
        "refreshed": row["full_passes"] / row["updates"],
        "radius": None,
        "answer": row["answer"],
        "spare": round(row["columns"] - row["answer"]),
    }
    return {"archer-cut": rate}


def _is_plain(method: str) -> bool:
    settings = {"length": update_rates.LENGTH}
    return type(build(method, settings).policy) in (Archer, Eager, Surprise)


if __name__ == "__main__":
    Path(update_rates.__file__).with_name(update_rates.FILE).write_text(
        update_rates_file(), encoding="utf-8"
    )
    Path(results.__file__).with_name(results.FILE).write_text(bundled(), encoding="utf-8")
    (RESULTS / "training.svg").write_text(curves(), encoding="utf-8")
    present()
    for page in PAGES:
        before = page.read_text(encoding="utf-8")
        after = refreshed(before)
        if after != before:
            page.write_text(after, encoding="utf-8")
