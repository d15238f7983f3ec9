"""The table of times for ``netweave compare --profile``."""

from __future__ import annotations

import resource
import sys
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from netweave.graph.wording import bytes_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

LEAST_SECONDS = 0.005
"""Stages that took less are shown together."""

SHORT = "shorter stages"


def show_profile(console: Console, seconds: Mapping[str, float]) -> None:
    """Show the time of each stage, in order, and the most memory that the process took.

    Args:
        console: Where to show it.
        seconds: Time of each stage, by name.
    """
    total = sum(seconds.values())
    long = {stage: taken for stage, taken in seconds.items() if taken >= LEAST_SECONDS}
    short = total - sum(long.values())
    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column(justify="right")
    table.add_column(justify="right", style="dim")
    for stage, taken in [*long.items(), *([(SHORT, short)] if short else []), ("total", total)]:
        table.add_row(stage, f"{taken:.2f} s", f"{100 * taken / total:.0f} %" if total else "")
    console.print()
    console.print(table)
    console.print(Text(f"peak memory {bytes_text(peak_bytes())}", style="dim"))


def peak_bytes() -> int:
    """Return the most memory that this process took so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
