"""The same mistake in a file of any framework raises the same class of error.

``ReadError``: a setting that the framework refuses whatever the sizes. ``ShapeError``: sizes that do not fit
together, or do not fit a setting. ``WeightError``: stored arrays of another net. ``UnsupportedError``: what a
framework may accept, and Netweave does not read. Each message has the file, the layer and what is wrong.

A framework is missing in a row where the mistake cannot be made in its files: Darknet has no lists of inputs,
and SINGA's types of layers are words of an enumeration. A net of Chainer is a program: what its shim refuses
is raised while that runs, as a ``CodeError`` with the line (tests/formats/chainer).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import netweave
from netweave.errors import NetweaveError, ReadError, ShapeError, UnsupportedError, WeightError
from tests.formats.bad_nets import (
    SIZES,
    caffe,
    darknet,
    keras,
    mxnet,
    onnx_file,
    singa,
    tensorflow,
)

if TYPE_CHECKING:
    from tests.formats.bad_nets import Make

ONE_GRID = np.zeros((2, 3, 3, 3), np.float32)
WEIGHTS = {"w": ONE_GRID}
STRIDES = "list { i: [1, 1, 1, 1] }"
CONV = {"names": "weight bias", "num_filter": "2"}


def caffe_conv(settings: str, **others: Any) -> Make:
    return caffe("Convolution", f"convolution_param {{ num_output: 2 {settings} }}", **others)


def singa_conv(settings: str, **others: Any) -> Make:
    return singa("kCConvolution", f"convolution_conf {{ num_filters: 2 {settings} }}", **others)


def max_pool(**attributes: str) -> Make:
    window = {"ksize": "list { i: [1, 2, 2, 1] }", "strides": STRIDES, "padding": 's: "VALID"'}
    return tensorflow("MaxPool", "x", **(window | attributes))


MISTAKES: dict[str, tuple[type[NetweaveError], dict[str, tuple[Make, str]]]] = {
    "unknown setting": (
        ReadError,
        {
            "caffe": (
                caffe_conv("kernel_siz: 3"),
                "kernel_siz",
            ),
            "darknet": (darknet("[convolutional]\nfilters=2\nsiz=3"), "siz='3'"),
            "mxnet": (mxnet("Convolution", **CONV, kernel="(3,3)", strid="(2,2)"), r"strid='\(2,2\)'"),
            "onnx": (onnx_file("MaxPool", kernel_shape=[2, 2], strid=2), "'strid'"),
            "singa": (singa_conv("kernl: 3"), "kernl"),
            "tensorflow": (max_pool(stride=STRIDES), "stride=.*did you mean 'strides'"),
        },
    ),
    "setting of a wrong type": (
        ReadError,
        {
            "caffe": (caffe("Convolution", 'convolution_param { num_output: "many" }'), "many"),
            "darknet": (darknet("[convolutional]\nfilters=many"), "'many'"),
            "keras": (keras("Conv2D", filters="many", kernel_size=[3, 3]), "'many'"),
            "mxnet": (mxnet("Convolution", names="weight bias", kernel="(3,3)", num_filter="many"), "'many'"),
            "onnx": (onnx_file("MaxPool", kernel_shape="many"), "'kernel_shape' is of type STRING"),
            "singa": (singa("kCConvolution", 'convolution_conf { num_filters: "many" }'), "many"),
            "tensorflow": (max_pool(ksize='s: "many"'), "many"),
        },
    ),
    "required setting is missing": (
        ReadError,
        {
            "caffe": (caffe("Convolution", "convolution_param { kernel_size: 3 }"), "num_output"),
            "keras": (keras("Conv2D", kernel_size=[3, 3]), "filters"),
            "mxnet": (mxnet("Convolution", names="weight bias", kernel="(3,3)"), "num_filter"),
            "onnx": (onnx_file("MaxPool"), "'kernel_shape'"),
            "tensorflow": (max_pool(ksize="list { }"), "'ksize'"),
            "singa": (singa("kCConvolution", "convolution_conf { kernel: 3 }"), "num_filters"),
        },
    ),
    "word that is none of an enumeration": (
        ReadError,
        {
            "caffe": (caffe("Pooling", "pooling_param { pool: SUM kernel_size: 2 }"), "SUM"),
            "keras": (keras("Conv2D", filters=2, kernel_size=[3, 3], padding="full"), "'full'"),
            "mxnet": (mxnet("Pooling", kernel="(2,2)", pool_type="median"), "'median'"),
            "singa": (singa("kCPooling", "pooling_conf { pool: SUM kernel: 2 stride: 1 }"), "SUM"),
            "tensorflow": (max_pool(padding='s: "FULL"'), "'FULL'"),
        },
    ),
    "kernel below 1": (
        ReadError,
        {
            "caffe": (
                caffe_conv("kernel_size: 0"),
                r"\[0, 0\]",
            ),
            "darknet": (darknet("[convolutional]\nfilters=2\nsize=-3"), "'-3'"),
            "keras": (keras("Conv2D", filters=2, kernel_size=[-3, -3]), r"\[-3, -3\]"),
            "mxnet": (mxnet("Convolution", **CONV, kernel="(-3,-3)"), r"\(-3, -3\)"),
            "onnx": (onnx_file("MaxPool", kernel_shape=[-3, -3]), r"\[-3, -3\]"),
            "tensorflow": (max_pool(ksize="list { i: [1, -3, -3, 1] }"), r"\[-3, -3\]"),
            "singa": (singa_conv("kernel: 0"), "0"),
        },
    ),
    "stride of 0": (
        ReadError,
        {
            "caffe": (
                caffe_conv("kernel_size: 3 stride: 0"),
                "0",
            ),
            "darknet": (darknet("[maxpool]\nsize=2\nstride=0"), "'0'"),
            "keras": (keras("Conv2D", filters=2, kernel_size=[3, 3], strides=[0, 0]), r"\[0, 0\]"),
            "mxnet": (mxnet("Pooling", kernel="(2,2)", stride="(0,0)"), r"\(0, 0\)"),
            "onnx": (onnx_file("MaxPool", kernel_shape=[2, 2], strides=[0, 0]), r"\[0, 0\]"),
            "tensorflow": (max_pool(strides="list { i: [1, 0, 0, 1] }"), r"\[0, 0\]"),
            "singa": (singa("kCPooling", "pooling_conf { kernel: 2 stride: 0 }"), "0"),
        },
    ),
    "axis out of range": (
        ShapeError,
        {
            "caffe": (caffe("Softmax", "softmax_param { axis: 9 }"), "9"),
            "keras": (keras("BatchNormalization", axis=9), "axis 9"),
            "mxnet": (mxnet("softmax", axis="9"), "9"),
            "onnx": (onnx_file("Softmax", axis=9), "9"),
        },
    ),
    "window larger than the input": (
        ShapeError,
        {
            "caffe": (caffe_conv("kernel_size: 11"), "11"),
            "darknet": (darknet("[convolutional]\nfilters=2\nsize=11"), "11"),
            "keras": (keras("Conv2D", filters=2, kernel_size=[11, 11]), "11"),
            "mxnet": (mxnet("Convolution", **CONV, kernel="(11,11)"), "11"),
            "onnx": (onnx_file("MaxPool", kernel_shape=[11, 11]), "11"),
            "singa": (singa_conv("kernel: 11"), "11"),
            "tensorflow": (max_pool(ksize="list { i: [1, 11, 11, 1] }"), "11"),
        },
    ),
    "pooling window larger than the input": (
        ShapeError,
        {
            "caffe": (caffe("Pooling", "pooling_param { kernel_size: 11 }"), "11"),
            "darknet": (darknet("[maxpool]\nsize=11\npadding=0"), "11"),
            "keras": (keras("MaxPooling2D", pool_size=[11, 11]), "11"),
            "mxnet": (mxnet("Pooling", kernel="(11,11)"), "11"),
            "singa": (singa("kCPooling", "pooling_conf { kernel: 11 stride: 1 }"), "11"),
        },
    ),
    "groups that do not divide the channels": (
        ShapeError,
        {
            "caffe": (
                caffe_conv("kernel_size: 3 group: 2"),
                "'group' is 2",
            ),
            "darknet": (darknet("[convolutional]\nfilters=2\nsize=3\ngroups=2"), "'groups' is 2"),
            "keras": (keras("Conv2D", filters=2, kernel_size=[3, 3], groups=2), "2 groups"),
            "mxnet": (mxnet("Convolution", **CONV, kernel="(3,3)", num_group="2"), "'num_group' is 2"),
            "onnx": (onnx_file("Conv", "x w", arrays={"w": ONE_GRID[:, :1]}, group=2), "2 groups"),
        },
    ),
    "reshape that loses elements": (
        ShapeError,
        {
            "caffe": (caffe("Reshape", "reshape_param { shape { dim: 0 dim: 7 } }"), "7"),
            "keras": (keras("Reshape", target_shape=[7, 7]), r"\[7, 7\]"),
            "mxnet": (mxnet("Reshape", shape="(0,7)"), "7"),
            "onnx": (onnx_file("Reshape", "x s", arrays={"s": np.array([7, 7])}), "7"),
        },
    ),
    "too few inputs": (
        ReadError,
        {
            "caffe": (caffe("SoftmaxWithLoss"), "has 1 bottom"),
            "mxnet": (mxnet("broadcast_add"), "has 1 input"),
            "onnx": (onnx_file("Add"), "has 1 input"),
            "singa": (singa("kSoftmaxLoss"), "has 1 source"),
            "tensorflow": (tensorflow("Conv2D", "x", strides=STRIDES, padding='s: "VALID"'), "input"),
        },
    ),
    "an input that no layer makes": (
        ReadError,
        {
            "caffe": (caffe("ReLU", 'bottom: "nothing"'), "'nothing'"),
            "darknet": (darknet("[route]\nlayers=7"), "'7'"),
            "onnx": (onnx_file("Add", "x nothing"), "'nothing'"),
            "singa": (singa("kReLU", sources="nothing"), "'nothing'"),
        },
    ),
    "unknown type of layer": (
        UnsupportedError,
        {
            "caffe": (caffe("Fly"), "Fly"),
            "darknet": (darknet("[fly]"), "fly"),
            "keras": (keras("Fly"), "Fly"),
            "mxnet": (mxnet("Fly"), "Fly"),
            "onnx": (onnx_file("Fly"), "Fly"),
            "tensorflow": (tensorflow("Fly", "x"), "Fly"),
        },
    ),
    "arrays of other sizes in the weight file": (
        WeightError,
        {
            "caffe": (
                caffe_conv("kernel_size: 5", weights=ONE_GRID),
                "5",
            ),
            "darknet": (darknet("[convolutional]\nfilters=2\nsize=5", weights=ONE_GRID), "150"),
            "mxnet": (
                mxnet(
                    "Convolution",
                    **CONV,
                    kernel="(5,5)",
                    weights={"weight": ONE_GRID, "bias": np.zeros(2, np.float32)},
                ),
                "5",
            ),
            "singa": (
                singa_conv("kernel: 5", weights=WEIGHTS),
                "'w' is 2x3x3x3",
            ),
        },
    ),
}

PLACE = r"'bad'|bad_|\.(prototxt|cfg|conf):\d+|line \d+"
"""The layer, or the line in the file."""

CASES = [
    pytest.param(error, make, message, framework, id=f"{mistake}-{framework}")
    for mistake, (error, nets) in MISTAKES.items()
    for framework, (make, message) in nets.items()
]


@pytest.mark.parametrize(("error", "make", "message", "framework"), CASES)
def test_a_mistake_has_one_class_in_every_framework(error, make, message, framework, tmp_path):
    path = make(tmp_path)
    weights = tmp_path / "step9-worker0"
    with pytest.raises(error, match=message) as caught:
        netweave.load(
            path,
            weights if weights.exists() else None,
            input_shapes={"data": SIZES} if framework == "mxnet" else None,
        )
    assert type(caught.value) is error
    text = str(caught.value)
    assert text.startswith(str(tmp_path))
    if error is not WeightError:
        assert re.search(PLACE, text)
