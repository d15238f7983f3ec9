"""Generated pages say what the code says."""

from __future__ import annotations

import pytest

from tools.docs.pages import PAGES, ROOT


@pytest.mark.parametrize("name", PAGES)
def test_page_is_up_to_date(name):
    assert (ROOT / name).read_text() == PAGES[name](), "stale: run 'make docs' (or 'python -m tools.docs')"
