"""Rows and columns of the matrix."""

from __future__ import annotations

from dataclasses import dataclass

NETS = {
    "lenet": "LeNet",
    "alexnet": "AlexNet",
    "caffenet": "CaffeNet",
    "nin": "NIN",
    "vgg16": "VGG-16",
    "googlenet": "GoogLeNet",
    "inception-bn": "Inception-BN",
    "inception-v3": "Inception-v3",
    "resnet18": "ResNet-18",
    "resnet50": "ResNet-50",
    "resnet50-v2": "ResNet-50 v2",
    "densenet121": "DenseNet-121",
    "squeezenet": "SqueezeNet",
    "mobilenet": "MobileNet v1",
    "mobilenet-v2": "MobileNet v2",
    "ssd300": "SSD300",
    "yolov3": "YOLOv3",
    "fcn8s": "FCN-8s",
    "unet": "U-Net",
    "lstm": "LSTM language model",
}
"""Nets, and their titles."""


@dataclass(frozen=True, slots=True)
class Column:
    """A format.

    Attributes:
        title: Name for people.
        maker: The script in ``tests/oracles/matrix`` that makes and runs nets of it, with its first argument.
        python: Which interpreter runs the maker.
        file: The file to read, where a maker writes one for several formats.
        suffix: How the file ends that ``netweave convert`` writes; None if it writes none.
        judge: Who reads what was written, in ``reading``.
    """

    title: str
    maker: tuple[str, ...] = ()
    python: str = "oracles"
    file: str | None = None
    suffix: str | None = None
    judge: str | None = None


COLUMNS = {
    "caffe": Column("Caffe", ("with_opencv", "caffe"), suffix=".prototxt", judge="OpenCV"),
    "tensorflow": Column("TensorFlow", ("with_tensorflow",), "tensorflow"),
    "keras": Column("Keras", ("with_keras",), "tensorflow"),
    "mxnet": Column("MXNet", ("with_mxnet",), suffix="-symbol.json", judge="MXNet"),
    "chainer": Column("Chainer", ("with_chainer",)),
    "pytorch": Column("PyTorch", ("with_torch",), "torch", suffix=".py", judge="PyTorch"),
    "onnx": Column("ONNX", ("with_torch",), "torch", file="net.onnx", suffix=".onnx", judge="ONNX Runtime"),
    "darknet": Column("Darknet", ("with_opencv", "darknet")),
    "singa": Column("SINGA"),
}
"""Formats; one that a framework's own files are made for has a maker, one that Netweave writes a suffix."""
