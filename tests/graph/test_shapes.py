"""Inferred shapes against what ONNX Runtime returns, against the sources' formulas, and their errors."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from netweave.errors import ShapeError, UsageError
from netweave.graph import GraphBuilder, Layer, Origin, infer_shapes, known_shape, shapes
from netweave.graph.ops.pooling import num_windows, pooling
from netweave.runtime.backends import prepare
from tests.graph.test_pooling import caffe_windows, full_windows

GEOMETRIES = [
    (size, kernel, stride, pad)
    for size in range(3, 15)
    for kernel in (2, 3, 5)
    for stride in (1, 2, 3, 4)
    for pad in (0, 1, 2)
    if pad <= kernel // 2 and kernel <= size + 2 * pad
]
"""What other programs were swept over."""


def one_node(op_type, shapes, attributes=None, *, constants=(), domain=""):
    """A graph of one node; its inputs are called x0, x1, ... and their sizes are as given."""
    builder = GraphBuilder("one", format="onnx")
    inputs = [builder.input(f"x{i}", shape, batch=False) for i, shape in enumerate(shapes)]
    inputs += [builder.constant(c, dtype=np.asarray(c).dtype, name=f"c{i}") for i, c in enumerate(constants)]
    return builder.finish([builder.add(op_type, inputs, attributes or {}, domain=domain, outputs="y")])


def shape_when_run(graph):
    rng = np.random.default_rng(0)
    feeds = {v.name: rng.standard_normal(known_shape(v)).astype(np.float32) for v in graph.inputs}
    return prepare(graph).run(feeds)["y"].shape


@pytest.mark.parametrize(("rounding", "count"), [("floor", 120), ("ceil", 13), ("full", 36), ("caffe", 0)])
def test_rules_differ_from_caffe_as_often_as_was_measured(rounding, count):
    """Counted with ONNX Runtime, PyTorch, MXNet and OpenCV over these 328 geometries."""
    differing = [
        (size, kernel, stride, pad)
        for size, kernel, stride, pad in GEOMETRIES
        if num_windows(size, kernel, stride=stride, pads=(pad, pad), rounding=rounding, any_pad=pad > 0)
        != caffe_windows(size, kernel, stride, pad)
    ]
    assert (len(differing), len(GEOMETRIES)) == (count, 328)


@pytest.mark.parametrize("average", [False, True], ids=["max", "average"])
@pytest.mark.parametrize("ceil_mode", [0, 1])
def test_pooling_shapes_are_those_of_the_runtime(average, ceil_mode):
    op_type = "AveragePool" if average else "MaxPool"
    for size, kernel, stride, pad in GEOMETRIES:
        attributes = {
            "kernel_shape": [kernel, kernel],
            "strides": [stride, stride],
            "pads": [pad] * 4,
            "ceil_mode": ceil_mode,
        }
        graph = one_node(op_type, [(1, 1, size, size + 1)], attributes)
        assert known_shape(graph.outputs[0]) == shape_when_run(graph), (size, kernel, stride, pad)


@pytest.mark.parametrize("average", [False, True], ids=["max", "average"])
@pytest.mark.parametrize(("rounding", "formula"), [("caffe", caffe_windows), ("full", full_windows)])
def test_pooling_shapes_are_those_of_the_source(average, rounding, formula):
    for size, kernel, stride, pad in GEOMETRIES:
        domain, op_type, attributes = pooling(
            average,
            kernel=[kernel, kernel],
            strides=[stride, stride],
            pads=[pad] * 4,
            rounding=rounding,
            count_include_pad=True,
        )
        graph = one_node(op_type, [(1, 1, size, size + 1)], attributes, domain=domain)
        expected = (1, 1, *(formula(s, kernel, stride, pad) for s in (size, size + 1)))
        assert known_shape(graph.outputs[0]) == expected == shape_when_run(graph)


axis = st.fixed_dictionaries(
    {
        "size": st.integers(1, 12),
        "kernel": st.integers(1, 4),
        "stride": st.integers(1, 4),
        "dilation": st.integers(1, 3),
        "begin": st.integers(0, 3),
        "end": st.integers(0, 3),
    }
)


def geometry(axes, *, auto_pad="NOTSET"):
    attributes = {
        "kernel_shape": [a["kernel"] for a in axes],
        "strides": [a["stride"] for a in axes],
        "dilations": [a["dilation"] for a in axes],
    }
    if auto_pad == "NOTSET":
        return attributes | {"pads": [a["begin"] for a in axes] + [a["end"] for a in axes]}
    return attributes | {"auto_pad": auto_pad}


def inferred_or_none(build):
    try:
        return build()
    except ShapeError:
        return None


@settings(deadline=None)
@given(st.lists(axis, min_size=1, max_size=3), st.integers(1, 3), st.booleans())
def test_convolutions_have_the_shapes_of_the_runtime(axes, group, same):
    if same:
        axes = [a | {"dilation": 1} for a in axes]  # ONNX Runtime refuses SAME with dilation
    attributes = geometry(axes, auto_pad="SAME_UPPER" if same else "NOTSET") | {"group": group}
    x, w = (2, 2 * group, *(a["size"] for a in axes)), (3 * group, 2, *attributes["kernel_shape"])
    graph = inferred_or_none(lambda: one_node("Conv", [x, w], attributes))
    fits = same or all(a["size"] + a["begin"] + a["end"] > (a["kernel"] - 1) * a["dilation"] for a in axes)
    assert (graph is not None) == fits
    if graph is not None:
        assert known_shape(graph.outputs[0]) == shape_when_run(graph)


@settings(deadline=None)
@given(st.lists(axis, min_size=1, max_size=2), st.integers(1, 3), st.booleans())
def test_deconvolutions_have_the_shapes_of_the_runtime(axes, group, same):
    if same:
        axes = [a | {"dilation": 1, "kernel": max(a["kernel"], a["stride"])} for a in axes]
    attributes = geometry(axes, auto_pad="SAME_UPPER" if same else "NOTSET") | {"group": group}
    if not same:
        attributes["output_padding"] = [min(a["end"], a["stride"] - 1) for a in axes]
    assume(all(a["begin"] + a["end"] <= (a["kernel"] - 1) * a["dilation"] for a in axes) or same)
    x, w = (2, 2 * group, *(a["size"] for a in axes)), (2 * group, 3, *attributes["kernel_shape"])
    graph = one_node("ConvTranspose", [x, w], attributes)
    assert known_shape(graph.outputs[0]) == shape_when_run(graph)


@settings(deadline=None)
@given(st.lists(axis, min_size=2, max_size=2), st.booleans(), st.integers(0, 1))
def test_any_pooling_has_the_shape_of_the_runtime(axes, average, ceil_mode):
    assume(all(max(a["begin"], a["end"]) < a["kernel"] for a in axes))
    attributes = geometry(axes) | {"ceil_mode": ceil_mode}
    op_type = "AveragePool" if average else "MaxPool"
    graph = inferred_or_none(lambda: one_node(op_type, [(1, 2, *(a["size"] for a in axes))], attributes))
    fits = all(a["size"] + a["begin"] + a["end"] > (a["kernel"] - 1) * a["dilation"] for a in axes)
    assert (graph is not None) == fits
    if graph is not None:
        assert known_shape(graph.outputs[0]) == shape_when_run(graph)


def test_same_with_dilation_follows_the_formula_of_onnx():
    attributes = {"auto_pad": "SAME_UPPER", "dilations": [3, 3], "strides": [2, 2]}
    graph = one_node("Conv", [(1, 3, 9, 8), (4, 3, 3, 3)], attributes)
    assert known_shape(graph.outputs[0]) == (1, 4, math.ceil(9 / 2), math.ceil(8 / 2))


MISFITS = [
    (
        "Conv",
        [(1, 3, 8, 8), (4, 5, 3, 3)],
        {},
        r"\[1,3,8,8\] has 3 channels, the weights \[4, 5, 3, 3\] take 5",
    ),
    (
        "Conv",
        [("N", 4, 8, 8), (6, 2, 3, 3)],
        {"group": 4},
        r"\[N,4,8,8\] has 4 channels, .* take 2 in each of 4",
    ),
    ("Conv", [(1, 4, 8, 8), (6, 1, 3, 3)], {"group": 4}, "6 output channels cannot be divided into 4 groups"),
    ("Conv", [(1, 3, 8, 8), (4, 3, 3, 3), (5,)], {}, r"the bias has the shape \[5\], expected \[4\]"),
    (
        "Conv",
        [(1, 3, 8, 2), (4, 3, 3, 3)],
        {},
        "a window of 3 does not fit in 2 elements with padding 0 and 0",
    ),
    (
        "Conv",
        [(1, 3, 8, 8), (4, 3, 3, 3)],
        {"kernel_shape": [3, 5]},
        r"kernel_shape is \[3, 5\], the weights are",
    ),
    ("ConvTranspose", [(1, 3, 8, 8), (5, 4, 4, 4)], {}, r"has 3 channels, the weights \[5, 4, 4, 4\] take 5"),
    ("ConvTranspose", [(1, 3, 1, 2), (3, 4, 3, 3)], {"pads": [2] * 4}, "the padding is as wide as the image"),
    ("MaxPool", [(1, 3, 4, 4)], {"kernel_shape": [3, 5]}, "a window of 5 does not fit in 4 elements"),
    ("Gemm", [(2, 5), (6, 7)], {}, "Incompatible Gemm contraction dimensions: 5 vs 6"),
    ("Gemm", [("N", 6), (7, 6), (3,)], {"transB": 1}, r"the addend \[3\] cannot be broadcast to \[None, 7\]"),
    ("MatMul", [(2, 3, 5), (6, 7)], {}, "Incompatible MatMul contraction dimensions: 5 vs 6"),
    ("Add", [("N", 4, 3), (1, 4, 2)], {}, r"\[N,4,3\] and \[1,4,2\] cannot be broadcast: axis 2 differs"),
    ("Sum", [(4, 3), (3,), (4, 2)], {}, r"\[4,3\] and \[3\] and \[4,2\] cannot be broadcast: axis 1 differs"),
    ("Concat", [(1, 4, 3), (1, 4, 2)], {"axis": -2}, "cannot be concatenated along axis 1: axis 2 differs"),
    ("BatchNormalization", [(1, 4, 3, 3), (4,), (4,), (4,), (5,)], {}, r"the variance has the shape \[5\]"),
    ("PRelu", [(1, 4, 3, 3), (5, 1, 1)], {}, r"the slope \[5, 1, 1\] cannot be broadcast to \[1, 4, 3, 3\]"),
    ("PRelu", [(4, 3), (1, 4, 3)], {}, r"the slope \[1, 4, 3\] cannot be broadcast to \[4, 3\]"),
    (
        "Transpose",
        [(1, 4, 3)],
        {"perm": [0, 1, 1]},
        r"\[0, 1, 1\] is not a permutation of the axes of the input \[1,4,3\]",
    ),
    ("Softmax", [("N", 4)], {"axis": 2}, r"axis 2 is not an axis of the input \[N,4\]"),
]


@pytest.mark.parametrize(("op_type", "shapes", "attributes", "message"), MISFITS)
def test_sizes_that_do_not_fit_are_refused(op_type, shapes, attributes, message):
    with pytest.raises(ShapeError, match=f"{op_type} '{op_type}': .*{message}"):
        one_node(op_type, shapes, attributes)


@pytest.mark.parametrize(
    ("shape", "target", "message"),
    [
        ((1, 4, 3, 3), [1, 5], r"\[1,4,3,3\] has 36 elements, the new shape \[1,5\] has 5"),
        ((1, 4, 3, 3), [-1, 5], r"\[1,4,3,3\] has 36 elements, the new shape \[7,5\] has 35"),
        (("N", 4, 3, 3), [0, 5], r"\[N,4,3,3\] has 36 elements, the new shape \[N,5\] has 5"),
    ],
)
def test_a_reshape_keeps_its_elements(shape, target, message):
    with pytest.raises(ShapeError, match=message):
        one_node("Reshape", [shape], constants=[np.array(target)])


def test_a_tensor_has_no_more_elements_than_can_be_indexed():
    with pytest.raises(ShapeError, match="4,294,967,296 elements, at most 2,147,483,647 are possible"):
        one_node("Expand", [(1, 1)], constants=[np.array([2**16, 2**16])])


def test_a_misfit_names_its_layer_and_line():
    builder = GraphBuilder("net", format="caffe")
    data = builder.input("data", (1, 3, 8, 8))
    layer = Layer("conv1", "conv1", "Convolution", origin=Origin("net.prototxt", 12))
    with (
        pytest.raises(
            ShapeError, match=r"net.prototxt:12: layer 'conv1' \(Convolution\): the input \[N,3,8,8\] has"
        ),
        builder.layer(layer),
    ):
        builder.add("Conv", [data, builder.derived(np.zeros((4, 5, 3, 3), np.float32), name="w")])


def test_symbols_stay_and_no_two_are_the_same():
    builder = GraphBuilder("net", format="caffe")
    data = builder.input("data", (1, 3, None, 9))
    attributes = {"kernel_shape": [1, 1], "strides": [3, 3], "pads": [0] * 4, "rounding": "full"}
    one = builder.add("MaxPool", [data], attributes, domain="netweave")
    two = builder.add("MaxPool", [one], attributes, domain="netweave")
    conv = builder.add("Conv", [data, builder.derived(np.zeros((4, 3, 1, 1), np.float32), name="w")])
    assert [value.shape[0] for value in (one, two, conv)] == [ir.SymbolicDim("N")] * 3
    assert conv.shape[2] == data.shape[2]
    assert one.shape[2] != two.shape[2]
    assert [known_shape(value)[3] for value in (one, two, conv)] == [4, 2, 9]


def test_new_input_sizes_flow_through_the_graph():
    builder = GraphBuilder("net", format="caffe")
    data = builder.input("data", (1, 3, None, None))
    x = builder.add("MaxPool", [data], {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1})
    x = builder.add("Flatten", [x], outputs="flat")
    graph = builder.finish([x])
    infer_shapes(graph, {"data": (None, None, 6, 8)})
    assert graph.inputs[0].shape == ir.Shape(["N", 3, 6, 8])
    assert graph.outputs[0].shape == ir.Shape(["N", 3 * 3 * 4])
    with pytest.raises(ShapeError, match="a window of 3 does not fit in 2 elements"):
        infer_shapes(graph, {"data": (None, None, 2, 8)})
    with pytest.raises(UsageError, match="no input 'date'; the net has: data"):
        infer_shapes(graph, {"date": (None, None, 6, 8)})
    with pytest.raises(UsageError, match=r"input 'data' has the shape \[N,3,2,8\], not 3 axes: \[3, 6, 8\]"):
        infer_shapes(graph, {"data": (3, 6, 8)})


def test_numbers_that_were_sizes_follow_new_input_sizes():
    """A map that is cut to another's size plus one: what was inferred at the first size is no constant."""
    builder = GraphBuilder("crop", format="onnx")
    whole, other = builder.input("whole", (1, 2, 20, 20)), builder.input("other", (1, 3, 6, 7))
    two, axes = (builder.constant(numbers, dtype=np.int64) for numbers in ([2, 2], [2, 3]))
    sizes = builder.add("Shape", [other], {"start": 2, "end": 4})
    ends = builder.add("Add", [sizes, two])
    graph = builder.finish([builder.add("Slice", [whole, two, ends, axes], outputs="y")])
    assert known_shape(graph.outputs[0])[2:] == (6, 7)
    for height, width in ((9, 11), (4, 3)):
        infer_shapes(graph, {"other": [1, 3, height, width]})
        assert known_shape(graph.outputs[0])[2:] == (height, width)
    infer_shapes(graph, {"other": [1, 3, "h", 5]})
    assert known_shape(graph.outputs[0])[2:] == (None, 5)


