"""DummyData: what Caffe's fillers make, record by record, and from a net's file."""

from __future__ import annotations

import numpy as np
import pytest

from netweave import api
from netweave.errors import UnsupportedError
from netweave.training import Updated
from netweave.training.data.sources.arrays import Filled

NET = """name: "dummy"
layer { name: "data" type: "DummyData" top: "data" top: "label"
  dummy_data_param { shape { dim: 4 dim: 2 dim: 3 dim: 3 } shape { dim: 4 }
    data_filler { type: "gaussian" mean: 5 std: 0.5 } data_filler { type: "constant" value: 2 } } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip" inner_product_param { num_output: 3
  weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
"""
SOLVER = 'net: "net.prototxt" base_lr: 0.1 lr_policy: "fixed" max_iter: 30 display: 1 random_seed: 1\n'


def test_fillers():
    fillers = [{"type": "uniform", "min": -1.0, "max": 3.0}, {"type": "constant", "value": 7.0}]
    source = Filled([(50, 50), ()], fillers)
    first, label = source.read(0)
    assert label == 7
    assert first.shape == (50, 50)
    assert -1 <= first.min() < -0.9
    assert 2.9 < first.max() <= 3
    np.testing.assert_array_equal(first, source.read(0)[0])
    assert not np.array_equal(first, source.read(1)[0])
    normal = Filled([(3, 60, 60)], [{"type": "gaussian", "mean": 2.0, "std": 0.5}])
    assert normal.images
    assert normal.read(0)[0].shape == (60, 60, 3)
    assert normal.read(0)[0].mean() == pytest.approx(2, abs=0.02)
    assert normal.read(0)[0].std() == pytest.approx(0.5, abs=0.02)
    with pytest.raises(
        UnsupportedError, match=r"net.prototxt:3: fills records with 'xavier', expected constant"
    ):
        Filled([(3,)], [{"type": "xavier"}], "net.prototxt:3")


def test_a_net_of_dummy_data_trains_as_it_is(tmp_path):
    pytest.importorskip("torch")
    (tmp_path / "net.prototxt").write_text(NET)
    (tmp_path / "solver.prototxt").write_text(SOLVER)
    events = []
    api.train(tmp_path / "solver.prototxt", watch=events.append)
    told = [event.loss for event in events if isinstance(event, Updated)]
    assert len(told) == 30
    assert told[-1] < 0.1 * told[0]  # every label is 2
