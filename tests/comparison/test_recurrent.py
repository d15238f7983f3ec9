"""Weights of recurrent layers, carried between nets that write the steps one by one and nets that do not."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

import netweave
from netweave.comparison.metric import comparable
from netweave.comparison.recurrent import recurrent_layers
from netweave.comparison.weight_transfer import transfer_weights
from netweave.errors import UsageError
from netweave.graph import GraphBuilder, Layer, Parameter
from tests.oracles import recipe

WORDS, STEPS, WIDTH, HIDDEN = 9, 4, 5, 3


class Model:
    """A language model of two layers of LSTM, written in some framework's manner."""

    def __init__(self, *, seed):
        self.seed = seed
        self.builder = GraphBuilder("model", format="onnx")

    def array(self, name, shape):
        role = "filter" if len(shape) > 1 else "bias"
        values = recipe.weight(f"{name} {self.seed}", shape, role)
        return self.builder.parameter(Parameter(name, shape), values)

    def add(self, op_type, *inputs, outputs=1, **attributes):
        made = self.builder.add_many(op_type, inputs, attributes, outputs=[""] * outputs)
        return made[0] if outputs == 1 else made

    def whole(self, *numbers):
        return self.builder.constant(numbers, dtype=np.int64)

    def build(self):
        with self.builder.layer(Layer("model", "model", "model")):
            words = self.builder.input("words", (2, STEPS), dtype=ir.DataType.INT64)
            x = self.add("Gather", self.array("table", (WORDS, WIDTH)), words)
            return self.builder.finish([self.body(x)])

    def steps(self, x):
        """Return the values of each step of (batch, time, features)."""
        parts = self.add("Split", x, self.whole(*[1] * STEPS), outputs=STEPS, axis=1)
        return [self.add("Squeeze", part, self.whole(1)) for part in parts]

    def state(self, x):
        """Return zeros, as many as there are examples."""
        batch = self.add("Shape", x, start=0, end=1)
        sizes = self.add("Concat", batch, self.whole(HIDDEN), axis=0)
        return self.add("Expand", self.builder.constant([[0.0]]), sizes)

    def step(self, i, o, f, candidate, cell):
        """Return the next state and output."""
        kept = self.add("Mul", cell, self.add("Sigmoid", f))
        taken = self.add("Mul", self.add("Sigmoid", i), self.add("Tanh", candidate))
        cell = self.add("Add", kept, taken)
        return cell, self.add("Mul", self.add("Tanh", cell), self.add("Sigmoid", o))

    def stacked(self, values):
        return self.add("Concat", *[self.add("Unsqueeze", x, self.whole(1)) for x in values], axis=1)


class Fused(Model):
    """ONNX's operator."""

    def body(self, x):
        x = self.add("Transpose", x, perm=[1, 0, 2])
        for number, width in enumerate((WIDTH, HIDDEN)):
            shapes = (1, 4 * HIDDEN, width), (1, 4 * HIDDEN, HIDDEN), (1, 8 * HIDDEN)
            arrays = [self.array(f"{name}{number}", shape) for name, shape in zip("WRB", shapes, strict=True)]
            made = self.add("LSTM", x, *arrays, outputs=3, hidden_size=HIDDEN)[0]
            x = self.add("Squeeze", made, self.whole(1))
        x = self.add("Transpose", x, perm=[1, 0, 2])
        scores = self.add("MatMul", x, self.array("v", (HIDDEN, WORDS)))
        return self.add("Add", scores, self.array("c", (WORDS,)))


class Keras(Fused):
    """One bias, put before zeros."""

    def array(self, name, shape):
        if not name.startswith("B"):
            return super().array(name, shape)
        own = self.builder.parameter(
            Parameter(name, (4 * HIDDEN,)),
            recipe.weight(f"{name} {self.seed}", (4 * HIDDEN,), "bias"),
            layout=[("ranges", (0, 3, 9, 12, 3, 6, 6, 9)), ("reshape", (1, 4 * HIDDEN))],
        )
        return self.add("Concat", own, self.builder.constant(np.zeros((1, 4 * HIDDEN))), axis=1)


