"""A residual net as an ONNX file, in float32 and by ONNX Runtime's own quantisers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from benchmarks.onnx_writer import OnnxWriter

CHANNELS = 16
SIZE = 24


def float_net(*, spread: float = 1.0, seed: int = 3) -> onnx.ModelProto:
    """Return a small residual net whose weights are drawn.

    Args:
        spread: How many times larger the largest filter of a layer is than the smallest.
        seed: Of the weights.
    """
    generator = np.random.default_rng(seed)
    write = OnnxWriter()

    def weights(name: str, *shape: int) -> None:
        array = generator.standard_normal(shape).astype(np.float32) * np.float32(
            (2 / np.prod(shape[1:])) ** 0.5
        )
        factors = np.geomspace(1, 1 / spread, shape[0]).astype(np.float32)
        write.array(f"{name}.weight", array * factors.reshape(-1, *[1] * (len(shape) - 1)))
        write.array(f"{name}.bias", (0.1 * generator.standard_normal(shape[0])).astype(np.float32))

    weights("conv1", CHANNELS, 3, 3, 3)
    weights("conv2", CHANNELS, CHANNELS, 3, 3)
    weights("conv3", CHANNELS, CHANNELS, 3, 3)
    weights("conv4", 2 * CHANNELS, CHANNELS, 3, 3)
    weights("fc", 10, 2 * CHANNELS)

    def conv(name: str, source: str, **attributes: Any) -> str:
        inputs = [source, f"{name}.weight", f"{name}.bias"]
        return write.add("Conv", inputs, name, **{"kernel_shape": [3, 3], "pads": [1] * 4} | attributes)

    x = write.add("Relu", [conv("conv1", "x")], "relu1")
    pooled = write.add("MaxPool", [x], "pool1", kernel_shape=[2, 2], strides=[2, 2])
    x = write.add("Relu", [conv("conv2", pooled)], "relu2")
    x = write.add("Relu", [write.add("Add", [conv("conv3", x), pooled], "add")], "relu3")
    x = write.add("Relu", [conv("conv4", x, strides=[2, 2])], "relu4")
    x = write.add("Flatten", [write.add("GlobalAveragePool", [x], "gap")], "flat")
    write.nodes.append(helper.make_node("Gemm", [x, "fc.weight", "fc.bias"], ["y"], name="fc", transB=1))
    ends = {"x": ["N", 3, SIZE, SIZE]}, {"y": ["N", 10]}
    model = write.model("residual", *ends, opset=17, ir_version=9)
    onnx.checker.check_model(model)
    return model


def float_arrays() -> dict[str, np.ndarray]:
    """Return the stored arrays of the float net by name."""
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in float_net().graph.initializer}


def images(count: int, seed: int = 11) -> list[np.ndarray]:
    """Return inputs to calibrate on."""
    generator = np.random.default_rng(seed)
    return [generator.standard_normal((1, 3, SIZE, SIZE)).astype(np.float32) for _ in range(count)]


def quantised(source: Path, target: Path, data: list[np.ndarray] | None = None, **settings: Any) -> Path:
    """Quantise a file with one input by ONNX Runtime's static quantiser.

    Args:
        source: The net.
        target: The quantised net.
        data: Inputs to calibrate on; those of ``images`` if there are none.
        settings: Of the quantiser.
    """
    from onnxruntime.quantization import CalibrationDataReader, quantize_static

    (value,) = onnx.load(str(source)).graph.input

    class Reader(CalibrationDataReader):  # type: ignore[misc]  # the library has no types
        def __init__(self) -> None:
            self.rows = iter([{value.name: x} for x in data or images(16)])

        def get_next(self) -> Any:
            return next(self.rows, None)

    quantize_static(str(source), str(target), Reader(), **settings)
    return target


def edited(
    source: Path, target: Path, change: Callable[[dict[str, np.ndarray], onnx.ModelProto], None]
) -> Path:
    """Write a file with some of its stored arrays changed: ``change`` is given all of them by name."""
    model = onnx.load(str(source))
    arrays = {tensor.name: numpy_helper.to_array(tensor).copy() for tensor in model.graph.initializer}
    change(arrays, model)
    del model.graph.initializer[:]
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in arrays.items())
    onnx.save(model, str(target))
    return target
