"""Layers that measure a net are left out of it, with a note."""

from __future__ import annotations

import pytest

from netweave.errors import ReadError, ShapeError, UnsupportedError
from tests.formats.caffe.nets import inputs, layer, load

NET = inputs(x=(2, 3, 8, 8), truth=(2, 1, 8, 8)) + layer("ReLU")


@pytest.mark.parametrize("kind", ["SegAccuracy", "DetectionEvaluate"])
def test_a_measure_is_left_out_and_its_prediction_stays(tmp_path, kind):
    graph = load(tmp_path, NET + layer(kind, bottoms="y truth", tops="m"))
    assert [value.name for value in graph.outputs] == ["y"]
    assert graph.notes == (f"layer '{kind}' ({kind}) measures what the net predicts and is left out",)


def test_a_measure_that_another_layer_reads_is_refused(tmp_path):
    text = NET + layer("SegAccuracy", bottoms="y truth", tops="m") + layer("TanH", bottoms="m", tops="z")
    with pytest.raises(UnsupportedError, match=r"SegAccuracy .'SegAccuracy' on line 4; did you mean"):
        load(tmp_path, text)


def test_an_input_of_size_1_that_does_not_fit_is_to_be_chosen(tmp_path):
    text = inputs(image=(1, 3, 1, 1)) + layer("Pooling", "pooling_param { kernel_size: 2 }", bottoms="image")
    with pytest.raises(
        ShapeError, match=r"does not fit in 1 .*; the file says 1x1 for 'image': give its size"
    ):
        load(tmp_path, text)
    assert load(tmp_path, text, input_shapes={"image": (1, 3, 8, 8)}).outputs[0].shape[2] == 7


ACCURACY = layer("Accuracy", bottoms="y label", tops="accuracy")


def test_an_accuracy_whose_labels_nothing_brings_is_left_out(tmp_path):
    """Who cuts the data off a net for training often leaves it."""
    graph = load(tmp_path, NET + ACCURACY)
    assert [value.name for value in graph.outputs] == ["y"]
    assert graph.notes == ("layer 'Accuracy' (Accuracy) reads 'label', which no layer makes; it is left out",)


def test_an_accuracy_that_another_layer_reads_misses_its_labels(tmp_path):
    text = NET + ACCURACY + layer("TanH", bottoms="accuracy", tops="z")
    with pytest.raises(ReadError, match="reads the blob 'label', but no layer before makes it"):
        load(tmp_path, text)
