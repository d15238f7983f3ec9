"""Reading ONNX files: layers, parameters, batch, functions, external data, and what is refused."""

from __future__ import annotations

import os

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from netweave.errors import ReadError, ShapeError, UnsupportedError, UsageError
from netweave.files import Source
from netweave.formats.onnx import match
from netweave.formats.onnx.reader import read
from netweave.graph import Parameter
from tests.formats.onnx.models import load, model, node, normal, run

X = [1, 3, 8, 8]
CONV = {"w": normal(4, 3, 3, 3), "b": normal(4)}


def small(**settings):
    """A convolution, a pooling and a dense layer behind a hard-coded reshape."""
    nodes = [
        node("Conv", "x w b", "c", name="conv1", pads=[1, 1, 1, 1]),
        node("Relu", "c", "r"),
        node("MaxPool", "r", "p", name="pool1", kernel_shape=[2, 2], strides=[2, 2]),
        node("Reshape", "p shape", "flat"),
        node("Gemm", "flat d", "y", name="fc", transB=1),
    ]
    arrays = CONV | {"shape": np.int64([1, 64]), "d": normal(5, 64)}
    return model(nodes, {"x": X}, ["y"], arrays, **settings)


def shape_of(graph, name: str) -> str:
    return str(graph.values()[name].shape)


def test_a_file_is_told_by_its_content(tmp_path):
    path = tmp_path / "net.bin"
    path.write_bytes(small().SerializeToString())
    assert match(Source(path))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x08",
        b"name: 'net'\nlayer { }",
        b'{"nodes": []}',
        b"\x80\x04\x95",
        b"\x08\x01\x12\x05abcde",  # the head of a SavedModel
        b"\x0a\x03net\x12\x03\x0a\x01x",  # the head of a caffemodel
        b": a text with a colon",
    ],
)
def test_other_files_are_no_models(content, tmp_path):
    path = tmp_path / "net.onnx"
    path.write_bytes(content)
    assert not match(Source(path))


def test_one_layer_per_node(tmp_path):
    graph = load(small(), tmp_path)
    assert [(layer.name, layer.type) for layer in graph.layers.values()] == [
        ("conv1", "Conv"),
        ("r", "Relu"),
        ("pool1", "MaxPool"),
        ("flat", "Reshape"),
        ("fc", "Gemm"),
    ]
    assert graph.layers["conv1"].parameters == ("w", "b")
    assert graph.layers["conv1"].settings == {"pads": [1, 1, 1, 1]}
    assert graph.layers["fc"].inputs == ("flat",)
    assert {key: [n.op_type for n in nodes] for key, nodes in graph.nodes_of().items()}["r"] == ["Relu"]


def test_parameters_are_the_arrays_that_nodes_use_as_weights(tmp_path):
    graph = load(small(), tmp_path)
    assert graph.parameters == {
        "w": Parameter("w", (4, 3, 3, 3), role="weight"),
        "b": Parameter("b", (4,), role="bias"),
        "d": Parameter("d", (5, 64), role="weight"),
    }
    assert graph.loaded


def test_initializers_that_are_inputs_too_are_parameters(tmp_path):
    old = small(ir_version=3, opset=7)
    old.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [4, 3, 3, 3]))
    graph = load(old, tmp_path)
    assert [value.name for value in graph.inputs] == ["x"]
    assert "w" in graph.parameters


def test_constants_become_initializers(tmp_path):
    nodes = [
        node("Constant", "", "two", value_float=2.0),
        node("Constant", "", "k", value=numpy_helper.from_array(normal(4, 3, 1, 1))),
        node("Conv", "x k", "c"),
        node("Mul", "c two", "y"),
    ]
    graph = load(model(nodes, {"x": X}, ["y"]), tmp_path)
    assert [n.op_type for n in graph.nodes] == ["Conv", "Mul"]
    assert "k" in graph.parameters
    assert list(graph.layers) == ["c", "y"]


