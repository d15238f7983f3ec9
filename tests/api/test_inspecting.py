"""Nets whose files leave sizes of their inputs open, as they are looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from netweave import api
from netweave.errors import ReadError
from netweave.graph import known_shape
from tests.oracles.caffemodel import caffemodel

if TYPE_CHECKING:
    from pathlib import Path

HEAD = """
layer {{ name: "data" type: "Data" top: "data" top: "label" data_param {{ batch_size: 8 }} {transform} }}
layer {{ name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
         convolution_param {{ num_output: 12 kernel_size: 3 stride: 2 group: {group} }} }}
layer {{ name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1"
         pooling_param {{ pool: MAX kernel_size: 3 stride: 2 }} }}
"""

DENSE = """
layer { name: "ip" type: "InnerProduct" bottom: "pool1" top: "ip" inner_product_param { num_output: 5 } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
"""

CROPPED = "transform_param { crop_size: 32 }"


def write(folder: Path, *, transform: str, group: int = 1, tail: str = DENSE) -> Path:
    path = folder / "train_val.prototxt"
    path.write_text(HEAD.format(transform=transform, group=group) + tail)
    return path


@pytest.mark.parametrize("group", [1, 4])
@pytest.mark.parametrize("transform", [CROPPED, ""])
def test_every_size_that_is_shown_is_that_of_all_readings(tmp_path: Path, transform: str, group: int) -> None:
    path = write(tmp_path, transform=transform, group=group)
    found = api.load_for_inspection(path)
    sides = [(32, 32)] if transform else [(32, 40), (64, 96)]
    readings = [
        api.load(path, input_shapes={"data": (8, channels, *side)}) for channels in (4, 8) for side in sides
    ]
    for name, value in found.values().items():
        dims = list(value.shape)
        for reading in readings:
            sizes = list(reading.values()[name].shape)
            known = [(dim, size) for dim, size in zip(dims, sizes, strict=True) if isinstance(dim, int)]
            assert all(dim == size for dim, size in known), name
        for axis, dim in enumerate(dims):
            real = {reading.values()[name].shape[axis] for reading in readings}
            assert isinstance(dim, int) == (len(real) == 1) or axis == 0, name
    for key, parameter in found.parameters.items():
        counts = [reading.parameters[key].size for reading in readings]
        assert parameter.size <= min(counts)
        assert bool(parameter.open_axes) == (len(set(counts)) > 1)
    expected = ("N", "C", 32, 32) if transform else ("N", "C", "H", "W")
    assert tuple(dim if isinstance(dim, int) else dim.value for dim in found.inputs[0].shape) == expected
    assert any("--input-shape data=8x" in note for note in found.notes)


def test_a_net_whose_sizes_are_all_known_is_as_it_is_loaded(tmp_path: Path) -> None:
    path = write(tmp_path, transform="transform_param { crop_size: 32 force_color: true }")
    found = api.load_for_inspection(path)
    assert not found.notes
    assert known_shape(found.inputs[0])[1:] == (3, 32, 32)
    assert not any(parameter.open_axes for parameter in found.parameters.values())


def test_channels_are_those_that_the_weights_have(tmp_path: Path) -> None:
    scale = 'layer { name: "half" type: "Power" bottom: "data" top: "half" power_param { scale: 0.5 } }\n'
    begin = 'layer { name: "conv1"'
    data, rest = HEAD.format(transform=CROPPED, group=1).split(begin)
    path = tmp_path / "train_val.prototxt"
    path.write_text(data + scale + begin + rest.replace('bottom: "data"', 'bottom: "half"'))
    filters = [np.ones((12, 5, 3, 3), np.float32), np.zeros(12, np.float32)]
    weights = tmp_path / "net.caffemodel"
    weights.write_bytes(caffemodel([("conv1", "convolution", filters)], generation=2))
    found = api.load_for_inspection(f"{path},{weights}")
    assert known_shape(found.inputs[0])[1:] == (5, 32, 32)
    assert found.loaded


def test_a_net_that_takes_no_guess_is_shown_without_sizes(tmp_path: Path) -> None:
    """No choice of channels makes pool1 as large as the data that it is cut to."""
    tail = """
    layer { name: "cut" type: "Crop" bottom: "pool1" bottom: "data" top: "cut" crop_param { axis: 2 } }
    """
    graph = api.load_for_inspection(write(tmp_path, transform=CROPPED, tail=tail))
    assert "does not give all sizes of 'data'" in graph.notes[0]
    assert "--input-shape data=8xCx32x32" in graph.notes[0]
    assert graph.layers["cut"].type == "Crop"
    assert {value.shape for node in graph.nodes for value in node.outputs} == {None}


def test_what_is_wrong_besides_is_said(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match="there is no such file"):
        api.load_for_inspection(tmp_path / "gone.prototxt")
