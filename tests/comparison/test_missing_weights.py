"""Weights that a net came without are copied; all others are compared, whoever drew them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

import netweave
from netweave.comparison import Status, Verdict
from netweave.comparison.assessment import COPIED
from netweave.graph import GraphBuilder, Layer, Parameter
from netweave.graph.stored import with_arrays
from tests.comparison.nets import Form, arrays, build, without

if TYPE_CHECKING:
    from pathlib import Path

    from netweave.graph import Graph

A, B = Form(file="a.net"), Form()


def culprits(found) -> list[str]:
    return [group.layers_b[0] for group in found.groups if group.status is Status.DIFFERENT]


def outputs(path: Path, x: np.ndarray) -> np.ndarray:
    """What another runtime computes."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: x})[0]


def edit(path: Path, name: str, index: tuple[int, ...], added: float) -> None:
    """Change one number of a file as any tool would that knows nothing of Netweave's metadata."""
    model = onnx.load(path)
    tensor = next(tensor for tensor in model.graph.initializer if tensor.name == name)
    array = numpy_helper.to_array(tensor).copy()
    array[index] += added
    tensor.CopyFrom(numpy_helper.from_array(array, name))
    onnx.save(model, path)


@pytest.fixture
def drawn_pair(tmp_path: Path) -> tuple[Path, Path]:
    paths = tmp_path / "a.onnx", tmp_path / "b.onnx"
    for path in paths:
        netweave.save(without(build(A)), path, random_weights=True)
    return paths


@pytest.mark.parametrize(
    ("name", "index", "layer"),
    [("conv1", (2, 1, 0, 0), "conv1"), ("gamma", (3,), "bn1"), ("fc", (4,), "fc")],
)
def test_one_edited_array_of_drawn_ones_is_found(drawn_pair, name, index, layer):
    a, b = drawn_pair
    edit(b, name, index, 2.0)
    x = np.random.default_rng(0).standard_normal((1, 3, 11, 11), dtype=np.float32)
    assert np.abs(outputs(a, x) - outputs(b, x)).max() > 0.01
    found = netweave.compare(a, b)
    assert found.verdict is Verdict.DIFFERENT
    assert culprits(found) == [layer]
    assert not found.sentence.startswith(COPIED)


def test_drawn_values_that_two_files_share_are_compared(drawn_pair):
    found = netweave.compare(*drawn_pair)
    assert found.verdict is Verdict.IDENTICAL
    assert found.notes == ()


def test_values_drawn_apart_say_nothing(drawn_pair, tmp_path):
    other = tmp_path / "other.onnx"
    netweave.save(without(build(replace(B, prefix="p_"))), other, random_weights=True)
    found = netweave.compare(drawn_pair[0], other)
    assert (found.verdict, found.exit_status) == (Verdict.STRUCTURE, 4)
    wrong = tmp_path / "wrong.onnx"
    netweave.save(without(build(replace(B, prefix="p_", slope=0.4))), wrong, random_weights=True)
    found = netweave.compare(drawn_pair[0], wrong)
    assert found.verdict is Verdict.DIFFERENT
    assert culprits(found) == ["p_relu1"]


@pytest.mark.parametrize("lacking", ["a", "b", "both"])
@pytest.mark.parametrize("prefix", ["", "p_"])
def test_a_net_without_weights_is_never_equal(lacking, prefix):
    """Also where both draw the same values, since their layers have the same names."""
    a, b = build(A), build(replace(B, prefix=prefix))
    a, b = without(a) if lacking != "b" else a, without(b) if lacking != "a" else b
    found = netweave.compare(a, b)
    assert (found.verdict, found.exit_status) == (Verdict.STRUCTURE, 4)
    assert (found.equal, found.same_structure) == (False, True)
    assert found.sentence.startswith(f"{Verdict.STRUCTURE.value}: ")


