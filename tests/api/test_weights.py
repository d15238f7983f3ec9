"""Weights written for Caffe and MXNet, and carried from a net to its port.

What MXNet 1.9.1 itself computes for both nets of ``examples/padding`` is in ``tests/golden/examples.json``.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import netweave
from examples.padding import demo, make_weights
from netweave import api
from netweave.errors import UsageError
from netweave.formats.mxnet.ndarray import read_arrays
from netweave.training import Checkpoint, write_checkpoint
from tests.oracles import golden, recipe

RECORDS = json.loads((Path(__file__).parents[1] / "golden" / "examples.json").read_text())
SHAPE = {"image": (1, 3, 32, 32)}


@pytest.fixture
def folder(tmp_path):
    """The example's nets; weights lie beside that for Caffe only."""
    for file in (demo.NET, demo.PORT):
        shutil.copy(file, tmp_path)
    make_weights.write(tmp_path)
    (tmp_path / "leaves-0000.params").rename(tmp_path / "made.params")
    demo.mend(tmp_path / demo.MENDED.name)
    return tmp_path


def test_weights_go_to_mxnet_and_back(folder):
    net = netweave.load(folder / "leaves.prototxt")
    port = netweave.load(folder / "mended-symbol.json", input_shapes=SHAPE)
    api.save_weights(api.transfer_weights(net, port), folder / "mended-0001.params")
    assert {name for name in read_arrays(folder / "mended-0001.params") if name.startswith("aux:")} == {
        "aux:norm_moving_mean",
        "aux:norm_moving_var",
    }
    taken = netweave.load(folder / "mended-symbol.json", folder / "mended-0001.params")
    data = recipe.image("data", (2, 3, 32, 32), 1.0)
    inputs = {taken.inputs[0].name: data} | {v.name: recipe.uniform("", (2,)) for v in taken.inputs[1:]}
    (output,) = netweave.run(taken, inputs).values()
    assert golden.difference(output, RECORDS["mended-symbol.json"]) < golden.TOLERANCE
    (folder / "leaves.caffemodel").unlink()
    back = api.transfer_weights(taken, netweave.load(folder / "leaves.prototxt"))
    api.save_weights(back, folder / "back.caffemodel")
    again = netweave.load(folder / "leaves.prototxt", folder / "back.caffemodel")
    (output,) = netweave.run(again, {again.inputs[0].name: data}).values()
    assert golden.difference(output, RECORDS["leaves.prototxt"]) < golden.TOLERANCE


@pytest.mark.parametrize("suffix", ["caffemodel", "caffemodel.h5"])
def test_weights_of_a_net_are_written_as_they_were(folder, suffix):
    if suffix.endswith("h5"):
        pytest.importorskip("h5py")
    net = netweave.load(folder / "leaves.prototxt")
    api.save_weights(net, folder / f"again.{suffix}")
    again = netweave.load(folder / "leaves.prototxt", folder / f"again.{suffix}")
    values = again.model.graph.initializers
    for name, value in net.model.graph.initializers.items():
        np.testing.assert_allclose(value.const_value.numpy(), values[name].const_value.numpy(), rtol=1e-6)


def test_a_checkpoint_is_weights(folder):
    net = netweave.load(folder / "leaves.prototxt")
    shapes = {key: parameter.shape for key, parameter in net.parameters.items()}
    arrays = {f"param:{key}": np.full(shape, 0.5, np.float32) for key, shape in shapes.items()}
    write_checkpoint(folder / "run_iter_5.checkpoint", Checkpoint({}, arrays))
    found = netweave.load(f"{folder}/leaves.prototxt,{folder}/run_iter_5.checkpoint")
    assert found.loaded
    assert all(np.all(v.const_value.numpy() == 0.5) for v in found.model.graph.initializers.values()
               if v.metadata_props.get("netweave.parameter"))  # fmt: skip


@pytest.mark.parametrize(
    ("net", "out", "message"),
    [
        ("leaves.prototxt", "x.params", "holds weights of mxnet nets, but leaves is a caffe net; name"),
        ("leaves.prototxt", "x.txt", r"unknown suffix for weights, expected .caffemodel, .caffemodel.h5,"),
        ("alone.prototxt", "x.caffemodel", "leaves: has no weights to write"),
    ],
)
def test_what_cannot_be_written(folder, net, out, message):
    shutil.copy(folder / "leaves.prototxt", folder / "alone.prototxt")
    with pytest.raises(UsageError, match=message):
        api.save_weights(netweave.load(folder / net), folder / out)
    assert not (folder / out).exists()


def test_a_port_that_is_another_net_gets_no_weights(folder):
    net = netweave.load(folder / "leaves.prototxt")
    port = netweave.load(folder / "leaves-symbol.json", input_shapes=SHAPE)
    with pytest.raises(
        UsageError,
        match=r"cannot be transferred to .*leaves-symbol.json: they differ first at pool1 / down1",
    ):
        api.transfer_weights(net, port)
    with pytest.raises(UsageError, match="leaves: has no weights that could be transferred to leaves"):
        api.transfer_weights(port, net)
