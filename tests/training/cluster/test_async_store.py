"""``dist_async``: pushes are applied one by one, each once, by the holder of the key."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import netweave
from netweave.errors import UsageError
from netweave.training.cluster.async_store import AsyncStore
from netweave.training.cluster.server import Push
from tests.training.cluster.async_worker import KEYS, PUSHES


def pulled(store, key, shape=(2, 3)):
    out = torch.empty(shape)
    store.pull(key, out)
    return out


def test_one_worker_ends_as_a_local_store():
    stores = AsyncStore(None), netweave.kvstore.create("local")
    generator = torch.Generator().manual_seed(0)
    gradients = [torch.randn(2, 3, generator=generator) for _ in range(6)]
    ends = []
    for store in stores:
        with store:
            store.set_optimizer("adam", learning_rate=0.1)
            store.init("weight", torch.ones(2, 3))
            for gradient in gradients:
                store.push("weight", [gradient, gradient / 2])
            ends.append(pulled(store, "weight"))
            if isinstance(store, AsyncStore):
                store.finish()
    assert torch.equal(*ends)


def test_a_push_waits_for_the_updater_and_pulls_do_not():
    """A faster worker pushes before this one, which holds the key, has come to its ``set_optimizer``."""
    store = AsyncStore(None)
    store.init(0, torch.zeros(2))
    push = Push(group=0, number=0, sequence=1, version=0, gradient=torch.ones(2), rate=0.0)
    with ThreadPoolExecutor(2) as pool:
        pushed = pool.submit(store.server.push, push)
        pulled_before = pool.submit(store.server.pull, 0).result(timeout=10)
        assert torch.equal(pulled_before.values, torch.zeros(2))
        assert not pushed.done()
        store.set_updater(lambda key, merged, stored: stored.add_(merged))
        (answer,) = pushed.result(timeout=10)
    assert torch.equal(answer.values, torch.ones(2))
    store.close()


@pytest.mark.slow
def test_every_push_of_every_worker_is_applied_once(tmp_path):
    command = ["launch", "-n", "3", "-s", "2", "python", "-m", "tests.training.cluster.async_worker"]
    run = subprocess.run(
        [sys.executable, "-m", "netweave", *command, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr
    results = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(3)]
    for result in results:
        assert result["values"] == {str(key): [10.0 + 3 * 3 * PUSHES] for key in KEYS}
        # a worker sees all of its own pushes, and perhaps those of others
        assert all(value >= 10 + 3 * (number + 1) for number, value in enumerate(result["own"]))
    assert sum(result["applied"] for result in results) == 3 * len(KEYS) * PUSHES
    assert results[2]["applied"] == 0  # two of the workers hold keys
    assert not any(result["repeated"] for result in results)


def test_what_cannot_be_is_refused():
    with AsyncStore(None) as store:
        store.init(0, torch.zeros(2))
        with pytest.raises(UsageError, match="compression is for dist_sync"):
            store.set_gradient_compression({"type": "2bit"})
        with pytest.raises(UsageError, match=r"key 1 holds torch\.int64"):
            store.init(1, torch.zeros(2, dtype=torch.int64))
        with pytest.raises(UsageError, match="init it first"):
            store.init(2, torch.zeros(2, dtype=torch.float64))
        store.set_updater(lambda key, merged, stored: stored.add_(merged))
        store.push(0, torch.ones(2))
        assert torch.equal(pulled(store, 0, (2,)), torch.ones(2))
        store.finish()
    with pytest.raises(UsageError, match="netweave launch -n 2 python SCRIPT"):
        netweave.kvstore.create("dist_async")
    with pytest.raises(UsageError, match="staleness is for dist_async"):
        netweave.kvstore.create("local", staleness=2)
