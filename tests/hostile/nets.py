"""Small whole nets of every format, as files by name, for the tests to damage."""

from __future__ import annotations

import io
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import h5py
import numpy as np

from netweave.formats.onnx import writer
from tests.formats.mxnet import symbols
from tests.formats.onnx import test_reader, test_writer
from tests.oracles import mxnet_params
from tests.oracles.caffemodel import caffemodel
from tests.oracles.darknet_net import Walk, sections
from tests.oracles.singa_net import checkpoint

TENSORFLOW = Path(__file__).parents[1] / "golden" / "tensorflow"
"""Files that TensorFlow wrote (``tests/oracles/tensorflow_nets.py``)."""

KERAS = Path(__file__).parents[1] / "golden" / "keras"
"""Files that Keras wrote (``tests/oracles/keras_nets.py``)."""

GOLDEN = KERAS.parent

MASKED = KERAS.parent / "keras_layers" / "masked.json"
"""A model with masks and attention (``tests/oracles/keras_layers.py``)."""

PROTOTXT = """
name: "small"
input: "data"
input_shape { dim: 1 dim: 3 dim: 12 dim: 10 }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
  convolution_param { num_output: 4 kernel_size: 3 pad: 1 stride: 1 group: 1 bias_term: true dilation: 1
    weight_filler { type: "xavier" } } }
layer { name: "bn1" type: "BatchNorm" bottom: "conv1" top: "conv1" batch_norm_param { eps: 1e-3 } }
layer { name: "scale1" type: "Scale" bottom: "conv1" top: "conv1" scale_param { bias_term: true axis: 1 } }
layer { name: "relu1" type: "ReLU" bottom: "conv1" top: "conv1" relu_param { negative_slope: 0.1 } }
layer { name: "norm1" type: "LRN" bottom: "conv1" top: "norm1" lrn_param { local_size: 3 alpha: 0.1 } }
layer { name: "pool1" type: "Pooling" bottom: "norm1" top: "pool1"
  pooling_param { pool: AVE kernel_h: 3 kernel_w: 2 stride: 2 pad: 1 } }
layer { name: "up" type: "Deconvolution" bottom: "pool1" top: "up"
  convolution_param { num_output: 4 kernel_size: 2 stride: 2 bias_term: false } }
layer { name: "crop" type: "Crop" bottom: "up" bottom: "pool1" top: "crop"
  crop_param { axis: 2 offset: 1 offset: 0 } }
layer { name: "sum" type: "Eltwise" bottom: "crop" bottom: "pool1" top: "sum"
  eltwise_param { operation: SUM coeff: 1 coeff: -0.5 } }
layer { name: "split" type: "Slice" bottom: "sum" top: "a" top: "b" slice_param { axis: 1 slice_point: 3 } }
layer { name: "join" type: "Concat" bottom: "b" bottom: "a" top: "join" concat_param { axis: 1 } }
layer { name: "power" type: "Power" bottom: "join" top: "power" power_param { power: 2 scale: 1 shift: 1 } }
layer { name: "shape" type: "Reshape" bottom: "power" top: "shape"
  reshape_param { shape { dim: 0 dim: -1 } axis: 0 num_axes: -1 } }
layer { name: "drop" type: "Dropout" bottom: "shape" top: "shape" dropout_param { dropout_ratio: 0.4 } }
layer { name: "fc" type: "InnerProduct" bottom: "shape" top: "fc"
  inner_product_param { num_output: 5 axis: 1 transpose: false } }
layer { name: "prob" type: "Softmax" bottom: "fc" top: "prob" softmax_param { axis: 1 } }
"""

CFG = """
[net]
batch=1
height=12
width=12
channels=3
[convolutional]
batch_normalize=1
filters=4
size=3
stride=1
pad=1
activation=leaky
[maxpool]
size=2
stride=2
[convolutional]
filters=4
size=1
activation=swish
[shortcut]
from=-2
activation=linear
[upsample]
stride=2
[route]
layers=-1,0
groups=2
group_id=1
[reorg]
stride=2
[convolutional]
filters=14
size=1
activation=linear
[yolo]
mask=0,1
classes=2
num=3
"""

