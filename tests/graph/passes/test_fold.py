"""Constants computed ahead, scales taken into weights: what changes, and what must not."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from netweave.errors import RunError
from netweave.graph import (
    GraphBuilder,
    Layer,
    Parameter,
    effects_of,
    layer_keys,
    parameter_key,
    parameter_layout,
)
from netweave.graph.parameters import apply_layout
from netweave.graph.passes import absorb, fold, prune
from netweave.runtime.backends import prepare
from tests.graph.passes.nets import branching_net, weight


def op_types(graph):
    return [node.op_type for node in graph.nodes]


def test_a_transposed_weight_still_names_its_stored_array():
    builder = GraphBuilder("net", format="tensorflow")
    x = builder.input("x", (1, 6))
    stored = weight(builder, "dense/kernel", (40, 60))
    w = builder.add("Transpose", [stored], {"perm": [1, 0]})
    w = builder.add("Reshape", [w, builder.constant([6, 400], dtype=np.int64)])
    graph = fold(builder.finish([builder.add("MatMul", [x, w], outputs="y")]))
    assert op_types(graph) == ["MatMul"]
    folded = graph.nodes[0].inputs[1]
    assert isinstance(folded.const_value, ir.LazyTensor)
    assert parameter_key(folded) == "dense/kernel"
    np.testing.assert_array_equal(
        apply_layout(stored.const_value.numpy(), parameter_layout(folded)), folded.const_value.numpy()
    )


def test_the_shape_of_what_is_known_is_a_constant():
    builder = GraphBuilder("net", format="onnx")
    x = builder.input("x", (2, 3, 4), batch=False)
    sizes = builder.add("Shape", [x], {"start": 1})
    count = builder.add("ReduceProd", [sizes], {"keepdims": 1})
    target = builder.add("Concat", [builder.constant([-1], dtype=np.int64), count], {"axis": 0})
    graph = fold(builder.finish([builder.add("Reshape", [x, target], outputs="y")]))
    assert op_types(graph) == ["Reshape"]
    assert graph.nodes[0].inputs[1].const_value.numpy().tolist() == [-1, 12]


def test_the_shape_of_an_open_batch_is_none():
    builder = GraphBuilder("net", format="onnx")
    x = builder.input("x", (2, 3))
    graph = fold(builder.finish([builder.add("Shape", [x], outputs="y")]))
    assert op_types(graph) == ["Shape"]


def random_pair():
    """Two draws that look the same and are not, one of them unread."""
    builder = GraphBuilder("noise", format="onnx")
    sizes = builder.constant([2, 3], dtype=np.int64)
    like = builder.add("ConstantOfShape", [sizes])
    one = builder.add("RandomNormalLike", [like], {"seed": 1.0}, outputs="one")
    builder.add("RandomNormalLike", [like], {"seed": 1.0}, outputs="unread")
    return builder.finish([builder.add("Neg", [one], outputs="y")])


@pytest.mark.parametrize("one_pass", [fold, prune, absorb])
def test_effects_are_neither_merged_nor_cached_nor_dropped(one_pass):
    graph = one_pass(random_pair())
    assert op_types(graph).count("RandomNormalLike") == 2
    assert "Neg" in op_types(graph)


def test_effects_of_standard_operators():
    builder = GraphBuilder("net", format="onnx")
    x = builder.input("x", (1, 3))
    false, true = (builder.constant(flag, dtype=bool) for flag in (False, True))
    ratio = builder.constant(0.5)
    builder.add("Dropout", [x])
    builder.add("Dropout", [x, ratio, false])
    builder.add("Dropout", [x, ratio, true])
    builder.add("Dropout", [x, ratio, builder.input("train", (), dtype=ir.DataType.BOOL, batch=False)])
    builder.add("RandomUniformLike", [x])
    node = ir.Node("", "RandomUniformLike", [x])
    branch = ir.Graph([], node.outputs, nodes=[node], name="draws")
    attributes = {"then_branch": branch, "else_branch": branch.clone(allow_outer_scope_values=True)}
    builder.add("If", [true], attributes)
    graph = builder.finish([])
    assert [bool(effects_of(node)) for node in graph.nodes] == [False, False, True, True, True, True]


def test_what_would_only_grow_stays():
    builder = GraphBuilder("net", format="onnx")
    sizes = builder.constant([4096, 4096], dtype=np.int64)
    graph = fold(builder.finish([builder.add("Neg", [builder.add("ConstantOfShape", [sizes])], outputs="y")]))
    assert op_types(graph) == ["ConstantOfShape", "Neg"]


def test_a_chain_of_constants_is_computed_in_linear_time():
    """Each reads the one before twice: computed anew for each reader, the last would take 2**60 additions."""
    builder = GraphBuilder("net", format="onnx")
    x = builder.input("x", (1, 40))
    stored = value = weight(builder, "w", (40, 40))
    for _ in range(60):
        value = builder.add("Mul", [builder.add("Add", [value, value]), builder.constant(0.5)])
    graph = fold(builder.finish([builder.add("MatMul", [x, value], outputs="y")]))
    np.testing.assert_array_equal(graph.nodes[0].inputs[1].const_value.numpy(), stored.const_value.numpy())


def test_prune_removes_what_no_output_needs_and_keeps_the_tables():
    graph = branching_net()
    graph.model.graph.outputs[:] = [graph.values()["pool1"]]
    pruned = prune(graph)
    assert op_types(pruned) == ["Conv", "Relu", "MaxPool"]
    assert set(pruned.model.graph.initializers) == {"conv1/0", "conv1/1"}
    assert list(pruned.layers) == list(graph.layers)
    assert pruned.num_parameters == graph.num_parameters
    assert len(graph.nodes) == 7


def scaled_net(make, *, then):
    """``make(builder, data)`` followed by BatchNormalization and Scale as Caffe has them."""
    builder = GraphBuilder("net", format="caffe")
    with builder.layer(Layer("linear", "linear", "Convolution")):
        x = make(builder, builder.input("data", (1, 4, 5, 6) if then else (1, 4)))
    channels = x.shape[1]
    with builder.layer(Layer("bn", "bn", "BatchNorm")):
        arrays = [weight(builder, role, (channels,)) for role in ("gamma", "beta", "mean")]
        variance = np.random.default_rng(3).uniform(0.5, 2, channels).astype(np.float32)
        x = builder.add(
            "BatchNormalization", [x, *arrays, builder.derived(variance, name="variance")], outputs="bn"
        )
    ones = [1] * (len(x.shape) - 2)
    with builder.layer(Layer("scale", "scale", "Scale")):
        x = builder.add("Mul", [x, weight(builder, "scale/0", (channels, *ones))])
        x = builder.add("Add", [weight(builder, "scale/1", (1, channels, *ones)), x], outputs="scale")
    return builder.finish([x])


MAKERS = {
    "grouped": lambda b, x: b.add("Conv", [x, weight(b, "w", (6, 2, 3, 3))], {"group": 2}),
    "with bias": lambda b, x: b.add("Conv", [x, weight(b, "w", (6, 4, 1, 2)), weight(b, "b", (6,))]),
    "deconvolution": lambda b, x: b.add("ConvTranspose", [x, weight(b, "w", (4, 3, 2, 3))], {"group": 2}),
    "product": lambda b, x: b.add("MatMul", [x, weight(b, "w", (4, 7))]),
    "dense": lambda b, x: b.add(
        "Gemm", [x, weight(b, "w", (7, 4)), weight(b, "b", (1, 7))], {"transB": 1, "alpha": 0.5, "beta": 3.0}
    ),
    "scalar bias": lambda b, x: b.add("Gemm", [x, weight(b, "w", (4, 7)), weight(b, "b", ())]),
}


@pytest.mark.parametrize("name", MAKERS)
def test_scales_go_into_the_weights_before_them(name):
    images = name not in {"product", "dense", "scalar bias"}
    graph = scaled_net(MAKERS[name], then=images)
    changed = absorb(graph)
    (node,) = changed.nodes
    assert layer_keys(node) == ("linear", "bn", "scale")
    assert [value.name for value in changed.outputs] == ["scale"]
    shape = (3, 4, 5, 6) if images else (3, 4)
    x = np.random.default_rng(5).standard_normal(shape).astype(np.float32)
    expected = prepare(graph).run({"data": x})["scale"]
    np.testing.assert_allclose(prepare(changed).run({"data": x})["scale"], expected, rtol=1e-5, atol=1e-5)


def test_a_convolution_that_is_read_twice_or_given_back_is_left():
    def make(builder, x):
        y = builder.add("Conv", [x, weight(builder, "w", (4, 4, 1, 1))], outputs="conv")
        builder.add("Relu", [y], outputs="side")
        return y

    graph = scaled_net(make, then=True)
    graph.model.graph.outputs.append(graph.values()["side"])
    changed = absorb(graph)
    assert op_types(changed) == ["Conv", "Relu", "BatchNormalization"]
    assert layer_keys(changed.nodes[2]) == ("bn", "scale")


def test_drawn_weights_stay_undrawn():
    builder = GraphBuilder("net", format="caffe")
    x = builder.input("data", (1, 4, 5, 5))
    x = builder.add("Conv", [x, builder.parameter(Parameter("w", (4, 4, 3, 3), loaded=False), None)])
    x = builder.add("Mul", [x, builder.constant(np.full((4, 1, 1), 2.0), name="two")], outputs="y")
    graph = builder.finish([x])
    for tensor in (value.const_value for value in graph.model.graph.initializers.values()):
        if isinstance(tensor, ir.LazyTensor):
            tensor._func = lambda: pytest.fail("drawn too early")
    (node,) = absorb(fold(graph)).nodes
    assert node.op_type == "Conv"


GATHERED = {
    "many positions": ((1, 512), (1, 10), 1),
    "many rows": ((80, 3), (80, 3), 0),
    "fewer rows than the data": ((3, 5), (2, 7), -1),
    "three axes, one in part": ((80, 4, 5), (6, 3, 5), 0),
    "no indices": ((4, 3), (0, 3), 0),
}
"""Sizes of data and indices, and the axis, of GatherElements-13."""


@pytest.mark.parametrize("case", GATHERED)
def test_gathered_elements_are_those_of_the_definition(case):
    """``output[i][j][k] = data[indices[i][j][k]][j][k]`` on axis 0, counted out; negative indices too."""
    sizes, wanted_sizes, axis = GATHERED[case]
    generator = np.random.default_rng(0)
    data = generator.standard_normal(sizes).astype(np.float32)
    indices = generator.integers(-sizes[axis], sizes[axis], wanted_sizes)
    wanted = np.empty(wanted_sizes, np.float32)
    for place in np.ndindex(*wanted_sizes):
        source = list(place)
        source[axis] = indices[place]
        wanted[place] = data[tuple(source)]
    builder = GraphBuilder("net", format="onnx")
    x = builder.input("x", wanted_sizes, batch=False)
    stored = [builder.constant(data), builder.constant(indices, dtype=np.int64)]
    made = builder.add("GatherElements", stored, {"axis": axis})
    graph = fold(builder.finish([builder.add("Add", [x, made], outputs="y")]))
    assert op_types(graph) == ["Add"]
    np.testing.assert_array_equal(graph.nodes[0].inputs[1].const_value.numpy(), wanted)


def test_a_number_stays_a_number():
    """A size that is taken out of a shape has no axes; as a list it would give Unsqueeze one too many."""
    builder = GraphBuilder("net", format="onnx")
    x = builder.input("x", (2, 3, 4), batch=False)
    size = builder.add("Gather", [builder.add("Shape", [x]), builder.constant(1, dtype=np.int64)])
    doubled = builder.add("Mul", [size, builder.constant(2, dtype=np.int64)])
    folded = fold(builder.finish([builder.add("Mul", [x, builder.add("Cast", [doubled], {"to": 1})])]))
    (node,) = folded.nodes
    assert node.inputs[1].const_value.numpy().shape == () == tuple(node.inputs[1].shape)
    axes = builder.constant([0], dtype=np.int64)
    parts = [builder.constant([-1], dtype=np.int64), builder.add("Unsqueeze", [doubled, axes])]
    made = builder.add("Reshape", [x, builder.add("Concat", parts, {"axis": 0})], outputs="y")
    folded = fold(builder.finish([made]))
    assert folded.nodes[-1].inputs[1].const_value.numpy().tolist() == [-1, 6]


def test_what_cannot_be_computed_stays_and_the_run_names_it():
    """An index beyond the data: nothing is folded or lost, and the net is told to be wrong where it is."""
    builder = GraphBuilder("net", format="onnx")
    x = builder.input("x", (3,), batch=False)
    data, far = builder.constant([1.0, 2, 3]), builder.constant([0, 7, 1], dtype=np.int64)
    graph = builder.finish([builder.add("Add", [x, builder.add("GatherElements", [data, far])], outputs="y")])
    folded = fold(graph)
    assert op_types(folded) == op_types(graph) == ["GatherElements", "Add"]
    with pytest.raises(RunError, match=r"net: GatherElements .*Out of range value in index tensor"):
        prepare(folded).run({"x": np.zeros(3, np.float32)})


def test_what_cannot_be_computed_later_is_told_when_it_is_read():
    """Large arrays are computed when they are read: then the error has the node's place."""
    builder = GraphBuilder("net", format="onnx")
    x = builder.input("x", (2000,), batch=False)
    data, far = builder.constant([1.0, 2]), builder.constant(np.full(2000, 7), dtype=np.int64)
    made = builder.add("GatherElements", [data, far])
    folded = fold(builder.finish([builder.add("Add", [x, made], outputs="y")]))
    assert op_types(folded) == ["Add"]
    with pytest.raises(
        RunError, match=r"net: GatherElements .*: cannot be computed from stored arrays: index 7"
    ):
        prepare(folded).run({"x": np.zeros(2000, np.float32)})
