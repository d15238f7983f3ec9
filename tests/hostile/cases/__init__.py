"""Bad files of every format: how to make each, and the error that it must give."""

from tests.hostile.cases import caffe, foreign, keras, mxnet, onnx, tensorflow
from tests.hostile.cases.case import NAMED

__all__ = ["NAMED", "caffe", "foreign", "keras", "mxnet", "onnx", "tensorflow"]
