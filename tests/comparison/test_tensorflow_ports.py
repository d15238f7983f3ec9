"""Ports of models of Keras: equal under a mapping, and the mistakes that such ports have.

The models are Keras's own files (``tests/oracles/keras_nets.py``); the ports are PyTorch modules, or the same
net with one thing as another framework has it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

import netweave

pytest.importorskip("h5py")

FOLDER = Path(__file__).parent.parent / "golden" / "keras"


@pytest.fixture(scope="module")
def lenet():
    return netweave.load(FOLDER / "lenet.keras")


def arrays(graph):
    """Return the stored arrays in Keras's own layout, by layer and name."""
    from netweave.graph import parameter_key, parameter_layout
    from netweave.graph.parameters import undo_layout

    found = {}
    for value in graph.model.graph.initializers.values():
        key = parameter_key(value)
        if key is not None:
            shape = graph.parameters[key].shape
            found[key] = undo_layout(value.const_value.numpy(), parameter_layout(value), shape)
    return found


def ported_lenet(graph, *, reorder: bool):
    """Return LeNet as a PyTorch module, NCHW; its first dense layer knows the other order, or does not."""
    import torch
    from torch import nn

    stored = arrays(graph)
    net = nn.Sequential(
        nn.Conv2d(1, 4, 5, padding=2),
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.Conv2d(4, 6, 5),
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(150, 16),
        nn.Tanh(),
        nn.Linear(16, 10),
        nn.Softmax(-1),
    )
    names = [layer.name for layer in graph.layers.values() if layer.parameters]
    for name, module in zip(names, (net[0], net[3], net[7], net[9]), strict=True):
        kernel = stored[f"{name}/kernel"]
        if kernel.ndim == 4:
            kernel = kernel.transpose(3, 2, 0, 1)
        elif reorder and kernel.shape[0] == 150:
            kernel = kernel.reshape(5, 5, 6, 16).transpose(2, 0, 1, 3).reshape(150, 16).T
        else:
            kernel = kernel.T
        module.weight.data = torch.from_numpy(np.ascontiguousarray(kernel))
        module.bias.data = torch.from_numpy(stored[f"{name}/bias"].copy())
    return netweave.load(net.eval(), input_shapes={"input": (1, 1, 28, 28)})


def test_a_port_with_channels_first_is_equal_and_the_mapping_is_said(lenet):
    result = netweave.compare(lenet, ported_lenet(lenet, reorder=True))
    assert result.equal, str(result)
    assert "NHWC" in str(result) or "NCHW" in str(result)


def test_a_flatten_in_the_other_order_is_found(lenet):
    result = netweave.compare(lenet, ported_lenet(lenet, reorder=False))
    assert not result.equal
    assert "flatten" in str(result).lower(), str(result)


FORMS = {
    "unet.keras": ("unet.pb", "unet_saved_model", "unet.keras2.h5"),
    "words.keras": ("words_saved_model",),
    "sequences.keras": ("sequences.h5", "sequences.keras2.h5"),
}


UNROLLED = pytest.mark.findings_by_order(
    reason="a layer of the .keras file has a copy for each step of the SavedModel's loop: a latent finding "
    "is about the first step where the loop is B, and about the last one where it is A"
)


@pytest.mark.parametrize(
    ("model", "form"),
    [
        pytest.param(model, form, marks=UNROLLED if model == "words.keras" else ())
        for model, forms in FORMS.items()
        for form in forms
    ],
)
def test_the_forms_of_a_model_are_equal(model, form):
    """In a SavedModel a batch normalisation is arithmetic, and an LSTM a loop over time."""
    result = netweave.compare(netweave.load(FOLDER / model), netweave.load(FOLDER / form))
    assert result.equal, result.sentence


def test_the_hard_sigmoid_of_another_keras_is_found():
    """Keras 3 changed its slope from 0.2 to 1/6: the same model is another net."""
    result = netweave.compare(
        netweave.load(FOLDER / "words.keras"), netweave.load(FOLDER / "words.keras2.h5")
    )
    assert [finding.mismatch for finding in result.findings] == ["lstm-activation_alpha"]
    assert "0.1666" in result.findings[0].cause


def changed(graph, op_type, change, which=0):
    """Return a copy of a net with one node changed."""
    copy = graph.clone()
    change([node for node in copy.nodes if node.op_type == op_type][which])
    return copy


def same_on_both_sides(node):
    """Pad as ``padding=1`` does: one element at the begin and one at the end."""
    assert node.attributes.pop("auto_pad").as_string() == "SAME_UPPER"
    node.attributes["pads"] = ir.AttrInt64s("pads", [1, 1, 1, 1])


def other_eps(node):
    node.attributes["epsilon"] = ir.AttrFloat32("epsilon", 1e-1)


def other_corners(node):
    name = "coordinate_transformation_mode"
    assert node.attributes[name].as_string() == "half_pixel"
    node.attributes[name] = ir.AttrString(name, "align_corners")


def other_pixels(node):
    name = "coordinate_transformation_mode"
    node.attributes[name] = ir.AttrString(name, "asymmetric")


FAULTS = {
    "SAME padding by one on each side": ("Conv", same_on_both_sides, 3, "padding"),
    "eps of another framework": ("BatchNormalization", other_eps, 1, "epsilon"),
    "align_corners": ("Resize", other_corners, 0, "resize-coordinate_transformation_mode"),
    "pixels without centres": ("Resize", other_pixels, 0, "resize-coordinate_transformation_mode"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_mistake_in_a_port_is_found_and_explained(fault):
    op_type, change, which, mismatch = FAULTS[fault]
    right = netweave.load(FOLDER / "convolutions.keras")
    result = netweave.compare(right, changed(right, op_type, change, which))
    assert [finding.mismatch for finding in result.findings] == [mismatch]
    assert result.findings[0].error_fixed <= 1e-4 < result.findings[0].error


def gates_in_order(order):
    def change(node):
        for index in (1, 2):
            stored = node.inputs[index]
            blocks = np.split(stored.const_value.numpy(), 4, axis=1)
            stored.const_value = ir.Tensor(np.concatenate([blocks[gate] for gate in order], axis=1))

    return change


def test_gates_in_another_order_are_found():
    """The order of TensorFlow 1's cells, i, c, f, o, taken for Keras's, i, f, c, o."""
    right = netweave.load(FOLDER / "words.keras")
    result = netweave.compare(right, changed(right, "LSTM", gates_in_order((0, 1, 3, 2))))
    assert [finding.mismatch for finding in result.findings] == ["gate-order"]
    assert "B has A's i, o, c, f" in result.findings[0].cause
