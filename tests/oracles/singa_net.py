"""Run a net of SINGA's in NumPy: a transcription of its C++ layers, which nothing installs any more.

Written from Apache's repository (v0.1.0 and v0.3.0-rc3, ``src/neuralnet`` and ``src/utils/common.cc``): the
loops are those of the C++, the names of the functions too. Shares nothing with Netweave. Checkpoints are
written by hand from the field numbers of ``common.proto``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.oracles.prototxt import Message, every, last, parse, word

PHASES = {"TRAIN": "kTrain", "TEST": "kTest", "VALIDATE": "kVal"}
INPUTS = {
    "kRecordInput",
    "kCSVInput",
    "kImagePreprocess",
    "kShardData",
    "kLMDBData",
    "kMnist",
    "kRGBImage",
    "kLabel",
}


METHODS = {
    "kAccuracy": "accuracy",
    "kArgSort": "arg_sort",
    "kCConvolution": "convolution",
    "kCPooling": "pooling",
    "kConvolution": "convolution",
    "kCudnnActivation": "cudnn_activation",
    "kCudnnBM": "cudnn_batch_norm",
    "kCudnnConv": "convolution",
    "kCudnnLRN": "local_response",
    "kCudnnPool": "cudnn_pool",
    "kCudnnSoftmax": "softmax",
    "kDropout": "dropout",
    "kEuclideanLoss": "euclidean_loss",
    "kGRU": "gru",
    "kInnerProduct": "inner_product",
    "kLRN": "local_response",
    "kOneHot": "one_hot",
    "kPooling": "pooling",
    "kRBMHid": "hidden",
    "kRBMVis": "visible",
    "kRNNLabel": "next_character",
    "kReLU": "relu",
    "kSTanh": "scaled_tanh",
    "kSigmoid": "sigmoid",
    "kSoftmax": "softmax",
    "kSoftmaxLoss": "softmax_loss",
}
"""The method that computes a type of layer."""


class Walk:
    """One phase of a net, layer by layer.

    Args:
        text: The ``job.conf``.
        phase: A key of ``PHASES``.
        data: What the last layer of a chain of inputs gives, by its name; labels as ``label``; characters.
        seed: Of the weights.
    """

    def __init__(self, text: str, phase: str, data: dict[str, np.ndarray], seed: int = 3) -> None:
        self.job = parse(text)
        net = last(self.job, "neuralnet")
        unroll = int(last(net, "unroll_len", "1"))
        self.random = np.random.default_rng(seed)
        self.weights: dict[str, np.ndarray] = {}
        self.made: dict[str, np.ndarray] = {}
        self.metrics: dict[str, float] = {}
        self.feed = data
        layers = [layer for layer in every(net, "layer") if self._included(layer, PHASES[phase])]
        self.names = {word(last(layer, "name")): layer for layer in layers}
        self.shared = {
            word(last(param, "name")): word(last(param, "share_from"))
            for layer in layers
            for param in every(layer, "param")
            if last(param, "share_from")
        }
        counts = {name: int(last(layer, "unroll_len", str(unroll))) for name, layer in self.names.items()}
        self.order = [(name, step) for name in self.names for step in range(counts[name])]
        self.unrolled = unroll > 1
        for name, step in self.order:
            self._run(name, step)

    @staticmethod
    def _included(layer: Message, phase: str) -> bool:
        if include := every(layer, "include"):
            return phase in include
        return phase not in every(layer, "exclude")

    def param(self, layer: Message, index: int, *shape: int) -> np.ndarray:
        name = word(last(every(layer, "param")[index], "name"))
        while name in self.shared:
            name = self.shared[name]
        if name not in self.weights:
            fan = shape[-1] if len(shape) > 1 else 4
            self.weights[name] = (self.random.standard_normal(shape) / np.sqrt(fan)).astype(np.float32)
        assert self.weights[name].shape == shape, (name, shape)
        return self.weights[name].astype(np.float64)

    def _run(self, name: str, step: int) -> None:
        layer = self.names[name]
        kind = last(layer, "type")
        key = f"{step}#{name}" if self.unrolled else name
        if kind in INPUTS:
            if name in self.feed:
                self.made[name] = np.asarray(self.feed[name], np.float64)
            return
        if kind == "kCharRNN":
            return
        sources = [word(source) for source in every(layer, "srclayers")]
        xs = [self.made.get(f"{step}#{s}" if self.unrolled else s) for s in sources]
        made = getattr(self, METHODS[kind])(layer, xs, step, key)
        if made is not None:
            self.made[key] = made

    # activation.cc, stanh.cc
    def relu(self, layer, xs, step, key):
        return np.maximum(xs[0], 0)

    def sigmoid(self, layer, xs, step, key):
        return 1 / (1 + np.exp(-xs[0]))

    def scaled_tanh(self, layer, xs, step, key):
        return 1.7159047 * np.tanh(0.66666667 * xs[0])

    def cudnn_activation(self, layer, xs, step, key):
        kind = last(last(layer, "activation_conf"), "type", "RELU")
        return {"RELU": self.relu, "SIGMOID": self.sigmoid}[kind](layer, xs, step, key)

    def dropout(self, layer, xs, step, key):
        return xs[0]

    # inner_product.cc
    def inner_product(self, layer, xs, step, key):
        conf = last(layer, "innerproduct_conf")
        hdim = int(last(conf, "num_output"))
        x = xs[0].reshape(len(xs[0]), -1)
        if last(conf, "transpose", "false") == "true":
            weight = self.param(layer, 0, x.shape[1], hdim)
        else:
            weight = self.param(layer, 0, hdim, x.shape[1]).T
        return x @ weight + self.param(layer, 1, hdim)

    # convolution.cc: Im2col, then dot(weight, col)
    def convolution(self, layer, xs, step, key):
        conf = last(layer, "convolution_conf")
        kernel, pad, stride = (
            int(last(conf, n, d)) for n, d in (("kernel", "3"), ("pad", "0"), ("stride", "1"))
        )
        filters, x = int(last(conf, "num_filters")), xs[0]
        if x.ndim == 3:
            x = x[:, None]
        batch, channels, height, width = x.shape
        conv_height = (height + 2 * pad - kernel) // stride + 1
        conv_width = (width + 2 * pad - kernel) // stride + 1
        weight = self.param(layer, 0, filters, channels * kernel * kernel)
        bias = self.param(layer, 1, filters)
        padded = np.pad(x, [(0, 0), (0, 0), (pad, pad), (pad, pad)])
        data = np.zeros((batch, filters, conv_height, conv_width))
        for h in range(conv_height):
            for w in range(conv_width):
                patch = padded[:, :, h * stride : h * stride + kernel, w * stride : w * stride + kernel]
                data[:, :, h, w] = patch.reshape(batch, -1) @ weight.T + bias
        return data

    # common.cc ForwardMaxPooling and ForwardAvgPooling; cuDNN leaves padding out of averages
    def pooling(self, layer, xs, step, key, *, exclude=False):
        conf, x = last(layer, "pooling_conf"), xs[0]
        kernel, pad, stride = (
            int(last(conf, n, d)) for n, d in (("kernel", "3"), ("pad", "0"), ("stride", "2"))
        )
        _, _, height, width = x.shape
        top = np.zeros(
            (
                *x.shape[:2],
                (height + 2 * pad - kernel) // stride + 1,
                (width + 2 * pad - kernel) // stride + 1,
            )
        )
        for ph in range(top.shape[2]):
            for pw in range(top.shape[3]):
                hstart, wstart = ph * stride - pad, pw * stride - pad
                hend, wend = min(hstart + kernel, height + pad), min(wstart + kernel, width + pad)
                pool_size = (hend - hstart) * (wend - wstart)
                window = x[:, :, max(hstart, 0) : min(hend, height), max(wstart, 0) : min(wend, width)]
                if exclude:
                    pool_size = window.shape[2] * window.shape[3]
                if last(conf, "pool", "MAX") == "MAX":
                    top[:, :, ph, pw] = window.max(axis=(2, 3))
                else:
                    top[:, :, ph, pw] = window.sum(axis=(2, 3)) / pool_size
        return top

    def cudnn_pool(self, layer, xs, step, key):
        return self.pooling(layer, xs, step, key, exclude=True)

    # lrn.cc
    def local_response(self, layer, xs, step, key):
        conf, x = last(layer, "lrn_conf"), xs[0]
        size, alpha, beta, knorm = (
            float(last(conf, n, d))
            for n, d in (("local_size", "5"), ("alpha", "1"), ("beta", ".75"), ("knorm", "1"))
        )
        squares, half = x**2, int(size) // 2
        sums = np.stack(
            [squares[:, max(0, c - half) : c + half + 1].sum(axis=1) for c in range(x.shape[1])], axis=1
        )
        return x * (knorm + alpha / size * sums) ** -beta

    # cudnn_bm.cc with cuDNN 4: the fourth array is the inverse deviation
    def cudnn_batch_norm(self, layer, xs, step, key):
        shape = (1, xs[0].shape[1], 1, 1)
        scale, bias, mean = (self.param(layer, index, *shape) for index in range(3))
        name = word(last(every(layer, "param")[3], "name"))
        self.weights.setdefault(name, self.random.uniform(0.5, 2, shape).astype(np.float32))
        return scale * (xs[0] - mean) * self.weights[name].astype(np.float64) + bias

    # softmax.cc
    def softmax(self, layer, xs, step, key):
        x = xs[0].reshape(len(xs[0]), -1)
        powers = np.exp(x - x.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)

    # loss_layer/softmax.cc
    def softmax_loss(self, layer, xs, step, key):
        conf = last(layer, "softmaxloss_conf", [])
        topk, scale = int(last(conf, "topk", "1")), float(last(conf, "scale", "1"))
        prob = self.softmax(layer, xs, step, key)
        label = self.feed["label"] if "label" in self.feed else self.made[f"{step}#label"]
        loss, precision = 0.0, 0
        for row, wanted in zip(prob, label.astype(int), strict=True):
            loss -= np.log(max(row[wanted], np.finfo(np.float32).tiny))
            best = sorted(((value, j) for j, value in enumerate(row)), reverse=True)[:topk]
            precision += wanted in [j for _, j in best]
        self.metrics[key] = loss * scale / len(prob)
        self.metrics[f"{key}/accuracy"] = precision * scale / len(prob)

    # loss_layer/euclidean.cc
    def euclidean_loss(self, layer, xs, step, key):
        self.metrics[key] = float(((xs[0] - xs[1].reshape(xs[0].shape)) ** 2).sum()) / len(xs[0])

    # output_layer/argsort.cc, accuracy.cc
    def arg_sort(self, layer, xs, step, key):
        topk = int(last(last(layer, "argsort_conf", []), "topk", "1"))
        return np.argsort(-xs[0], axis=1)[:, :topk].astype(float)

    def accuracy(self, layer, xs, step, key):
        best = self.arg_sort(layer, xs, step, key)
        self.metrics[key] = float((best == self.feed["label"][:, None]).any(axis=1).mean())

    # onehot.cc, rnn_label.cc, gru.cc
    def one_hot(self, layer, xs, step, key):
        size = int(last(last(layer, "onehot_conf"), "vocab_size"))
        return np.eye(size)[self.feed["data"][step].astype(int)]

    def next_character(self, layer, xs, step, key):
        return self.feed["data"][step + 1]

    def gru(self, layer, xs, step, key):
        src, hdim = xs[0].reshape(len(xs[0]), -1), int(last(last(layer, "gru_conf"), "dim_hidden"))
        name = word(last(layer, "name"))
        context = self.made.get(f"{step - 1}#{name}", np.zeros((len(src), hdim)))
        w_z, w_r, w_c = (self.param(layer, index, hdim, src.shape[1]) for index in range(3))
        u_z, u_r, u_c = (self.param(layer, index, hdim, hdim) for index in range(3, 6))
        biased = len(every(layer, "param")) > 6
        b_z, b_r, b_c = (self.param(layer, index, hdim) if biased else 0.0 for index in range(6, 9))
        update = 1 / (1 + np.exp(-(src @ w_z.T + b_z + context @ u_z.T)))
        reset = 1 / (1 + np.exp(-(src @ w_r.T + b_r + context @ u_r.T)))
        memory = np.tanh(reset * (context @ u_c.T) + src @ w_c.T + b_c)
        return (context - memory) * update + memory

    # rbm.cc: the way up
    def visible(self, layer, xs, step, key):
        return xs[0]

    def hidden(self, layer, xs, step, key):
        hdim, x = int(last(last(layer, "rbm_conf"), "hdim")), xs[0].reshape(len(xs[0]), -1)
        data = x @ self.param(layer, 0, hdim, x.shape[1]).T + self.param(layer, 1, hdim)
        return (
            data if last(last(layer, "rbm_conf"), "gaussian", "false") == "true" else 1 / (1 + np.exp(-data))
        )


def checkpoint(
    arrays: dict[str, Any], *, prefix: str = "0#", version: int = 7, with_ids: bool = False
) -> bytes:
    """Return the bytes of a ``step<N>-worker<i>``: BlobProtos{id 2, version 3, name 4, blob 5}.

    The ids stand in the message; ``worker.cc`` has set them in no version.
    """
    ids = b"".join(b"\x10" + _varint(index) for index in range(len(arrays) if with_ids else 0))
    versions = b"".join(b"\x18" + _varint(version) for _ in arrays)
    names = b"".join(_bytes(4, f"{prefix}{name}".encode()) for name in arrays)
    blobs = b"".join(_bytes(5, _blob(np.asarray(array))) for array in arrays.values())
    return ids + versions + names + blobs


def _blob(array: np.ndarray) -> bytes:
    shape = b"".join(b"\x08" + _varint(size) for size in array.shape)
    return shape + _bytes(2, array.astype("<f4").tobytes())


def _bytes(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    found = b""
    while number > 0x7F:
        found += bytes([number & 0x7F | 0x80])
        number >>= 7
    return found + bytes([number])
