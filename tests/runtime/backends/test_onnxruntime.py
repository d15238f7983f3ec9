"""Graphs run by ONNX Runtime, with the registry's forwards in between."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx.reference import ReferenceEvaluator

from netweave.errors import RunError, UsageError
from netweave.graph import GraphBuilder, Layer, Origin, Parameter, find_operator
from netweave.runtime.backends import Purpose, RunSettings, prepare
from netweave.runtime.backends.onnxruntime import session as sessions
from netweave.runtime.backends.onnxruntime.session import SESSIONS
from netweave.runtime.backends.segmented import SegmentedRunner, split
from tests.graph.passes.nets import branching_net

X = np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype(np.float32)


def by_reference(graph, x):
    """The same net by ONNX's reference evaluator; a node of ours by its forward, one by one."""
    values = {"data": x} | {
        name: value.const_value.numpy() for name, value in graph.model.graph.initializers.items()
    }
    for node in graph.nodes:
        if node.domain == "netweave":
            arrays = [values[v.name] for v in node.inputs]
            made = find_operator(node.op_type).forward(
                arrays, {k: a.value for k, a in node.attributes.items()}
            )
        else:
            proto = ir.serde.serialize_node(node)
            one = onnx.helper.make_graph(
                [proto],
                "one",
                [onnx.helper.make_tensor_value_info(n, 1, values[n].shape) for n in proto.input],
                [onnx.helper.make_empty_tensor_value_info(n) for n in proto.output],
            )
            model = onnx.helper.make_model(one, opset_imports=[onnx.helper.make_opsetid("", 22)])
            made = ReferenceEvaluator(model).run(None, {n: values[n] for n in proto.input})
        values.update(zip([v.name for v in node.outputs], made, strict=True))
    return values


@pytest.mark.parametrize("purpose", Purpose)
def test_every_value_is_that_of_the_reference_evaluator(purpose):
    graph = branching_net()
    expected = by_reference(graph, X)
    taps = list(graph.values())
    found = prepare(graph, taps=taps, settings=RunSettings(purpose)).run({"data": X})
    assert list(found) == ["fc", *(name for name in taps if name != "fc")]
    for name, array in found.items():
        np.testing.assert_allclose(array, expected[name], rtol=1e-5, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("batch", [1, 2, 7])
def test_any_batch_size_runs(batch):
    x = np.repeat(X[:1], batch, axis=0)
    found = prepare(branching_net()).run({"data": x})["fc"]
    assert found.shape == (batch, 5)
    np.testing.assert_allclose(found, np.repeat(found[:1], batch, axis=0), rtol=1e-6)


def test_there_are_no_more_segments_than_changes_of_runtime():
    graph = branching_net()
    segments = split(graph.nodes, is_native=lambda node: node.domain == "", wanted={graph.values()["fc"]})
    assert [[node.op_type for node in segment.nodes] for segment in segments] == [
        ["Conv", "Relu", "Conv"],
        ["MaxPool"],
        ["Add", "Flatten", "Gemm"],
    ]
    assert [[value.name for value in segment.outputs] for segment in segments] == [
        ["relu1", "conv2"],
        ["pool1"],
        ["fc"],
    ]


def test_effects_keep_their_order():
    builder = GraphBuilder("noise", format="onnx")
    x = builder.input("x", (1, 4), batch=False)
    drawn = builder.add("RandomUniformLike", [x], outputs="drawn")
    late = builder.add("RandomUniformLike", [builder.add("Relu", [drawn])], outputs="late")
    early = builder.add("RandomUniformLike", [x], outputs="early")
    graph = builder.finish([late, early])
    segments = split(graph.nodes, is_native=lambda node: node.op_type != "Relu", wanted=set(graph.outputs))
    assert [[value.name for value in segment.outputs] for segment in segments][-1] == ["late", "early"]


def test_nothing_is_drawn_before_prepare():
    builder = GraphBuilder("lazy", format="caffe")
    data = builder.input("data", (1, 3, 8, 8))
    entry = Parameter("w", (4, 3, 3, 3), loaded=False)
    value = builder.parameter(entry, None)
    draws = []
    lazy = value.const_value
    value.const_value = ir.LazyTensor(
        lambda: draws.append(1) or ir.Tensor(lazy.numpy()), dtype=lazy.dtype, shape=lazy.shape, name="w"
    )
    graph = builder.finish([builder.add("Conv", [data, value], outputs="y")])
    assert not draws
    runner = prepare(graph)
    assert len(draws) == 1
    x = np.ones((1, 3, 8, 8), np.float32)
    np.testing.assert_allclose(
        runner.run({"data": x})["y"][0, :, 0, 0], lazy.numpy().sum(axis=(1, 2, 3)), rtol=1e-5, atol=1e-6
    )
    assert len(draws) == 1


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, r"input 'data' is missing, expected float32 \(N, 3, 8, 8\)"),
        ({"data": X, "dta": X}, r"unknown input 'dta'; the net has: data float32 \(N, 3, 8, 8\)"),
        ({"data": X[0]}, r"input 'data' has the shape \(3, 8, 8\), expected float32 \(N, 3, 8, 8\)"),
        ({"data": X[:, :2]}, r"input 'data' has the shape \(2, 2, 8, 8\), expected"),
        ({"data": X.astype(str)}, r"input 'data' holds <U\d+, expected float32"),
        ({"data": X.astype(complex)}, r"input 'data' holds complex128, expected float32"),
    ],
)
def test_inputs_that_do_not_fit_are_named(inputs, message):
    with pytest.raises(RunError, match=message):
        prepare(branching_net()).run(inputs)


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int32, np.uint8, bool])
def test_numbers_are_cast_to_what_the_net_takes(dtype):
    x = (X > 0).astype(dtype)
    runner = prepare(branching_net())
    found = runner.run({"data": np.asfortranarray(x)})["fc"]
    np.testing.assert_array_equal(found, runner.run({"data": x.astype(np.float32)})["fc"])


