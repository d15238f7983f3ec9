"""Nets that are bound to one image size by what only running shows: a flatten that counts the pixels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save

import netweave
from netweave.comparison import Status, Verdict
from netweave.errors import RunError
from netweave.files.sandbox import has_guard
from netweave.graph import GraphBuilder, Layer, Parameter
from tests.comparison.onnx_text import read_text
from tests.oracles import recipe

if TYPE_CHECKING:
    from pathlib import Path

WEIGHT = np.random.default_rng(0).standard_normal((128, 5), dtype=np.float32)


def written(path: Path, bias: float = 0, *, pixels: int = 64) -> Path:
    """Images of 8 by 8; the flatten leaves open how many, and all are averaged: shapes refuse no size."""
    nodes = [
        helper.make_node("Relu", ["x"], ["relu"], name="relu"),
        helper.make_node("Reshape", ["relu", "rows"], ["flat"], name="flat"),
        helper.make_node("Gemm", ["flat", "w", "b"], ["each"], name="dense"),
        helper.make_node("ReduceMean", ["each", "examples"], ["y"], name="mean"),
    ]
    stored = {
        "w": WEIGHT[: 2 * pixels],
        "b": np.full(5, bias, np.float32),
        "rows": np.array([-1, 2 * pixels], np.int64),
        "examples": np.array([0], np.int64),
    }
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 2, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 5])],
        [numpy_helper.from_array(values, name) for name, values in stored.items()],
    )
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)
    return path


@pytest.mark.parametrize("bias", [0, 0.5])
def test_a_size_at_which_a_net_does_not_run_is_left_out_and_said(tmp_path, bias):
    found = netweave.compare(written(tmp_path / "a.onnx"), written(tmp_path / "b.onnx", bias))
    assert found.probes == ("x 3x2x8x8",)
    assert found.notes == ("not compared at x 3x2x13x20: one of the nets cannot be run at this size",)
    assert [finding.mismatch for finding in found.findings] == (["weights"] if bias else [])


def test_nets_that_run_at_no_size_are_an_error(tmp_path):
    broken = written(tmp_path / "a.onnx", pixels=11)  # 3 images of 128 values are no rows of 22
    with pytest.raises(RunError, match="Reshape"):
        netweave.compare(broken, broken)


def bound(side, *extra):
    """A convolution, layers of one's own, a rectifier and a dense layer for images of one size alone."""
    builder = GraphBuilder("net", format="onnx")
    x = builder.input("x", (1, 3, side, side))

    def stored(key, shape, kind="filter"):
        return builder.parameter(Parameter(key, shape), recipe.weight(key, shape, kind))

    with builder.layer(Layer("conv", "conv", "Conv")):
        x = builder.add("Conv", [x, stored("conv/w", (4, 3, 3, 3))])
    width = side - 2
    for op_type in extra:
        with builder.layer(Layer(op_type, op_type, op_type)):
            scales = [stored("scale", (width,), "gamma")] if op_type == "LayerNormalization" else []
            x = builder.add(op_type, [x, *scales])
    with builder.layer(Layer("relu", "relu", "Relu")):
        x = builder.add("Relu", [x])
    with builder.layer(Layer("dense", "dense", "Gemm")):
        w = stored("dense/w", (4 * width * width, 5))
        return builder.finish([builder.add("Gemm", [builder.add("Flatten", [x]), w], outputs="y")])


def test_a_layer_that_only_a_net_of_another_size_has_is_judged_on_the_first_nets_values():
    """B cannot be run on A's images; its own layers can be, one by one."""
    found = netweave.compare(bound(8), bound(12, "Tanh"))
    assert found.verdict is Verdict.DIFFERENT
    assert found.findings[0].cause == "B has Tanh here, A has nothing after conv"
    assert "cannot be run on x 3x3x8x8" in found.notes[0]
    (group,) = [group for group in found.groups if group.layers_b == ("Tanh",)]
    assert group.status is Status.ONLY_B


def test_a_layer_without_effect_has_none_in_a_net_that_was_not_run_either():
    found = netweave.compare(bound(8, "Abs"), bound(12, "Abs", "Elu"))
    (group,) = [group for group in found.groups if not group.layers_a]
    assert (group.layers_b, group.status) == (("Elu",), Status.LATENT)


