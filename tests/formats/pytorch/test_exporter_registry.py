"""The exporter's tables of operators, made once: those of PyTorch, which gets its own back."""

from __future__ import annotations

import gc
import operator

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
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


def test_the_shared_table_is_that_of_pytorch_but_for_the_division_of_sizes():
    own = ONNXRegistry.from_torchlib(opset_version=22)
    with exporting.shared_tables():
        shared = ONNXRegistry().from_torchlib(opset_version=22)
    ours, theirs = listed(shared), listed(own)
    assert ours.pop(operator.floordiv) != theirs.pop(operator.floordiv)
    assert ours == theirs
    assert theirs


class Same(nn.Module):
    """Pads as TensorFlow does, with sizes rounded up by two negations."""

    def forward(self, x):
        total = (-(-x.shape[2] // 2) - 1) * 2 + 3 - x.shape[2]
        return nn.functional.pad(x, (0, 0, total // 2, total - total // 2))


def test_sizes_are_divided_downwards_as_in_python(tmp_path):
    sizes = {"x": {2: torch.export.Dim("H", min=4, max=64)}}
    program = torch.export.export(Same(), (torch.zeros(3, 2, 9, 4),), dynamic_shapes=sizes)
    module.write(program, tmp_path / "same.onnx")
    graph = netweave.load(tmp_path / "same.onnx")
    for length in (6, 7, 12, 33):
        x = np.random.default_rng(0).normal(size=(3, 2, length, 4)).astype(np.float32)
        (y,) = netweave.run(graph, {"x": x}).values()
        np.testing.assert_array_equal(y, Same()(torch.from_numpy(x)).numpy())


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
