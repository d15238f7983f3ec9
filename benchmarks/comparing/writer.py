"""Writes a net twice, as two people would: with names, normalisations and dense layers of either manner.

Weights are drawn layer by layer, the same for both manners, so that tensors keep their scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from benchmarks.onnx_writer import OnnxWriter

OPSET = 17
EPS = 1e-5


class NetWriter(OnnxWriter):
    """One net in one manner.

    Args:
        is_port: Whether normalisations are folded into filters and dissolved into elementwise operators,
            dense weights are transposed, and names are others.
        damaged: Number of the filter that is damaged; None for none.
    """

    def __init__(self, is_port: bool, damaged: int | None = None) -> None:
        super().__init__()
        self.is_port, self.damaged, self.num_filters = is_port, damaged, 0
        self._generator = np.random.default_rng(0)

    def op(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one output and return that."""
        name = f"{'op' if self.is_port else op_type.lower()}_{len(self.nodes)}"
        return self.add(op_type, inputs, name, **attributes)

    def store(self, array: Any, dtype: Any = np.float32) -> str:
        """Store an array and return its name."""
        name = f"{'p' if self.is_port else 'weight'}_{len(self.arrays)}"
        return self.array(name, np.asarray(array, dtype))

    def draw(self, *shape: int, fan_in: int = 0, mean: float = 0.0, scale: float = 0.1) -> np.ndarray:
        """Draw an array: weights with a fan-in, or numbers of a scale around a mean."""
        factor = (2.0 / fan_in) ** 0.5 if fan_in else scale
        return mean + self._generator.standard_normal(shape, dtype=np.float32) * np.float32(factor)

    def conv(
        self,
        x: str,
        channels: tuple[int, int],
        kernel: int | tuple[int, int] = 1,
        *,
        stride: int = 1,
        dilation: int = 1,
        group: int = 1,
        pad: bool = True,
        norm: bool = True,
        gain: float = 1.0,
    ) -> str:
        """Add a convolution with a bias or, usually, a batch normalisation."""
        inputs, outputs = channels
        sizes = (kernel, kernel) if isinstance(kernel, int) else kernel
        weight = self.draw(outputs, inputs // group, *sizes, fan_in=inputs // group * sizes[0] * sizes[1])
        self.num_filters += 1
        if self.num_filters == self.damaged:
            weight[outputs // 2] *= -1
        pads = [(dilation * (size - 1)) // 2 * pad for size in sizes] * 2
        settings: dict[str, Any] = {"strides": [stride] * 2, "dilations": [dilation] * 2}
        settings |= {"group": group, "pads": pads}
        if not norm:
            return self.op("Conv", x, self.store(weight), self.store(self.draw(outputs)), **settings)
        gamma, beta, mean = self.draw(outputs, mean=gain), self.draw(outputs), self.draw(outputs)
        variance = self.draw(outputs, mean=1.0) ** 2 + np.float32(0.1)
        if self.is_port:
            scale = gamma / np.sqrt(variance + np.float32(EPS))
            folded = self.store(weight * scale[:, None, None, None]), self.store(beta - mean * scale)
            return self.op("Conv", x, *folded, **settings)
        arrays = map(self.store, (gamma, beta, mean, variance))
        return self.op(
            "BatchNormalization", self.op("Conv", x, self.store(weight), **settings), *arrays, epsilon=EPS
        )

    def dense(self, x: str, inputs: int, outputs: int) -> str:
        """Add a dense layer over the last of any number of axes."""
        weight, bias = self.draw(inputs, outputs, fan_in=2 * inputs), self.store(self.draw(outputs))
        return self.op("Add", self.op("MatMul", x, self.store(weight)), bias)

    def classify(self, x: str, inputs: int, outputs: int) -> str:
        """Add a dense layer behind a flatten."""
        weight, bias = self.draw(outputs, inputs, fan_in=inputs), self.draw(outputs)
        stored = self.store(weight.T if self.is_port else weight), self.store(bias)
        return self.op("Gemm", self.op("Flatten", x), *stored, transB=int(not self.is_port))

    def layer_norm(self, x: str, size: int) -> str:
        """Add a layer normalisation, or what older exporters write for one."""
        gamma, beta = self.store(self.draw(size, mean=1.0)), self.store(self.draw(size))
        if not self.is_port:
            return self.op("LayerNormalization", x, gamma, beta, epsilon=EPS)
        centred = self.op("Sub", x, self.op("ReduceMean", x, axes=[-1]))
        variance = self.op("ReduceMean", self.op("Pow", centred, self.store(2.0)), axes=[-1])
        deviation = self.op("Sqrt", self.op("Add", variance, self.store(EPS)))
        return self.op("Add", self.op("Mul", self.op("Div", centred, deviation), gamma), beta)

    def gelu(self, x: str) -> str:
        """Add ``x / 2 * (1 + erf(x / sqrt(2)))``."""
        erf = self.op("Erf", self.op("Div", x, self.store(2**0.5)))
        return self.op("Mul", self.op("Mul", x, self.op("Add", erf, self.store(1.0))), self.store(0.5))

    def relu(self, x: str) -> str:
        """Add a rectifier."""
        return self.op("Relu", x)

    def pool(self, x: str, kind: str, kernel: int, stride: int, pad: int = 0) -> str:
        """Add a pooling, ``Max`` or ``Average``."""
        return self.op(f"{kind}Pool", x, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4)

    def concat(self, xs: Sequence[str], axis: int = 1) -> str:
        """Join tensors."""
        return self.op("Concat", *xs, axis=axis)

    def reshape(self, x: str, *sizes: int) -> str:
        """Add a Reshape; 0 keeps a size."""
        return self.op("Reshape", x, self.store(sizes, np.int64))

    def cut(self, x: str, axis: int, begin: int, end: int) -> str:
        """Add a Slice along one axis."""
        return self.op("Slice", x, *(self.store([n], np.int64) for n in (begin, end, axis)))

    def save(self, path: Path, inputs: dict[str, tuple[Any, ...]], outputs: Sequence[str]) -> None:
        """Write the net; inputs of two axes are indices."""
        ends = inputs, dict.fromkeys(outputs)
        model = self.model(path.stem, *ends, opset=OPSET, ir_version=8)
        for value in model.graph.input:
            if len(inputs[value.name]) == 2:
                value.type.tensor_type.elem_type = onnx.TensorProto.INT64
        onnx.save(model, path)
