"""What the reader of TensorFlow makes of a graph besides what it computes (that is in ``tests/parity``)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import netweave
from netweave.errors import UnsupportedError, UsageError, WeightError
from netweave.formats.tensorflow.table import masked_checksum

FOLDER = Path(__file__).parents[2] / "golden" / "tensorflow"


def const(name: str, value: int) -> str:
    return f"""node {{ name: "{name}" op: "Const"
    attr {{ key: "dtype" value {{ type: DT_INT32 }} }} attr {{ key: "value"
    value {{ tensor {{ dtype: DT_INT32 tensor_shape {{ }} int_val: {value} }} }} }} }}"""


def node(name: str, op: str, *inputs: str, frame: str = "") -> str:
    read = " ".join(f'input: "{name}"' for name in inputs)
    more = f'attr {{ key: "frame_name" value {{ s: "{frame}" }} }}' if frame else ""
    return f'node {{ name: "{name}" op: "{op}" {read} {more} }}'


OPEN_LOOP = [
    """node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "shape"
    value { shape { dim { size: -1 } dim { size: -1 } } } } }""",
    *(const(name, value) for name, value in (("zero", 0), ("one", 1))),
    node("shape", "Shape", "x"),
    node("count", "Gather", "shape", "one"),
    *(node(f"e{name}", "Enter", name, frame="w") for name in ("zero", "x", "count")),
    *(node(f"m{name}", "Merge", f"e{name}", f"n{name}") for name in ("zero", "x")),
    node("less", "Less", "mzero", "ecount"),
    node("cond", "LoopCond", "less"),
    *(node(f"s{name}", "Switch", f"m{name}", "cond") for name in ("zero", "x")),
    const("step", 1),
    node("plus", "Add", "szero:1", "step"),
    node("twice", "Add", "sx:1", "sx:1"),
    node("nzero", "NextIteration", "plus"),
    node("nx", "NextIteration", "twice"),
    node("out", "Exit", "sx"),
    node("y", "Identity", "out"),
]
"""``while i < x.shape[1]: x = x + x`` as TensorFlow 1 writes it; the size is open."""


def text_of(folder: Path, nodes: list[str]) -> Path:
    path = folder / "graph.pbtxt"
    path.write_text("\n".join(nodes))
    return path


def kinds(graph):
    return Counter(node.op_type for node in graph.nodes)


def test_conditions_take_the_branch_of_a_net_that_predicts():
    graph = netweave.load(FOLDER / "residual.meta")
    assert "'is_training', which says how the net is run, is taken as False" in graph.notes
    assert [value.name for value in graph.inputs] == ["images"]
    assert kinds(graph)["BatchNormalization"] == 4  # fused and unfused alike
    assert not {"If", "Sqrt", "Reciprocal"} & set(kinds(graph))


def test_training_and_losses_are_cut_off():
    graph = netweave.load(FOLDER / "lenet.meta")
    assert [value.name for value in graph.outputs] == ["probabilities"]
    assert "labels" not in [value.name for value in graph.inputs]
    assert kinds(graph)["Dropout"] + kinds(graph)["Identity"] >= 1


def test_a_frozen_graph_and_its_checkpoint_are_the_same_net():
    for name in ("alexnet", "dilated", "unet"):
        frozen, saved = (netweave.load(FOLDER / f"{name}.{suffix}") for suffix in ("pb", "meta"))
        assert kinds(frozen) == kinds(saved)
        assert netweave.compare(frozen, saved).equal


def test_dilated_convolutions_are_no_longer_cut_into_batches():
    graph = netweave.load(FOLDER / "dilated.pb")
    dilations = [
        list(node.attributes["dilations"].as_ints()) for node in graph.nodes if node.op_type == "Conv"
    ]
    assert dilations == [[2, 2], [4, 4]]


def test_a_text_keeps_its_lines():
    path = FOLDER / "lenet.pbtxt"
    lines = path.read_text().splitlines()
    for layer in netweave.load(path).layers.values():
        assert lines[layer.origin.line - 1] == "node {"
        assert lines[layer.origin.line] == f'  name: "{layer.name}"'


def test_weights_keep_the_layout_of_the_file():
    graph = netweave.load(FOLDER / "squeeze.meta")
    assert graph.parameters["conv1/weights"].shape == (3, 3, 3, 8)
    assert graph.loaded


def test_a_graph_without_its_checkpoint_is_read_by_its_sizes(tmp_path):
    (tmp_path / "gru.meta").write_bytes((FOLDER / "gru.meta").read_bytes())
    graph = netweave.load(tmp_path / "gru.meta")
    assert not graph.loaded
    (state,) = netweave.run(graph, {"sequence": np.zeros((3, 5, 4), np.float32)}).values()
    assert state.shape == (3, 8)


def test_a_checkpoint_of_another_net_is_refused(tmp_path):
    with pytest.raises(WeightError, match="does not contain the variable"):
        netweave.load(FOLDER / "gru.meta", FOLDER / "fcn")


def test_sizes_for_an_input_that_is_not_there_are_refused():
    with pytest.raises(UsageError, match=r"no input named 'data'.*'images'"):
        netweave.load(FOLDER / "squeeze.pb", input_shapes={"data": (1, 18, 18, 3)})


def test_loops_of_tensorflow_1_are_written_out():
    graph = netweave.load(FOLDER / "dynamic.meta")
    assert [value.name for value in graph.outputs] == ["last"]
    steps, gates = 5, 3 + 1 + 1 + 3  # of the LSTM, of a GRU each way (r and z at once), of the other LSTM
    assert kinds(graph)["Sigmoid"] == steps * gates
    assert not {"Loop", "If"} & set(kinds(graph))


def test_a_loop_of_open_length_asks_for_sizes(tmp_path):
    with pytest.raises(UnsupportedError, match=r"the number of iterations is unknown; .* --input-shape"):
        netweave.load(text_of(tmp_path, OPEN_LOOP))
    graph = netweave.load(text_of(tmp_path, OPEN_LOOP), input_shapes={"x": (3, 2)})
    (made,) = netweave.run(graph, {"x": np.ones((3, 2), np.float32)}).values()
    np.testing.assert_array_equal(made, np.full((3, 2), 4.0))


def test_a_loop_that_values_end_is_refused(tmp_path):
    reduced = [
        const("all", 0),
        node("sum", "Sum", "mx", "all"),
        node("whole", "Sum", "sum", "all"),
        node("less", "Less", "whole", "limit"),
        """node { name: "limit" op: "Const" attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "value"
        value { tensor { dtype: DT_FLOAT tensor_shape { } float_val: 9.0 } } } }""",
    ]
    nodes = [text for text in OPEN_LOOP if 'name: "less"' not in text]
    with pytest.raises(
        UnsupportedError, match=r"\(LoopCond\): the number of iterations is unknown; .* depends on values"
    ):
        netweave.load(text_of(tmp_path, [*nodes, *reduced]))


def test_an_output_has_its_name_though_a_node_inside_has_it_too():
    graph = netweave.load(FOLDER.parent / "tensorflow_operators")
    names = [value.name for value in graph.outputs]
    assert {"Identity", "Transpose", "Split", "Cast"} <= set(names)


def test_the_checksum_is_crc32c():
    """RFC 3720, B.4: 32 bytes of zeros have 8a9136aa; stored turned by 15 bits, plus a2 82 ea d8."""
    crc = 0x8A9136AA
    masked = (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF
    assert masked_checksum(bytes(32)) == masked
