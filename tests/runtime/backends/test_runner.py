"""The way from a name to a backend."""

from __future__ import annotations

import re
import sys

import pytest

from netweave.errors import UsageError
from netweave.installation import install_command
from netweave.runtime.backends import prepare
from tests.graph.passes.nets import branching_net


def test_a_backend_whose_extra_is_missing_says_what_to_install(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("netweave.runtime.backends.torch")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(UsageError, match=f"'torch' needs 'torch', .*: {re.escape(install_command('torch'))}"):
        prepare(branching_net(), backend="torch")