def test_layers_with_copied_weights_are_told_from_those_that_have_none():
    found = netweave.compare(build(A), without(build(B)))
    standing = {layer: group.status for group in found.groups for layer in group.layers_b}
    weighted = {"conv1", "bn1", "conv2", "fc"}
    assert {layer for layer, status in standing.items() if status is Status.STRUCTURE} == weighted
    assert {standing[layer] for layer in standing.keys() - weighted} == {Status.EQUAL}


def test_of_a_partly_loaded_net_the_loaded_layers_are_equal():
    found = netweave.compare(build(A), without(build(B), "fc"))
    structural = [group.layers_b for group in found.groups if group.status is Status.STRUCTURE]
    assert structural == [("fc",)]


def two_filters(*, channels_last: bool) -> Graph:
    """A net whose image comes as in Caffe, or as in TensorFlow."""
    builder = GraphBuilder("net", format="onnx", files=("b.net",))
    x = builder.input("data", (1, 11, 11, 3) if channels_last else (1, 3, 11, 11))
    if channels_last:
        x = builder.add("Transpose", [x], {"perm": [0, 3, 1, 2]})
    for name in ("conv1", "conv2"):
        with builder.layer(Layer(name, name, "Conv2D")):
            weight = builder.parameter(Parameter(name, arrays()[name].shape), arrays()[name])
            x = builder.add("Conv", [x, weight])
            x = builder.add("Relu", [x])
    return builder.finish([x])


def test_a_mapping_is_stated_without_weights_too():
    """A channels-last port reads the image turned."""
    found = netweave.compare(two_filters(channels_last=False), without(two_filters(channels_last=True)))
    assert found.verdict is Verdict.STRUCTURE
    assert "given input 'data' with channels last (NHWC); with weights copied" in found.sentence


def test_a_difference_stays_one_without_weights():
    found = netweave.compare(build(A), without(build(replace(B, slope=0.4))))
    assert (found.verdict, found.exit_status) == (Verdict.DIFFERENT, 1)
    assert culprits(found) == ["relu1"]


class TestSomeArraysMissing:
    def test_those_that_are_there_are_compared(self):
        changed = replace(B, changed={"conv1": ((0, 0, 0, 0), 1.0)})
        found = netweave.compare(build(A), without(build(changed), "fc"))
        assert found.verdict is Verdict.DIFFERENT
        assert culprits(found) == ["conv1"]

    def test_if_they_agree_the_rest_is_not_compared(self):
        found = netweave.compare(build(A), without(build(B), "fc", "beta"))
        assert found.verdict is Verdict.STRUCTURE
        assert found.notes == (
            "B came without 2 of its 7 arrays: 2 arrays were copied from A to B through the alignment; "
            "of the weights only the others are compared",
        )

    @pytest.mark.parametrize(
        ("changed", "layer"), [({"conv2": ((0, 0, 0, 0), 1.0)}, "conv2"), ({"mean": ((2,), 1.0)}, "bn1")]
    )
    def test_each_net_gets_what_the_other_has(self, changed, layer):
        same = netweave.compare(without(build(A), "conv1"), without(build(B), "fc"))
        assert same.verdict is Verdict.STRUCTURE
        assert "copied from each to the other" in same.notes[0]
        found = netweave.compare(
            without(build(A), "conv1"), without(build(replace(B, changed=changed)), "fc")
        )
        assert found.verdict is Verdict.DIFFERENT
        assert culprits(found) == [layer]


def test_an_array_that_nothing_reads_is_no_weight_that_is_missing():
    """MXNet's fixed gamma, say: files of weights need not hold it."""
    net = build(B)
    net.parameters["unread"] = Parameter("unread", (8,), loaded=False)
    assert netweave.compare(build(A), net).verdict is Verdict.IDENTICAL


def first(graph: Graph) -> Graph:
    graph.parameters = {key: replace(p, initial=True) for key, p in graph.parameters.items()}
    return graph