def test_a_formula_without_symbols_is_a_number():
    """168*N/N is 168, so that the next layer knows its input."""
    builder = GraphBuilder("one", format="onnx")
    x = builder.input("x", [1, 4, 7, 6])
    flat = builder.add("Reshape", [x, builder.constant([0, -1], dtype=np.int64)])
    assert known_shape(flat) == (None, 168)


def test_a_long_formula_becomes_a_symbol():
    builder = GraphBuilder("deep", format="onnx")
    x = builder.input("x", [1, 1, None, None])
    for _ in range(30):
        x = builder.add("MaxPool", [x], {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]})
    assert x.shape is not None
    assert all(len(str(dim)) <= shapes.MAX_FORMULA for dim in x.shape)


@pytest.mark.parametrize(("number", "dtype"), [(2**63, np.int64), (1e300, np.float32)])
def test_a_constant_beyond_its_type_is_refused(number, dtype):
    with pytest.raises(ShapeError, match=f"is out of range for {np.dtype(dtype).name}"):
        GraphBuilder("one", format="onnx").constant([number], dtype=dtype)


def test_numbers_that_wrap_around_are_not_followed():
    """ONNX leaves open what a cast to a type makes of a number that it cannot hold."""
    builder = GraphBuilder("g", format="onnx")
    number = builder.constant([-1], dtype=np.int64)
    graph = builder.finish([builder.add("Cast", [number], {"to": ir.DataType.UINT8.value}, outputs="y")])
    infer_shapes(graph)
    assert known_shape(graph.outputs[0]) == (1,)


@given(
    dims=st.lists(st.sampled_from([0, 1, 2, 3, "N", "M"]), min_size=1, max_size=4),
    axis=st.none() | st.integers(-5, 5),
)
def test_a_flatten_has_the_shape_that_the_inference_gives(dims, axis):
    """Our rule, which needs no sympy, and that of ``onnx_shape_inference`` for the same node."""
    attributes = {} if axis is None else {"axis": axis}
    assume(axis is None or -len(dims) <= axis <= len(dims))
    graph = one_node("Flatten", [dims], attributes)
    theirs = ir.Shape(dims)
    sides = [theirs[: 1 if axis is None else axis], theirs[1 if axis is None else axis :]]
    if axis is not None and axis < 0:
        sides = [theirs[: axis + len(dims)], theirs[axis + len(dims) :]]
    expected = [str(math.prod(side, start=ir.SymbolicDim("ONE")).simplify()) for side in sides]
    found = graph.outputs[0].shape
    assert [str((ir.SymbolicDim("ONE") * dim).simplify()) for dim in found] == expected
