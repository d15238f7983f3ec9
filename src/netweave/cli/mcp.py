"""``netweave mcp``: tools for coding agents."""

from __future__ import annotations

import click

from netweave import __version__
from netweave.cli.options import Command


@click.command(
    cls=Command,
    examples=["netweave mcp", "netweave mcp --allow ~/ports --allow ~/originals", "netweave mcp --http 8643"],
)
@click.option(
    "--allow",
    metavar="FOLDER",
    multiple=True,
    help="Folder whose files the tools may read, and write new ones in; may be repeated. By default the "
    "working directory.",
)
@click.option(
    "--http",
    "port",
    type=click.IntRange(1, 65535),
    metavar="PORT",
    help="Serve streamable HTTP at http://127.0.0.1:PORT/mcp instead of standard input and output.",
)
def mcp(allow: tuple[str, ...], port: int | None) -> None:
    """Serve tools for coding agents that port nets, by the Model Context Protocol.

    The tools compare, explain, fix, inspect and convert nets. Python code in the files runs in the sandbox,
    as for the other commands. Needs the extra mcp.
    """
    from netweave.agents import serve

    serve(version=__version__, allow=allow, port=port)