def test_whole_numbers_must_fit():
    builder = GraphBuilder("gather", format="onnx")
    table = builder.constant(np.arange(5), name="table")
    index = builder.input("index", (1,), dtype=ir.DataType.INT32)
    runner = prepare(builder.finish([builder.add("Gather", [table, index], outputs="y")]))
    assert runner.run({"index": np.array([3.0, 1.0])})["y"].tolist() == [3, 1]
    with pytest.raises(RunError, match="input 'index' holds float64 values that int32 cannot hold"):
        runner.run({"index": np.array([0.5])})
    with pytest.raises(RunError, match="input 'index' holds int64 values that int32 cannot hold"):
        runner.run({"index": np.array([2**40])})
    with pytest.raises(
        RunError, match=r"gather: Gather 'Gather': ONNX Runtime cannot run it .* out of data bounds"
    ):
        runner.run({"index": np.array([77])})


def test_a_forward_that_fails_names_its_layer():
    builder = GraphBuilder("pool", format="caffe", files=["net.prototxt"])
    data = builder.input("data", (1, 1, None, None))
    attributes = {"kernel_shape": [4, 4], "strides": [9, 9], "pads": [0] * 4, "rounding": "full"}
    with builder.layer(Layer("pool1", "pool1", "Pooling", origin=Origin("net.prototxt", 7))):
        pool = builder.add("MaxPool", [data], attributes, domain="netweave", outputs="pool")
    expected = r"net.prototxt:7: layer 'pool1' \(Pooling\): MaxPool cannot run on inputs \(1, 1, 2, 2\): a"
    with pytest.raises(RunError, match=expected):
        prepare(builder.finish([pool])).run({"data": np.zeros((1, 1, 2, 2))})


