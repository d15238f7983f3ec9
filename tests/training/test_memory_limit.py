"""A run with a limit on its memory ends with the same bits, or is refused before it begins."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

pytest.importorskip("torch")

from netweave.errors import UsageError
from netweave.formats.caffe.job import read_solver
from netweave.runtime.engine import SerialEngine
from netweave.runtime.memory_plan import parse_bytes
from netweave.training import NormsSeen, ValuesSeen, Watched
from netweave.training.metrics import NormWatch
from netweave.training.monitor import ValueWatch
from tests.training.trainers import make_trainer

BATCH, SIZE = 8, 16

LAYERS = """layer { name: "conv%d" type: "Convolution" bottom: "%s" top: "conv%d"
  convolution_param { num_output: 16 kernel_size: 3 pad: 1 weight_filler { type: "msra" } } }
layer { name: "norm%d" type: "BatchNorm" bottom: "conv%d" top: "norm%d" }
layer { name: "scale%d" type: "Scale" bottom: "norm%d" top: "scale%d" scale_param { bias_term: true } }
layer { name: "relu%d" type: "ReLU" bottom: "scale%d" top: "scale%d" }
layer { name: "drop%d" type: "Dropout" bottom: "scale%d" top: "drop%d" dropout_param { dropout_ratio: 0.3 } }
"""

NET = (
    f"""name: "normalised"
layer {{ name: "data" type: "MemoryData" top: "data" top: "label"
  memory_data_param {{ batch_size: {BATCH} channels: 3 height: {SIZE} width: {SIZE} }} }}
"""
    + "".join(
        LAYERS.replace("%s", before).replace("%d", str(number))
        for number, before in ((1, "data"), (2, "drop1"), (3, "drop2"))
    )
    + """layer { name: "ip" type: "InnerProduct" bottom: "drop3" top: "ip"
  inner_product_param { num_output: 4 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
"""
)

SOLVER = """net: "net.prototxt" base_lr: 0.05 lr_policy: "fixed" momentum: 0.9 max_iter: 6 iter_size: 2
random_seed: 5 snapshot_after_train: false
"""


def trained(folder, **options):
    """Train; return all arrays, moving statistics among them, and what the run took."""
    (folder / "net.prototxt").write_text(NET)
    (folder / "solver.prototxt").write_text(SOLVER)
    job = read_solver(folder / "solver.prototxt")
    draw = np.random.default_rng(0)
    data = {
        "data": draw.normal(size=(40, 3, SIZE, SIZE)).astype(np.float32),
        "label": draw.integers(4, size=40),
    }
    with SerialEngine() as engine:
        looks = options.pop("looks", lambda job: ())(job)
        trainer = make_trainer(job, engine=engine, data={"train": data}, looks=looks, **options)
        trainer.run()
        trainer.close()
    return {key: tensor.detach().clone().numpy() for key, tensor in trainer.nets["train"].params.items()}


def least(folder):
    with pytest.raises(UsageError) as refused:
        trained(folder, memory=1000)
    return refused.value


def needed(message):
    return parse_bytes(re.search(r"needs at least ([\d.]+ \w+)", str(message))[1])


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["f32", "bf16"])
def test_with_as_little_memory_as_it_takes_every_bit_is_the_same(tmp_path, monkeypatch, precision):
    monkeypatch.setattr("netweave.training.net_passes.check_bfloat16", lambda device: None)
    expected = trained(tmp_path, precision=precision)
    found = trained(tmp_path, precision=precision, memory=int(needed(least(tmp_path)) * 1.01))
    assert expected.keys() == found.keys()
    for key, array in expected.items():
        np.testing.assert_array_equal(found[key], array, err_msg=key)


def test_a_limit_that_nothing_fits_in_is_refused_with_what_would(tmp_path):
    message = str(least(tmp_path))
    assert "The limit is 1.00 kB" in message
    assert "give it" in message
    assert "accumulated" not in message, "not one record fits into 1,000 bytes"
    some = needed(message) * 3 // 4
    with pytest.raises(UsageError, match=r"batches of (\d) or less \(\d+ of them accumulated") as refused:
        trained(tmp_path, memory=some)
    batch = int(re.search(r"batches of (\d) or less", str(refused.value))[1])
    assert 1 <= batch < BATCH


@pytest.mark.slow
@pytest.mark.parametrize("num_stages", [2, 3, 50])
def test_stages_within_a_limit_end_with_the_same_bits(tmp_path, num_stages):
    expected = trained(tmp_path)
    with pytest.raises(UsageError) as refused:
        trained(tmp_path, memory=1000, num_stages=num_stages)
    found = trained(tmp_path, memory=int(needed(refused.value) * 1.01), num_stages=num_stages)
    for key, array in expected.items():
        np.testing.assert_array_equal(found[key], array, err_msg=key)


@pytest.mark.parametrize("text", ["", "4 apples", "GB", "-1MB", "4iB"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(UsageError, match="expected a size such as 4GB"):
        parse_bytes(text)


@pytest.mark.slow
@pytest.mark.parametrize("debug", [False, True])
def test_values_are_looked_at_within_a_limit(tmp_path, debug):
    """What is looked at stays until forward ends: the plan counts it, and bits and values are the same."""
    seen: dict[str, list] = {"plain": [], "limited": []}

    def run(name, memory):
        look = partial(looked_at, debug=debug)
        return trained(tmp_path, looks=look, memory=memory, watch=seen[name].append)

    plain = run("plain", None)
    with pytest.raises(UsageError) as refused:
        run("limited", 1000)
    assert needed(refused.value) > needed(least(tmp_path))
    limited = run("limited", int(needed(refused.value) * 1.01))
    for key, array in plain.items():
        np.testing.assert_array_equal(limited[key], array)
    kinds = ValuesSeen | NormsSeen
    found = [[str(event) for event in seen[name] if isinstance(event, kinds)] for name in seen]
    assert len(found[0]) >= 3
    assert found[0] == found[1]


def looked_at(job, *, debug):
    graph, schedule = job.phases["train"].graph, replace(job.schedule, display_interval=2)
    if debug:
        return [NormWatch(graph, schedule)]
    return [ValueWatch(graph, Watched(2, ("scale1", "conv2", "relu3")))]
