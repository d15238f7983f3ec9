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
        to: Name of the format for ``netweave convert --to``, where several have files of such a name.
        judge: Who reads what was written, in ``reading``.
    """

    title: str
    maker: tuple[str, ...] = ()
    python: str = "oracles"
    file: str | None = None
    suffix: str | None = None
    to: str | None = None
    judge: str | None = None


COLUMNS = {
    "caffe": Column("Caffe", ("with_opencv", "caffe"), suffix=".prototxt", judge="OpenCV"),
    "tensorflow": Column("TensorFlow", ("with_tensorflow",), "tensorflow"),
    "keras": Column("Keras", ("with_keras",), "tensorflow", suffix=".py", to="keras", judge="Keras"),
    "mxnet": Column("MXNet", ("with_mxnet",), suffix="-symbol.json", judge="MXNet"),
    "chainer": Column("Chainer", ("with_chainer",)),
    "pytorch": Column("PyTorch", ("with_torch",), "torch", suffix=".py", judge="PyTorch"),
    "onnx": Column("ONNX", ("with_torch",), "torch", file="net.onnx", suffix=".onnx", judge="ONNX Runtime"),
    "darknet": Column("Darknet", ("with_opencv", "darknet")),
    "tflite": Column("TFLite", ("with_tflite",), "tensorflow"),
}
"""Formats; one that Netweave writes has a suffix. SINGA has no column: no program but a transcription of its
C++ (``tests/oracles/singa_net.py``) is left that could say what its nets compute."""

ORDER = ("mxnet", "pytorch", "onnx", "caffe", "chainer", "keras", "tensorflow", "darknet", "tflite")
"""A net's weights come from the first format that has it and is the same net as others."""

OTHERS = {
    ("lenet", "caffe"): "ReLU in the place of tanh, ten classes",
    ("alexnet", "caffe"): "the net of the paper: LRN and groups, other widths",
    ("alexnet", "chainer"): "LRN, and the widths of the paper without its groups",
    ("alexnet", "tensorflow"): "slim's alexnet_v2: other widths, no padding in the first layer",
    ("alexnet", "darknet"): "other widths, padding in the first layer",
    ("nin", "chainer"): "no rectifier behind the last convolution of each block but those written",
    ("googlenet", "pytorch"): "BatchNorm everywhere, 3x3 for 5x5",
    ("googlenet", "onnx"): "BatchNorm everywhere, 3x3 for 5x5",
    ("googlenet", "tensorflow"): "slim's: BatchNorm everywhere, 3x3 for 5x5, pads at the end alone",
    ("googlenet", "caffe"): "LRN",
    ("googlenet", "chainer"): "LRN, two more outputs",
    ("inception-bn", "caffe"): "a first convolution in 3 groups with a 1x1 behind it, images of 231 by 231",
    ("inception-bn", "chainer"): "no 1x1 convolution before the second, two more outputs",
    ("inception-bn", "tensorflow"): "slim's inception_v2: a separable first convolution",
    ("inception-v3", "caffe"): "takes a maximum in the last block's pooling, too",
    ("inception-v3", "keras"): "leaves the padding out of its averages",
    ("inception-v3", "tensorflow"): "leaves the padding out of its averages",
    ("resnet18", "darknet"): "shortcuts without convolution",
    ("resnet50", "caffe"): "pools without padding, and rounds up",
    ("resnet50-v2", "keras"): "strides at the end of a stage",
    ("resnet50-v2", "tensorflow"): "slim's: strides at the end of a stage, pads its pooling at the end alone",
    ("resnet50", "chainer"): "pools without padding, and rounds up",
    ("resnet50", "pytorch"): "strides in the 3x3 convolutions",
    ("resnet50", "onnx"): "strides in the 3x3 convolutions",
    ("resnet50", "tensorflow"): "slim's: strides at the end of a stage",
    ("densenet121", "caffe"): "rounds the number of windows up",
    ("mobilenet", "keras"): "pads at the end alone where it strides",
    ("mobilenet", "tensorflow"): "pads at the end alone where it strides",
    ("squeezenet", "mxnet"): "averages 13 by 13 places, where others average the whole image",
    ("squeezenet", "caffe"): "padding in the last convolution",
    ("squeezenet", "keras"): "rounds the number of windows down",
    ("squeezenet", "tensorflow"): "rounds the number of windows down",
    ("mobilenet-v2", "caffe"): "expands in the first block, too",
    ("mobilenet-v2", "keras"): "pads at the end alone where it strides",
    ("mobilenet-v2", "tensorflow"): "pads at the end alone where it strides",
    ("mobilenet-v2", "mxnet"): "expands in the first block, too, and has no biases at the end",
    ("ssd300", "caffe"): "gives the best 200 boxes, where MXNet's gives all",
    ("ssd300", "pytorch"): "ends at its heads, for 90 classes",
    ("ssd300", "onnx"): "ends at its heads, for 90 classes",
    ("ssd300", "chainer"): "ends at its heads, for 20 classes",
    ("yolov3", "chainer"): "ends at its heads, box by box",
    ("fcn8s", "mxnet"): "rounds the number of windows down, other sizes of its transposed convolutions",
    ("fcn8s", "tensorflow"): "a script with SAME padding: none of 100, nothing cropped",
    ("lstm", "mxnet"): "takes the states, and time before batch",
}
"""Nets that are another one than the others of their name, by net and format, and what was changed.

Those of one net that are said to be the same here are the same net.
"""
