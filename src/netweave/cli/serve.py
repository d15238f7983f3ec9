"""Commands serve, mcp and doctor: the workbench, tools for coding agents, and what protects both."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import click

from netweave import __version__
from netweave.cli.options import Command, json_option
from netweave.errors import UsageError
from netweave.installation import install_command

NEEDED = ("django", "django_tasks_db", "gunicorn", "ninja", "whitenoise")


@click.command(
    cls=Command,
    examples=["netweave serve", "netweave serve --port 9000 --data ~/nets"],
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="The data folder (~/.local/share/netweave).",
)
@click.option(
    "--host", metavar="ADDRESS", default="127.0.0.1", show_default=True, help="Address to listen on."
)
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    metavar="N",
    default=8642,
    show_default=True,
    help="Port to listen on.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 64),
    metavar="N",
    help="Number of comparisons to run at the same time.",
)
@click.option(
    "--runs",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Show the training runs in DIR.",
)
@click.option(
    "--open/--no-open",
    "opens",
    default=None,
    help="Open the page in a browser; by default if the command runs in a terminal of a desktop.",
)
def serve(
    data: Path | None, host: str, port: int, workers: int | None, runs: Path | None, opens: bool | None
) -> None:
    """Serve the workbench: upload two nets and compare them side by side in the browser.

    The data folder holds everything that the workbench stores; settings.toml in it changes the defaults.
    """
    missing = [package for package in NEEDED if find_spec(package) is None]
    if missing:
        raise UsageError(f"the workbench needs {', '.join(missing)}: {install_command('web')}")
    from netweave.web.options import default_data
    from netweave.web.serve import has_desktop, open_page
    from netweave.web.serve import serve as serve_workbench

    def ready(address: str, folder: Path) -> None:
        click.echo(f"The workbench is at {address} (Ctrl-C ends it); its data is in {folder}")
        if opens or (opens is None and sys.stdout.isatty() and has_desktop()):
            open_page(address)

    serve_workbench(data or default_data(), host=host, port=port, workers=workers, runs=runs, ready=ready)


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


@click.command(cls=Command, examples=["netweave doctor", "netweave doctor --json -"])
@json_option
def doctor(json_file: str | None) -> None:
    """Say which protections against code in files are on, each of them tried with a harmless program.

    Models that are code (.py, TorchScript, .pt2) run in a guarded process. The exit status is 1 if a
    protection is missing.
    """
    from dataclasses import asdict

    from netweave import api
    from netweave.cli.console import output_console, write_json

    protections = api.protections()
    if json_file:
        write_json({"protections": [asdict(row) for row in protections]}, json_file)
    if json_file != "-":
        console = output_console()
        for row in protections:
            sign = "on " if row.is_on else "OFF"
            console.print(f"{sign}  {row.name}: {row.detail}", soft_wrap=True, markup=False)
    sys.exit(0 if all(row.is_on for row in protections) else 1)