JOB_CONF = """
name: "small"
train_steps: 10
train_one_batch { alg: kBPTT }
neuralnet {
  unroll_len: 3
  layer { name: "data" type: kRecordInput unroll_len: 1 include: kTest
    store_conf { backend: "kvfile" path: "x" batchsize: 4 shape: 3 shape: 12 shape: 10 } }
  layer { name: "conv" type: kCConvolution srclayers: "data" unroll_len: 1 include: kTest
    convolution_conf { num_filters: 4 kernel: 3 pad: 1 stride: 2 }
    param { name: "w" init { type: kGaussian std: 0.1 } } param { name: "b" lr_scale: 2 } }
  layer { name: "pool" type: kCPooling srclayers: "conv" unroll_len: 1 include: kTest
    pooling_conf { pool: AVG kernel_x: 3 kernel_y: 2 stride: 2 pad: 1 } }
  layer { name: "norm" type: kLRN srclayers: "pool" unroll_len: 1 include: kTest lrn_conf { local_size: 3 } }
  layer { name: "ip" type: kInnerProduct srclayers: "norm" unroll_conn_type: kUnrollOneToAll shift: 0
    include: kTest innerproduct_conf { num_output: 4 } param { name: "w1" } param { name: "b1" } }
  layer { name: "more" type: kInnerProduct srclayers: "ip" shift: 0 include: kTest partition_dim: 1
    innerproduct_conf { num_output: 4 transpose: true }
    param { name: "w2" share_from: "u" } param { name: "b2" } }
  layer { name: "u" type: kInnerProduct srclayers: "ip" shift: 0 include: kTest
    innerproduct_conf { num_output: 4 } param { name: "u" } param { name: "b3" } }
  layer { name: "join" type: kConcate srclayers: "more" srclayers: "u" include: kTest
    concate_conf { concate_dim: 1 num_concates: 2 } }
  layer { name: "cut" type: kSlice srclayers: "join" include: kTest
    slice_conf { slice_dim: 1 num_slices: 2 } }
  layer { name: "drop" type: kDropout srclayers: "cut" include: kTest dropout_conf { dropout_ratio: 0.4 } }
  layer { name: "act" type: kSTanh srclayers: "cut" include: kTest }
  layer { name: "vis" type: kRBMVis srclayers: "act" srclayers: "hid" include: kTest rbm_conf { hdim: 3 }
    param { name: "wv" } param { name: "bv" } }
  layer { name: "hid" type: kRBMHid srclayers: "vis" include: kTest rbm_conf { hdim: 3 gaussian: true }
    param { name: "wh" share_from: "wv" } param { name: "bh" } }
  layer { name: "loss" type: kSoftmaxLoss srclayers: "drop" srclayers: "data" include: kTest
    unroll_conn_type: kUnrollOneToOne unroll_conn_type: kUnrollOneToAll
    softmaxloss_conf { topk: 2 scale: 0.5 } }
}
cluster { workspace: "run" nworkers_per_group: 2 }
"""


@dataclass(frozen=True)
class Net:
    """A net's files.

    Attributes:
        files: Content by file name; the net first.
        damaged: Name of the file that the tests damage.
        text: Whether that file is a text.
    """

    files: dict[str, bytes]
    damaged: str
    text: bool

    def write(self, folder: Path, content: bytes | None = None) -> Path:
        """Write the files, one with other content, and return the net's."""
        for name, whole in self.files.items():
            damaged = content is not None and name == self.damaged
            (folder / name).write_bytes(content if damaged else whole)
        return folder / next(iter(self.files))


