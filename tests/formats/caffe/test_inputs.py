"""What the inputs of a net are, and what to say where the file does not."""

from __future__ import annotations

import shutil

import pytest

from netweave.errors import ReadError, ShapeError, UsageError
from tests.formats.caffe.nets import inputs, layer, load

LOSS = layer("InnerProduct", "inner_product_param { num_output: 3 }", bottoms="data", tops="ip") + layer(
    "SoftmaxWithLoss", bottoms="ip label", tops="loss"
)


def data(kind, settings):
    return layer(kind, settings, bottoms="", tops="data label")


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        (
            data("Data", "data_param { batch_size: 4 } transform_param { crop_size: 8 force_color: true }"),
            (4, 3, 8, 8),
        ),
        (
            data("Data", "data_param { batch_size: 4 } transform_param { crop_size: 8 force_gray: true }"),
            (4, 1, 8, 8),
        ),
        (
            data(
                "Data",
                "data_param { batch_size: 4 force_encoded_color: true } transform_param { crop_size: 8 }",
            ),
            (4, 3, 8, 8),
        ),
        (
            data(
                "Data",
                "transform_param { crop_size: 8 mean_value: 1 mean_value: 2 mean_value: 3 mean_value: 4 }",
            ),
            (None, 4, 8, 8),
        ),
        (
            data("Data", "data_param { batch_size: 2 } transform_param { mean_file: 'mean.binaryproto' }"),
            (2, 3, 10, 10),
        ),
        (
            data(
                "Data",
                "data_param { batch_size: 2 } transform_param { crop_size: 8 mean_file: 'mean.binaryproto' }",
            ),
            (2, 3, 8, 8),
        ),
        (data("ImageData", "image_data_param { batch_size: 4 new_height: 6 new_width: 7 }"), (4, 3, 6, 7)),
        (data("ImageData", "image_data_param { new_height: 6 new_width: 7 is_color: false }"), (1, 1, 6, 7)),
        (
            data(
                "ImageData",
                "image_data_param { new_height: 9 new_width: 9 } transform_param { crop_size: 5 }",
            ),
            (1, 3, 5, 5),
        ),
        (
            data("WindowData", "window_data_param { batch_size: 4 } transform_param { crop_size: 5 }"),
            (4, 3, 5, 5),
        ),
        (
            data("MemoryData", "memory_data_param { batch_size: 4 channels: 2 height: 5 width: 6 }"),
            (4, 2, 5, 6),
        ),
        (data("DummyData", "dummy_data_param { shape { dim: 4 dim: 5 } shape { dim: 4 } }"), (4, 5)),
        (
            data(
                "DummyData",
                "dummy_data_param { "
                + "num: 4 " * 2
                + "channels: 5 channels: 1 "
                + "height: 1 width: 1 " * 2
                + "}",
            ),
            (4, 5, 1, 1),
        ),
    ],
)
def test_sizes_that_the_file_says(tmp_path, corpus, text, shape):
    mean = corpus / "caffe" / "history" / "src__caffe__test__test_data__sample_mean.binaryproto"
    shutil.copy(mean, tmp_path / "mean.binaryproto")
    graph = load(tmp_path, text + LOSS)
    assert graph.declared["data"] == shape
    assert graph.declared["label"][:1] == shape[:1]
    assert [str(value.shape[0]) for value in graph.inputs] == ["N", "N"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            data("Data", "data_param { batch_size: 4 }"),
            "--input-shape data=4xCxHxW, with numbers for letters and dots",
        ),
        (data("Data", "data_param { batch_size: 4 } transform_param { crop_size: 8 }"), "data=4xCx8x8"),
        (data("ImageData", ""), "data=1x3xHxW"),
        (data("HDF5Data", "hdf5_data_param { batch_size: 4 }"), "data=Nx..."),
        (layer("Input", bottoms="", tops="data label"), "data=Nx... --input-shape label=Nx..."),
    ],
)
def test_sizes_that_the_file_leaves_open_are_asked_for(tmp_path, text, message):
    with pytest.raises(
        ReadError, match=r"net\.prototxt:1: layer '\w+' \(\w+\): the file does not give all sizes of"
    ) as caught:
        load(tmp_path, text + LOSS)
    assert message in str(caught.value)


def test_given_sizes_win_and_bring_the_batch(tmp_path):
    text = data("HDF5Data", "hdf5_data_param { batch_size: 4 }") + LOSS
    graph = load(tmp_path, text, input_shapes={"data": (7, 5)})
    assert graph.declared == {"data": (7, 5), "label": (7,)}
    assert graph.parameters["InnerProduct/0"].shape == (3, 5)


def test_an_input_of_another_first_size_has_no_batch(tmp_path):
    text = inputs(x=(4, 3), rows=(9, 3)) + layer("Concat", bottoms="x rows", tops="y").replace(
        "}", "concat_param { axis: 0 } }"
    )
    graph = load(tmp_path, text)
    assert [str(value.shape) for value in graph.inputs] == ["[N,3]", "[9,3]"]


def test_sizes_for_something_else_are_refused(tmp_path):
    with pytest.raises(UsageError, match=r"in phase TEST: no input named 'dat'; the inputs are 'x'"):
        load(tmp_path, inputs(x=(2, 3)) + layer("ReLU"), input_shapes={"dat": (1, 2)})


@pytest.mark.parametrize("shape", [(1, 0), (1, 2**31), (1, 2**31 - 1, 2), (1, -3), (1, 2**62, 2**62)])
def test_impossible_sizes(tmp_path, shape):
    with pytest.raises(
        ShapeError, match=r"net\.prototxt:1: layer 'x' \(Input\): input 'x' would be .*; every size must be 1"
    ):
        load(tmp_path, inputs(x=shape) + layer("ReLU"))
