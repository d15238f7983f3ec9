"""The formats that the net is written in: what each cannot say, and what it calls the layers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from tests.comparison.planted import (
    caffe,
    chainer,
    darknet,
    keras,
    mxnet,
    onnx_files,
    singa,
    tensorflow,
    torch_modules,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from netweave.graph import Graph
    from tests.comparison.planted.plan import Plan


class Load(Protocol):
    """Writes the net into a folder and reads it."""

    def __call__(self, plan: Plan, folder: Path, *, weights: bool) -> Graph: ...


@dataclass(frozen=True)
class Format:
    """A format.

    Attributes:
        load: Writes and reads the net.
        fixed: Settings of the plan that it has no words for, with the only values that it knows.
        names: What it calls a layer, where that is not the plan's name for it.
    """

    load: Load
    fixed: Mapping[str, object] = field(default_factory=dict)
    names: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def takes(self, plan: Plan) -> bool:
        """Whether the net can be written in it."""
        return all(getattr(plan, name) == value for name, value in self.fixed.items())

    def names_of(self, layer: str) -> frozenset[str]:
        """Return the names under which a layer may be found."""
        return self.names.get(layer, frozenset({layer}))


def _names(**names: str) -> dict[str, frozenset[str]]:
    return {layer: frozenset(text.split()) for layer, text in names.items()}


FORMATS = {
    "caffe": Format(caffe.load, names=_names(bn1="bn1 bn1_scale bn1_shift")),
    "mxnet": Format(mxnet.load),
    "darknet": Format(
        darknet.load,
        fixed={"eps": 1e-5, "slope": 0.1, "scale": 1.0, "lrn": None, "fixed_gamma": False},
        names=_names(
            bn1="convolutional_0",
            act1="convolutional_0",
            scale1="convolutional_0",
            conv2="convolutional_1",
            act2="convolutional_1",
            pool="maxpool_2 local_avgpool_2",
            prob="softmax_5 activation_5",
        ),
    ),
    "onnx": Format(onnx_files.load, fixed={"fixed_gamma": False}),
    "keras": Format(keras.load, fixed={"lrn": None}),
    "tensorflow": Format(tensorflow.load, fixed={"fixed_gamma": False}),
    "singa": Format(singa.load, fixed={"eps": 1e-5, "slope": 0.0, "scale": 1.0, "fixed_gamma": False}),
    "pytorch": Format(torch_modules.load),
    "chainer": Format(
        chainer.load,
        names=_names(
            act1="leaky_relu",
            scale1="scale1 * mul local_response_normalization",
            act2="relu tanh",
            pool="max_pooling_2d average_pooling_2d",
            prob="softmax sigmoid",
        ),
    ),
}
"""By name. ONNX and frozen graphs store every gamma: one that is fixed is an array like others there."""
