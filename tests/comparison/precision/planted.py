"""Faults of quantisation, each planted in the file that ONNX Runtime's quantiser wrote."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tests.comparison.precision.nets import float_arrays

if TYPE_CHECKING:
    import onnx

    Arrays = dict[str, np.ndarray]

PER_CHANNEL = "per channel"
PER_TENSOR = "per tensor"


@dataclass(frozen=True, slots=True)
class Planted:
    """One fault.

    Attributes:
        name: What it is called.
        change: Plants it in the stored arrays of a quantised file.
        layers: Layers of the float net, of which one must be named in each finding.
        mismatches: What the finding may call it.
        form: The quantised file that it is planted in.
        spread: As for ``float_net``.
    """

    name: str
    change: Callable[[Arrays, onnx.ModelProto], None]
    layers: tuple[str, ...]
    mismatches: tuple[str, ...]
    form: str = PER_CHANNEL
    spread: float = 1.0


def _one_filter(arrays: Arrays, model: onnx.ModelProto) -> None:
    arrays["conv2.weight_scale"][5] *= 3


def _zero_point(arrays: Arrays, model: onnx.ModelProto) -> None:
    arrays["conv3.weight_zero_point"][...] += 4


def _axis(arrays: Arrays, model: onnx.ModelProto) -> None:
    (node,) = (node for node in model.graph.node if "conv2.weight_quantized" in node.input)
    (axis,) = (attribute for attribute in node.attribute if attribute.name == "axis")
    axis.i = 1


def _clipped(arrays: Arrays, model: onnx.ModelProto) -> None:
    arrays["relu3_scale"] /= 4


def _swapped(arrays: Arrays, model: onnx.ModelProto) -> None:
    arrays["conv2.weight_scale"], arrays["conv3.weight_scale"] = (
        arrays["conv3.weight_scale"],
        arrays["conv2.weight_scale"],
    )


def _saturated(arrays: Arrays, model: onnx.ModelProto) -> None:
    arrays["conv4.weight_scale"] /= 2
    steps = float_arrays()["conv4.weight"] / arrays["conv4.weight_scale"].reshape(-1, 1, 1, 1)
    arrays["conv4.weight_quantized"] = np.clip(np.rint(steps), -127, 127).astype(np.int8)


def _bias_scale(arrays: Arrays, model: onnx.ModelProto) -> None:
    arrays["conv1.bias_quantized_scale"] *= 16


def _sign(arrays: Arrays, model: onnx.ModelProto) -> None:
    arrays["conv3.weight_quantized"] = arrays["conv3.weight_quantized"].view(np.uint8)
    arrays["conv3.weight_zero_point"] = arrays["conv3.weight_zero_point"].view(np.uint8)


def _nothing(arrays: Arrays, model: onnx.ModelProto) -> None:
    """The quantiser's own settings are the fault."""


def _other_range(arrays: Arrays, model: onnx.ModelProto) -> None:
    arrays["relu4_scale"][...] = arrays["gap_scale"]
    arrays["relu4_zero_point"][...] = arrays["gap_zero_point"]


PLANTED = (
    Planted("scale of one filter", _one_filter, ("conv2",), ("quantised-scale",)),
    Planted("zero point", _zero_point, ("conv3",), ("quantised-zero-point",)),
    Planted("axis of the scales", _axis, ("conv2",), ("quantised-axis",), spread=8.0),
    Planted("clipped range", _clipped, ("relu3", "add"), ("quantised-range",)),
    Planted(
        "scales of two layers swapped",
        _swapped,
        ("conv2", "conv3"),
        ("quantised-scale-swapped",),
        form=PER_TENSOR,
    ),
    Planted("weights saturated", _saturated, ("conv4",), ("quantised-saturation",)),
    Planted("scale of a bias", _bias_scale, ("conv1",), ("quantised-scale",)),
    Planted("signed read as unsigned", _sign, ("conv3",), ("quantised-sign",), form=PER_TENSOR),
    Planted(
        "per tensor where per channel is needed",
        _nothing,
        ("conv1", "conv2", "conv3", "conv4", "fc"),
        ("quantised-per-tensor",),
        form=PER_TENSOR,
        spread=400.0,
    ),
    Planted("range of another layer", _other_range, ("relu4", "conv4"), ("quantised-range",)),
)