def test_a_node_that_fails_names_its_layer():
    builder = GraphBuilder("sum", format="caffe", files=["net.prototxt"])
    data = builder.input("data", (1, None))
    with builder.layer(Layer("sum", "sum", "Eltwise")):
        y = builder.add("Add", [data, builder.constant(np.zeros((1, 3)))], outputs="y")
    with pytest.raises(RunError, match=r"net.prototxt: layer 'sum' \(Eltwise\): ONNX Runtime cannot run it"):
        prepare(builder.finish([y])).run({"data": np.zeros((1, 4))})


def test_operators_that_nobody_has_are_named():
    builder = GraphBuilder("odd", format="onnx")
    x = builder.input("x", (1, 4))
    y = builder.add("Frobnicate", [x], domain="com.example", outputs="y")
    with pytest.raises(RunError, match=r"odd: neither .* operators com.example::Frobnicate \(1 nodes\)"):
        prepare(builder.finish([y]))


def test_calls_that_cannot_be_meant():
    graph = branching_net()
    with pytest.raises(UsageError, match="no value named 'conv9' in net 'branching'"):
        prepare(graph, taps=["conv9"])
    with pytest.raises(UsageError, match="unknown precision 'f8'; expected one of f32, bf16, f16"):
        RunSettings(precision="f8")
    with pytest.raises(UsageError, match="threads is -1, expected a whole number >= 1"):
        RunSettings(threads=-1)
    with pytest.raises(UsageError, match="ONNX Runtime computes in f32 on a CPU, not in bf16"):
        prepare(graph, settings=RunSettings(precision="bf16"))
    with pytest.raises(UsageError, match="unknown backend 'tpu'; expected one of onnxruntime"):
        prepare(graph, backend="tpu")


def test_a_net_of_one_runtime_is_one_session():
    builder = GraphBuilder("plain", format="onnx")
    x = builder.input("x", (1, 4))
    runner = prepare(builder.finish([builder.add("Relu", [builder.add("Neg", [x])])]))
    assert isinstance(runner, SegmentedRunner)
    assert len(runner.steps) == 1


def test_usual_sizes_have_a_session_of_their_own_and_all_others_share_one(monkeypatch):
    started = []

    class Session(sessions.ort.InferenceSession):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            started.append([value.shape for value in self.get_inputs()])

    monkeypatch.setattr(sessions.ort, "InferenceSession", Session)
    builder = GraphBuilder("plain", format="onnx")
    graph = builder.finish([builder.add("Relu", [builder.input("x", (1, 4))], outputs="y")])
    runner = prepare(graph, settings=RunSettings(Purpose.INFERENCE, usual_sizes={"x": (3, 4)}))
    for batch in (3, 5, 3, 1):
        x = np.full((batch, 4), -batch, np.float32)
        np.testing.assert_array_equal(runner.run({"x": -x})["y"], -x)
    assert started == [[[3, 4]], [["x[0]", 4]]]


def test_open_sizes_of_two_inputs_need_not_be_the_same():
    """Memory must not be planned as if they were, though the graph calls both N."""
    builder = GraphBuilder("sum", format="onnx")
    a, b = builder.input("a", (1, 4)), builder.input("b", (1, 4))
    graph = builder.finish([builder.add("Add", [builder.add("Neg", [a]), b], outputs="y")])
    usual = {"a": (2, 4), "b": (2, 4)}
    runner = prepare(graph, settings=RunSettings(Purpose.INFERENCE, usual_sizes=usual))
    for num_a, num_b in ((2, 2), (1, 6), (6, 1), (3, 3)):
        given = {"a": np.ones((num_a, 4), np.float32), "b": np.full((num_b, 4), 3, np.float32)}
        np.testing.assert_array_equal(runner.run(given)["y"], np.full((max(num_a, num_b), 4), 2))


