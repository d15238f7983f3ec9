"""``netweave doctor``: which protections are on, on this machine."""

from __future__ import annotations

import click

from netweave.cli.options import Command, json_option


@click.command(cls=Command, examples=["netweave doctor", "netweave doctor --json -"])
@json_option
def doctor(json_file: str | None) -> None:
    """Say which protections against code in files are on, each of them tried with a harmless program.

    Models that are code (.py, TorchScript, .pt2) run in a guarded process. The exit status is 1 if a
    protection is missing.
    """
    import sys
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
