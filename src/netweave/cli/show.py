"""``netweave show``: a saved comparison, shown again."""

from __future__ import annotations

import click

from netweave.cli.options import Command, everything_option, html_option, json_option


@click.command(cls=Command, examples=["netweave show ab.json --all"])
@click.argument("file", metavar="FILE")
@everything_option
@json_option
@html_option
def show(file: str, everything: bool, json_file: str | None, html_file: str | None) -> int:
    """Show a comparison saved by 'netweave compare A B --json FILE', and exit with its status."""
    from netweave import api
    from netweave.cli.compare_view import show_comparison
    from netweave.cli.console import output_console, write_json

    found = api.open_comparison(file)
    if html_file:
        api.save_page(found, html_file)
    if json_file:
        write_json(found.to_json(), json_file)
    if json_file != "-":
        show_comparison(output_console(), found, everything=everything)
    return found.exit_status
