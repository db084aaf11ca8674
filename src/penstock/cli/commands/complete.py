"""`penstock complete`: run by the shell on Tab; `penstock completion` sets it up."""

from __future__ import annotations

from typing import Annotated, Literal

from penstock.cli.declare import Command, argument


def complete(
    shell: Annotated[Literal["bash", "zsh", "fish"], argument(help="The shell.")],
    words: Annotated[tuple[str, ...], argument(help="The command line; the last word is completed.")] = (),
) -> None:
    """Print the candidates for the last word."""
    from penstock.cli.completion import asking, candidates, format_for

    if words:
        print(format_for(shell, candidates(words, asking(words))), end="")


command = Command(complete, is_hidden=True)
