"""Applied fixes on a terminal: the patch, what could not be applied, and the verdict afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from netweave.api import FixedPort, Mended

COULD_NOT_READ = 2
"""Exit status where the mended file cannot be read, as for any other file."""


def show_patch(mended: Mended) -> None:
    """Print changes as a patch on standard output, and on standard error what was not applied."""
    click.echo(mended.diff, nl=False)
    _show_refused(mended)
    if not mended.after and not mended.refused:
        click.echo("nothing is to be fixed", err=True)


def show_fixed(fixed: FixedPort) -> int:
    """Print what was written and the verdict on it; return the exit status."""
    from rich.text import Text

    from netweave.cli.compare_view import verdict_style
    from netweave.cli.console import output_console

    click.echo(fixed.mended.diff, nl=False)
    _show_refused(fixed.mended)
    applied = len(fixed.mended.applied)
    click.echo(f"{fixed.file}: written with {applied} fix{'' if applied == 1 else 'es'} applied")
    if "," in fixed.name:
        click.echo(f"its weights stay where they are; it is compared again as {fixed.name}")
    if fixed.comparison is None:
        click.echo(f"it cannot be compared: {fixed.problem}", err=True)
        return COULD_NOT_READ
    comparison = fixed.comparison
    output_console().print(
        Text(f"{comparison.verdict.mark} {comparison.sentence}", style=verdict_style(comparison.verdict))
    )
    return comparison.exit_status


def _show_refused(mended: Mended) -> None:
    for refusal in mended.refused:
        layer = refusal.finding.layer_b or refusal.finding.layer_a
        click.echo(f"not applied at {layer}: {refusal.why}", err=True)