def test_a_layer_that_does_not_run_on_the_first_nets_values_is_judged_on_its_own_nets():
    """A normalisation whose stored scales are of B's width."""
    found = netweave.compare(bound(8), bound(12, "LayerNormalization"))
    (group,) = [group for group in found.groups if not group.layers_a]
    assert group.status is Status.ONLY_B
    assert found.verdict is Verdict.DIFFERENT
    assert found.findings[0].cause == "B has LayerNormalization here, A has nothing after conv"


CROP = """
layer {{ name: "data" type: "Input" top: "data" input_param {{ shape {{ dim: 1 dim: 3 dim: 16 dim: 16 }} }} }}
layer {{ name: "conv" type: "Convolution" bottom: "data" top: "conv"
  convolution_param {{ num_output: 4 kernel_size: 3 pad: 5 }} }}
layer {{ name: "score" type: "Crop" bottom: "conv" bottom: "data" top: "score"
  crop_param {{ axis: 2 offset: {offset} }} }}
"""


def cropping(path: Path) -> Path:
    """A convolution that is cut from place 3 on to the size of the image, which is open."""
    shape = helper.make_node("Shape", ["x"], ["sizes"], start=2, name="sizes")
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["wide"], pads=[5, 5, 5, 5], name="conv"),
        shape,
        helper.make_node("Add", ["sizes", "starts"], ["ends"], name="ends"),
        helper.make_node("Slice", ["wide", "starts", "ends", "axes"], ["y"], name="cut"),
    ]
    stored = {
        "w": np.random.default_rng(0).standard_normal((4, 3, 3, 3), dtype=np.float32),
        "starts": np.array([3, 3], np.int64),
        "axes": np.array([2, 3], np.int64),
    }
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, "H", "W"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 4, "H", "W"])],
        [numpy_helper.from_array(values, name) for name, values in stored.items()],
    )
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)
    return path


@pytest.mark.parametrize("offset", [3, 4])
def test_a_cut_to_the_size_of_the_image_follows_the_image_at_other_sizes(tmp_path, offset):
    net = tmp_path / "net.prototxt"
    net.write_text(CROP.format(offset=offset))
    found = netweave.compare(net, cropping(tmp_path / "port.onnx"))
    assert found.probes[0] == "data 3x3x21x28"
    assert [(pair.a, pair.b) for pair in found.outputs] == [("score", "y")]
    assert (found.error == 0) == (offset == 3)
    assert (found.verdict.name == "DIFFERENT") == (offset == 4)


@pytest.mark.parametrize(("added", "verdict"), [(10, Verdict.IDENTICAL), (9, Verdict.DIFFERENT)])
def test_nets_that_only_run_on_many_samples_are_run_on_many(added, verdict, tmp_path):
    a, b = (
        read_text(
            f"g (float[N,3] x) => (float[M,3] y) <int64[4] p = {{0,0,{rows},0}}> "
            '{ s = Sigmoid(x) y = Pad<mode="reflect">(s, p) }',
            tmp_path,
            f"net{rows}",
        )
        for rows in (10, added)
    )
    result = netweave.compare(a, b)
    assert result.verdict is verdict
    assert "not compared at x 3x3: one of the nets cannot be run at this size" in result.notes


@pytest.mark.parametrize("is_first", [True, False])
def test_a_net_with_channels_last_is_compared_at_an_odd_size_in_either_order(tmp_path, is_first):
    pool = "AveragePool<kernel_shape=[2,2], strides=[2,2], ceil_mode=CEIL>"
    weights = ", ".join(map(str, np.random.default_rng(0).standard_normal(4 * 3 * 9).round(3)))
    stored = f"<float[4,3,3,3] w = {{{weights}}}>"
    conv = f"c = Conv<kernel_shape=[3,3]>(READ, w) p = {pool}(c) y = GlobalAveragePool(p)"
    last = "float[N,34,34,3] x", "t = Transpose<perm=[0,3,1,2]>(x) " + conv.replace("READ", "t")
    first = "float[N,3,H,W] x", conv.replace("READ", "x")
    nets = [
        read_text(
            f"g ({takes}) => (float[N,4,1,1] y) {stored} {{ {body.replace('CEIL', ceil)} }}", tmp_path, name
        )
        for name, (takes, body), ceil in (("last", last, "0"), ("first", first, "1"))
    ]
    found = netweave.compare(*(nets if is_first else reversed(nets)))
    assert found.verdict is Verdict.DIFFERENT
    assert "rounded" in found.sentence