def test_the_batch_is_free_behind_a_hard_coded_reshape(tmp_path):
    source = small()
    graph = load(source, tmp_path)
    assert graph.declared == {"x": (1, 3, 8, 8)}
    assert [shape_of(graph, name) for name in ("x", "flat", "y")] == ["[N,3,8,8]", "[N,64]", "[N,5]"]
    x = normal(3, 3, 8, 8)
    (found,) = run(ir.to_proto(graph.model), {"x": x})
    expected = [run(source, {"x": x[i : i + 1]})[0][0] for i in range(3)]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("sizes", "back"),
    [
        ([1, -1], [1, 3, 8, 8]),
        ([64, 3], [1, 8, 8, 3]),
        ([-1, 3], [1, 8, -1, 3]),
        ([1, 3, -1], [1, -1, 8, 8]),
    ],
)
def test_the_batch_is_free_behind_reshapes_there_and_back(sizes, back, tmp_path):
    nodes = [node("Reshape", "x there", "a"), node("Relu", "a", "r"), node("Reshape", "r back", "y")]
    source = model(nodes, {"x": X}, ["y"], {"there": np.int64(sizes), "back": np.int64(back)})
    graph = load(source, tmp_path)
    if sizes == [64, 3]:
        assert graph.notes  # 64 is no batch: nothing says what it would be for two
        return
    assert graph.notes == ()
    x = normal(2, 3, 8, 8)
    (found,) = run(ir.to_proto(graph.model), {"x": x})
    np.testing.assert_array_equal(found, np.maximum(x, 0).reshape(2, *found.shape[1:]))


BOUND = {
    "the class token of a ViT": (
        [node("Concat", "token x", "y", axis=1)],
        {"x": [1, 3, 8]},
        {"token": normal(1, 1, 8)},
    ),
    "a first state": (
        [node("Transpose", "x", "t", perm=[1, 0, 2]), node("GRU", "t w r - - h", "y", hidden_size=2)],
        {"x": [1, 3, 8]},
        {"w": normal(1, 6, 8), "r": normal(1, 6, 2), "h": normal(1, 1, 2)},
    ),
    "two rows on the axis of the batch": ([node("Add", "x r", "y")], {"x": [1, 3]}, {"r": normal(2, 3)}),
    "an outer product": ([node("Mul", "x z", "y")], {"x": [1, 3, 1], "z": [1, 4]}, {}),
    "no batch at all": ([node("Reshape", "x s", "y")], {"x": [1, 3, 8]}, {"s": np.int64([3, 8])}),
    "the first of the batch": ([node("Gather", "x i", "y", axis=0)], {"x": [1, 3]}, {"i": np.int64(0)}),
}


@pytest.mark.parametrize("case", BOUND)
def test_what_is_bound_to_its_batch_is_read_as_declared(case, tmp_path):
    nodes, inputs, arrays = BOUND[case]
    graph = load(model(nodes, inputs, ["y"], arrays), tmp_path)
    assert graph.inputs[0].shape == inputs["x"]
    assert "the batch size stays as declared" in graph.notes[0]


def test_symbols_of_the_file_stay_but_the_batch(tmp_path):
    inputs = {"x": ["batch", 3, "height", "N"], "z": ["batch", 1], "t": [None, 2], "u": ["other", 2]}
    nodes = [node("Relu", "x", "y"), node("Relu", "z", "q"), node("Relu", "t", "v"), node("Relu", "u", "w")]
    graph = load(model(nodes, inputs, ["y", "q", "v", "w"]), tmp_path)
    assert [str(value.shape) for value in graph.inputs] == [
        "[N,3,height,N_]",
        "[N,1]",
        "[N,2]",
        "[other,2]",
    ]
    assert graph.declared["x"] == (None, 3, None, None)


def test_names_of_open_sizes_become_plain_words(tmp_path):
    inputs = {
        "image:0": ["batch size?", None, "9**9**9", "1/0"],
        "z": ["batch size?", "2*seq + 1", "batch size? * 2", "?"],
    }
    graph = load(model([node("Relu", name, f"{name}y") for name in inputs], inputs, ["zy"]), tmp_path)
    assert [str(value.shape) for value in graph.inputs] == [
        "[N,image_0_1,d9_9_9,d1_0]",
        "[N,2*seq + 1,batch_size_2,z_3]",
    ]


def test_the_batch_is_known_inside_formulas(tmp_path):
    inputs = {"x": ["batch", 3], "z": ["2*batch", 3], "state": [1, "batch"]}
    graph = load(model([node("Relu", name, f"{name}y") for name in inputs], inputs, ["zy"]), tmp_path)
    assert [str(value.shape) for value in graph.inputs] == ["[N,3]", "[2*N,3]", "[1,N]"]


def test_input_shapes_are_the_callers(tmp_path):
    source = model([node("Relu", "x", "y")], {"x": [1, 3, None, None]}, ["y"])
    assert shape_of(load(source, tmp_path, input_shapes={"x": (1, 3, 5, 7)}), "y") == "[N,3,5,7]"
    with pytest.raises(UsageError, match="net: no input named 'data'; the inputs are 'x'"):
        load(source, tmp_path, input_shapes={"data": (1, 3, 5, 7)})
    with pytest.raises(UsageError, match="input 'x' has 4 axes, but 2 sizes are given"):
        load(source, tmp_path, input_shapes={"x": (1, 3)})


