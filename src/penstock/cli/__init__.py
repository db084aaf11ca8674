"""The `penstock` command, one file a subcommand.

A subcommand is a plain function that returns an exit status; `app` gives them names, options and help with typer,
and `main` is the way in. Messages for people go to stderr, what a program may read to stdout. Exit status 2 means
that the command was told something wrong, 1 that something failed."""
