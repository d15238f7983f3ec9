"""Which generated page, fragment or picture goes where."""

from __future__ import annotations

import tempfile
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from tools.docs import (
    benchmarks,
    commands,
    decisions,
    known_mismatches,
    matrix,
    pictures,
    python,
    schema,
    tables,
)
from tools.docs.blocks import Shell, stable

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]

PAGES: dict[str, Callable[[], str]] = {
    "docs/reference/command-line.md": commands.page,
    "docs/reference/python.md": python.page,
    "docs/reference/comparison.schema.json": schema.page,
    "docs/reference/layers.md": tables.page,
    "docs/known-mismatches.md": known_mismatches.page,
    "docs/matrix.md": matrix.page,
    "docs/decisions/README.md": decisions.page,
}
"""Whole pages, by their path in the repository."""

if find_spec("torch"):  # the page lists torch's lowerings
    from tools.docs import operators

    PAGES["docs/operators.md"] = operators.page

FRAGMENTS: dict[str, Callable[[], str]] = {
    "formats": tables.formats_table,
    "rooms": tables.rooms_table,
    "verdicts": tables.verdicts_table,
    "benchmarks": benchmarks.names,
    **{name: partial(benchmarks.fragment, name) for name in benchmarks.TABLES},
}
"""Parts of the READMEs and the how-tos, by the name in the comment that they stand after."""

TABLED = benchmarks.PAGES
"""Pages with fragments whose code blocks are not run."""

RUN = (
    "README.md",
    "docs/tutorial.md",
    *sorted(
        f"docs/how-to/{page.name}"
        for page in ROOT.glob("docs/how-to/*.md")
        if not page.name.startswith("add-")  # for who extends Netweave: these hold pieces of code
    ),
)
"""Pages whose code blocks are run, with their output written in."""


def generated(name: str) -> str:
    """Return what a page should be: made whole, or with its fragments and outputs renewed."""
    if name in PAGES:
        return PAGES[name]()
    if name in TABLED:
        return with_fragments((ROOT / name).read_text())
    return _with_outputs(with_fragments((ROOT / name).read_text()))


def _with_outputs(page: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        return Shell(Path(folder), ROOT).refreshed(page)


def with_fragments(page: str) -> str:
    """Return a page with its generated parts made anew; nothing is run."""
    for name, make in FRAGMENTS.items():
        page = _with_fragment(page, name, make)
    return page


def _with_fragment(page: str, name: str, make: Callable[[], str]) -> str:
    opening, closing = f"<!-- {name}: written by tools/docs -->\n", "<!-- end -->"
    before, found, rest = page.partition(opening)
    return f"{before}{opening}{make()}\n{closing}{rest.partition(closing)[2]}" if found else page


def is_stale(name: str) -> bool:
    """Whether a page says something else than the code; in outputs, rounding errors and times aside."""
    return has_stale_text(name) or (name in RUN and has_stale_outputs(name))


def has_stale_text(name: str) -> bool:
    """Whether what a page lists is not what the code has; no code block is run."""
    path = ROOT / name
    if not path.exists():
        return True
    text = path.read_text()
    return text != (PAGES[name]() if name in PAGES else with_fragments(text))


def has_stale_outputs(name: str) -> bool:
    """Whether a code block prints something else than the page shows, rounding errors and times aside."""
    text = (ROOT / name).read_text()
    return stable(text) != stable(_with_outputs(text))


def write_all() -> None:
    """Write what is stale, and the pictures."""
    for name in (*PAGES, *TABLED, *RUN):
        if is_stale(name):
            (ROOT / name).write_text(generated(name))
            print(f"wrote {name}")
    picture, made = ROOT / "docs" / "images" / "compare.svg", pictures.compare_picture(ROOT)
    if not picture.exists() or stable(picture.read_text()) != stable(made):
        picture.write_text(made)
        print(f"wrote {picture.relative_to(ROOT)}")
