"""What layers make: as a transcription of SINGA's C++ makes it, and what is said of wrong settings."""

from __future__ import annotations

import numpy as np
import pytest

import netweave
from netweave.errors import ReadError, ShapeError, UnsupportedError
from netweave.graph.parameters import source_keys
from tests.formats.singa.nets import check, conf, data, layer, load, normal

IMAGES = data(3, 8, 8)
SIZES = (2, 3, 8, 8)
IP = ("kInnerProduct", "innerproduct_conf { num_output: 4 }")
WINDOWS = [(1, 0, 1), (3, 0, 2), (3, 1, 2), (2, 1, 1), (3, 2, 3), (5, 2, 1)]


@pytest.mark.parametrize("kind", ["kReLU", "kSigmoid", "kSTanh", "kDropout", "kLRN", "kCudnnLRN", "kSoftmax"])
def test_without_parameters(kind, tmp_path):
    check(tmp_path, conf(IMAGES, layer(kind)), {"data": normal(*SIZES)})


@pytest.mark.parametrize("kind", ["kConvolution", "kCConvolution", "kCudnnConv"])
@pytest.mark.parametrize(("kernel", "pad", "stride"), WINDOWS)
def test_convolution(kind, kernel, pad, stride, tmp_path):
    settings = f"convolution_conf {{ num_filters: 2 kernel: {kernel} pad: {pad} stride: {stride} }}"
    check(tmp_path, conf(IMAGES, layer(kind, settings, params="w b")), {"data": normal(*SIZES)})


@pytest.mark.parametrize("method", ["MAX", "AVG"])
@pytest.mark.parametrize(
    ("kind", "kernel", "pad", "stride"),
    [(kind, *window) for kind in ("kCPooling", "kCudnnPool") for window in WINDOWS]
    + [("kPooling", kernel, 0, stride) for kernel, _, stride in WINDOWS],
)
def test_pooling(kind, method, kernel, pad, stride, tmp_path):
    settings = f"pooling_conf {{ pool: {method} kernel: {kernel} pad: {pad} stride: {stride} }}"
    check(tmp_path, conf(IMAGES, layer(kind, settings)), {"data": normal(*SIZES)})


def test_windows_with_two_sizes(tmp_path):
    settings = "kernel_x: 3 kernel_y: 2 pad_x: 1 pad_y: 0 stride_x: 2 stride_y: 1"
    text = conf(
        IMAGES,
        layer("kCConvolution", f"convolution_conf {{ num_filters: 2 {settings} }}", name="c", params="w b"),
        layer("kCPooling", f"pooling_conf {{ {settings} }}", name="p"),
    )
    graph = load(tmp_path, text)
    assert [tuple(value.shape)[1:] for value in graph.outputs] == [(2, 7, 4), (3, 7, 4)]


def test_images_of_three_axes_have_one_channel(tmp_path):
    text = conf(data(8, 8), layer("kCConvolution", "convolution_conf { num_filters: 2 }", params="w b"))
    check(tmp_path, text, {"data": normal(2, 8, 8)})


@pytest.mark.parametrize("transpose", ["true", "false"])
def test_inner_product(transpose, tmp_path):
    settings = f"innerproduct_conf {{ num_output: 5 transpose: {transpose} }}"
    check(tmp_path, conf(IMAGES, layer("kInnerProduct", settings, params="w b")), {"data": normal(*SIZES)})


def test_cudnn_batch_norm_has_inverse_deviations(tmp_path):
    check(tmp_path, conf(IMAGES, layer("kCudnnBM", params="s b m v")), {"data": normal(*SIZES)})


def test_cudnn_batch_norm_s_statistics_are_weights(tmp_path):
    """Though what is stored is the inverse of a deviation; otherwise they would count as settings."""
    (norm,) = load(tmp_path, conf(IMAGES, layer("kCudnnBM", params="s b m v"))).nodes
    assert [source_keys(value) for value in norm.inputs[1:]] == [("s",), ("b",), ("m",), ("v",)]


@pytest.mark.parametrize(("topk", "scale"), [(1, 1), (2, 1), (3, 0.5)])
def test_softmax_loss(topk, scale, tmp_path):
    settings = f"softmaxloss_conf {{ topk: {topk} scale: {scale} }}"
    text = conf(data(6), layer("kSoftmaxLoss", settings, sources="data data"))
    check(tmp_path, text, {"data": normal(5, 6), "label": np.array([0, 5, 2, 3, 3], np.float32)})


@pytest.mark.parametrize("topk", [1, 3])
def test_accuracy_after_softmax(topk, tmp_path):
    text = conf(
        data(6),
        layer("kSoftmax", name="s"),
        layer("kAccuracy", f"argsort_conf {{ topk: {topk} }}", sources="s data"),
        layer("kArgSort", f"argsort_conf {{ topk: {topk} }}", sources="s", name="best"),
    )
    walk = check(tmp_path, text, {"data": normal(7, 6), "label": np.arange(7).astype(np.float32) % 6})
    assert 0 < walk.metrics["y"] < 1


def test_euclidean_loss_is_not_halved_but_its_gradient_is(tmp_path):
    text = conf(
        data(6),
        layer(*IP, name="ip", params="w b").replace("4", "6"),
        layer("kEuclideanLoss", sources="ip data"),
    )
    check(tmp_path, text, {"data": normal(5, 6)})