def twice() -> onnx.FunctionProto:
    nodes = [node("Constant", "", "two", value_float=2.0), node("Mul", "a two", "b")]
    return helper.make_function("local", "Twice", ["a"], ["b"], nodes, [helper.make_opsetid("", 22)])


def test_functions_are_put_in_place_and_stay_layers(tmp_path):
    source = model(
        [node("Twice", "x", "t", domain="local", name="first"), node("Twice", "t", "y", domain="local")],
        {"x": X},
        ["y"],
        domains={"local": 1},
        functions=[twice()],
    )
    graph = load(source, tmp_path)
    assert [n.op_type for n in graph.nodes] == ["Mul", "Mul"]
    assert [(layer.key, layer.type) for layer in graph.layers.values()] == [
        ("first", "local::Twice"),
        ("y", "local::Twice"),
    ]
    assert [len(nodes) for nodes in graph.nodes_of().values()] == [1, 1]
    x = normal(*X)
    np.testing.assert_array_equal(run(ir.to_proto(graph.model), {"x": x})[0], 4 * x)


def test_functions_that_explode_are_refused(tmp_path):
    imports = [helper.make_opsetid("", 22), helper.make_opsetid("local", 1)]
    functions = [twice()] + [
        helper.make_function(
            "local",
            f"F{i}",
            ["a"],
            ["b"],
            [node(inner, "a", "c", domain="local"), node(inner, "c", "b", domain="local")],
            imports,
        )
        for i, inner in enumerate(["Twice", *(f"F{i}" for i in range(39))])
    ]
    source = model(
        [node("F39", "x", "y", domain="local")],
        {"x": X},
        ["y"],
        domains={"local": 1},
        functions=functions,
    )
    with pytest.raises(
        UnsupportedError, match="describe 2,199,023,255,552 nodes; at most 1,000,000 are read"
    ):
        load(source, tmp_path)


def test_functions_in_a_circle_are_refused(tmp_path):
    imports = [helper.make_opsetid("local", 1)]
    functions = [
        helper.make_function("local", a, ["a"], ["b"], [node(b, "a", "b", domain="local")], imports)
        for a, b in (("F", "G"), ("G", "F"))
    ]
    source = model(
        [node("F", "x", "y", domain="local")], {"x": X}, ["y"], domains={"local": 1}, functions=functions
    )
    with pytest.raises(ReadError, match="its functions call each other in a cycle: local::"):
        load(source, tmp_path)


def test_operators_of_the_runtime_are_read_and_others_named(tmp_path):
    domains = {"com.microsoft": 1, "acme": 3}
    known = model([node("FusedConv", "x w", "y", domain="com.microsoft", activation="Relu")], {"x": X}, ["y"])
    known.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    known.graph.initializer.append(numpy_helper.from_array(CONV["w"], "w"))
    assert load(known, tmp_path).layers["y"].type == "com.microsoft::FusedConv"
    unknown = [
        node("Swirl", "x", "a", domain="acme"),
        node("Swirl", "a", "b", domain="acme"),
        node("Nothing", "b", "y"),
    ]
    with pytest.raises(
        UnsupportedError,
        match=r"2 operator types that .* acme::Swirl-3 \('a', 'b'\); Nothing-22 \('y'\); neither ONNX nor",
    ):
        load(model(unknown, {"x": X}, ["y"], domains=domains), tmp_path)


def test_bodies_are_read_with_the_graph(tmp_path):
    """A branch reads a value of the outer graph, in an old form."""
    then = helper.make_graph([node("Clip", "x", "o", min=0.0)], "then", [], [onnx.ValueInfoProto(name="o")])
    other = helper.make_graph([node("Neg", "x", "o")], "else", [], [onnx.ValueInfoProto(name="o")])
    source = model(
        [node("If", "c", "y", then_branch=then, else_branch=other)],
        {"x": [2, 3]},
        ["y"],
        {"c": np.bool_(True)},
        opset=10,
    )
    graph = load(source, tmp_path)
    x = normal(2, 3)
    np.testing.assert_array_equal(run(ir.to_proto(graph.model), {"x": x})[0], np.maximum(x, 0))


