"""What Caffe's solvers write, read again by our readers, which others' files have proven."""

from __future__ import annotations

import numpy as np
import pytest

from netweave.errors import ReadError, WeightError
from netweave.formats.caffe import parameters
from netweave.formats.caffe.parameters import SolverState
from tests.formats.caffe.nets import inputs, layer, load, normal, stored

NET = inputs(x=(2, 3, 4, 4)) + (
    'layer { name: "a/conv" type: "Convolution" bottom: "x" top: "c" param { name: "w" } '
    'convolution_param { num_output: 3 kernel_size: 3 pad: 1 weight_filler { type: "xavier" } } }\n'
    'layer { name: "relu" type: "ReLU" bottom: "c" top: "c" }\n'
    'layer { name: "again" type: "Convolution" bottom: "c" top: "d" param { name: "w" } '
    "convolution_param { num_output: 3 kernel_size: 3 pad: 1 bias_term: false } }\n"
    + layer("BatchNorm", bottoms="d", tops="e")
    + layer("Pooling", "pooling_param { pool: AVE kernel_size: 2 round_mode: FLOOR }", bottoms="e", tops="f")
)
ARRAYS = {
    "a/conv/0": normal(3, 3, 3, 3),
    "a/conv/1": normal(3, seed=1),
    "BatchNorm/0": normal(3, seed=2),
    "BatchNorm/1": np.abs(normal(3, seed=3)),
    "BatchNorm/2": np.float32([2.5]),
}


@pytest.mark.parametrize(
    ("suffix", "encode"),
    [("caffemodel", parameters.encode_net), ("caffemodel.h5", parameters.encode_net_hdf5)],
)
def test_a_written_net_has_the_arrays(tmp_path, suffix, encode):
    if suffix.endswith("h5"):
        pytest.importorskip("h5py")
    graph = load(tmp_path, NET)
    path = tmp_path / f"out.{suffix}"
    path.write_bytes(encode(graph, ARRAYS))
    read = load(tmp_path, NET, weights=path)
    assert read.loaded
    for key, array in stored(read).items():
        np.testing.assert_allclose(array, ARRAYS[key], rtol=1e-6)
    for key, array in parameters.fitting_arrays(path, graph).items():
        np.testing.assert_allclose(array, ARRAYS[key], rtol=1e-6)


def test_a_written_net_is_the_net_itself(tmp_path):
    graph = load(tmp_path, NET)
    path = tmp_path / "net.caffemodel"
    path.write_bytes(parameters.encode_net(graph, ARRAYS))
    alone = snapshot_graph(path)
    assert [(row.name, row.type, row.inputs, row.outputs, row.settings) for row in alone.layers.values()] == [
        (row.name, row.type, row.inputs, row.outputs, row.settings) for row in graph.layers.values()
    ]


def snapshot_graph(path):
    from netweave.files import Source
    from netweave.formats.caffe.reader import read

    return read(Source(path))


@pytest.mark.parametrize(
    ("suffix", "encode"),
    [("solverstate", parameters.encode_state), ("solverstate.h5", parameters.encode_state_hdf5)],
)
def test_states_round_trip(tmp_path, suffix, encode):
    if suffix.endswith("h5"):
        pytest.importorskip("h5py")
    state = SolverState(70_000, "net.caffemodel", (normal(2, 3), normal(3)), 2)
    path = tmp_path / f"a.{suffix}"
    path.write_bytes(encode(state))
    found = parameters.read_state(path)
    assert (found.iteration, found.learned_net, found.current_step) == (70_000, "net.caffemodel", 2)
    for array, expected in zip(found.history, state.history, strict=True):
        np.testing.assert_array_equal(array, expected)


def test_what_is_no_state_is_refused(tmp_path):
    path = tmp_path / "a.solverstate"
    path.write_bytes(b"\x08\x01")
    with pytest.raises(ReadError, match="is not a solver state"):
        parameters.read_state(path)


def test_arrays_that_do_not_fit_are_all_named(tmp_path):
    path = tmp_path / "out.caffemodel"
    path.write_bytes(parameters.encode_net(load(tmp_path, NET), ARRAYS))
    other = load(tmp_path, NET.replace("kernel_size: 3 pad: 1", "kernel_size: 5 pad: 2"))
    with pytest.raises(WeightError, match="a/conv/0 is 3x3x5x5 in the net, 3x3x3x3 in the file"):
        parameters.fitting_arrays(path, other)


def test_caffes_order_of_parameters(tmp_path):
    keys = ["a/conv/0", "a/conv/1", "BatchNorm/0", "BatchNorm/1", "BatchNorm/2"]
    assert parameters.parameter_order(load(tmp_path, NET)) == keys