class TensorFlow(Model):
    """One product over the input beside the last output; gates i, c, f, o, and one more on f."""

    def body(self, x):
        values = self.steps(x)
        for number, width in enumerate((WIDTH, HIDDEN)):
            kernel = self.array(f"kernel{number}", (width + HIDDEN, 4 * HIDDEN))
            bias = self.array(f"bias{number}", (4 * HIDDEN,))
            cell = out = self.state(x)
            made = []
            for value in values:
                both = self.add("Concat", value, out, axis=1)
                gates = self.add("Add", self.add("MatMul", both, kernel), bias)
                i, c, f, o = self.add("Split", gates, self.whole(*[HIDDEN] * 4), outputs=4, axis=1)
                f = self.add("Add", f, self.builder.constant(1.0))
                cell, out = self.step(i, o, f, c, cell)
                made.append(out)
            values = made
        flat = self.add("Reshape", self.stacked(values), self.whole(-1, HIDDEN))
        scores = self.add("Gemm", flat, self.array("v", (HIDDEN, WORDS)), self.array("c", (WORDS,)))
        return self.add("Reshape", scores, self.whole(-1, STEPS, WORDS))


class Chainer(Model):
    """Two products; gates c, i, f, o of each unit beside one another; no product in the first step."""

    def body(self, x):
        values = self.steps(x)
        for number, width in enumerate((WIDTH, HIDDEN)):
            cell, out, made = self.state(x), None, []
            for value in values:
                upward = self.array(f"upward{number}/W", (4 * HIDDEN, width))
                bias = self.array(f"upward{number}/b", (4 * HIDDEN,))
                gates = self.add("Gemm", value, upward, bias, transB=1)
                if out is not None:
                    lateral = self.array(f"lateral{number}/W", (4 * HIDDEN, HIDDEN))
                    gates = self.add("Add", gates, self.add("Gemm", out, lateral, transB=1))
                parts = self.add("Reshape", gates, self.whole(0, HIDDEN, 4))
                parts = self.add("Split", parts, self.whole(1, 1, 1, 1), outputs=4, axis=2)
                c, i, f, o = (self.add("Squeeze", part, self.whole(2)) for part in parts)
                cell, out = self.step(i, o, f, c, cell)
                made.append(out)
            values = made
        weights = self.array("l3/W", (WORDS, HIDDEN)), self.array("l3/b", (WORDS,))
        return self.stacked([self.add("Gemm", value, *weights, transB=1) for value in values])


MANNERS = [Fused, Keras, TensorFlow, Chainer]


ALONE = pytest.mark.findings_by_order(
    reason="steps of Chainer as A are grouped with the layer of B that they compute, and as B are only in B; "
    "verdict and mappings are the same"
)


def marks(net, port):
    return ALONE if Chainer in (net, port) else ()


@pytest.mark.parametrize(
    ("net", "port"), [pytest.param(net, port, marks=marks(net, port)) for net in MANNERS for port in MANNERS]
)
def test_weights_are_carried_from_any_manner_to_any(net, port):
    if net is port:
        return
    first = net(seed="net").build()
    filled = transfer_weights(first, port(seed="port").build())
    words = recipe.draw("words", (2, STEPS), f"integers {WORDS}").astype(np.int64)
    wanted, found = (next(iter(netweave.run(graph, {"words": words}).values())) for graph in (first, filled))
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    assert wanted.std() > 0.05


@pytest.mark.parametrize("manner", MANNERS)
def test_weights_that_are_read_from_a_layer_and_written_again_are_the_same(manner):
    graph = comparable(manner(seed="net").build())
    layers = recurrent_layers(graph)
    assert [layer.read().kernel.shape for layer in layers] == [(12, WIDTH), (12, HIDDEN)]
    weights = layers[0].read()
    other = recurrent_layers(comparable(Fused(seed="net").build()))[0]
    other.write(weights)
    for name in ("kernel", "recurrent", "bias"):
        np.testing.assert_array_equal(getattr(other.read(), name), getattr(weights, name))


def test_a_port_that_goes_from_the_last_word_to_the_first_is_refused():
    port = Chainer(seed="port")
    port.steps = lambda x: Model.steps(port, x)[::-1]
    with pytest.raises(UsageError, match="cannot be transferred"):
        transfer_weights(Fused(seed="net").build(), port.build())
