"""`archer bench`: a table of measurements, each in a file of its own."""

from __future__ import annotations

from cyclopts import App, Parameter

from archer.cli import shown

COMMANDS = {
    "step": ("archer.cli.bench.step:step", "One update, with and without the cache."),
    "profile": ("archer.cli.bench.profile:profile", "Where the time of one update goes."),
    "decode": ("archer.cli.bench.decode:decode", "Whole trajectories, methods side by side."),
    "batch": ("archer.cli.bench.batch:batch", "Tokens per second by number of rows."),
    "traffic": ("archer.cli.bench.traffic:traffic", "Requests that arrive one by one."),
    "passes": ("archer.cli.bench.passes:passes", "Turns of the engine, for archer plan."),
    "load": ("archer.cli.bench.load:load", "Time and memory of loading a checkpoint."),
    "serve": ("archer.cli.bench.serve:serve", "A local server under load."),
    "judge": ("archer.cli.bench.judge:judge", "How fast programs are judged."),
    "checkpoint": (
        "archer.cli.bench.checkpoint:checkpoint",
        "Write random weights of any size, to load them.",
    ),
}
"""Name -> the function that does it, and one line about it."""

app = App(
    name="bench",
    help_format="plaintext",
    default_parameter=Parameter(negative=(), show_default=shown),
)
for _name, (_target, _summary) in COMMANDS.items():
    app.command(_target, name=_name, help=_summary)
