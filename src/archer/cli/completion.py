"""`archer completion`: what a shell needs to complete commands and options."""

from __future__ import annotations

from typing import Literal

from archer.cli.output import write_text

Shell = Literal["bash", "zsh", "fish"]


def completion(shell: Shell) -> int:
    """Print a completion script for your shell.

    bash: archer completion bash > ~/.local/share/bash-completion/completions/archer
    zsh: archer completion zsh > a folder of your fpath, as the file _archer
    fish: archer completion fish > ~/.config/fish/completions/archer.fish

    Parameters
    ----------
    shell
        Which shell.
    """
    from archer.cli import app

    write_text(app().generate_completion(shell=shell))
    return 0
