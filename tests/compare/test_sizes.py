"""Nets that are bound to one image size by what only running shows: a flatten that counts the pixels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save

import netweave
from netweave.errors import RunError

if TYPE_CHECKING:
    from pathlib import Path

WEIGHT = np.random.default_rng(0).standard_normal((128, 5), dtype=np.float32)


def written(path: Path, bias: float = 0, *, pixels: int = 64) -> Path:
    """Images of 8 by 8; the flatten leaves the batch open, so that shapes alone refuse no size."""
    nodes = [
        helper.make_node("Relu", ["x"], ["relu"], name="relu"),
        helper.make_node("Reshape", ["relu", "rows"], ["flat"], name="flat"),
        helper.make_node("Gemm", ["flat", "w", "b"], ["y"], name="dense"),
    ]
    stored = {
        "w": WEIGHT[: 2 * pixels],
        "b": np.full(5, bias, np.float32),
        "rows": np.array([-1, 2 * pixels], np.int64),
    }
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 2, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 5])],
        [numpy_helper.from_array(values, name) for name, values in stored.items()],
    )
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)
    return path


@pytest.mark.parametrize("bias", [0, 0.5])
def test_a_size_at_which_a_net_does_not_run_is_left_out_and_said(tmp_path, bias):
    found = netweave.compare(written(tmp_path / "a.onnx"), written(tmp_path / "b.onnx", bias))
    assert found.probes == ("x 3x2x8x8",)
    assert found.notes == ("not compared at x 3x2x13x20, at which a net does not run",)
    assert [finding.trap for finding in found.findings] == (["weights"] if bias else [])


def test_nets_that_run_at_no_size_are_an_error(tmp_path):
    broken = written(tmp_path / "a.onnx", pixels=11)  # 3 images of 128 values are no rows of 22
    with pytest.raises(RunError, match="Reshape"):
        netweave.compare(broken, broken)
