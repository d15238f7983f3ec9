"""Shared fixtures: where the corpus of real nets lies."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The folder of real nets, named by ``NETWEAVE_CORPUS``; tests that need it are skipped without."""
    folder = os.environ.get("NETWEAVE_CORPUS")
    if not folder or not Path(folder).is_dir():
        pytest.skip("the corpus is not here: set NETWEAVE_CORPUS to its folder")
    return Path(folder)
