"""`fedgame deploy keys`: the keys of a deployment with TLS and authenticated nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def keys(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder for the files.")],
    *,
    nodes: Annotated[int, typer.Option(min=1, help="Number of nodes.")],
    host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Name or address of the server beside localhost; repeatable."
        ),
    ] = None,
) -> None:
    """Make the server's TLS certificate and a key pair for each node.

    DIR/ca.crt goes to everybody, server.crt and server.key to the SuperLink, node-K to node K, and
    node-K.pub to `flwr supernode register`. Files have mode 0600; none is overwritten. The
    authority's private key is not kept. The certificate is valid for a year.
    """
    from fedgame.cli.node_keys import make_keys

    made = make_keys(folder, nodes, host or ())
    typer.echo(f"{made.folder}: ca.crt, server.crt, server.key, and keys of {nodes} nodes")
