"""`archer bench`: a table of measurements, imported when one is made."""

from __future__ import annotations

from cyclopts import App, Parameter

from archer.cli import shown

NETWORK, SERVING = "archer.cli.bench.network", "archer.cli.bench.serving"
COMMANDS = {
    "step": (f"{NETWORK}:step", "One update, with and without the cache."),
    "profile": (f"{NETWORK}:profile", "Where the time of one update goes."),
    "decode": (f"{NETWORK}:decode", "Whole trajectories, methods side by side."),
    "batch": (f"{NETWORK}:batch", "Tokens per second by number of rows."),
    "traffic": (f"{SERVING}:traffic", "Requests that arrive one by one."),
    "passes": (f"{SERVING}:passes", "Turns of the engine, for archer plan."),
    "load": (f"{NETWORK}:load", "Time and memory of loading a checkpoint."),
    "serve": (f"{SERVING}:serve", "A local server under load."),
    "judge": (f"{SERVING}:judge", "How fast programs are judged."),
    "checkpoint": (f"{NETWORK}:checkpoint", "Write random weights of any size, to load them."),
}
"""Name -> the function that does it, and one line about it."""

app = App(
    name="bench",
    help_format="plaintext",
    default_parameter=Parameter(negative=(), show_default=shown),
)
for _name, (_target, _summary) in COMMANDS.items():
    app.command(_target, name=_name, help=_summary)
