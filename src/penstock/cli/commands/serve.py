"""`penstock serve`: its options. `cli.serve` does the work."""

from __future__ import annotations

from typing import Annotated, Literal

from penstock.cli.declare import Command, argument, option


def serve(
    file: Annotated[
        str | None,
        argument(
            metavar="server.properties",
            help="Settings, in Kafka's format and names.",
            complete="file",
        ),
    ] = None,
    *,
    assignments: Annotated[
        tuple[str, ...],
        option("--set", "-s", metavar="KEY=VALUE", help="A setting; overrides the file. May be repeated."),
    ] = (),
    nodes: Annotated[
        int | None,
        option("--nodes", help="Run this many nodes on this host, each a process.", minimum=1),
    ] = None,
    data: Annotated[
        str | None, option("--data", metavar="DIR", help="Where data is stored.", complete="file")
    ] = None,
    port: Annotated[
        int | None,
        option("--port", help="The port for clients, by default 9092.", minimum=1, maximum=65535),
    ] = None,
    host: Annotated[
        str | None,
        option("--host", help="The address to listen on, by default 127.0.0.1."),
    ] = None,
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        option("--log-level", help="What to log to stderr."),
    ] = "info",
) -> int:
    """Run a node until SIGTERM or Ctrl-C.

    By default it listens on 127.0.0.1:9092 and stores its data in the user's state directory. When it is ready it
    prints a line that begins with `penstock ready`. `penstock settings` lists all settings.

    With --nodes N it runs a cluster of N nodes on this host: node 1 on the port, node 2 on the next one, and so on. The
    controllers among them (the first three, or only the first of two) listen on the ports 100 above. A node that dies
    is restarted. Settings apply to all nodes. By default, topics have up to three replicas. One line that begins with
    `penstock ready` is printed when all nodes serve.
    """
    if nodes is not None:
        from penstock.cli.serve_nodes import serve_nodes

        return serve_nodes(
            nodes, file, assignments, data=data, host=host or "127.0.0.1", port=port, log_level=log_level
        )
    from penstock.cli.serve import address_settings, serve

    return serve(file, (*address_settings(data, host, port), *assignments), log_level=log_level)


command = Command(
    serve,
    examples=[
        "penstock serve",
        "penstock serve --data /var/lib/penstock --port 9092",
        "penstock serve --nodes 3 --data /var/lib/penstock --port 9092",
        "penstock serve server.properties",
        "penstock serve --set listeners=PLAINTEXT://:9092 --set log.dirs=/var/lib/penstock",
        "penstock serve server.properties --set node.id=2 --log-level debug",
    ],
)
