"""What ``mx.kv`` has besides push and pull."""

import json
import subprocess
import sys

import numpy as np
import pytest

import netweave.mxnet as mx
from netweave.errors import UsageError


def test_broadcast_gives_keys_values_and_copies_them():
    store = mx.kv.create("local")
    out = mx.nd.zeros((2,))
    store.broadcast("w", mx.nd.array([1, 2]), out)
    np.testing.assert_array_equal(out.asnumpy(), [1, 2])
    assert store.num_dead_node(0) == 0
    assert store.is_capable("optimizer")
    with pytest.raises(UsageError, match="unknown capability"):
        store.is_capable("pickling")


def test_states_of_a_stores_optimizer_are_kept(tmp_path):
    ends = []
    for is_resumed in (False, True):
        store = mx.kv.create("local")
        store.init(3, mx.nd.ones((2,)))
        store.set_optimizer(mx.optimizer.SGD(learning_rate=0.1, momentum=0.9))
        for number in range(4):
            store.push(3, mx.nd.array([1.0, -number]))
            if number == 1 and is_resumed:
                out = mx.nd.zeros((2,))
                store.pull(3, out)
                store.save_optimizer_states(str(tmp_path / "states"))
                store = mx.kv.create("local")
                store.init(3, out)
                store.set_optimizer(mx.optimizer.SGD(learning_rate=0.1, momentum=0.9))
                store.load_optimizer_states(str(tmp_path / "states"))
        out = mx.nd.zeros((2,))
        store.pull(3, out)
        ends.append(out.asnumpy())
    np.testing.assert_array_equal(*ends)
    with pytest.raises(UsageError, match="no optimizer yet"):
        mx.kv.create("local").save_optimizer_states(str(tmp_path / "other"))


@pytest.mark.slow
def test_modules_and_trainers_learn_by_a_dist_async_store(tmp_path):
    command = ["launch", "-n", "2", "python", "-m", "tests.mxnet.async_fits", str(tmp_path)]
    run = subprocess.run(
        [sys.executable, "-m", "netweave", *command], capture_output=True, text=True, timeout=180
    )
    assert run.returncode == 0, run.stderr
    for rank in range(2):
        result = json.loads((tmp_path / f"{rank}.json").read_text())
        assert result["accuracy"] > 0.8
        assert result["losses"][-1] < 0.7 * result["losses"][0]
