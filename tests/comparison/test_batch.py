"""Nets that are bound to one batch size, as fixed-batch exports are, against others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save

import netweave
from netweave.comparison import Verdict

if TYPE_CHECKING:
    from pathlib import Path

WEIGHT = np.random.default_rng(0).standard_normal((4, 6), dtype=np.float32)


def written(path: Path, batch: int | None, weight: np.ndarray = WEIGHT) -> Path:
    """A matrix product; with a batch, of rows that a reshape binds to it."""
    nodes = [helper.make_node("MatMul", ["rows", "w"], ["product"], name="dense")]
    stored = [numpy_helper.from_array(weight, "w")]
    if batch is None:
        nodes.insert(0, helper.make_node("Identity", ["x"], ["rows"], name="rows"))
    else:
        views = [("x", "turned", [4, batch]), ("turned", "rows", [batch, 4])]
        for source, name, sizes in reversed(views):
            stored.append(numpy_helper.from_array(np.array(sizes, np.int64), f"{name}/sizes"))
            nodes.insert(0, helper.make_node("Reshape", [source, f"{name}/sizes"], [name], name=name))
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch or "N", 4])],
        [helper.make_tensor_value_info("product", TensorProto.FLOAT, None)],
        stored,
    )
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)
    return path


@pytest.mark.parametrize("batch", [2, 5])
def test_a_bound_batch_is_that_of_the_other_net_too(tmp_path, batch):
    fixed, free = written(tmp_path / "fixed.onnx", batch), written(tmp_path / "free.onnx", None)
    for pair in ((fixed, free), (free, fixed), (fixed, fixed)):
        found = netweave.compare(*pair)
        assert found.equal, found.sentence
        assert found.probes == (f"x {batch}x4",)


def test_a_fault_is_found_in_a_net_with_a_bound_batch(tmp_path):
    wrong = WEIGHT.copy()
    wrong[1, 2] += 1
    fixed = written(tmp_path / "fixed.onnx", 2, wrong)
    found = netweave.compare(written(tmp_path / "free.onnx", None), fixed)
    assert found.verdict is Verdict.DIFFERENT
    assert [(f.layer_b, f.mismatch) for f in found.findings] == [("dense", "weights")]


def test_two_bound_batches_cannot_be_compared_and_both_are_said(tmp_path):
    found = netweave.compare(written(tmp_path / "a.onnx", 2), written(tmp_path / "b.onnx", 3))
    assert found.verdict is Verdict.UNDECIDED
    (note,) = found.notes
    assert note == "B has the inputs x 3x4 and cannot be run on x 2x4: its sizes would not match"
