"""The `penstock` program.

    main         the way in: which command, tool or help a line asks for
    declare      how a command is declared; `reading` reads lines by it, `app` has typer explain and refuse by it
    commands/    one file a command, in our own words
    kafka/       one file a tool of Kafka's, in Kafka's words
    output       tables, columns, JSON; `progress` for what takes longer; `failures` for what goes wrong
    connection   options that all commands share

What commands do, where it is more than a call of the client, stands beside: `dump/`, `records/`, `perf/`, `top/`,
and modules named after their command. What is for people only goes to stderr, what a program may read to stdout.
Exit status 2 means that a command was told something wrong, 1 that something failed."""
