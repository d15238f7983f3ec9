"""A bias that one net lacks, a factor behind a normalisation, and differences that few inputs show."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save

import netweave
from netweave.comparison import Status, Verdict, size_search
from netweave.comparison.execution import memory_budget

if TYPE_CHECKING:
    from pathlib import Path

RNG = np.random.default_rng(4)
WEIGHT = RNG.standard_normal((4, 6), dtype=np.float32)
FILTERS = RNG.standard_normal((8, 3, 3, 3), dtype=np.float32)
VECTORS = {key: (0.5 + RNG.random(8)).astype(np.float32) for key in ("mean", "var", "factor", "shift")} | {
    "ones": np.ones(8, np.float32),
    "zeros": np.zeros(8, np.float32),
}


def written(path: Path, shape: tuple[int, ...], rows: list[tuple], stored: dict[str, np.ndarray]) -> Path:
    """A chain of nodes, each (operator, name, stored inputs), named after its output."""
    nodes, last = [], "x"
    for op_type, name, inputs in rows:
        nodes.append(helper.make_node(op_type, [last, *inputs], [name], name=name))
        last = name
    used = {key for _, _, inputs in rows for key in inputs}
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", *shape])],
        [helper.make_tensor_value_info(last, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.float32(stored[key]), key) for key in sorted(used)],
    )
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)
    return path


def culprit(found):
    assert found.verdict is Verdict.DIFFERENT, found.sentence
    return next(group.finding for group in found.groups if group.finding and not group.finding.latent)


@pytest.mark.parametrize("side", ["a", "b"])
def test_an_addition_behind_a_product_that_one_net_lacks_is_its_bias(tmp_path, side):
    stored = {"w": WEIGHT, "b": RNG.standard_normal(6), "v": RNG.standard_normal((6, 5))}
    ends = [("Tanh", "tanh", []), ("MatMul", "out", ["v"])]
    without = written(tmp_path / "without.onnx", (4,), [("MatMul", "dense", ["w"]), *ends], stored)
    rows = [("MatMul", "dense", ["w"]), ("Add", "bias", ["b"]), *ends]
    biased = written(tmp_path / "biased.onnx", (4,), rows, stored)
    pair = (biased, without) if side == "a" else (without, biased)
    finding = culprit(netweave.compare(*pair))
    assert finding.mismatch == "missing-bias"
    assert (finding.layer_a, finding.layer_b) == (("bias", "dense") if side == "a" else ("dense", "bias"))


def test_a_wrong_factor_behind_a_normalisation_is_not_called_its_gamma(tmp_path):
    """Caffe's BatchNorm has every gamma 1 and leaves the factor to the Scale behind it."""
    vectors = {key: x.reshape(8, 1, 1) for key, x in VECTORS.items() if key in {"factor", "shift"}}
    scale = vectors["factor"] / np.sqrt(VECTORS["var"] + np.float32(1e-5)).reshape(8, 1, 1)
    folded = {
        "w": FILTERS,
        "scale": scale,
        "shift": vectors["shift"] - VECTORS["mean"].reshape(8, 1, 1) * scale,
    }
    a = written(
        tmp_path / "a.onnx",
        (3, 9, 9),
        [("Conv", "conv", ["w"]), ("Mul", "mul", ["scale"]), ("Add", "add", ["shift"])],
        folded,
    )
    rows = [
        ("Conv", "conv", ["w"]),
        ("BatchNormalization", "norm", ["ones", "zeros", "mean", "var"]),
        ("Mul", "mul", ["factor"]),
        ("Add", "add", ["shift"]),
    ]
    stored = {"w": FILTERS} | VECTORS | vectors
    right = written(tmp_path / "right.onnx", (3, 9, 9), rows, stored)
    assert netweave.compare(a, right).equal
    wrong = written(tmp_path / "wrong.onnx", (3, 9, 9), rows, stored | {"factor": 1.25 * vectors["factor"]})
    finding = culprit(netweave.compare(a, wrong))
    assert (finding.mismatch, finding.layer_b) == ("weights", "mul")
    assert finding.error_fixed <= 1e-4


def test_more_inputs_are_drawn_before_a_difference_is_said_to_have_no_effect(tmp_path, monkeypatch):
    """One unit is alive on none of the first inputs, and on some of the further ones."""

    def largest(seed):
        return float(
            (
                memory_budget.draw(graph, {"x": (memory_budget.NUM_SAMPLES, 4)}, seed=seed).inputs["x"] @ unit
            ).max()
        )

    unit = np.array([-0.5, 1, -0.25, -1], np.float32)
    rows = [
        ("MatMul", "dense", ["w"]),
        ("Add", "shifted", ["t"]),
        ("Relu", "relu", []),
        ("MatMul", "out", ["v"]),
    ]
    stored = {
        "w": np.stack([unit, -unit, WEIGHT[:, 0]], axis=1),
        "t": np.zeros(3),
        "v": RNG.standard_normal((3, 3)),
    }
    graph = netweave.load(written(tmp_path / "any.onnx", (4,), rows, stored))
    first, later = largest(0), max(map(largest, size_search.FURTHER_SEEDS))
    assert later > first  # as drawn; else another unit must be taken
    stored["t"] = np.array([-(first + later) / 2, 0, 0])
    a = written(tmp_path / "a.onnx", (4,), rows, stored)
    other = stored["v"].copy()
    other[0, 0] = 30
    b = written(tmp_path / "b.onnx", (4,), rows, stored | {"v": other})
    assert culprit(netweave.compare(a, b)).mismatch == "weights"
    monkeypatch.setattr(size_search, "FURTHER_SEEDS", ())
    found = netweave.compare(a, b)
    assert found.equal
    assert any(group.status is Status.LATENT for group in found.groups)


def test_weights_that_have_nothing_in_common_are_told_apart(tmp_path):
    """The fingerprint of a filter with one large weight is far from that of any other."""
    single = np.zeros((4, 6), np.float32)
    single[0] = 5
    a = written(tmp_path / "a.onnx", (4,), [("MatMul", "dense", ["w"])], {"w": WEIGHT})
    b = written(tmp_path / "b.onnx", (4,), [("MatMul", "dense", ["w"])], {"w": single})
    assert culprit(netweave.compare(a, b)).mismatch == "weights"