def test_a_net_that_was_frozen_at_its_size_is_compared_there(tmp_path):
    stored = "<float[4] f = {1,1,2,2}, int64[4] n = {1,2,14,14}>"
    resize = 'Resize<mode="linear", coordinate_transformation_mode="half_pixel">'
    free, frozen = (
        read_text(
            f"g (float[1,2,7,7] x) => (float[1,2,A,B] y) {stored} {{ r = {resize}(x, {sizes}) y = Neg(r) }}",
            tmp_path,
            name,
        )
        for name, sizes in (("free", ", f"), ("frozen", ", , n"))
    )
    found = netweave.compare(free, frozen)
    assert found.verdict is Verdict.IDENTICAL
    assert "not exercised: other sizes (what B computes holds for its own size alone)" in found.sentence


BINS = """
import torch
from torch.nn import functional


class Pooled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scaled = torch.nn.Conv2d(3, 3, 1)
        torch.nn.init.constant_(self.scaled.weight, 0.5)
        torch.nn.init.zeros_(self.scaled.bias)

    def forward(self, x):
        return functional.adaptive_avg_pool2d(self.scaled(x), 2)


class Halves(Pooled):
    def forward(self, x):
        x = self.scaled(x)
        rows, columns = x.shape[2] // 2, x.shape[3] // 2
        top, bottom = x[:, :, :rows], x[:, :, -rows:]
        places = slice(columns), slice(-columns, None)
        parts = [part[..., place].mean((2, 3)) for part in (top, bottom) for place in places]
        return torch.stack(parts, -1).unflatten(-1, (2, 2))
"""


@pytest.mark.parametrize("is_first", [True, False])
def test_code_whose_trace_holds_for_one_size_is_compared_there(is_first, tmp_path):
    """The windows of an adaptive pooling are those of the trace, and at another size not its own."""
    pytest.importorskip("torch")
    (tmp_path / "nets.py").write_text(BINS)
    pooled, halves = (
        netweave.load(f"{tmp_path / 'nets.py'}:{name}", likely_shapes=[(1, 3, 24, 36)], trust=not has_guard())
        for name in ("Pooled", "Halves")
    )
    assert [pooled.clone().is_fixed, halves.is_fixed] == [True, False]
    found = netweave.compare(*((pooled, halves) if is_first else (halves, pooled)))
    assert found.equal
    assert "own size alone" in found.sentence


@pytest.mark.parametrize("is_traced", [True, False])
def test_open_nets_that_take_few_sizes_are_compared_at_the_one_they_were_traced_with(is_traced, tmp_path):
    """A layer that mixes the places of an image has as many weights as the image has patches: here 6."""
    rng = np.random.default_rng(2)
    kernel = ", ".join(f"{x:.4f}" for x in rng.normal(size=12))
    mixing = ", ".join(f"{x:.4f}" for x in rng.normal(size=36))
    text = f"""g (float[N,1,H,W] x) => (float[N,3,6] y)
<float[3,1,2,2] k = {{{kernel}}}, float[6,6] m = {{{mixing}}}, int64[3] sizes = {{0, 0, -1}}>
{{ p = Conv<strides = [2, 2]>(x, k)  t = Reshape(p, sizes)  y = MatMul(t, m) }}"""
    a, b = (read_text(text, tmp_path, name) for name in "ab")
    if is_traced:
        b.assumed = {"x": (1, 1, 4, 6)}
        found = netweave.compare(a, b)
        assert found.equal
        assert "3x1x4x6" in str(found.probes)
    else:
        assert netweave.compare(a, b).verdict is Verdict.UNDECIDED