def test_constants_of_two_bodies_may_have_one_name(tmp_path):
    """As onnxslim writes them; others follow, which are still to be looked at when the first is renamed."""
    bodies = []
    for number in (1.0, 2.0):
        arrays = [numpy_helper.from_array(np.float32(number), name) for name in ("k", "m")]
        nodes = [node("Mul", "x k", "p"), node("Add", "p m", "o")]
        outputs = [onnx.ValueInfoProto(name="o")]
        bodies.append(helper.make_graph(nodes, f"body{number}", [], outputs, initializer=arrays))
    source = model(
        [node("If", "c", "y", then_branch=bodies[0], else_branch=bodies[1])],
        {"x": [2, 3]},
        ["y"],
        {"c": np.bool_(False)},
    )
    graph = load(source, tmp_path)
    x = normal(2, 3)
    np.testing.assert_allclose(run(ir.to_proto(graph.model), {"x": x})[0], 2 * x + 2, rtol=1e-6)


def broken(change) -> onnx.ModelProto:
    made = small()
    change(made)
    return made


CHANGES = {
    "output 'q' of the graph has no node that computes it": lambda m: m.graph.output.add(name="q"),
    "Relu 'r' reads 'gone', which is neither computed by a node": lambda m: m.graph.node[1].input.__setitem__(
        0, "gone"
    ),
    r"its nodes form a cycle: .*'r'": lambda m: m.graph.node[0].input.__setitem__(0, "r"),
    "holds a graph without outputs": lambda m: m.graph.ClearField("output"),
    "'c' is redeclared": lambda m: m.graph.node[1].output.__setitem__(0, "c"),
    r"tensor 'w': has 432 bytes, expected 864 for 8x3x3x3 of FLOAT": lambda m: m.graph.initializer[
        0
    ].dims.__setitem__(0, 8),
    r"tensor 'w': has the shape -4x3x3x3": lambda m: m.graph.initializer[0].dims.__setitem__(0, -4),
    r"tensor 'w': has the shape 2147483648x3x3x3; at most 2,147,483,647": lambda m: m.graph.initializer[
        0
    ].dims.__setitem__(0, 2**31),
    "tensor 'w': has the unknown element type 99": lambda m: setattr(m.graph.initializer[0], "data_type", 99),
}


@pytest.mark.parametrize("message", CHANGES)
def test_what_is_broken_is_said(message, tmp_path):
    with pytest.raises(ReadError, match=message):
        load(broken(CHANGES[message]), tmp_path)


def test_sizes_that_do_not_fit_name_the_node(tmp_path):
    source = model(
        [node("Concat", "x w", "y", name="join", axis=1)], {"x": [1, 3]}, ["y"], {"w": normal(2, 2, 2)}
    )
    with pytest.raises(ShapeError, match="Concat 'join'"):
        load(source, tmp_path)


def external(location: str, **entries: int) -> onnx.ModelProto:
    made = small()
    tensor = made.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=str(value))
    return made


def test_external_data_is_read_from_the_folder_of_the_net(tmp_path):
    (tmp_path / "data.bin").write_bytes(b"1234" + CONV["w"].tobytes())
    graph = load(external("data.bin", offset=4, length=432), tmp_path)
    np.testing.assert_array_equal(graph.model.graph.initializers["w"].const_value.numpy(), CONV["w"])


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("gone.bin", "tensor 'w': external data file 'gone.bin' is missing from the folder of the net"),
        ("../data.bin", "is outside the folder of the net"),
        ("a/../../data.bin", "is outside the folder of the net"),
        ("/etc/hostname", "expected a relative path"),
        ("link.bin", "is outside the folder of the net"),
        ("hard.bin", "is a hard link"),
        ("short.bin", "needs 432 bytes; external data file 'short.bin' has 5 bytes"),
        ("a", "is missing"),
        ("", "expected a relative path"),
    ],
)
def test_external_data_elsewhere_is_refused(location, message, tmp_path):
    (tmp_path / "data.bin").write_bytes(CONV["w"].tobytes())
    folder = tmp_path / "net"
    (folder / "a").mkdir(parents=True)
    (folder / "link.bin").symlink_to(tmp_path / "data.bin")
    os.link(tmp_path / "data.bin", folder / "hard.bin")
    (folder / "short.bin").write_bytes(b"short")
    with pytest.raises(ReadError, match=message):
        load(external(location), folder)


def test_a_file_cut_short_is_said_to_be(tmp_path):
    content = small().SerializeToString()
    path = tmp_path / "net.onnx"
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(ReadError, match=r"net.onnx: is not a complete ONNX model .* downloaded whole\?"):
        read(Source(path))
