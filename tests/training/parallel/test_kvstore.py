"""The key-value store against MXNet's rules, written out in NumPy."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch

import netweave
from netweave.errors import UsageError
from netweave.training.parallel.launcher import Launcher
from tests.training.parallel.test_compression import mxnet_codes
from tests.training.parallel.workers import value


@pytest.fixture
def store():
    with netweave.kvstore.create("local") as made:
        made.init("weight", torch.ones(2, 3))
        yield made


def pulled(store, key="weight"):
    out = torch.empty(2, 3)
    store.pull(key, out)
    return out


def test_without_an_updater_the_sum_over_devices_replaces_the_value(store):
    store.push("weight", [torch.full((2, 3), 2.0), torch.full((2, 3), 5.0)])
    assert torch.equal(pulled(store), torch.full((2, 3), 7.0))


def test_pushes_of_a_key_are_done_in_their_order(store):
    store.set_updater(lambda key, merged, stored: stored.mul_(2).add_(merged))
    for number in range(20):
        store.push("weight", torch.full((2, 3), float(number)))
    expected = 1.0
    for number in range(20):
        expected = 2 * expected + number
    assert torch.equal(pulled(store), torch.full((2, 3), expected))


def test_a_value_may_be_changed_as_soon_as_it_was_pushed(store):
    given = torch.full((2, 3), 3.0)
    store.push("weight", given)
    given.zero_()
    assert torch.equal(pulled(store), torch.full((2, 3), 3.0))


def test_a_pull_goes_to_all_devices_and_several_keys(store):
    store.init(3, torch.zeros(2))
    outs = [[torch.empty(2, 3), torch.empty(2, 3)], torch.empty(2)]
    store.pull(["weight", 3], outs)
    assert all(torch.equal(out, torch.ones(2, 3)) for out in outs[0])
    assert torch.equal(outs[1], torch.zeros(2))


def test_an_optimizer_updates_by_mxnets_formula(store):
    """sgd: mom = m mom - lr (rescale g + wd w); w += mom; a store's optimizer decays a bias too."""
    store.init("bias", torch.ones(2, 3))
    store.set_optimizer("sgd", learning_rate=0.1, momentum=0.9, wd=0.01, rescale_grad=0.5)
    expected = {"weight": np.ones((2, 3)), "bias": np.ones((2, 3))}
    momenta = {key: np.zeros((2, 3)) for key in expected}
    for push in range(3):
        for key in expected:
            gradient = np.random.default_rng(push).normal(size=(2, 3)).astype(np.float32)
            store.push(key, torch.from_numpy(gradient))
            momenta[key] = 0.9 * momenta[key] - 0.1 * (0.5 * gradient + 0.01 * expected[key])
            expected[key] += momenta[key]
    for key, array in expected.items():
        np.testing.assert_allclose(pulled(store, key).numpy(), array, atol=1e-6)


def test_rows_are_pulled_and_the_others_are_zero(store):
    store.init("rows", torch.arange(12.0).reshape(4, 3))
    out = torch.full((4, 3), -1.0)
    store.row_sparse_pull("rows", out, torch.tensor([2, 0, 2]))
    expected = torch.zeros(4, 3)
    expected[0], expected[2] = torch.arange(3.0), torch.arange(6.0, 9.0)
    assert torch.equal(out, expected)
    with pytest.raises(UsageError, match="rows of key 'rows' are 0 to 3, found 1 to 4"):
        store.row_sparse_pull("rows", out, torch.tensor([1, 4]))


def test_codes_of_a_device_store_are_mxnets_one_residual_for_each_device():
    with netweave.kvstore.create("device") as store:
        store.set_gradient_compression({"type": "2bit", "threshold": 0.5})
        store.init("weight", torch.zeros(3, 7))
        residuals = [np.zeros(21, np.float32)] * 2
        for push in range(4):
            values = [value(0, device, push) for device in range(2)]
            store.push("weight", values)
            expected = np.zeros(21, np.float32)
            for device in range(2):
                gradient = values[device].numpy().reshape(-1)
                before = residuals[device] + gradient
                _, residuals[device] = mxnet_codes(gradient, residuals[device], np.float32(0.5))
                expected += before - residuals[device]
            out = torch.empty(3, 7)
            store.pull("weight", out)
            np.testing.assert_array_equal(out.numpy().reshape(-1), expected)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda store: netweave.kvstore.create("p3"), "expected one of local, device, dist_sync, dist_async"),
        (lambda store: netweave.kvstore.create("dist_sync"), "start them with: netweave launch"),
        (lambda store: store.init("weight", torch.ones(1)), "key 'weight' of the store has a value already"),
        (
            lambda store: store.push("bias", torch.ones(1)),
            "expected one of 'weight', or call init to give it a value",
        ),
        (lambda store: store.push("weight", torch.ones(3)), r"has shape \(2, 3\), found \(3,\)"),
        (lambda store: store.push(["weight"], []), "1 keys and 0 values were given"),
        (
            lambda store: store.set_gradient_compression({"type": "2bit"}),
            "a local store has nothing to compress",
        ),
    ],
)
def test_wrong_calls_are_refused(store, call, message):
    with pytest.raises(UsageError, match=message):
        call(store)


def test_an_error_of_an_updater_comes_up_where_its_key_is_pulled(store):
    def fail(key, merged, stored):
        raise ValueError("no")

    store.set_updater(fail)
    store.push("weight", torch.ones(2, 3))
    with pytest.raises(ValueError, match="no"):
        pulled(store)


@pytest.mark.multi
@pytest.mark.slow
def test_workers_sum_what_all_devices_of_all_workers_push(tmp_path):
    command = [sys.executable, "-m", "tests.training.parallel.workers", str(tmp_path)]
    assert Launcher(command, ["cpu"] * 3, 0, print).run() == 0
    found = [dict(np.load(tmp_path / f"{worker}.npz")) for worker in range(3)]
    for one in found:
        assert one.keys() == found[0].keys()
        assert all(np.array_equal(one[key], found[0][key]) for key in one)
    values = [
        np.stack([value(worker, device, push).numpy() for worker in range(3) for device in range(2)])
        for push in range(3)
    ]
    assert found[0]["num_workers"] == 3
    assert not found[0]["first"].any()
    np.testing.assert_array_equal(found[0]["assigned"], values[2].sum(0))
    np.testing.assert_array_equal(found[0]["updated"], -0.5 * 0.25 * sum(one.sum(0) for one in values))
    np.testing.assert_allclose(found[0]["coded"], coded_result(), atol=1e-6)


def coded_result():
    """The optimizer is still set: each sum of codes is one update of ``sgd``."""
    weight, residuals = np.zeros(21), [np.zeros(21, np.float32)] * 3
    for push in range(3):
        total = np.zeros(21, np.float32)
        for worker in range(3):
            gradient = value(worker, 0, push).numpy().reshape(-1)
            before = residuals[worker] + gradient
            _, residuals[worker] = mxnet_codes(gradient, residuals[worker], np.float32(0.5))
            total += before - residuals[worker]
        weight -= 0.5 * 0.25 * total
    return weight.reshape(3, 7)
