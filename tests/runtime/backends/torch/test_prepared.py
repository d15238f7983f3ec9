"""Graphs prepared on torch: which stored arrays half precision rounds ahead, and the threads of a run."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from netweave.graph import GraphBuilder, Parameter  # noqa: E402
from netweave.runtime.backends.runner import Purpose, RunSettings  # noqa: E402
from netweave.runtime.backends.torch import TorchNet  # noqa: E402 - after the check for torch
from netweave.runtime.backends.torch.device import computing_with  # noqa: E402
from netweave.runtime.backends.torch.net import PreparedTorchNet, round_weights  # noqa: E402


def net(*, shared):
    """x @ w + b, where w is also added to x if it is shared."""
    builder = GraphBuilder("net", format="onnx")
    x = builder.input("x", (3, 3), batch=False)
    w = builder.parameter(Parameter("w", (3, 3)), np.full((3, 3), 1 + 2**-10, np.float32))
    b = builder.parameter(Parameter("b", (3,), "bias"), np.full(3, 1 + 2**-10, np.float32))
    y = builder.add("Add", [builder.add("MatMul", [x, w]), b])
    return builder.finish([builder.add("Add", [y, w], outputs="y") if shared else y])


@pytest.mark.parametrize(("shared", "dtype"), [(False, torch.bfloat16), (True, torch.float32)])
def test_only_what_products_alone_read_is_rounded(shared, dtype):
    lowered = TorchNet(net(shared=shared)).eval()
    round_weights(lowered.module, torch.bfloat16)
    stored = dict(lowered.module.named_parameters())
    assert stored["w"].dtype is dtype
    assert stored["b"].dtype is torch.float32  # a sum reads it, which autocast leaves in float32
    assert stored["b"][0].item() == 1 + 2**-10


def test_outputs_keep_their_types_in_half_precision(monkeypatch):
    monkeypatch.setattr("netweave.runtime.backends.torch.net.check_bfloat16", lambda device: None)
    graph = net(shared=False)
    found = PreparedTorchNet(graph, [], RunSettings(Purpose.INFERENCE, "bf16")).run({"x": np.eye(3)})
    (array,) = found.values()
    assert array.dtype == np.float32
    # w rounds to 1, b stays: the diagonal of the identity picks one weight
    np.testing.assert_allclose(array, np.full((3, 3), 2 + 2**-10), rtol=2**-8)


def test_threads_are_those_of_the_calling_thread():
    before = torch.get_num_threads()
    with computing_with(before + 1):
        assert torch.get_num_threads() == before + 1
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(torch.get_num_threads).result() == before
    assert torch.get_num_threads() == before
