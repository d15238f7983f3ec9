"""A net whose operator fetches from outside: each run asks once, and what was fetched is what is learnt."""

from __future__ import annotations

import importlib
import sys

import numpy as np
import pytest

pytest.importorskip("sklearn")
pytest.importorskip("torch")

from netweave import symbol as sym
from netweave.formats.mxnet.symbol import registry
from netweave.graph import operators
from netweave.runtime.backends.torch import TorchNet
from tests.examples import story


@pytest.fixture
def demo():
    """The example, whose operator is in the tables for one test only."""
    tables = [(table, dict(table)) for table in (operators._OPERATORS, registry.READERS)]
    sys.modules.pop("examples.fetched.demo", None)
    yield importlib.import_module("examples.fetched.demo")
    for table, rows in tables:
        table.clear()
        table.update(rows)


def test_one_run_asks_once_and_two_nodes_ask_twice(demo):
    images = np.random.default_rng(0).normal(size=(5, 1, 8, 8))
    with demo.started(demo.Service(images, np.arange(5))) as service:
        first, second = (demo.FetchDigits(url=service.url, batch=demo.BATCH, name=name) for name in "ab")
        net = TorchNet(sym.Group([first[0], first[1], first[0] + second[0]]).graph())
        pixels, labels, both = net().values()
        assert service.asked == 2
        np.testing.assert_allclose(pixels, images[labels.numpy().astype(int)], rtol=1e-6)
        assert not np.array_equal(both, 2 * pixels), "two nodes fetch two batches: they are never merged"
        net()
        assert service.asked == 4


@pytest.mark.slow
@pytest.mark.multi
def test_the_story_from_end_to_end(tmp_path):
    done = story.told(story.copied(tmp_path), "fetched")
    assert done.returncode == 0, done.stdout + done.stderr
    story.assert_in_order(
        done.stdout, ["step 0: 1 batches fetched", "400 batches fetched in 400 steps", "accuracy = 0.9"]
    )
