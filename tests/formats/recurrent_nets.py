"""Small ONNX nets of recurrent layers and of words, for all writers, and what ONNX Runtime makes of them.

T steps, N examples, C inputs, H hidden units, D directions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime
from onnx import TensorProto

from tests.formats.onnx.models import model, node
from tests.formats.written_nets import drawn, ints

if TYPE_CHECKING:
    import onnx

T, N, C, H, WORDS = 5, 3, 4, 6, 11

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def arrays(kind: str, directions: int = 1, inputs: int = C) -> dict[str, np.ndarray]:
    """Return the weights of a recurrent operator."""
    rows = GATES[kind] * H
    return {
        "w": drawn(directions, rows, inputs, seed=1),
        "r": drawn(directions, rows, H, seed=2),
        "b": drawn(directions, 2 * rows, seed=3),
    }


def steps(kind: str, *, directions: int = 1, bias: bool = True, **attributes: Any) -> onnx.ModelProto:
    """Return a net from (T, N, C) to (T, N, D * H)."""
    made = arrays(kind, directions)
    given = "x w r b" if bias else "x w r"
    nodes = [
        node(kind, given, "s", name="rnn", hidden_size=H, **attributes),
        node("Transpose", "s", "t", perm=[0, 2, 1, 3]),
        node("Reshape", "t shape", "y"),
    ]
    made["shape"] = ints(0, 0, directions * H)
    if not bias:
        del made["b"]
    return model(nodes, {"x": [T, N, C]}, ["y"], made)


def states(kind: str, *, directions: int = 1, **attributes: Any) -> onnx.ModelProto:
    """Return a net that takes first states and gives last ones beside (T, D, N, H)."""
    cell = kind == "LSTM"
    made = node(
        kind, f"x w r b - h{' c' * cell}", f"y yh{' yc' * cell}", name="rnn", hidden_size=H, **attributes
    )
    inputs = {"x": [T, N, C], "h": [directions, N, H]} | ({"c": [directions, N, H]} if cell else {})
    return model([made], inputs, ["y", "yh", *["yc"] * cell], arrays(kind, directions))


def stored_states() -> onnx.ModelProto:
    """Return a net whose first state is stored."""
    made = node("GRU", "x w r b - h", "y", hidden_size=H)
    return model([made], {"x": [T, N, C]}, ["y"], {**arrays("GRU"), "h": drawn(1, N, H)})


def lengths() -> onnx.ModelProto:
    """Return a net whose sequences have different lengths."""
    made = node("GRU", "x w r b n", "y", hidden_size=H, linear_before_reset=1)
    lengths = np.array([3, 5, 2], np.int32)
    return model([made], {"x": [T, N, C]}, ["y"], {**arrays("GRU"), "n": lengths})


def batches_first() -> onnx.ModelProto:
    """Return a net of two layers over (N, T, C), of which the second gives its last step alone."""
    again = {f"{name}2": array for name, array in arrays("GRU", inputs=H).items()}
    nodes = [
        node("Transpose", "x", "t", perm=[1, 0, 2]),
        node("LSTM", "t w r b", "s", name="first", hidden_size=H),
        node("Squeeze", "s one", "u"),
        node("GRU", "u w2 r2 b2", "- yh", name="second", hidden_size=H, linear_before_reset=1),
        node("Squeeze", "yh zero", "y"),
    ]
    return model(
        nodes, {"x": ["N", T, C]}, ["y"], {**arrays("LSTM"), **again, "one": ints(1), "zero": ints(0)}
    )


def language() -> onnx.ModelProto:
    """Return a language model over (T, N) words: an embedding, an LSTM with its states, scores of words."""
    more = {
        "table": drawn(WORDS, C, seed=5),
        "zero": ints(0),
        "one": ints(1),
        "flat": ints(-1, H),
        "k": drawn(H, WORDS, seed=6),
        "l": drawn(WORDS, seed=7),
    }
    nodes = [
        node("Cast", "words", "whole", to=TensorProto.INT64, name="cast"),
        node("Gather", "table whole", "x", name="embedding"),
        node("Unsqueeze", "h zero", "h1"),
        node("Unsqueeze", "c zero", "c1"),
        node("LSTM", "x w r b - h1 c1", "s yh yc", name="lstm", hidden_size=H),
        node("Squeeze", "s one", "u"),
        node("Reshape", "u flat", "v"),
        node("Gemm", "v k l", "z", name="scores"),
        node("Softmax", "z", "y", axis=-1),
        node("Squeeze", "yh zero", "h_last"),
        node("Squeeze", "yc zero", "c_last"),
    ]
    inputs = {"words": [T, N], "h": [N, H], "c": [N, H]}
    return model(nodes, inputs, ["y", "h_last", "c_last"], {**arrays("LSTM"), **more})


BOTH = {"directions": 2, "direction": "bidirectional"}

NETS: dict[str, onnx.ModelProto] = {
    "lstm": steps("LSTM"),
    "gru that resets behind its product": steps("GRU", linear_before_reset=1),
    "gru that resets before its product": steps("GRU"),
    "rnn": steps("RNN"),
    "rectified": steps("RNN", activations=["Relu"]),
    "lstm without biases": steps("LSTM", bias=False),
    "lstm backwards": steps("LSTM", direction="reverse"),
    "lstm of both directions": steps("LSTM", **BOTH),
    "gru of both directions": steps("GRU", linear_before_reset=1, **BOTH),
    "lstm with states": states("LSTM"),
    "gru with states": states("GRU", linear_before_reset=1),
    "rnn with states": states("RNN"),
    "lstm with states of both directions": states("LSTM", **BOTH),
    "lstm backwards with states": states("LSTM", direction="reverse"),
    "batches first": batches_first(),
    "language": language(),
}
"""By what they are about."""


def expected(made: onnx.ModelProto) -> tuple[dict[str, np.ndarray], list[np.ndarray]]:
    """Return inputs of a net, ``words`` as whole numbers, and what ONNX Runtime makes of them."""
    inputs = {}
    for number, value in enumerate(made.graph.input):
        shape = [size.dim_value or N for size in value.type.tensor_type.shape.dim]
        array = drawn(*shape, seed=10 + number)
        inputs[value.name] = np.floor((array + 1) / 2 * WORDS) if value.name == "words" else array
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    return inputs, session.run(None, inputs)