def test_a_branch_of_an_if_reads_what_is_outside_it():
    builder = GraphBuilder("if", format="onnx")
    flag = builder.input("flag", (), dtype=ir.DataType.BOOL, batch=False)
    x = builder.input("x", (1, 1, 5, 5))
    attributes = {"kernel_shape": [1, 1], "strides": [3, 3], "pads": [0] * 4, "rounding": "full"}
    pool = builder.add("MaxPool", [x], attributes, domain="netweave", outputs="pool")

    def branch(op_type):
        node = ir.Node("", op_type, [pool], num_outputs=1)
        node.outputs[0].name = op_type
        return ir.Graph([], node.outputs, nodes=[node], name=op_type)

    y = builder.add("If", [flag], {"then_branch": branch("Neg"), "else_branch": branch("Abs")}, outputs="y")
    runner = prepare(builder.finish([y]))
    image = -np.arange(25, dtype=np.float32).reshape(1, 1, 5, 5)
    expected = find_operator("MaxPool").forward([image], attributes)[0]
    np.testing.assert_array_equal(runner.run({"flag": np.array(True), "x": image})["y"], -expected)
    np.testing.assert_array_equal(runner.run({"flag": np.array(False), "x": image})["y"], abs(expected))


def test_small_arrays_of_a_file_beside_the_net_are_found(tmp_path, monkeypatch):
    """Exporters put even a bias of a few numbers there; the folder of the net is not the working folder."""
    builder = GraphBuilder("net", format="test")
    x = builder.input("x", ["N", 3])
    weight = builder.derived(np.arange(3, dtype=np.float32), name="weight")
    graph = builder.finish([builder.add("Mul", [x, weight], outputs="y")])
    (tmp_path / "net.data").write_bytes(np.arange(3, dtype=np.float32).tobytes())
    weight.const_value = ir.ExternalTensor(
        "net.data", 0, 12, ir.DataType.FLOAT, shape=ir.Shape([3]), name="weight", base_dir=tmp_path
    )
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    got = prepare(graph).run({"x": np.ones((2, 3), np.float32)})
    assert got["y"].tolist() == [[0, 1, 2], [0, 1, 2]]


def test_a_large_net_runs_in_pieces_and_gives_the_same_bits(monkeypatch):
    builder = GraphBuilder("large", format="onnx")
    first = x = builder.input("data", (1, 8), batch=False)
    around = []
    for index in range(60):  # values that are read far away cross several pieces
        x = builder.add("Tanh" if index % 3 else "Mul", [x] if index % 3 else [x, first])
        around.append(x)
    for early in around[:6]:
        x = builder.add("Add", [x, early])
    graph = builder.finish([x])
    feeds = {"data": np.random.default_rng(0).standard_normal((1, 8)).astype(np.float32)}
    taps = [value.name for value in around]
    whole = prepare(graph, taps=taps).run(feeds)
    small = replace(SESSIONS[Purpose.TAPPING], max_nodes=20)
    monkeypatch.setitem(SESSIONS, Purpose.TAPPING, small)
    runner = prepare(graph, taps=taps)
    assert len(runner.steps) == 4
    assert len(prepare(graph, settings=RunSettings(Purpose.INFERENCE)).steps) == 1
    found = runner.run(feeds)
    assert found.keys() == whole.keys()
    assert all(np.array_equal(found[name], whole[name]) for name in whole)


def test_a_segment_with_a_value_of_unknown_type_stays_whole():
    builder = GraphBuilder("untyped", format="onnx")
    x = builder.input("data", (1, 8), batch=False)
    for _ in range(9):
        x = builder.add("Tanh", [x])
    graph = builder.finish([x])
    wanted = set(graph.outputs)
    assert len(split(graph.nodes, is_native=lambda node: True, wanted=wanted, max_nodes=3)) == 3
    next(iter(graph.nodes)).outputs[0].type = None
    assert len(split(graph.nodes, is_native=lambda node: True, wanted=wanted, max_nodes=3)) == 1
