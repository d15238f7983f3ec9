"""Recurrent layers as PyTorch source: held against ONNX Runtime on the nets that they were written from."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import onnxruntime
import pytest

import netweave
from netweave import api
from netweave.errors import NetweaveError, UnsupportedError
from tests.formats.onnx.models import load, model, node
from tests.formats.pytorch.test_source import imported
from tests.formats.written_nets import drawn, ints

torch = pytest.importorskip("torch")

STEPS, BATCH, INPUTS, HIDDEN = 5, 2, 3, 4
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def arrays(kind: str, directions: int = 1) -> dict[str, np.ndarray]:
    rows = GATES[kind] * HIDDEN
    return {
        "w": drawn(directions, rows, INPUTS),
        "r": drawn(directions, rows, HIDDEN, seed=1),
        "b": drawn(directions, 2 * rows, seed=2),
    }


def cell(kind: str, inputs: str = "x w r b", outputs: str = "y", **attributes):
    if kind == "GRU":
        attributes.setdefault("linear_before_reset", 1)
    return node(kind, inputs, outputs, name=kind.lower(), hidden_size=HIDDEN, **attributes)


def net(nodes, given, outputs=("y",), **inputs):
    return model(nodes, {"x": [STEPS, BATCH, INPUTS], **inputs}, list(outputs), given)


def check(made, folder) -> str:
    """Write a net and hold what the source computes against ONNX Runtime; return the source."""
    netweave.save(load(made, folder), folder / "written.py")
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    inputs = {
        value.name: np.random.default_rng(number).normal(size=value.shape).astype(np.float32)
        for number, value in enumerate(session.get_inputs())
    }
    with torch.no_grad():
        found = imported(folder / "written.py").load()(*map(torch.from_numpy, inputs.values()))
    expected = session.run(None, inputs)
    for tensor, array in zip(found if isinstance(found, tuple) else [found], expected, strict=True):
        np.testing.assert_allclose(tensor.numpy(), array, atol=1e-5)
    ruff = [
        sys.executable,
        "-m",
        "ruff",
        "check",
        "--isolated",
        "--line-length",
        "110",
        "--extend-select",
        "E501",
    ]
    subprocess.run([*ruff, "written.py"], cwd=folder, check=True)
    return (folder / "written.py").read_text()


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_the_sequence_of_every_kind_and_direction(kind, direction, tmp_path):
    given = arrays(kind, 2 if direction == "bidirectional" else 1)
    check(net([cell(kind, direction=direction)], given), tmp_path)


@pytest.mark.parametrize("kind", GATES)
def test_the_last_state_alone(kind, tmp_path):
    check(net([cell(kind, outputs="- y")], arrays(kind)), tmp_path)


def test_sequence_and_both_states(tmp_path):
    text = check(net([cell("LSTM", outputs="y h c")], arrays("LSTM"), ("y", "h", "c")), tmp_path)
    assert "self.lstm = nn.LSTM(3, 4)" in text


def test_first_states_that_the_net_is_given(tmp_path):
    states = {"h": [1, BATCH, HIDDEN], "c": [1, BATCH, HIDDEN]}
    check(net([cell("LSTM", "x w r b - h c")], arrays("LSTM"), **states), tmp_path)
    gru = {"h": [1, BATCH, HIDDEN]}
    check(net([cell("GRU", "x w r b - h")], arrays("GRU"), **gru), tmp_path)


def test_without_biases_and_with_relu(tmp_path):
    given = {name: array for name, array in arrays("RNN").items() if name != "b"}
    text = check(net([cell("RNN", "x w r", activations=["Relu"])], given), tmp_path)
    assert 'nn.RNN(3, 4, nonlinearity="relu", bias=False)'.replace('"', "'") in text.replace('"', "'")


@pytest.mark.parametrize("kind", GATES)
def test_the_batch_first_is_said_to_the_module(kind, tmp_path):
    nodes = [
        node("Transpose", "x", "t", perm=[1, 0, 2]),
        cell(kind, "t w r b", "s"),
        node("Squeeze", "s one", "q"),
        node("Transpose", "q", "y", perm=[1, 0, 2]),
    ]
    made = model(nodes, {"x": [BATCH, STEPS, INPUTS]}, ["y"], {**arrays(kind), "one": ints(1)})
    text = check(made, tmp_path)
    assert f"nn.{kind}(3, 4, batch_first=True)" in text
    assert f"return self.{kind.lower()}(x)[0]" in text


@pytest.mark.parametrize(("direction", "num"), [("forward", 1), ("bidirectional", 2)])
def test_the_batch_first_as_keras_has_it(direction, num, tmp_path):
    """As the readers of Keras and TensorFlow write it: axes in another order, then directions together."""
    nodes = [
        node("Transpose", "x", "t", perm=[1, 0, 2]),
        cell("LSTM", "t w r b", "s", direction=direction),
        node("Transpose", "s", "q", perm=[2, 0, 1, 3]),
        node("Reshape", "q sizes", "y"),
    ]
    given = {**arrays("LSTM", num), "sizes": ints(0, 0, num * HIDDEN)}
    assert "return self.lstm(x)[0]" in check(
        model(nodes, {"x": [BATCH, STEPS, INPUTS]}, ["y"], given), tmp_path
    )


def test_both_directions_side_by_side_are_what_the_module_gives(tmp_path):
    nodes = [
        cell("LSTM", outputs="s", direction="bidirectional"),
        node("Transpose", "s", "t", perm=[0, 2, 1, 3]),
        node("Reshape", "t sizes", "y"),
    ]
    text = check(net(nodes, {**arrays("LSTM", 2), "sizes": ints(0, 0, -1)}), tmp_path)
    assert "return self.lstm(x)[0]" in text


def test_a_module_of_torch_comes_back_as_it_was(tmp_path):
    """A language model as PyTorch has it, read and written again."""

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = torch.nn.Embedding(11, 6)
            self.lstm = torch.nn.LSTM(6, 5, batch_first=True, bidirectional=True)
            self.fc = torch.nn.Linear(10, 11)

        def forward(self, x):
            return self.fc(self.lstm(self.embedding(x))[0])

    torch.manual_seed(0)
    module = Model().eval()
    x = torch.randint(0, 11, (2, 7))
    graph = netweave.load(module, examples=[x])
    netweave.save(graph, tmp_path / "port.py")
    with torch.no_grad():
        found = imported(tmp_path / "port.py").load()(x)
        np.testing.assert_allclose(found.numpy(), module(x).numpy(), atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", GATES)
def test_a_port_is_proven_equal(kind, tmp_path):
    graph = load(net([cell(kind)], arrays(kind)), tmp_path)
    assert api.convert_and_verify(graph, tmp_path / "port.py").exit_status == 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["GRU", "LSTM"])
@pytest.mark.parametrize("ways", [1, 2])
def test_open_steps_of_a_module_are_open(kind, ways):
    """PyTorch's exporter takes the steps of its example for the size of a GRU's output."""

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = getattr(torch.nn, kind)(INPUTS, HIDDEN, num_layers=2, bidirectional=ways == 2)
            self.fc = torch.nn.Linear(ways * HIDDEN, 2)

        def forward(self, x):
            made = self.fc(self.layers(x)[0])
            return made.reshape(made.shape[1], -1)

    torch.manual_seed(0)
    module = Model().eval()
    graph = netweave.load(module, examples=[torch.randn(STEPS, BATCH, INPUTS)])
    for steps in (STEPS, STEPS + 3):
        x = torch.randn(steps, BATCH, INPUTS)
        (made,) = netweave.run(graph, {"x": x.numpy()}).values()
        with torch.no_grad():
            np.testing.assert_allclose(made, module(x).numpy(), atol=1e-5)


@pytest.mark.slow
def test_steps_of_a_plain_layer_are_those_of_the_example():
    """PyTorch's exporter writes it out for them, whatever is said to be open."""
    torch.manual_seed(0)
    module = torch.nn.RNN(INPUTS, HIDDEN).eval()
    x = torch.randn(STEPS, BATCH, INPUTS)
    graph = netweave.load(module, examples=[x])
    assert "written out step by step" in " ".join(graph.notes)
    with torch.no_grad():
        np.testing.assert_allclose(
            next(iter(netweave.run(graph, {"input": x.numpy()}).values())), module(x)[0], atol=1e-5
        )
    with pytest.raises(NetweaveError):
        netweave.run(graph, {"input": np.zeros((STEPS + 1, BATCH, INPUTS), np.float32)})


@pytest.mark.parametrize(
    ("kind", "attributes", "message"),
    [
        ("GRU", {"linear_before_reset": 0}, "reset before the product"),
        ("LSTM", {"clip": 3.0}, "clipped or coupled"),
        ("LSTM", {"activations": ["Sigmoid", "Relu", "Tanh"]}, "activations are Sigmoid, Relu, Tanh"),
        ("RNN", {"activations": ["Sigmoid"]}, "activations are Sigmoid"),
    ],
)
def test_what_the_modules_have_not_is_refused(kind, attributes, message, tmp_path):
    with pytest.raises(UnsupportedError, match=rf"{kind}: .*{message}"):
        netweave.save(load(net([cell(kind, **attributes)], arrays(kind)), tmp_path), tmp_path / "written.py")