def test_embedding_and_one_hot(tmp_path):
    source = 'layer { name: "data" type: kDummy dummy_conf { input: true shape: 4 } }\n'
    text = conf(
        source,
        layer("kEmbedding", "embedding_conf { vocab_size: 5 feature_dim: 3 }", params="table"),
        layer("kOneHot", "onehot_conf { vocab_size: 5 }", name="hot"),
    )
    graph = load(tmp_path, text)
    words = np.array([4, 0, 2, 2], np.float32)
    found = netweave.run(graph, {"data": words})
    (table,) = netweave.graph.stored_arrays(graph).values()
    np.testing.assert_array_equal(found["y"], table[words.astype(int)])
    np.testing.assert_array_equal(found["hot"], np.eye(5)[words.astype(int)])


def test_slice_gives_each_reader_its_part_and_concate_puts_them_together(tmp_path):
    text = conf(
        IMAGES.replace("shape: 3", "shape: 4"),
        layer("kSlice", "slice_conf { slice_dim: 1 num_slices: 2 }", name="cut"),
        layer("kReLU", sources="cut", name="a"),
        layer("kSigmoid", sources="cut", name="b"),
        layer("kConcate", "concate_conf { concate_dim: 1 num_concates: 2 }", sources="b a"),
    )
    x = normal(2, 4, 8, 8)
    (found,) = netweave.run(load(tmp_path, text), {"data": x}).values()
    expected = np.concatenate([1 / (1 + np.exp(-x[:, 2:])), np.maximum(x[:, :2], 0)], axis=1)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_splits_dummies_and_outputs_pass_on(tmp_path):
    text = conf(
        data(6),
        layer("kSplit", "split_conf { num_splits: 2 }", name="s"),
        layer("kDummy", sources="s", name="d"),
        layer("kReLU", sources="d", name="r"),
        layer("kSigmoid", sources="s", name="q"),
        layer("kCSVOutput", sources="r", name="file"),
    )
    graph = load(tmp_path, text)
    assert [value.name for value in graph.outputs] == ["q", "r"]
    assert graph.layers["file"].inputs == ("r",)


def wrong(kind: str, settings: str = "", params: str = "w b", sources: str = "data") -> str:
    return conf(IMAGES, layer(kind, settings, params=params, sources=sources))


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (
            wrong("kInnerProduct", "innerproduct_conf { num_output: 0 }"),
            ReadError,
            r"job\.conf:5: layer 'y' "
            r"\(kInnerProduct\): 'num_output' is 0, expected 1 or more",
        ),
        (
            wrong("kInnerProduct", "innerproduct_conf { num_output: 2 }", "w"),
            ReadError,
            r"has 1 'param', expected 2: the weights and the bias",
        ),
        (
            wrong("kConvolution", "convolution_conf { num_filters: 2 kernel_x: 3 kernel_y: 2 }"),
            ReadError,
            r"kConvolution has only square windows, found kernel \(2, 3\)",
        ),
        (wrong("kConvolution", "convolution_conf { kernel: 3 }"), ReadError, "'num_filters' is 0"),
        (
            wrong("kCConvolution", "convolution_conf { num_filters: 2 kernel: 9 }"),
            ShapeError,
            "a window of 9 does not fit in 8 elements with padding 0",
        ),
        (
            wrong("kPooling", "pooling_conf { kernel: 3 }"),
            ReadError,
            "has no 'stride', which is 1 in SINGA 0.1 and 2 in later ones",
        ),
        (wrong("kPooling", "pooling_conf { kernel: 3 stride: 2 pad: 1 }"), ReadError, "use kCPooling"),
        (wrong("kCPooling", "pooling_conf { kernel: 2 stride: 2 pad: 2 }"), ReadError, "must be less than"),
        (wrong("kLRN", "lrn_conf { local_size: 4 }"), ReadError, "'local_size' is 4, expected an odd number"),
        (wrong("kActivation", "activation_conf { type: STANH }"), UnsupportedError, "use a kSTanh"),
        (
            wrong("kDropout", "dropout_conf { dropout_ratio: 1 }"),
            ReadError,
            "'dropout_ratio' is 1, expected 0",
        ),
        (
            wrong("kSlice", "slice_conf { num_slices: 2 }"),
            ReadError,
            "'num_slices' is 2, but 0 layers read it",
        ),
        (wrong("kSoftmaxLoss"), ReadError, r"has 1 source, expected 2"),
        (wrong("kBM"), UnsupportedError, r"kBM \('y' on line 5; which SINGA never wrote"),
        (
            wrong("kUserLayer", 'user_type: "kHidden" [hidden_conf] { size: 3 }'),
            UnsupportedError,
            r"kHidden \('y' on line 5; a layer of the user's own, whose code is not in the file\)",
        ),
        (
            wrong("kReLU", "relu_conf { slope: 3 }"),
            ReadError,
            r"job\.conf:5: unknown field 'slope' in ReLUProto",
        ),
        (
            wrong("kReLU", "[mine.conf] { a: 3 }"),
            ReadError,
            r"job\.conf:5: unknown field '\[mine\.conf\]' in Layer",
        ),
        (wrong("kRelu"), ReadError, r"found kRelu as the value of 'type'.*did you mean 'kReLU'"),
        (
            wrong("kAccuracy", "argsort_conf { topk: 900 }", sources="data data"),
            ReadError,
            "'topk' is 900, expected",
        ),
        (wrong("kReLU", sources="dat"), ReadError, r"reads 'dat', but there is no layer of that name"),
        (wrong("kEmbedding", params="t"), ReadError, "'vocab_size' is 0, expected 1 or more"),
    ],
)
def test_what_is_wrong_is_refused_with_its_line(text, error, message, tmp_path):
    with pytest.raises(error, match=message):
        load(tmp_path, text)


def test_labels_come_from_inputs_alone(tmp_path):
    text = conf(data(6), layer("kReLU", name="r"), layer("kSoftmaxLoss", sources="data r"))
    with pytest.raises(ReadError, match="reads labels from 'r', which has none"):
        load(tmp_path, text)
