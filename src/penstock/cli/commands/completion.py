"""`penstock completion`: shell completion of commands, options, topics and groups."""

from __future__ import annotations

from typing import Annotated, Literal

from penstock.cli.declare import Command, argument


def completion(
    shell: Annotated[
        Literal["bash", "zsh", "fish"] | None,
        argument(help="The shell, by default the one in SHELL."),
    ] = None,
) -> None:
    """Print the shell code that completes `penstock` and the scripts of `bin/`.

    It completes commands, options and their values, and the current topics and groups of the cluster."""
    from penstock.cli.completion import script_for

    print(script_for(shell), end="")


command = Command(
    completion,
    examples=[
        'eval "$(penstock completion bash)"',
        "penstock completion zsh > ~/.zfunc/_penstock",
        "penstock completion fish > ~/.config/fish/completions/penstock.fish",
    ],
)
