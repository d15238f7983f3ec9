"""Pictures of the terminal, from real runs."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
from typing import TYPE_CHECKING

from rich.console import Console

import netweave
from netweave.cli.compare_view import show_comparison

if TYPE_CHECKING:
    from pathlib import Path

WIDTH = 112


def compare_picture(root: Path) -> str:
    """Return the comparison of ``examples/padding`` as SVG.

    Args:
        root: The repository.
    """
    with contextlib.chdir(root / "examples" / "padding"):
        subprocess.run([sys.executable, "make_weights.py"], check=True)
        found = netweave.compare("leaves.prototxt", "leaves-symbol.json")
    console = Console(
        file=io.StringIO(),
        width=WIDTH,
        record=True,
        force_terminal=True,
        color_system="truecolor",
        highlight=False,
        markup=False,
    )
    show_comparison(console, found, everything=False)
    return console.export_svg(
        title="netweave compare leaves.prototxt leaves-symbol.json", unique_id="compare"
    )
