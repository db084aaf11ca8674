"""`penstock complete`: what a shell runs when Tab is pressed. Not for people: `penstock completion` sets it up."""

from __future__ import annotations

from typing import Annotated, Literal

from penstock.cli.declare import Argument, Command


def complete(
    shell: Annotated[Literal["bash", "zsh", "fish"], Argument(help="For which shell.")],
    words: Annotated[
        tuple[str, ...], Argument(help="The line so far; the last word is the one to complete.")
    ] = (),
) -> None:
    """Print what may stand in the place of the last word."""
    from penstock.cli.completion import asking, candidates, format_for

    if words:
        print(format_for(shell, candidates(words, asking(words))), end="")


command = Command(complete, is_hidden=True)
