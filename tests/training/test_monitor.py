"""Watched values are those of the net, counted by NumPy; watching changes no bit of a run."""

from __future__ import annotations

import re

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from netweave import api
from netweave.errors import UsageError
from netweave.training import Monitor, ValuesSeen
from netweave.training.monitor import statistics_of
from tests.training.small import BATCH, NET, NUM_FEATURES, SOLVER, records, write


def run(folder, monitor, *, solver=SOLVER, **options):
    folder.mkdir(exist_ok=True)
    x, labels = records()
    file = write(folder, solver.replace("kept/", f"{folder}/kept/"))
    job = api.load_job(file, input_shapes={"data": (BATCH, NUM_FEATURES), "label": (BATCH,)})
    events = []
    net = api.train(
        job, data={"train": {"data": x, "label": labels}}, monitor=monitor, watch=events.append, **options
    )
    params = {name: tensor.detach().numpy().copy() for name, tensor in net.params.items()}
    return [event for event in events if isinstance(event, ValuesSeen)], params


@pytest.mark.parametrize(
    "values",
    [
        np.random.default_rng(0).normal(size=(4, 5, 3)),
        np.maximum(np.random.default_rng(1).normal(size=1000), 0),
        np.full(7, 2.5),
        np.array([1.0, np.nan, np.inf, -3.0]),
        np.array(4.0),
    ],
    ids=["normal", "rectified", "constant", "not finite", "one"],
)
def test_statistics_are_numpys(values):
    values = values.astype(np.float32)
    found = statistics_of(torch.from_numpy(values))
    finite = values[np.isfinite(values)]
    assert found.shape == values.shape
    assert found.mean == pytest.approx(finite.mean(dtype=np.float64), rel=1e-6)
    assert found.std == pytest.approx(finite.std(dtype=np.float64), rel=1e-6, abs=1e-7)
    assert (found.minimum, found.maximum) == (finite.min(), finite.max())
    assert found.zeros == pytest.approx((finite == 0).mean())
    assert found.not_finite == values.size - finite.size
    assert sum(found.counts) == finite.size
    if finite.min() < finite.max():
        assert found.counts == tuple(np.histogram(finite.astype(np.float64), len(found.counts))[0])


def test_values_that_are_all_bad():
    found = statistics_of(torch.tensor([float("nan")]))
    assert (found.not_finite, sum(found.counts)) == (1, 0)
    assert "1 not finite" in str(found)


def test_what_is_seen_is_what_the_net_computes(tmp_path):
    """Features times weights of the checkpoint that the update began from, by NumPy."""
    solver = re.sub("iter_size: 2 display: 4", "iter_size: 1 display: 5", SOLVER) + "snapshot: 5\n"
    monitor = Monitor(5, lambda value: value.clone().numpy())
    seen, _ = run(tmp_path, monitor, solver=solver)
    assert [event.iteration for event in seen] == [0, 5, 10, 15]
    assert list(seen[0].values) == ["ip_output", "loss_output", "ip/0", "ip/1"]
    x = records()[0].astype(np.float32)
    for event in seen:
        weight, bias = event.values["ip/0"], event.values["ip/1"]
        batch = x[np.arange(event.iteration * BATCH, (event.iteration + 1) * BATCH) % len(x)]
        np.testing.assert_allclose(event.values["ip_output"], batch @ weight.T + bias, rtol=1e-4, atol=1e-5)
    assert not np.array_equal(seen[0].values["ip/0"], seen[1].values["ip/0"])


@pytest.mark.parametrize("num_stages", [1, 2])
def test_watching_changes_no_bit(tmp_path, num_stages):
    _, expected = run(tmp_path / "a", None, num_stages=num_stages)
    seen, found = run(tmp_path / "b", ["ip", "ip/*"], num_stages=num_stages)
    assert [event.iteration for event in seen] == [0, 4, 8, 12, 16]
    assert list(seen[0].values) == ["ip", "ip/0", "ip/1"]
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)


def test_a_monitor_in_the_manner_of_mxnet(tmp_path):
    monitor = Monitor(7, lambda x: float(x.norm() / x.numel() ** 0.5), pattern="ip/.*|ip_o", sort=True)
    seen, _ = run(tmp_path, monitor)
    assert [event.iteration for event in seen] == [0, 7, 14]
    assert list(seen[0].values) == ["ip/0", "ip/1", "ip_output"]
    assert all(isinstance(value, float) for event in seen for value in event.values.values())


@pytest.mark.parametrize(
    ("monitor", "message"),
    [
        (["conv9"], r"cannot watch 'conv9': the net has no such value; there are .*'ip'.*'ip/0"),
        (["x*"], r"cannot watch 'x\*'"),
        (Monitor(1, pattern="conv"), "the monitor's pattern 'conv' matches nothing; there are"),
        (Monitor(1, pattern="("), r"the pattern '\(' of the monitor is damaged"),
        (Monitor(0), "values are to be watched every 0 updates, expected 1 or more"),
    ],
)
def test_what_cannot_be_watched(tmp_path, monitor, message):
    with pytest.raises(UsageError, match=message):
        run(tmp_path, monitor)


@pytest.mark.slow
def test_event_files_have_statistics_and_histograms(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    seen, _ = run(tmp_path, ["ip", "ip/1"], events=tmp_path / "runs")
    found = EventAccumulator(str(tmp_path / "runs"), size_guidance={"scalars": 0, "histograms": 0})
    found.Reload()
    assert set(found.Tags()["histograms"]) == {"watch/ip", "watch/ip/1"}
    told = [event.values["ip"] for event in seen]
    assert [row.value for row in found.Scalars("watch/ip/mean")] == pytest.approx([one.mean for one in told])
    for row, one in zip(found.Histograms("watch/ip"), told, strict=True):
        histogram = row.histogram_value
        assert histogram.num == BATCH * 4
        assert sum(histogram.bucket) == histogram.num
        assert histogram.min == pytest.approx(one.minimum)
        assert histogram.bucket_limit[-1] == pytest.approx(one.maximum)
        assert histogram.sum == pytest.approx(one.mean * histogram.num)
    assert "layer" in NET
