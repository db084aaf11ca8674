"""The `penstock` program.

    main         entry point: which command, tool or help a command line runs
    flags        the declaration of options and arguments, and the parser
    declare      commands as functions; `help` prints them, `completion` completes them
    commands/    one module per command
    kafka/       one module per tool of Kafka, with Kafka's flags and output
    output       tables, columns, JSON; `progress` for long work; `failures` for errors
    connection   options that all commands share

Work that is more than a client call is in modules named after their command, and in `dump/`, `records/`, `perf/` and
`top/`. Messages for people go to stderr, results to stdout. Exit status 2 means wrong usage, 1 any other failure."""
