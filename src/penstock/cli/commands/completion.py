"""`penstock completion`: has a shell complete our commands, options, topics and groups."""

from __future__ import annotations

from typing import Annotated, Literal

from penstock.cli.declare import Argument, Command


def completion(
    shell: Annotated[
        Literal["bash", "zsh", "fish"] | None,
        Argument(
            help="Which shell; the one that SHELL names where nothing is said.", metavar="bash|zsh|fish"
        ),
    ] = None,
) -> None:
    """Print what makes a shell complete `penstock` and the scripts of `bin/`.

    Commands, options and their values are completed, and so are topics and groups, as the cluster has them at that
    moment."""
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
