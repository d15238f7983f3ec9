"""Random ONNX nets of a few operators each, drawn from all kinds that decide, saturate, look up or round."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

ROWS = 40
"""Rows of the tables that are looked up."""

OPSETS = range(13, 24)


@dataclass
class Program:
    """A net on its way.

    Attributes:
        generator: Draws it.
        opset: Version of its operators.
        shape: Shape of the current tensor without the batch.
    """

    generator: np.random.Generator
    opset: int
    shape: tuple[int, ...] = (8,)
    nodes: list[Any] = field(default_factory=list)
    arrays: list[Any] = field(default_factory=list)

    def constant(self, value: Any, dtype: Any = np.float32) -> str:
        """Store a constant; return its name."""
        name = f"c{len(self.arrays)}"
        self.arrays.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def add(self, op_type: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        """Add a node; return the name of its first output."""
        names = [f"v{len(self.nodes)}" + ("" if i == 0 else f"_{i}") for i in range(outputs)]
        self.nodes.append(helper.make_node(op_type, inputs, names, name=f"n{len(self.nodes)}", **attributes))
        return names[0]

    def number(self, *scales: float) -> float:
        """Draw a number of one of some sizes, of either sign."""
        return round(float(self.generator.normal() * self.generator.choice(scales or (1.0, 10.0, 300.0))), 3)

    def weights(self, *shape: int) -> str:
        """Store drawn weights; return their name."""
        return self.constant(self.generator.standard_normal(shape) / np.sqrt(np.prod(shape[1:])))


Step = "Callable[[Program, str], str]"


def _unary(op_type: str, **attributes: Any) -> Step:
    return lambda program, x: program.add(op_type, x, **attributes)


def _against(op_type: str) -> Step:
    return lambda program, x: program.add(op_type, x, program.constant(program.number()))


def _clip(program: Program, x: str) -> str:
    low, high = sorted((program.number(), program.number()))
    return program.add("Clip", x, program.constant(low), program.constant(high + 0.5))


def _chosen(program: Program, x: str) -> str:
    op_type = program.generator.choice(["Greater", "Less", "GreaterOrEqual", "LessOrEqual"])
    condition = program.add(op_type, x, program.constant(program.number()))
    return program.add("Where", condition, program.add("Neg", x), x)


def _sloped(op_type: str) -> Step:
    return lambda program, x: program.add(op_type, x, alpha=abs(program.number(0.3, 1.0)) + 0.05)


def _hard_sigmoid(program: Program, x: str) -> str:
    return program.add("HardSigmoid", x, alpha=float(program.generator.uniform(0.05, 0.5)), beta=0.5)


def _safe(op_type: str) -> Step:
    def step(program: Program, x: str) -> str:
        return program.add(op_type, program.add("Add", program.add("Abs", x), program.constant(0.5)))

    return step


def _through(dtype: int) -> Step:
    return lambda program, x: program.add("Cast", program.add("Cast", x, to=dtype), to=TensorProto.FLOAT)


def _dense(program: Program, x: str) -> str:
    x = program.add("Flatten", x, axis=1)
    size = int(np.prod(program.shape))
    program.shape = (8,)
    return program.add("Gemm", x, program.weights(8, size), program.weights(8), transB=1)


def _top(program: Program, x: str) -> str:
    if program.shape[-1] < 3:
        return x
    count = int(program.generator.integers(2, program.shape[-1]))
    program.shape = (*program.shape[:-1], count)
    largest = int(program.generator.integers(2))
    return program.add("TopK", x, program.constant([count], np.int64), outputs=2, axis=-1, largest=largest)


def _sums(program: Program, x: str) -> str:
    flags = {name: int(program.generator.integers(2)) for name in ("exclusive", "reverse")}
    return program.add("CumSum", x, program.constant(1, np.int64), **flags)


INNER = (("Neg", 1), ("Abs", 1), ("Tanh", 1), ("Relu", 1), ("Add", 2), ("Mul", 2), ("Max", 2), ("Min", 2))
"""Operators of inner graphs, and how many inputs each has."""


def _inner(program: Program, x: str, stem: str) -> tuple[list[Any], str]:
    """Return nodes of an inner graph that keep shape and type, and what they make.

    Its constants are those of the outer graph.
    """
    nodes: list[Any] = []
    for index in range(int(program.generator.integers(1, 3))):
        op_type, count = INNER[int(program.generator.integers(len(INNER)))]
        inputs = [x, program.constant(program.number(0.5, 3.0))][:count]
        x = f"{stem}_{index}"
        nodes.append(helper.make_node(op_type, inputs, [x], name=f"{x}_node"))
    return nodes, x


def _branch(program: Program, x: str) -> str:
    mean = program.add("ReduceMean", x, keepdims=0)
    condition = program.add("Greater", mean, program.constant(program.number(0.3, 3.0)))
    graphs = []
    for branch in ("then", "else"):
        nodes, name = _inner(program, x, f"b{len(program.nodes)}_{branch}")
        output = helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
        graphs.append(helper.make_graph(nodes, name, [], [output]))
    return program.add("If", condition, then_branch=graphs[0], else_branch=graphs[1])


def _loop(program: Program, x: str) -> str:
    """Repeat a few operators, so often or until a value is large."""
    stem = f"l{len(program.nodes)}"
    nodes, made = _inner(program, f"{stem}_state", stem)
    names = [f"{stem}_{name}" for name in ("step", "before", "after")]
    if program.generator.integers(2):
        nodes.append(helper.make_node("Identity", [names[1]], [names[2]], name=f"{stem}_goes_on"))
    else:
        largest, bound = f"{stem}_largest", program.constant(abs(program.number(3.0, 30.0)))
        nodes.append(helper.make_node("ReduceMax", [made], [largest], name=f"{largest}_node", keepdims=0))
        nodes.append(helper.make_node("Less", [largest, bound], [names[2]], name=f"{stem}_goes_on"))
    given = [
        (names[0], TensorProto.INT64),
        (names[1], TensorProto.BOOL),
        (f"{stem}_state", TensorProto.FLOAT),
    ]
    returned = [(names[2], TensorProto.BOOL), (made, TensorProto.FLOAT)]
    infos = [
        [
            helper.make_tensor_value_info(name, dtype, () if dtype != TensorProto.FLOAT else None)
            for name, dtype in rows
        ]
        for rows in (given, returned)
    ]
    body = helper.make_graph(nodes, stem, *infos)
    count = program.constant(int(program.generator.integers(1, 6)), np.int64)
    return program.add("Loop", count, program.constant(True, np.bool_), x, body=body)


def _scale(program: Program) -> str:
    return program.constant(float(program.generator.uniform(0.01, 0.2)))


def _quantised(program: Program, x: str) -> str:
    scale, zero = _scale(program), program.constant(3, np.int8)
    return program.add("DequantizeLinear", program.add("QuantizeLinear", x, scale, zero), scale, zero)


def _quantised_by_what_comes(program: Program, x: str) -> str:
    """Quantise by the least and the largest value of the tensor."""
    made = program.add("DynamicQuantizeLinear", x, outputs=3)
    return program.add("DequantizeLinear", made, f"{made}_1", f"{made}_2")


def _bytes_of(program: Program, *shape: int) -> str:
    return program.constant(program.generator.integers(-127, 128, shape), np.int8)


def _integer_dense(program: Program, x: str) -> str:
    """Multiply integers, as a quantised dense layer does."""
    size = int(np.prod(program.shape))
    program.shape = (8,)
    x = program.add("Flatten", x, axis=1)
    zero = program.constant(int(program.generator.integers(100, 156)), np.uint8)
    small = program.add("QuantizeLinear", x, _scale(program), zero)
    summed = program.add("MatMulInteger", small, _bytes_of(program, size, 8), zero)
    return program.add("Mul", program.add("Cast", summed, to=TensorProto.FLOAT), program.constant(0.003))


def _integer_conv(program: Program, x: str) -> str:
    channels = program.shape[0]
    if program.shape[1] < 4:
        return x
    program.shape = (4, program.shape[1] - 2, program.shape[2] - 2)
    zero, none = program.constant(128, np.uint8), program.constant([0] * 4, np.int8)
    scale, made = _scale(program), program.constant(float(program.generator.uniform(0.05, 1.0)))
    scales = program.constant(program.generator.uniform(0.002, 0.02, 4))
    small = program.add("QuantizeLinear", x, scale, zero)
    filters = _bytes_of(program, 4, channels, 3, 3)
    x = program.add("QLinearConv", small, scale, zero, filters, scales, none, made, zero)
    return program.add("DequantizeLinear", x, made, zero)


def _dequantised_dense(program: Program, x: str) -> str:
    size = int(np.prod(program.shape))
    program.shape = (8,)
    x = program.add("Flatten", x, axis=1)
    scales, zeros = program.constant(program.generator.uniform(0.002, 0.02, 8)), _bytes_of(program, 8)
    weights = program.add("DequantizeLinear", _bytes_of(program, size, 8), scales, zeros, axis=1)
    return program.add("MatMul", x, weights)


def _placed(program: Program, x: str) -> str:
    """Read elements at stored places, or put stored numbers there."""
    size = program.shape[-1]
    if len(program.shape) != 1 or size < 3:
        return x
    count = int(program.generator.integers(2, size + 1))
    places = program.constant(program.generator.integers(0, size, count), np.int64)
    program.shape = (count,)
    return program.add("Gather", x, places, axis=1)


def _at_the_largest(program: Program, x: str) -> str:
    """Keep the element that is the largest of each row; the others become a number."""
    axis = -1
    place = program.add(
        "ArgMax", x, axis=axis, keepdims=0, select_last_index=int(program.generator.integers(2))
    )
    depth = program.constant(program.shape[-1], np.int64)
    hot = program.add("OneHot", place, depth, program.constant([0.0, 1.0]))
    condition = program.add("Greater", hot, program.constant(0.5))
    return program.add("Where", condition, x, program.constant(program.number()))


def _triangle(program: Program, x: str) -> str:
    if program.opset < 14:
        return x
    upper, diagonal = (int(n) for n in program.generator.integers([0, -2], [2, 3]))
    return program.add("Trilu", x, program.constant(diagonal, np.int64), upper=upper)


def _remainder(program: Program, x: str) -> str:
    return program.add("Mod", x, program.constant(abs(program.number(1.0, 10.0)) + 0.25), fmod=1)


def _power(program: Program, x: str) -> str:
    return program.add("Pow", x, program.constant(float(program.generator.choice([2.0, 3.0, 1.0]))))


def _shrunk(program: Program, x: str) -> str:
    lambd, bias = (abs(program.number(0.5, 5.0)) for _ in range(2))
    return program.add("Shrink", x, lambd=lambd, bias=bias)


def _across(program: Program, x: str) -> str:
    return program.add("LRN", x, size=3, alpha=float(program.generator.uniform(0.01, 1)), beta=0.75, bias=1.0)


def _layer_norm(program: Program, x: str) -> str:
    if program.opset < 17:
        return x
    size = program.shape[-1]
    return program.add("LayerNormalization", x, program.weights(size), program.weights(size), epsilon=1e-3)


def _conv(program: Program, x: str) -> str:
    channels = program.shape[0]
    kernel, pad = int(program.generator.choice([1, 3])), int(program.generator.integers(2))
    pad = pad if kernel == 3 else 0
    size = program.shape[1] + 2 * pad - kernel + 1
    if size < 2:
        return x
    program.shape = (4, size, size)
    filters = program.weights(4, channels, kernel, kernel)
    return program.add("Conv", x, filters, program.weights(4), pads=[pad] * 4)


def _pool(op_type: str) -> Step:
    def step(program: Program, x: str) -> str:
        size, ceil = program.shape[1], int(program.generator.integers(2))
        if size < 4:
            return x
        pad = int(program.generator.integers(2))
        steps = size + 2 * pad - 3
        out = (-(-steps // 2) if ceil else steps // 2) + 1
        if ceil and (out - 1) * 2 >= size + pad:
            out -= 1
        extra = {"count_include_pad": int(program.generator.integers(2))} if op_type == "AveragePool" else {}
        program.shape = (program.shape[0], out, out)
        window = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [pad] * 4, "ceil_mode": ceil}
        return program.add(op_type, x, **window, **extra)

    return step


def _pad(program: Program, x: str) -> str:
    mode = str(program.generator.choice(["constant", "reflect", "edge"]))
    value = program.constant(program.number(0.5, 3.0))
    program.shape = (program.shape[0], program.shape[1] + 2, program.shape[2] + 2)
    return program.add("Pad", x, program.constant([0, 0, 1, 1, 0, 0, 1, 1], np.int64), value, mode=mode)


def _resize(program: Program, x: str) -> str:
    mode = str(program.generator.choice(["nearest", "linear"]))
    where = str(program.generator.choice(["half_pixel", "asymmetric", "align_corners"]))
    program.shape = (program.shape[0], program.shape[1] * 2, program.shape[2] * 2)
    scales = program.constant([1, 1, 2, 2])
    return program.add("Resize", x, "", scales, mode=mode, coordinate_transformation_mode=where)


def _norm(program: Program, x: str) -> str:
    count = program.shape[0]
    mean, variance = program.weights(count), program.constant(program.generator.uniform(0.5, 2, count))
    scale, bias = program.weights(count), program.weights(count)
    return program.add("BatchNormalization", x, scale, bias, mean, variance, epsilon=1e-3)


def _pooled(program: Program, x: str) -> str:
    program.shape = (program.shape[0], 1, 1)
    return program.add("GlobalAveragePool", x)


ANY: list[Step] = [
    *map(_unary, ["Relu", "Abs", "Neg", "Sigmoid", "Tanh", "Softsign", "Softplus", "Round", "Floor", "Ceil"]),
    *map(_unary, ["Sign", "Erf", "Selu"]),
    *map(_against, ["Add", "Mul", "Min", "Max", "Sub"]),
    *map(_sloped, ["LeakyRelu", "Elu", "ThresholdedRelu", "Celu"]),
    *map(_safe, ["Sqrt", "Log", "Reciprocal"]),
    *map(_through, [TensorProto.INT64, TensorProto.INT32, TensorProto.FLOAT16, TensorProto.UINT8]),
    _unary("Softmax", axis=-1), _clip, _clip, _chosen, _chosen, _hard_sigmoid, _branch, _quantised, _loop,
    _quantised_by_what_comes, _at_the_largest, _remainder, _power, _shrunk, _unary("Hardmax", axis=-1),
]  # fmt: skip
ROW: list[Step] = [_dense, _dense, _top, _sums, _integer_dense, _dequantised_dense, _placed, _layer_norm]
POOLS = [_pool("MaxPool"), _pool("AveragePool"), _pooled]
IMAGE: list[Step] = [
    _conv, _conv, *POOLS, _pad, _resize, _norm, _dense, _integer_conv, _triangle, _across, _integer_dense,
]  # fmt: skip
NEWER: dict[int, list[Step]] = {
    14: [_unary("HardSwish")],
    18: [_unary("Mish")],
    20: [_unary("Gelu"), _unary("Gelu", approximate="tanh")],
}


def _looked_up(program: Program, x: str) -> str:
    """Look integers up in a table, as they are or clipped, wrapped or compared before."""
    way = int(program.generator.integers(4))
    if way == 0:
        high = program.constant(int(program.generator.integers(5, ROWS)), np.int64)
        x = program.add("Clip", x, program.constant(0, np.int64), high)
    elif way == 1:
        x = program.add("Mod", x, program.constant(int(program.generator.integers(3, ROWS)), np.int64))
    elif way == 2:
        limit = program.constant(int(program.generator.integers(5, ROWS)), np.int64)
        x = program.add("Where", program.add("Less", x, limit), x, program.constant(0, np.int64))
    table = program.weights(ROWS, 4)
    program.shape = (*program.shape, 4)
    return program.add("Gather", table, x)


def _counted(program: Program, x: str) -> str:
    """Compute with integers, and return them as floats."""
    for _ in range(int(program.generator.integers(1, 3))):
        op_type = str(program.generator.choice(["Add", "Mul", "Mod", "Sub", "Div", "Max", "Min"]))
        number = int(program.generator.integers(2, 60))
        x = program.add(op_type, x, program.constant(number, np.int64))
    return program.add("Cast", x, to=TensorProto.FLOAT)


def _one_hot(program: Program, x: str) -> str:
    depth = program.constant(int(program.generator.integers(8, ROWS)), np.int64)
    program.shape = (*program.shape, 1)
    hot = program.add("OneHot", x, depth, program.constant([0.0, 1.0]))
    if program.opset < 18:
        return program.add("ReduceMax", hot, axes=[-1])
    return program.add("ReduceMax", hot, program.constant([-1], np.int64))


def _masked(program: Program, x: str) -> str:
    """Return numbers chosen by bits."""
    way = int(program.generator.integers(3))
    if way == 0:
        x = program.add("Not", x)
    elif way == 1:
        op_type = str(program.generator.choice(["And", "Or", "Xor"]))
        x = program.add(op_type, x, program.constant(program.generator.integers(0, 2, 8), np.bool_))
    numbers = [program.constant(program.number(1.0)), program.weights(8)]
    return program.add("Where", x, *numbers)


def _window(program: Program, x: str) -> str:
    """Cut a sequence of any length, or add a table of positions to it."""
    size = int(program.generator.integers(3, 400))
    if program.generator.integers(2):
        bounds = [program.constant([n], np.int64) for n in (0, size, 1)]
        return program.add("Slice", x, *bounds)
    length = program.add("Shape", x)
    last = program.add("Gather", length, program.constant([1], np.int64))
    most = program.add("Min", last, program.constant([size], np.int64))
    bounds = [program.constant([0], np.int64), most, program.constant([1], np.int64)]
    return program.add("Neg", program.add("Slice", x, *bounds))


KINDS = ("row", "image", "ids", "integers", "bytes", "boxes", "bits", "sequence")


def draw_program(seed: int) -> tuple[ModelProto, str]:
    """Return a random net, and its kind: what its input is.

    Args:
        seed: What it is drawn by; the operators' version is 13 and more.
    """
    generator = np.random.default_rng(seed)
    opset = int(generator.choice(OPSETS))
    kind = str(generator.choice(KINDS, p=[0.32, 0.28, 0.1, 0.1, 0.07, 0.05, 0.04, 0.04]))
    if kind == "boxes":
        return _detector(generator, opset), kind
    program = Program(generator, opset)
    dtype, x = TensorProto.FLOAT, "x"
    if kind in {"image", "bytes"}:
        program.shape = (3, 8, 8)
    if kind == "bytes":
        dtype, x = TensorProto.UINT8, program.add("Cast", "x", to=TensorProto.FLOAT)
        x = program.add("Mul", x, program.constant(float(generator.choice([1 / 255, 1.0, 1 / 128]))))
    if kind in {"ids", "integers"}:
        dtype = TensorProto.INT64
        choices = [_looked_up] if kind == "ids" else [_counted, _one_hot]
        x = choices[int(generator.integers(len(choices)))](program, "x")
    if kind == "bits":
        dtype, x = TensorProto.BOOL, _masked(program, "x")
    given: tuple[int | str, ...] = {"image": (3, 8, 8), "bytes": (3, 8, 8), "sequence": ("T",)}.get(
        kind, (8,)
    )
    if kind == "sequence":
        return _sequence(program), kind
    for _ in range(int(generator.integers(1 if kind in {"ids", "integers"} else 2, 6))):
        own = IMAGE if len(program.shape) == 3 else ROW if len(program.shape) == 1 else []
        newer = [step for least, steps in NEWER.items() if opset >= least for step in steps]
        pool = [*ANY, *newer, *own, *own, *own]
        x = pool[int(generator.integers(len(pool)))](program, x)
    out = TensorProto.FLOAT
    ending = int(generator.integers(12))
    if ending == 0:
        x, out = program.add("Greater", x, program.constant(program.number())), TensorProto.BOOL
    elif ending == 1:
        x, out = program.add("ArgMax", x, axis=1, select_last_index=0), TensorProto.INT64
    return _model(program, [("x", dtype, ("N", *given))], [(x, out)]), kind


def _sequence(program: Program) -> ModelProto:
    x, steps = "x", [step for step in ANY if step is not _at_the_largest]
    for _ in range(int(program.generator.integers(0, 3))):
        x = steps[int(program.generator.integers(len(steps)))](program, x)
    x = _window(program, x)
    for _ in range(int(program.generator.integers(0, 2))):
        x = steps[int(program.generator.integers(len(steps)))](program, x)
    return _model(program, [("x", TensorProto.FLOAT, ("N", "T"))], [(x, TensorProto.FLOAT)])


def _detector(generator: np.random.Generator, opset: int) -> ModelProto:
    program = Program(generator, opset)
    boxes, scores = "boxes", "scores"
    if generator.integers(2):
        scores = program.add("Sigmoid", scores)
    elif generator.integers(2):
        least = program.constant(round(float(generator.uniform(0.05, 0.6)), 2))
        scores = program.add("Where", program.add("Greater", scores, least), scores, program.constant(0.0))
    limits = (
        program.constant([int(generator.integers(2, 20))], np.int64),
        program.constant([round(float(generator.uniform(0.2, 0.8)), 2)]),
        program.constant([round(float(generator.uniform(0.05, 0.6)), 2)]),
    )
    center = int(generator.integers(2))
    kept = program.add("NonMaxSuppression", boxes, scores, *limits, center_point_box=center)
    outputs = [(kept, TensorProto.INT64)]
    if generator.integers(2):
        places = program.add("Gather", kept, program.constant(2, np.int64), axis=1)
        outputs = [(program.add("Gather", boxes, places, axis=1), TensorProto.FLOAT)]
    inputs = [("boxes", TensorProto.FLOAT, (1, 48, 4)), ("scores", TensorProto.FLOAT, (1, 2, 48))]
    return _model(program, inputs, outputs)


def _model(program: Program, inputs: list[Any], outputs: list[Any]) -> ModelProto:
    graph = helper.make_graph(
        program.nodes,
        "program",
        [helper.make_tensor_value_info(name, dtype, shape) for name, dtype, shape in inputs],
        [helper.make_tensor_value_info(name, dtype, None) for name, dtype in outputs],
        program.arrays,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", program.opset)], ir_version=9)
