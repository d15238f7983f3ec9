"""The exporter's tables of operators, made once: those of PyTorch, which gets its own back."""

from __future__ import annotations

import gc

import pytest

pytest.importorskip("torch")

from torch import nn
from torch._export import utils
from torch.onnx._internal.exporter._registration import ONNXRegistry

import netweave
from netweave.formats.pytorch import exporting, module


def listed(registry):
    return {
        target: [(each.onnx_function, each.is_complex, str(each.signature)) for each in functions]
        for target, functions in registry.functions.items()
    }


def test_the_shared_table_is_that_of_pytorch():
    own = ONNXRegistry.from_torchlib(opset_version=22)
    with exporting.shared_tables():
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


@pytest.mark.skipif(not hasattr(utils, "_materialize_cpp_cia_ops"), reason="PyTorch lists them otherwise")
def test_composite_operators_are_listed_once_for_each_export(monkeypatch):
    calls = []
    listed = utils._materialize_cpp_cia_ops
    monkeypatch.setattr(utils, "_materialize_cpp_cia_ops", lambda: calls.append(listed()))
    counting = utils._materialize_cpp_cia_ops
    for each in (nn.ReLU(), nn.Tanh()):
        netweave.load(each, input_shapes={"input": (1, 3)})
    assert len(calls) == 2
    assert utils._materialize_cpp_cia_ops is counting


def test_no_search_for_cycles_while_a_module_is_read(monkeypatch):
    states = []
    write = module.write
    monkeypatch.setattr(module, "write", lambda *given: (states.append(gc.isenabled()), write(*given)))
    netweave.load(nn.ReLU(), input_shapes={"input": (1, 3)})
    assert states == [False]
    assert gc.isenabled()
