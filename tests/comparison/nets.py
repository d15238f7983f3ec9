"""A small trained-looking net that can be built in other forms and with planted faults."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from netweave.comparison import Comparison, Finding, Status, Verdict
from netweave.graph import Graph, GraphBuilder, Layer, Origin, Parameter
from netweave.graph.ops.pooling import pooling
from netweave.graph.parameters import drawn
from netweave.graph.stored import stored_values


@dataclass(frozen=True)
class Form:
    """How the net is written: forms that compute the same, and faults that do not."""

    file: str = "b.net"
    prefix: str = ""
    fold: bool = False  # BatchNorm folded into the convolution
    swapped: bool = False  # height and width swapped, channels reversed, weights to match
    channels_last: bool = False  # elementwise operators in NHWC, with transposes around
    flatten: str = "CHW"  # order of the flatten, weights to match
    flatten_unmatched: bool = False  # the flatten's order without its weights
    pads: tuple[int, ...] = (1, 1, 1, 1)
    dilation: int = 1
    eps: float = 1e-5
    slope: float = 0.1
    rounding: str = "ceil"
    softmax_axis: int = 1
    drop: frozenset[str] = frozenset()  # layers left out
    changed: dict[str, tuple[tuple[int, ...], float]] = field(default_factory=dict)  # (index, added)


def arrays() -> dict[str, np.ndarray]:
    """The weights of the net."""
    rng = np.random.default_rng(7)

    def filters(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape, dtype=np.float32) * np.float32(np.prod(shape[1:]) ** -0.5)

    found = {"conv1": filters(8, 3, 3, 3), "conv2": filters(12, 8, 3, 3), "fc": filters(10, 12 * 9)}
    for name in ("gamma", "beta", "mean", "var"):
        found[name] = np.abs(rng.standard_normal(8, dtype=np.float32)) + np.float32(0.5)
    return found


def build(form: Form = Form(file="a.net")) -> Graph:
    """Build the net in a form."""
    return _Net(form).build()


class _Net:
    def __init__(self, form: Form) -> None:
        self.form = form
        self.builder = GraphBuilder("net", format="onnx", files=(form.file,))
        self.arrays = arrays()
        for name, (index, added) in form.changed.items():
            self.arrays[name] = self.arrays[name].copy()
            self.arrays[name][index] += np.float32(added)
        self.line = 0

    def layer(self, name, kind):
        self.line += 1
        name = self.form.prefix + name
        return self.builder.layer(Layer(name, name, kind, origin=Origin(self.form.file, self.line)))

    def stored(self, key, array):
        array = np.ascontiguousarray(array, np.float32)
        return self.builder.parameter(Parameter(self.form.prefix + key, array.shape), array)

    def filters(self, name):
        array = self.arrays[name]
        if self.form.swapped and array.ndim == 4:
            array = array.swapaxes(2, 3)
            array = array[:, ::-1] if name == "conv1" else array
        return array

    def elementwise(self, op_type, x, attributes=None):
        add = self.builder.add
        if not self.form.channels_last:
            return add(op_type, [x], attributes)
        x = add("Transpose", [x], {"perm": [0, 2, 3, 1]})
        return add("Transpose", [add(op_type, [x], attributes)], {"perm": [0, 3, 1, 2]})

    def build(self) -> Graph:
        x = self.builder.input(self.form.prefix + "data", (1, 3, 11, 11))
        x = self.first(x)
        with self.layer("relu1", "LeakyReLU"):
            x = self.elementwise("LeakyRelu", x, {"alpha": self.form.slope})
        with self.layer("pool1", "Pooling"):
            domain, op_type, attributes = pooling(
                False,
                kernel=[3, 3],
                strides=[2, 2],
                pads=[0] * 4,
                rounding=self.form.rounding,
                count_include_pad=True,
            )
            x = self.builder.add(op_type, [x], attributes, domain=domain)
        with self.layer("conv2", "Convolution"):
            x = self.builder.add("Conv", [x, self.stored("conv2", self.filters("conv2"))])
        if "relu2" not in self.form.drop:
            with self.layer("relu2", "ReLU"):
                x = self.elementwise("Relu", x)
        x = self.dense(x)
        with self.layer("prob", "Softmax"):
            x = self.builder.add("Softmax", [x], {"axis": self.form.softmax_axis}, outputs="prob")
        return self.builder.finish([x])

    def first(self, x):
        settings = {"pads": list(self.form.pads), "dilations": [self.form.dilation] * 2}
        filters = self.filters("conv1")
        gamma, beta, mean, var = (self.arrays[name] for name in ("gamma", "beta", "mean", "var"))
        if self.form.fold:
            scale = gamma / np.sqrt(var + np.float32(self.form.eps))
            with self.layer("conv1", "Convolution"):
                folded = self.stored("conv1", filters * scale[:, None, None, None])
                return self.builder.add("Conv", [x, folded, self.stored("b", beta - mean * scale)], settings)
        with self.layer("conv1", "Convolution"):
            x = self.builder.add("Conv", [x, self.stored("conv1", filters)], settings)
        with self.layer("bn1", "BatchNorm"):
            stored = [self.stored(name, self.arrays[name]) for name in ("gamma", "beta", "mean", "var")]
            return self.builder.add("BatchNormalization", [x, *stored], {"epsilon": self.form.eps})

    def dense(self, x):
        weights = self.arrays["fc"].reshape(10, 12, 3, 3)
        if self.form.swapped:
            weights = weights.swapaxes(2, 3)
        with self.layer("fc", "InnerProduct"):
            if self.form.flatten == "HWC":
                x = self.builder.add("Transpose", [x], {"perm": [0, 2, 3, 1]})
                weights = weights if self.form.flatten_unmatched else weights.transpose(0, 2, 3, 1)
            x = self.builder.add("Flatten", [x])
            return self.builder.add("Gemm", [x, self.stored("fc", weights.reshape(10, -1))], {"transB": 1})


def culprit(found: Comparison) -> Finding:
    """The finding of the only layer that differs."""
    assert found.verdict is Verdict.DIFFERENT, found.sentence
    (group,) = [g for g in found.groups if g.status is Status.DIFFERENT]
    assert group.finding is not None
    return group.finding


ROLES = {"gamma": "gamma", "beta": "beta", "mean": "mean", "var": "variance"}


def without(graph: Graph, *keys: str) -> Graph:
    """A net whose file does not hold some arrays (all, if none are named), as a reader gives it."""
    for key, values in stored_values(graph).items():
        if key in keys or not keys:
            role = ROLES.get(key.removeprefix("p_"), "weight")
            parameter = replace(graph.parameters[key], loaded=False, role=role)
            graph.parameters[key] = parameter
            for value in values:
                value.const_value = drawn(key, parameter.shape, role)
    return graph
