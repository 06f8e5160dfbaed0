"""`archer completion`: what a shell needs to complete commands and options."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

from archer.cli.output import write_text

WHERE = (
    "Save the script, for bash as ~/.local/share/bash-completion/completions/archer, for zsh as _archer "
    "in a folder of your fpath, for fish as ~/.config/fish/completions/archer.fish."
)
Shell = Annotated[Literal["bash", "zsh", "fish"], Parameter(help=WHERE)]


def completion(shell: Shell, /) -> int:
    """Print a completion script for your shell."""
    from archer.cli import app

    write_text(app().generate_completion(shell=shell))
    return 0
