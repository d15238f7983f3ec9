"""A workbench in processes of its own, and Debian's chromium in a window of 1280 by 720."""

from __future__ import annotations

import pytest

from tests.web.running import Workbench

playwright = pytest.importorskip("playwright.sync_api")

WAIT_MS = 60_000
"""What one waits for comes in tenths of a second; on a machine that does other work as well, much later."""

playwright.expect.set_options(timeout=WAIT_MS)


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """The folder of training runs that the workbench shows."""
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="session")
def bench(tmp_path_factory, runs):
    with Workbench(tmp_path_factory.mktemp("bench"), workers=2, settings=f'runs = "{runs}"') as running:
        yield running


@pytest.fixture
def visit(chromium, bench):
    """Open a page for a new visitor; whatever a page complains of fails the test."""
    contexts, complaints = [], []

    def visit(**chosen):
        usual = {"viewport": {"width": 1280, "height": 720}, "locale": "en-GB", "base_url": bench.url}
        context = chromium.new_context(**usual | chosen)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda line: complaints.append(line.text) if line.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.set_default_timeout(WAIT_MS)
        return page

    yield visit
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture
def page(visit):
    return visit()