def test_arrays_that_are_zero_in_every_fresh_net_are_nothing_in_common():
    """Code often begins the last layer of a block with zeros."""
    rng = np.random.default_rng(1)

    def fresh(form: Form) -> Graph:
        values = {key: rng.standard_normal(x.shape, np.float32) for key, x in arrays().items()}
        values |= {"conv2": np.zeros_like(values["conv2"]), "var": np.ones_like(values["var"])}
        return first(with_arrays(build(form), values))

    assert netweave.compare(fresh(A), fresh(B)).verdict is Verdict.STRUCTURE


def scaled(factors: np.ndarray) -> Graph:
    """A net without filters."""
    builder = GraphBuilder("net", format="onnx", files=("a.net",))
    x = builder.input("data", (1, 3, 8, 8))
    with builder.layer(Layer("scale", "scale", "Scale")):
        value = builder.parameter(Parameter("scale", factors.shape), factors)
        x = builder.add("Mul", [x, value])
    return builder.finish([x])


def test_nets_without_filters_are_compared_by_what_they_hold():
    factors = np.random.default_rng(2).standard_normal((3, 1, 1), dtype=np.float32)
    other = factors + np.float32(1)
    assert netweave.compare(first(scaled(factors)), scaled(factors)).verdict is Verdict.IDENTICAL
    assert netweave.compare(first(scaled(factors)), first(scaled(other))).verdict is not Verdict.IDENTICAL
    assert netweave.compare(scaled(factors), scaled(other)).verdict is Verdict.DIFFERENT


def test_nets_that_have_no_weights_at_all_can_be_identical():
    def pooled() -> Graph:
        builder = GraphBuilder("net", format="onnx", files=("a.net",))
        x = builder.input("data", (1, 3, 8, 8))
        with builder.layer(Layer("pool", "pool", "Pooling")):
            x = builder.add("MaxPool", [x], {"kernel_shape": [2, 2], "strides": [2, 2]})
        return builder.finish([x])

    assert netweave.compare(pooled(), pooled()).verdict is Verdict.IDENTICAL


@pytest.mark.parametrize("lacking", ["b", "both"])
def test_nets_without_a_common_size_are_given_the_same_weights(lacking):
    """Layers that both have are compared one by one, and none differs in weights that nobody gave."""
    a, b = of_one_size(24, "a.net"), without(of_one_size(16, "b.net"))
    found = netweave.compare(without(a) if lacking == "both" else a, b)
    assert found.verdict is Verdict.UNDECIDED
    causes = [(finding.layer_b, finding.cause) for finding in found.findings]
    assert causes == [("fc", "each filter reads 1,600 channels in A and 576 in B")]
    assert "A takes data Nx3x24x24, and B takes data Nx3x16x16" in found.sentence
    assert "fc could not be compared in isolation" in found.sentence
    assert any("were copied from A to B" in note for note in found.notes)
    loaded = netweave.compare(of_one_size(24, "a.net"), of_one_size(16, "b.net", changed=2.0))
    assert ("conv", "weights") in [(finding.layer_b, finding.mismatch) for finding in loaded.findings]


def of_one_size(side: int, file: str, *, changed: float = 0.0) -> Graph:
    """Two convolutions and a dense layer, which takes images of one size alone."""
    builder = GraphBuilder("net", format="onnx", files=(file,))
    x = builder.input("data", (1, 3, side, side))
    rng = np.random.default_rng(0)
    for name, width in (("conv", 3), ("conv2", 4)):
        with builder.layer(Layer(name, name, "Convolution")):
            shape = (4, width, 3, 3)
            array = rng.standard_normal(shape, np.float32)
            array[0] += changed if name == "conv" else 0
            x = builder.add("Conv", [x, builder.parameter(Parameter(name, shape), array)])
            x = builder.add("Relu", [x])
    with builder.layer(Layer("fc", "fc", "InnerProduct")):
        columns = 4 * (side - 4) ** 2
        array = rng.standard_normal((columns, 5), np.float32)
        weight = builder.parameter(Parameter("fc", (columns, 5)), array)
        x = builder.add("MatMul", [builder.add("Flatten", [x]), weight])
    return builder.finish([x])
