"""Random small nets for property tests: chains with branches, of what readers make."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from netweave.errors import ShapeError
from netweave.graph import Graph, GraphBuilder, Layer, Parameter, attributes_of
from netweave.graph.ops.pooling import pooling
from netweave.runtime.backends import prepare

SIZES = st.integers(5, 11)
SMALL = st.integers(1, 3)
AUTO_PADS = st.sampled_from(["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"])


@dataclass(frozen=True)
class Case:
    """A net and an input of it, batch 2."""

    graph: Graph
    x: np.ndarray

    def __repr__(self):
        nodes = [
            f"{node.op_type}({', '.join(v.name for v in node.inputs)}) {attributes_of(node)} -> "
            f"{node.outputs[0].name}{node.outputs[0].shape}"
            for node in self.graph.nodes
        ]
        return "\n".join([repr(self.graph), *nodes])


class Net:
    """A net under construction: the builder, the values so far, and what draws the rest."""

    def __init__(self, draw):
        self.draw = draw
        self.builder = GraphBuilder("random", format="caffe")
        self.count = 0
        height, width = draw(SIZES), draw(SIZES)
        self.values = [self.builder.input("data", (None, 3, height, width))]
        self.rng = np.random.default_rng(draw(st.integers(0, 999)))

    def stored(self, shape, role="weight"):
        self.count += 1
        key = f"w{self.count}"
        array = self.rng.standard_normal(shape).astype(np.float32) * np.float32(0.5)
        if role == "variance":
            array = np.abs(array) + np.float32(0.1)
        return self.builder.parameter(Parameter(key, tuple(shape), role), array)

    def image(self):
        return self.draw(st.sampled_from([value for value in self.values if len(value.shape) == 4]))

    def add(self, op_type, inputs, attributes=None, domain=""):
        self.count += 1
        name = f"{op_type.lower()}{self.count}"
        try:
            with self.builder.layer(Layer(name, name, op_type, outputs=(name,))):
                value = self.builder.add(op_type, inputs, attributes, domain=domain, outputs=name)
        except ShapeError:
            return  # does not fit this image; the net goes on without it
        if all(not isinstance(size, int) or size > 0 for size in value.shape):
            self.values.append(value)


def conv(net, x=None):
    x = net.image() if x is None else x
    width, group = net.draw(SMALL) * 2, net.draw(st.sampled_from([1, 2]))
    if x.shape[1] % group:
        group = 1
    kernel = [net.draw(SMALL), net.draw(SMALL)]
    attributes = {"group": group, "strides": [net.draw(SMALL), net.draw(SMALL)]}
    attributes |= padding(net, kernel)
    arrays = [net.stored((width, x.shape[1] // group, *kernel))]
    if net.draw(st.booleans()):
        arrays.append(net.stored((width,), "bias"))
    net.add("Conv", [x, *arrays], attributes)


def padding(net, kernel):
    auto_pad = net.draw(AUTO_PADS)
    if auto_pad != "NOTSET":
        return {"auto_pad": auto_pad}
    return {"pads": [net.draw(st.integers(0, k - 1)) for k in kernel * 2]}


def deconv(net):
    x, width, group = net.image(), net.draw(SMALL), net.draw(st.sampled_from([1, 3]))
    if x.shape[1] % group or x.shape[2] > 12 or x.shape[3] > 12:
        return
    kernel = [net.draw(SMALL) + 1, net.draw(SMALL) + 1]
    attributes = {"group": group, "strides": [net.draw(st.integers(1, 2)), net.draw(st.integers(1, 2))]}
    net.add("ConvTranspose", [x, net.stored((x.shape[1], width, *kernel))], attributes | padding(net, kernel))


def normalisation(net):
    x = net.image()
    roles = ("gamma", "beta", "mean", "variance")
    net.add("BatchNormalization", [x, *[net.stored((x.shape[1],), role) for role in roles]])


def arithmetic(net):
    x, op_type = net.image(), net.draw(st.sampled_from(["Mul", "Add", "Sub", "Div"]))
    shape = net.draw(st.sampled_from([(x.shape[1], 1, 1), (1, x.shape[1], 1, 1), (1,), (), (1, 1)]))
    operands = [x, net.stored(shape, "variance")]
    if op_type != "Div" and net.draw(st.booleans()):
        operands.reverse()
    net.add(op_type, operands)


def pool(net):
    x, average = net.image(), net.draw(st.booleans())
    kernel, strides = [net.draw(SMALL), net.draw(SMALL)], [net.draw(SMALL), net.draw(SMALL)]
    domain, op_type, attributes = pooling(
        average,
        kernel=kernel,
        strides=strides,
        pads=[net.draw(st.integers(0, k // 2)) for k in kernel] * 2,
        rounding=net.draw(st.sampled_from(["floor", "ceil", "caffe", "full"])),
        count_include_pad=net.draw(st.booleans()),
    )
    net.add(op_type, [x], attributes, domain)


def same_pool(net):
    x = net.image()
    attributes = {"kernel_shape": [net.draw(SMALL), net.draw(SMALL)], "strides": [net.draw(SMALL)] * 2}
    net.add(
        net.draw(st.sampled_from(["MaxPool", "AveragePool"])), [x], attributes | {"auto_pad": "SAME_UPPER"}
    )


def unary(net):
    net.add(net.draw(st.sampled_from(["Relu", "Tanh", "Identity", "Dropout"])), [net.image()])


def join(net):
    x, y = net.image(), net.image()
    op_type = net.draw(st.sampled_from(["Add", "Concat", "Max"]))
    net.add(op_type, [x, y], {"axis": 1} if op_type == "Concat" else None)


def pieces(net):
    """Cut an image by Slice or Split and join the pieces again, in order or not, by one Concat or by two."""
    x = net.image()
    axis = net.draw(st.integers(1, 3))
    size = x.shape[axis]
    at = sorted({0, size, *net.draw(st.lists(st.integers(0, size), max_size=3))})
    spans = list(pairwise(at))
    if net.draw(st.booleans()):
        sizes = net.builder.constant([end - begin for begin, end in spans], dtype=np.int64)
        net.count += 1
        names = [f"split{net.count}_{number}" for number in range(len(spans))]
        cut = net.builder.add_many("Split", [x, sizes], {"axis": axis}, outputs=names)
    else:
        bounds = [[net.builder.constant([n], dtype=np.int64) for n in (*span, axis)] for span in spans]
        cut = [net.builder.add("Slice", [x, *numbers]) for numbers in bounds]
    picked = net.draw(st.one_of(st.just(cut), st.lists(st.sampled_from(cut), min_size=1, max_size=4)))
    inner = net.draw(st.integers(0, len(picked)))
    if inner:
        picked = [net.builder.add("Concat", picked[:inner], {"axis": axis}), *picked[inner:]]
    net.add("Concat", picked, {"axis": axis - 4})
    if net.draw(st.booleans()):
        conv(net, net.values[-1])


def constant_shape(net):
    """A flattening whose target is computed from other stored values, as exporters write it."""
    x = net.image()
    batch = net.builder.constant([0], dtype=np.int64)
    rest = net.builder.constant([-2], dtype=np.int64)
    one = net.builder.constant([1], dtype=np.int64)
    target = net.builder.add("Concat", [batch, net.builder.add("Add", [rest, one])], {"axis": 0})
    net.add("Reshape", [x, target])


def dense(net):
    x = net.image()
    flat = net.builder.add("Flatten", [x], {"axis": 1})
    rows, width = flat.shape[1], net.draw(SMALL)
    if net.draw(st.booleans()):
        transposed = net.builder.add("Transpose", [net.stored((width, rows))], {"perm": [1, 0]})
        net.add("MatMul", [flat, transposed])
    else:
        operands = [flat, net.stored((width, rows)), net.stored((width,), "bias")]
        net.add("Gemm", operands, {"transB": 1, "alpha": 0.5, "beta": 2.0})
    net.add("Mul", [net.values[-1], net.stored((width,))])
    net.add("Add", [net.values[-1], net.stored((1, width))])


STEPS = [
    conv,
    conv,
    deconv,
    normalisation,
    arithmetic,
    arithmetic,
    pool,
    same_pool,
    unary,
    unary,
    join,
    pieces,
]


@st.composite
def nets(draw):
    """Return a random net with an input, on which none of its values grows out of bounds."""
    net = Net(draw)
    for _ in range(draw(st.integers(1, 9))):
        step = draw(st.sampled_from(STEPS))
        step(net)
    if draw(st.booleans()):
        draw(st.sampled_from([dense, constant_shape]))(net)
    others = draw(st.lists(st.sampled_from(net.values), max_size=2, unique_by=id))
    outputs = [v for v in dict.fromkeys([net.values[-1], *others]) if v.producer() is not None]
    graph = net.builder.finish(outputs)
    _, channels, height, width = graph.inputs[0].shape
    x = net.rng.standard_normal((2, channels, height, width)).astype(np.float32)
    values = prepare(graph, taps=list(graph.values())).run({"data": x})
    assume(all(np.isfinite(array).all() and abs(array).max() < 1e6 for array in values.values()))
    return Case(graph, x)
