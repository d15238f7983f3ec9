"""Training with A-Softmax and centers: by the sources' updates in NumPy, and resumed in the middle."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

from netweave.formats.caffe.job import read_solver
from netweave.graph import find_operator
from netweave.runtime.engine import SerialEngine
from netweave.training.checkpoint_file import read_checkpoint
from tests.training.trainers import make_trainer

SOLVER = """net: "net.prototxt" base_lr: 0.1 lr_policy: "fixed" momentum: 0.9 weight_decay: 0.01
max_iter: 6 snapshot: 3 snapshot_prefix: "faces"
"""
NET = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 8 dim: 6 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 8 } } }
layer { name: "fc" type: "MarginInnerProduct" bottom: "data" bottom: "label" top: "fc" top: "lambda"
  param { lr_mult: 2 }
  margin_inner_product_param { num_output: 4 type: TRIPLE base: 10 gamma: 0.5 lambda_min: 3
    weight_filler { type: "xavier" } } }
layer { name: "softmax" type: "SoftmaxWithLoss" bottom: "fc" bottom: "label" top: "softmax" }
layer { name: "center" type: "CenterLoss" bottom: "data" bottom: "label" top: "center" loss_weight: 0.01
  param { decay_mult: 0 }
  center_loss_param { num_output: 4 center_filler { type: "gaussian_unitball" } } }
"""
DATA = np.random.default_rng(0).standard_normal((48, 6)).astype(np.float32)
LABELS = np.random.default_rng(1).integers(0, 4, 48).astype(np.float32)


def arrays_of(trainer):
    return {key: value.detach().numpy().copy() for key, value in trainer.nets["train"].params.items()}


def trained(folder, *, resume=None):
    """Train from the solver in a folder; return the arrays by key at the beginning and the end."""
    job = read_solver(folder / "solver.prototxt")
    with SerialEngine() as engine:
        given = {"train": {"data": DATA, "label": LABELS}}
        trainer = make_trainer(job, engine=engine, data=given, resume=resume)
        first = arrays_of(trainer)
        try:
            trainer.run()
        finally:
            trainer.close()
        return first, arrays_of(trainer)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.prototxt").write_text(NET)
    (tmp_path / "solver.prototxt").write_text(SOLVER)
    return tmp_path


def test_updates_are_those_of_the_sources(folder):
    """SGD of Caffe on weights that each forward pass has put to length 1, and on centers."""
    first, last = trained(folder)
    weight, centers = first["fc/0"].astype(float), first["center/0"].astype(float)
    moved = [np.zeros_like(weight), np.zeros_like(centers)]
    margin, center = find_operator("MarginInnerProduct"), find_operator("CenterLoss")
    for step in range(6):
        x = DATA[8 * step : 8 * step + 8].astype(float)
        labels = LABELS[8 * step : 8 * step + 8]
        weight /= np.linalg.norm(weight, axis=1, keepdims=True)
        share = np.array([max(10 / (1 + 0.5 * (step + 1)), 3)])
        given = [x, weight, labels, share]
        (scores,) = margin.forward(given, {"margin": 3})
        p = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
        above = (p - np.eye(4)[labels.astype(int)]) / 8
        by_weight = margin.gradient(given, [scores], [above], {"margin": 3})[1]
        by_center = center.gradient([x, labels, centers], [], [np.array(0.01)], {})[2]
        moved[0] = 0.9 * moved[0] + 0.2 * (by_weight + 0.01 * weight)
        moved[1] = 0.9 * moved[1] + 0.1 * by_center
        weight, centers = weight - moved[0], centers - moved[1]
    np.testing.assert_allclose(last["fc/0"], weight, atol=2e-6)
    np.testing.assert_allclose(last["center/0"], centers, atol=2e-6)


def test_lambda_goes_on_after_a_resume(folder):
    _, whole = trained(folder)
    _, again = trained(folder, resume=folder / "faces_iter_3.checkpoint")
    for key, array in whole.items():
        np.testing.assert_array_equal(again[key], array, err_msg=key)
    kept = read_checkpoint(folder / "faces_iter_6.checkpoint").arrays
    assert [array.tolist() for key, array in kept.items() if "CallCount" in key or "memory" in key] == [[6.0]]