@cache
def nets() -> dict[str, Net]:
    """Return the nets by format and by the file that is damaged."""
    prototxt, weights = PROTOTXT.encode(), _caffe_weights()
    symbol, arrays = _mxnet_symbol().encode(), _mxnet_arrays()
    caffe = {"small.prototxt": prototxt, "small.caffemodel": weights}
    mxnet = {"small-symbol.json": symbol, "small-0001.params": arrays}
    graph = TENSORFLOW / "squeeze.pb"
    checkpoint = {path.name: path.read_bytes() for path in TENSORFLOW.glob("gru.*") if "pb" not in path.name}
    checkpoint = {name: checkpoint[name] for name in sorted(checkpoint, key=lambda name: "meta" not in name)}
    keras = {name: (KERAS / name).read_bytes() for name in ("unet.json", "unet.weights.h5")}
    return {
        "keras as text": Net(keras, "unet.json", text=True),
        "keras with masks": Net({"masked.json": MASKED.read_bytes()}, "masked.json", text=True),
        "graph of loops": Net({"loops.pb": (TENSORFLOW / "loops.pb").read_bytes()}, "loops.pb", text=False),
        "loops as text": Net(
            {"loops.pbtxt": (TENSORFLOW / "loops.pbtxt").read_bytes()}, "loops.pbtxt", text=True
        ),
        "graph": Net({"squeeze.pb": graph.read_bytes()}, "squeeze.pb", text=False),
        "graph as text": Net({"gru.pbtxt": (TENSORFLOW / "gru.pbtxt").read_bytes()}, "gru.pbtxt", text=True),
        "MetaGraph": Net(checkpoint, "gru.meta", text=False),
        "index": Net(checkpoint, "gru.index", text=False),
        "prototxt": Net({"small.prototxt": prototxt}, "small.prototxt", text=True),
        "caffemodel": Net(caffe, "small.caffemodel", text=False),
        "symbol": Net(mxnet, "small-symbol.json", text=True),
        "params": Net(mxnet, "small-0001.params", text=False),
        "cfg": Net({"small.cfg": CFG.encode()}, "small.cfg", text=True),
        "weights": Net(
            {"small.cfg": CFG.encode(), "small.weights": _darknet_weights()}, "small.weights", text=False
        ),
        "job.conf": Net({"job.conf": JOB_CONF.encode()}, "job.conf", text=True),
        "checkpoint": Net({"step9-worker0": _singa_checkpoint()}, "step9-worker0", text=False),
        "onnx": Net({"small.onnx": test_reader.small().SerializeToString()}, "small.onnx", text=False),
        "onnx of ours": Net({"ours.onnx": _written()}, "ours.onnx", text=False),
        "tflite": _golden("tflite", "small_int8.tflite"),
        "tflite with a loop": _golden("tflite", "lstm.tflite"),
        "openvino": _golden("openvino", "small_int8.xml", "small_int8.bin"),
        "openvino's weights": _golden("openvino", "small_f32.xml", "small_f32.bin", damaged="small_f32.bin"),
        "gguf": _golden("gguf", "arrays.gguf"),
    }


def _golden(folder: str, *names: str, damaged: str = "") -> Net:
    """Return a net that its framework wrote."""
    files = {name: (GOLDEN / folder / name).read_bytes() for name in names}
    return Net(files, damaged or names[0], text=(damaged or names[0]).endswith(".xml"))


@cache
def hdf5_nets() -> dict[str, Net]:
    """Return nets in HDF5, which another process reads: half a second each."""
    keras = {name: (KERAS / name).read_bytes() for name in ("unet.json", "unet.weights.h5")}
    whole, archive = "words.h5", "lenet.keras"
    caffe = {"small.prototxt": PROTOTXT.encode(), "small.caffemodel.h5": _caffe_hdf5()}
    return {
        "h5": Net({whole: (KERAS / whole).read_bytes()}, whole, text=False),
        "weights.h5": Net(keras, "unet.weights.h5", text=False),
        "keras": Net({archive: (KERAS / archive).read_bytes()}, archive, text=False),
        "caffemodel.h5": Net(caffe, "small.caffemodel.h5", text=False),
    }


