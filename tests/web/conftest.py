"""A workbench in this process, on a folder of its own; what a test changes in its database is taken back."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def _tables():
    from django.core.management import call_command
    from django.test.utils import setup_test_environment

    setup_test_environment()
    call_command("migrate", verbosity=0, interactive=False)


@pytest.fixture(autouse=True)
def _as_before(request):
    from django.db import transaction

    if request.node.get_closest_marker("multi"):  # the workbench is another process
        yield
        return
    request.getfixturevalue("_tables")
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


@pytest.fixture(autouse=True)
def _one_minute(monkeypatch):
    """Keep the clock of the limits in one minute."""
    monkeypatch.setattr("netweave.web.safety.limits.now", lambda: 1e9)


@pytest.fixture
def choose():
    """Set some of the operator's choices for a test."""
    import contextlib
    import dataclasses

    from django.conf import settings
    from django.test import override_settings

    with contextlib.ExitStack() as stack:

        def choose(**chosen):
            stack.enter_context(override_settings(OPTIONS=dataclasses.replace(settings.OPTIONS, **chosen)))

        yield choose


@pytest.fixture
def visitor():
    """Make browsers, each a visitor of its own, that the server takes for human: with CSRF checked."""
    from tests.web.visitor import Visitor

    return Visitor
