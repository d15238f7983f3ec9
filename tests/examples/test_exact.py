"""Loops of PyTorch, Hugging Face and Lightning in ``examples/exact``: one hash on any ranks, and resumed."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

pytest.importorskip("torch")

from tests.examples.story import ROOT

pytestmark = [pytest.mark.multi, pytest.mark.slow]


def run(name, out, ranks):
    """Return the number of updates and the hash that an example ends with."""
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    done = subprocess.run(
        [*(start if ranks > 1 else start[:1]), str(ROOT / f"examples/exact/{name}.py"), str(out)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        timeout=240,
    )
    found = re.search(r"after (\d+) updates, parameters (\w{16})", done.stdout)
    assert found, done.stdout + done.stderr
    return found.groups()


@pytest.mark.parametrize(
    ("name", "package", "kept"),
    [
        ("loop", "torch", "run_iter_50.checkpoint"),
        ("with_trainer", "transformers", "run_iter_10.checkpoint"),
        ("with_lightning", "lightning", "run_iter_10.checkpoint"),
    ],
)
def test_an_example_ends_with_one_hash(tmp_path, name, package, kept):
    pytest.importorskip(package)
    alone = run(name, tmp_path / "alone", 1)
    assert run(name, tmp_path / "two", 2) == alone
    for path in (tmp_path / "alone").glob("*.checkpoint"):
        if path.name != kept:
            path.unlink()
    assert (tmp_path / "alone" / kept).exists()
    assert run(name, tmp_path / "alone", 2) == alone