def _caffe_hdf5() -> bytes:
    content = io.BytesIO()
    with h5py.File(content, "w") as file:
        for layer, _, arrays in CAFFE_LAYERS:
            for index, array in enumerate(arrays):
                file[f"data/{layer}/{index}"] = array
    return content.getvalue()


def _normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


def _singa_checkpoint() -> bytes:
    return checkpoint({"w": _normal(4, 27), "b": _normal(4), "w1": _normal(4, 24)})


CAFFE_LAYERS = (
    ("conv1", "convolution", [_normal(4, 3, 3, 3), _normal(4)]),
    ("bn1", "batchnorm", [_normal(4), np.abs(_normal(4)), np.float32([1])]),
    ("scale1", "scale", [_normal(4), _normal(4)]),
    ("up", "convolution", [_normal(4, 4, 2, 2)]),
    ("fc", "innerproduct", [_normal(5, 4 * 7 * 6), _normal(5)]),
)
"""Layer, kind and arrays of what ``PROTOTXT`` stores."""


def _caffe_weights() -> bytes:
    return caffemodel(CAFFE_LAYERS, generation=2)


def _darknet_weights() -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "small.weights"
        Walk(sections(CFG)).write(path)
        return path.read_bytes()


def _mxnet_symbol() -> str:
    v, n = symbols.variable, symbols.node
    nodes = [
        v("data", __shape__="(2, 3, 12, 10)"),
        v("conv_weight"),
        v("conv_bias"),
        n("Convolution", "conv", [0, 1, 2], kernel="(3, 3)", num_filter="4", pad="(1, 1)", stride="(1, 1)"),
        v("bn_gamma"),
        v("bn_beta"),
        v("bn_moving_mean"),
        v("bn_moving_var"),
        n("BatchNorm", "bn", [3, 4, 5, 6, 7], eps="0.001", fix_gamma="False", axis="1"),
        v("slope_gamma"),
        n("LeakyReLU", "slope", [8, 9], act_type="prelu"),
        n("Pooling", "pool", [10], kernel="(3, 2)", stride="(2, 2)", pad="(1, 0)", pool_type="max",
          pooling_convention="full"),
        n("SliceChannel", "cut", [11], num_outputs="2", axis="1"),
        n("Concat", "join", [(12, 1), (12, 0)], num_args="2", dim="1"),
        n("elemwise_add", "sum", [13, 11]),
        n("_mul_scalar", "half", [14], scalar="0.5"),
        n("transpose", "turn", [15], axes="(0, 2, 3, 1)"),
        n("Reshape", "flat", [16], shape="(0, -1)"),
        n("clip", "clip", [17], a_min="-3.0", a_max="3.0"),
        v("fc_weight"),
        v("fc_bias"),
        n("FullyConnected", "fc", [18, 19, 20], num_hidden="5"),
        v("softmax_label"),
        n("SoftmaxOutput", "softmax", [21, 22]),
    ]  # fmt: skip
    return symbols.symbol(nodes)


def _mxnet_arrays() -> bytes:
    arrays = {
        "arg:conv_weight": _normal(4, 3, 3, 3),
        "arg:conv_bias": _normal(4),
        "arg:bn_gamma": _normal(4),
        "arg:bn_beta": _normal(4),
        "aux:bn_moving_mean": _normal(4),
        "aux:bn_moving_var": np.abs(_normal(4)),
        "arg:slope_gamma": _normal(4),
        "arg:fc_weight": _normal(5, 4 * 7 * 5),
        "arg:fc_bias": _normal(5),
    }
    return mxnet_params.params(arrays)


def _written() -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "ours.onnx"
        writer.write(test_writer.small(odd_pooling=True), path)
        return path.read_bytes()
