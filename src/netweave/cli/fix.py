"""``netweave fix``: the fixes that a comparison proposes, as a patch or applied to a copy of the port."""

from __future__ import annotations

import functools
from typing import Any

import click

from netweave.cli.options import Command, overwrite_option, reads_nets
from netweave.errors import UsageError


@click.command(
    cls=Command,
    examples=[
        "netweave fix det1.prototxt port-symbol.json",
        "netweave fix net.prototxt,net.caffemodel port.py,port.pt --output mended.py",
        "netweave fix a.prototxt b-symbol.json --only 2 | patch -p1",
    ],
)
@click.argument("a")
@click.argument("b")
@click.option(
    "--output", "-o", metavar="FILE", help="Write the mended text of B to FILE, and compare A with it."
)
@overwrite_option
@click.option(
    "--only",
    "numbers",
    type=click.IntRange(min=1),
    metavar="N",
    multiple=True,
    help="Apply the fix of finding N alone, by its number in 'netweave compare'; may be repeated.",
)
@functools.partial(reads_nets, several=True)
def fix(
    a: str,
    b: str,
    output: str | None,
    overwrite: bool,
    numbers: tuple[int, ...],
    reading: dict[str, Any],
) -> int:
    """Apply the fixes that a comparison proposes to the text of net B, and compare again.

    Prints the changes as a patch, which 'patch -p1' and 'git apply' take; no file is changed unless --output
    names one. Settings in .prototxt, job.conf, symbol JSON, .cfg and Python files of PyTorch, Chainer and
    Keras can be changed; of every other fix it says why it was not applied.

    FILE of --output holds no weights. To use it, name the weights of B with it: FILE,WEIGHTS.

    Exit status: without --output 0 if every fix was applied, else 1; with it that of the comparison of A with
    the mended B.
    """
    from netweave import api
    from netweave.cli.console import working
    from netweave.cli.fix_view import show_fixed, show_patch

    if output is not None:
        api.check_target(output, overwrite=overwrite)
    with working("comparing") as status:
        comparison = api.compare(a, b, progress=status.update, **reading)
        findings = _chosen(comparison, numbers)
        fixed = None
        if output is not None:
            fixed = api.fix_port(a, b, comparison, output, findings=findings, overwrite=overwrite, **reading)
    if fixed is None:
        mended = api.mend(comparison, findings)
        show_patch(mended)
        return 1 if mended.refused else 0
    return show_fixed(fixed)


def _chosen(comparison: Any, numbers: tuple[int, ...]) -> list[Any] | None:
    """Return the findings of the numbers that 'netweave compare' shows them under; None for all."""
    if not numbers:
        return None
    findings = sorted(comparison.findings, key=lambda finding: finding.latent)
    if max(numbers) > len(findings):
        raise UsageError(f"there is no finding {max(numbers)}; the comparison has {len(findings)}")
    return [findings[number - 1] for number in numbers]
