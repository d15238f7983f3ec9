"""Random nets of convolutions, poolings, normalisations, sums and joins, for plans to be held against."""

import numpy as np
from hypothesis import strategies as st

from netweave.graph import GraphBuilder, Parameter

RNG = np.random.default_rng(0)
SIZE, CHANNELS = 24, 8

WINDOWED = ("conv", "pointwise", "every other", "max pool", "mean pool")
PLAIN = ("relu", "sigmoid", "norm", "lrn", "add", "concat")
STEPS = st.lists(st.tuples(st.sampled_from(WINDOWED + PLAIN), st.integers(0, 3)), min_size=1, max_size=14)


def weight(builder, name, *shape):
    values = (RNG.normal(size=shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)
    return builder.parameter(Parameter(name, shape), values)


def statistics(builder, name, channels):
    for part, value, trainable in (("g", 1, True), ("b", 0, True), ("m", 0, False), ("v", 1, False)):
        parameter = Parameter(f"{name}.{part}", (channels,), trainable=trainable)
        yield builder.parameter(parameter, np.full(channels, value, np.float32))


class Drawn:
    """A net built step by step; each step reads the newest value, or with its number an older one."""

    def __init__(self, batch):
        self.builder = GraphBuilder("drawn", format="onnx")
        self.values = [(self.builder.input("data", (batch, 3, SIZE, SIZE)), (3, SIZE))]
        self._conv("stem", CHANNELS, 3, pads=[1] * 4)

    def step(self, kind, back):
        name = f"{kind} {len(self.values)}"
        x, (channels, size) = self.values[-1]
        windows = {"kernel_shape": [2, 2], "strides": [2, 2]}
        if kind == "conv":
            self._conv(name, CHANNELS * (1 + back), 3, pads=[1] * 4)
        elif kind == "pointwise":
            self._conv(name, CHANNELS * (1 + back), 1)
        elif kind == "every other" and size > 4:
            self._conv(name, channels, 1, strides=[2, 2])
        elif kind.endswith("pool") and size > 4:
            op_type = "MaxPool" if kind == "max pool" else "AveragePool"
            self._add(op_type, [x], (channels, size // 2), **windows)
        elif kind in {"relu", "sigmoid"}:
            self._add(kind.capitalize(), [x], (channels, size))
        elif kind == "norm":
            rest = list(statistics(self.builder, name, channels))
            self._add("BatchNormalization", [x, *rest], (channels, size), epsilon=1e-5)
        elif kind == "lrn":
            self._add("LRN", [x], (channels, size), size=5, alpha=1e-4, beta=0.75, bias=1.0)
        elif kind in {"add", "concat"}:
            self._join(kind, back)

    def finish(self):
        return self.builder.finish([self.builder.add("Relu", [self.values[-1][0]], outputs="y")])

    def _join(self, kind, back):
        """Join the newest value with an older one of its size, if there is one."""
        x, (channels, size) = self.values[-1]
        older = [value for value in self.values[1:-1] if value[1][1] == size]
        if kind == "add":
            older = [value for value in older if value[1][0] == channels]
        if not older:
            return
        other, (more, _) = older[-1 - back % len(older)]
        if kind == "add":
            self._add("Add", [x, other], (channels, size))
        else:
            self._add("Concat", [x, other], (channels + more, size), axis=1)

    def _conv(self, name, width, kernel, strides=(1, 1), **settings):
        x, (channels, size) = self.values[-1]
        filters = weight(self.builder, name, width, channels, kernel, kernel)
        shape = (width, -(-size // strides[0]))
        self._add("Conv", [x, filters], shape, kernel_shape=[kernel] * 2, strides=list(strides), **settings)

    def _add(self, op_type, inputs, shape, **settings):
        self.values.append((self.builder.add(op_type, inputs, settings), shape))


def build(steps, batch=2):
    net = Drawn(batch)
    for kind, back in steps:
        net.step(kind, back)
    return net.finish()
