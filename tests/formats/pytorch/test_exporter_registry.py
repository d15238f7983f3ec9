"""The exporter's table of operators, built once: that of PyTorch, which gets its own back."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from torch import nn
from torch.onnx._internal.exporter._registration import ONNXRegistry

import netweave
from netweave.formats.pytorch import exporting


def listed(registry):
    return {
        target: [(each.onnx_function, each.is_complex, str(each.signature)) for each in functions]
        for target, functions in registry.functions.items()
    }


def test_the_shared_table_is_that_of_pytorch():
    own = ONNXRegistry.from_torchlib(opset_version=22)
    with exporting.shared_registry():
        shared = ONNXRegistry().from_torchlib(opset_version=22)
    assert listed(shared) == listed(own)
    assert listed(own)


def test_a_read_module_builds_no_second_table_and_leaves_pytorch_its_own():
    own = ONNXRegistry.from_torchlib
    netweave.load(nn.ReLU(), input_shapes={"input": (1, 3)})
    built = exporting._registry.cache_info().misses
    netweave.load(nn.Tanh(), input_shapes={"input": (1, 3)})
    assert exporting._registry.cache_info().misses == built
    assert ONNXRegistry.from_torchlib == own
