"""Pages say what the code says, and what is on them runs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tools.docs.blocks import blocks
from tools.docs.pages import FRAGMENTS, ROOT, RUN, TABLED, has_stale_outputs, has_stale_text


@pytest.mark.slow
def test_generated_pages_are_up_to_date():
    # In a process of its own: other tests register operators, which are none of the pages'.
    check = subprocess.run(
        [sys.executable, "-m", "tools.docs", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert check.returncode == 0, f"run 'make docs': {check.stderr}"


def test_every_generated_table_stands_on_a_page():
    pages = "".join((ROOT / name).read_text() for name in (*RUN, *TABLED))
    assert all(f"<!-- {name}: written by tools/docs -->" in pages for name in FRAGMENTS)


@pytest.mark.parametrize("name", TABLED)
def test_tables_of_benchmarks_show_their_results(name):
    assert not has_stale_text(name), "stale: run 'make docs' (or 'python -m tools.docs')"


@pytest.mark.slow
@pytest.mark.parametrize("name", RUN)
def test_code_runs_and_prints_what_the_page_says(name):
    assert not has_stale_outputs(name), "stale: run 'make docs' (or 'python -m tools.docs')"


def test_readme_has_blocks_that_run():
    found = list(blocks((ROOT / "README.md").read_text()))
    assert [block.language for block in found] == ["console", "console", "python"]
    assert all(block.output for block in found if block.language == "python")


@pytest.mark.parametrize("name", RUN)
def test_no_page_prints_that_what_it_shows_is_false(name):
    """An example that prints ``accuracy > 0.9`` is there to be true."""
    outputs = [block.output for block in blocks((ROOT / name).read_text()) if block.output]
    assert not [output for output in outputs if "False" in output.splitlines()]
