"""Nets of OpenVINO as it saves them, with what it computes.

    cd REPOSITORY; ORACLE/bin/python -m tests.oracles.openvino_nets

Writes ``tests/golden/openvino``: ``operators.xml`` and ``.bin``, a net in which each output has the name of
its operator, with what is special about the case behind two underscores; ``small_FORM.xml``, a small net
with weights of 32 and 16 bits, and of 8 bits with the limits of its activations, as NNCF writes it; and
``outputs.npz`` with inputs (``NET/in/NAME``) and outputs (``NET/out/NAME``). ORACLE is an environment with
openvino 2026.4.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import openvino
from openvino import opset13 as ops

GOLDEN = Path(__file__).parent.parent / "golden" / "openvino"
random = np.random.default_rng(0)

SETTINGS = {"INFERENCE_PRECISION_HINT": "f32"}

INPUTS = {
    "image": random.standard_normal((2, 4, 8, 7)).astype(np.float32),
    "matrix": random.standard_normal((3, 4)).astype(np.float32),
    "other": random.standard_normal((3, 4)).astype(np.float32),
    "positive": random.uniform(0.2, 2, (3, 4)).astype(np.float32),
    "stack": random.standard_normal((2, 3, 4)).astype(np.float32),
}


def floats(*shape: int) -> np.ndarray:
    """Return an array that stands for weights."""
    return (0.5 * random.standard_normal(shape)).astype(np.float32)


def whole(*numbers: int) -> np.ndarray:
    """Return a list of integers."""
    return np.asarray(numbers, np.int64)


def windows(image: Any) -> dict[str, Any]:
    """Return what operators with weights or windows make."""
    ones, zeros = [1, 1], [0, 0]
    pool = {"kernel_shape": [3, 2], "strides": [2, 3], "auto_pad": "explicit"}
    pads = {"pads_begin": [1, 0], "pads_end": [0, 1]}
    return {
        "Convolution": ops.convolution(image, floats(5, 4, 3, 3), [2, 1], [1, 0], [0, 2], ones),
        "Convolution__same": ops.convolution(
            image, floats(5, 4, 3, 2), [2, 2], zeros, zeros, [1, 2], "same_upper"
        ),
        "Convolution__lower": ops.convolution(
            image, floats(5, 4, 2, 2), [1, 2], zeros, zeros, ones, "same_lower"
        ),
        "GroupConvolution": ops.group_convolution(image, floats(2, 3, 2, 3, 3), ones, ones, ones, ones),
        "ConvolutionBackpropData": ops.convolution_backprop_data(
            image, floats(4, 3, 3, 3), strides=[2, 2], pads_begin=[1, 0], pads_end=[0, 1], dilations=ones,
            output_padding=[1, 0],
        ),
        "ConvolutionBackpropData__sizes": ops.convolution_backprop_data(
            image, floats(4, 3, 3, 3), strides=[2, 2], output_shape=whole(16, 14), auto_pad="same_upper"
        ),
        "ConvolutionBackpropData__lower": ops.convolution_backprop_data(
            image, floats(4, 3, 3, 3), strides=[2, 2], output_shape=whole(16, 14), auto_pad="same_lower"
        ),
        "GroupConvolutionBackpropData": ops.group_convolution_backprop_data(
            image, floats(2, 2, 3, 3, 2), strides=[1, 2], pads_begin=zeros, pads_end=zeros, dilations=ones
        ),
        "MaxPool": ops.max_pool(
            image, [2, 3], ones, [1, 0], [0, 1], [3, 2], "floor", "explicit"
        ).output(0),
        "MaxPool__ceil": ops.max_pool(
            image, [3, 3], ones, zeros, zeros, [2, 2], "ceil", "explicit"
        ).output(0),
        "AvgPool": ops.avg_pool(image, exclude_pad=True, rounding_type="floor", **pool, **pads),
        "AvgPool__counted": ops.avg_pool(image, exclude_pad=False, rounding_type="floor", **pool, **pads),
        "AdaptiveAvgPool": ops.adaptive_avg_pool(image, whole(4, 1)),
        "BatchNormInference": ops.batch_norm_inference(
            image, floats(4), floats(4), floats(4), np.abs(floats(4)) + 0.5, 1e-3
        ),
        "LRN": ops.lrn(image, whole(1), 0.5, 0.75, 1.0, 3),
        "MVN": ops.mvn(image, whole(2, 3), True, 1e-3, "inside_sqrt"),
        "MVN__outside": ops.mvn(image, whole(1), True, 1e-3, "outside_sqrt"),
        "NormalizeL2": ops.normalize_l2(image, whole(1), 1e-3, "add"),
        "PRelu": ops.prelu(image, floats(4)),
        "DepthToSpace": ops.depth_to_space(image, "depth_first", 2),
        "DepthToSpace__blocks": ops.depth_to_space(image, "blocks_first", 2),
        "ShuffleChannels": ops.shuffle_channels(image, 1, 2),
        "Interpolate": ops.interpolate(
            image, whole(16, 21), "linear_onnx", "sizes", axes=whole(2, 3),
            coordinate_transformation_mode="half_pixel",
        ),
        "Interpolate__nearest": ops.interpolate(
            image, np.asarray([2, 3], np.float32), "nearest", "scales", axes=whole(2, 3),
            coordinate_transformation_mode="asymmetric", nearest_mode="floor",
        ),
        "FakeQuantize": ops.fake_quantize(image, *map(np.float32, (-1, 1.5, -2, 3)), 16),
    }  # fmt: skip


UNARY = (
    "abs asinh atan ceiling cos cosh erf exp floor negative relu sigmoid sign sin sinh softplus tan tanh "
    "hswish hsigmoid mish softsign"
)


def elements(m: Any, n: Any, positive: Any) -> dict[str, Any]:
    """Return what operators on elements make."""
    names = {
        "relu": "ReLU",
        "softplus": "SoftPlus",
        "hswish": "HSwish",
        "hsigmoid": "HSigmoid",
        "softsign": "SoftSign",
    }
    made = {}
    for name in UNARY.split():
        function = {"softplus": "softplus", "softsign": "softsign"}.get(name, name)
        made[names.get(name, name.title())] = getattr(ops, function)(m)
    flags = ops.greater(m, n)
    for name, result in {
        "Equal": ops.equal(m, m), "NotEqual": ops.not_equal(m, n), "Greater": flags, "Less": ops.less(m, n),
        "GreaterEqual": ops.greater_equal(m, n), "LessEqual": ops.less_equal(m, n),
        "LogicalAnd": ops.logical_and(flags, ops.greater(m, np.float32(0))),
        "LogicalOr": ops.logical_or(flags, ops.greater(m, np.float32(0))),
        "LogicalXor": ops.logical_xor(flags, ops.greater(m, np.float32(0))),
        "LogicalNot": ops.logical_not(flags),
    }.items():  # fmt: skip
        made[name] = ops.convert(result, "f32")
    return made | {
        "Log": ops.log(positive),
        "Sqrt": ops.sqrt(positive),
        "Add": ops.add(m, n),
        "Subtract": ops.subtract(m, floats(4)),
        "Multiply": ops.multiply(m, n),
        "Divide": ops.divide(m, positive),
        "Maximum": ops.maximum(m, n),
        "Minimum": ops.minimum(m, n),
        "Power": ops.power(positive, m),
        "Mod": ops.mod(m, positive),
        "FloorMod": ops.floor_mod(m, positive),
        "SquaredDifference": ops.squared_difference(m, n),
        "Clamp": ops.clamp(m, -0.5, 0.25),
        "Elu": ops.elu(m, 0.7),
        "Selu": ops.selu(m, np.float32(1.5), np.float32(1.1)),
        "HardSigmoid": ops.hard_sigmoid(m, np.float32(0.3), np.float32(0.4)),
        "Gelu": ops.gelu(m, "erf"),
        "Gelu__tanh": ops.gelu(m, "tanh"),
        "Swish": ops.swish(m, np.float32(1.5)),
        "Round": ops.round(ops.multiply(m, np.float32(2)), "half_to_even"),
        "Round__away": ops.round(ops.multiply(m, np.float32(2)), "half_away_from_zero"),
        "SoftMax": ops.softmax(m, 1),
        "LogSoftmax": ops.log_softmax(m, 0),
        "Select": ops.select(flags, m, n),
        "MatMul": ops.matmul(m, floats(5, 4), False, True),
        "MatMul__both": ops.matmul(m, n, True, False),
        "Convert": ops.convert(ops.convert(ops.multiply(m, np.float32(3)), "i32"), "f32"),
    }


def shapes(m: Any, n: Any, stack: Any) -> dict[str, Any]:
    """Return what operators that move elements or reduce axes make."""
    zero, one = np.float32(0), np.float32(1)
    made = {
        f"Reduce{name.title()}": getattr(ops, f"reduce_{name}")(stack, whole(0, 2), keep_dims=name == "max")
        for name in ["l1", "l2", "max", "mean", "min", "prod", "sum"]
    }
    return made | {
        "Concat": ops.concat([m, n], 1),
        "Split": ops.split(stack, whole(2)[0], 2).output(1),
        "VariadicSplit": ops.variadic_split(stack, whole(2)[0], whole(1, -1)).output(1),
        "Reshape": ops.reshape(stack, whole(0, -1, 2), True),
        "Squeeze": ops.squeeze(ops.reshape(stack, whole(2, 1, 12), False), whole(1)),
        "Unsqueeze": ops.multiply(ops.unsqueeze(m, whole(1)), one),
        "Transpose": ops.transpose(stack, whole(2, 0, 1)),
        "Pad": ops.pad(stack, whole(0, 1, 2), whole(1, 0, 2), "constant", np.float32(3)),
        "Pad__reflect": ops.pad(stack, whole(0, 1, 2), whole(0, 0, 2), "reflect"),
        "StridedSlice": ops.strided_slice(
            stack, whole(0, -1, 1), whole(0, 0, 3), whole(1, -1, 1), [1, 0, 0], [1, 1, 0]
        ),
        "StridedSlice__shrink": ops.strided_slice(
            stack, whole(1, 0, 0), whole(2, 0, 0), whole(1, 1, 1), [0, 1, 1], [0, 1, 1], [0, 0, 0], [1, 0, 0]
        ),
        "Slice": ops.slice(stack, whole(1, 0), whole(3, 4), whole(1, 2), whole(1, 2)),
        "Gather": ops.gather(stack, whole(2, 0), whole(1)[0]),
        "Gather__batch": ops.gather(stack, np.asarray([[1, 0], [2, 2]], np.int64), whole(1)[0], 1),
        "GatherElements": ops.gather_elements(m, np.asarray([[1, 0, 2, 0]], np.int64), 0),
        "GatherND": ops.gather_nd(stack, np.asarray([[0, 1], [1, 2]], np.int64), 0),
        "ScatterNDUpdate": ops.scatter_nd_update(m, np.asarray([[1]], np.int64), floats(1, 4)),
        "Broadcast": ops.broadcast(m, whole(2, 3, 4)),
        "Tile": ops.tile(m, whole(2, 2, 1)),
        "TopK": ops.topk(stack, whole(2)[0], 2, "max", "value").output(0),
        "CumSum": ops.cum_sum(stack, whole(1)[0], True, True),
        "OneHot": ops.one_hot(ops.convert(ops.abs(m), "i64"), whole(3)[0], one, zero, -1),
        "ShapeOf": ops.add(ops.convert(ops.shape_of(stack), "f32"), ops.reduce_sum(m, whole(0, 1))),
        "Einsum": ops.einsum([stack, n], "abc,dc->abd"),
    }


def operators() -> Any:
    """Return the net with all operators."""
    inputs = {}
    for name, array in INPUTS.items():
        inputs[name] = ops.parameter(array.shape, np.float32, name)
        inputs[name].output(0).set_names({name})
    m, n = inputs["matrix"], inputs["other"]
    made = {
        **windows(inputs["image"]),
        **elements(m, n, inputs["positive"]),
        **shapes(m, n, inputs["stack"]),
    }
    results = []
    for name, node in made.items():
        output = node if isinstance(node, openvino.Output) else node.output(0)
        copy = ops.add(output, np.float32(0)).output(0)  # an output of its own name
        copy.set_names({name})
        results.append(ops.result(copy))
    return openvino.Model(results, list(inputs.values()), "operators")


def small(*, integers: bool) -> Any:
    """Return a convolutional net, with the batch open; with integers as NNCF writes them, if asked for."""
    image = ops.parameter([-1, 3, 12, 10], np.float32, "image")
    image.output(0).set_names({"image"})

    def weight(name: str, *shape: int) -> Any:
        real = floats(*shape)
        if not integers:
            return ops.constant(real, name=name)
        scale = (np.abs(real).reshape(len(real), -1).max(1) / 127).reshape(-1, *[1] * (len(shape) - 1))
        stored = ops.constant(np.round(real / scale).astype(np.int8), name=name)
        return ops.multiply(ops.convert(stored, "f32"), scale.astype(np.float32))

    def limited(x: Any, low: float, high: float) -> Any:
        limits = [np.float32(low), np.float32(high)] * 2
        return ops.fake_quantize(x, *limits, 256) if integers else x

    x = limited(image, -3.0, 3.0 * 127 / 128)  # so that zero is one of the levels
    x = ops.add(
        ops.convolution(x, weight("stem", 6, 3, 3, 3), [2, 2], [1, 1], [1, 1], [1, 1]), floats(1, 6, 1, 1)
    )
    x = y = limited(ops.relu(x), 0.0, 8.0)
    x = ops.group_convolution(x, weight("depthwise", 6, 1, 1, 3, 3), [1, 1], [1, 1], [1, 1], [1, 1])
    x = ops.add(limited(ops.clamp(x, 0.0, 6.0), 0.0, 6.0), y)
    x = ops.reduce_mean(ops.max_pool(x, [2, 2], [1, 1], [0, 0], [0, 0], [2, 2]).output(0), whole(2, 3), False)
    x = ops.add(ops.matmul(x, weight("scores", 5, 6), False, True), floats(1, 5))
    scores = ops.softmax(x, 1).output(0)
    scores.set_names({"scores"})
    return openvino.Model([ops.result(scores)], [image], "small")


def main() -> None:
    """Write everything."""
    GOLDEN.mkdir(exist_ok=True)
    image = random.standard_normal((2, 3, 12, 10)).astype(np.float32)
    nets = {
        "operators": (operators(), False),
        "small_f32": (plain := small(integers=False), False),
        "small_f16": (plain, True),
        "small_int8": (small(integers=True), False),
    }
    kept = {}
    for name, (model, compress) in nets.items():
        path = GOLDEN / f"{name}.xml"
        openvino.save_model(model, path, compress_to_fp16=compress)
        inputs = INPUTS if name == "operators" else {"image": image}
        compiled = openvino.Core().compile_model(path, "CPU", SETTINGS)
        made = compiled(inputs)
        kept |= {f"{name}/in/{key}": array for key, array in inputs.items()}
        kept |= {f"{name}/out/{port.any_name}": made[port] for port in compiled.outputs}
    np.savez_compressed(GOLDEN / "outputs.npz", **kept)


if __name__ == "__main__":
    main()
