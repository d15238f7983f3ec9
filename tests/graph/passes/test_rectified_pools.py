"""Pooling before rectifying gives the same values and gradients, and is not done where it would not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netweave.graph import DOMAIN, GraphBuilder, Parameter
from netweave.graph.passes.windows import rectified_pools

torch = pytest.importorskip("torch")

from netweave.runtime.backends.torch import TorchNet  # noqa: E402 - after the check for torch

SIZE, CHANNELS = 9, 4
PLAIN = {"kernel_shape": [2, 2], "strides": [2, 2]}


def net(attributes, *, domain="", readers=1, size=SIZE):
    """Return a convolution, a Relu and a max pooling; the Relu may have a second reader."""
    builder = GraphBuilder("pooled", format="onnx")
    filters = np.random.default_rng(0).normal(size=(CHANNELS, 3, 3, 3)).astype(np.float32)
    w = builder.parameter(Parameter("w", filters.shape), filters)
    data = builder.input("data", (2, 3, size, size))
    y = builder.add("Conv", [data, w], {"kernel_shape": [3, 3], "pads": [1] * 4})
    relu = builder.add("Relu", [y], outputs="relu")
    pooled = builder.add("MaxPool", [relu], attributes, domain=domain, outputs="pooled")
    outputs = [pooled, *[builder.add("Sigmoid", [relu]) for _ in range(readers - 1)]]
    return builder.finish(outputs)


def step(graph, taps=()):
    """Run forward and backward; return the pooled value and the gradient of the filters."""
    runner = TorchNet(graph, taps=taps).train()
    # whole numbers: many windows have several maxima, and many none above zero
    data = torch.randint(-2, 3, (2, 3, SIZE, SIZE), generator=torch.Generator().manual_seed(1)).float()
    pooled = runner(data=data)["pooled"]
    pooled.backward(torch.linspace(-1, 1, pooled.numel()).reshape(pooled.shape))
    return pooled.detach(), runner.grads["w"]


SIDES = st.integers(1, 3)


@settings(max_examples=60, deadline=None)
@given(kernel=SIDES, stride=SIDES, pad=st.integers(0, 1), rounding=st.sampled_from(["floor", "ceil"]))
def test_both_orders_end_in_the_same_bits(kernel, stride, pad, rounding):
    pads = [min(pad, kernel // 2)] * 4
    attributes = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": pads}
    graph = net(attributes | {"ceil_mode": int(rounding == "ceil")})
    if rounding == "floor":
        assert rectified_pools(graph, ())
    for own, expected in zip(step(graph), step(graph, taps=["relu"]), strict=True):
        assert torch.equal(own, expected)


def test_a_value_that_is_wanted_or_read_elsewhere_is_rectified_first():
    graph = net(PLAIN)
    (relu,) = graph.find(["relu"]).values()
    assert [pool.op_type for pool in rectified_pools(graph, ())] == ["MaxPool"]
    assert not rectified_pools(graph, [relu])
    assert not rectified_pools(net(PLAIN, readers=2), ())


@pytest.mark.parametrize(
    ("attributes", "domain"),
    [
        ({"kernel_shape": [1, 1], "strides": [3, 3], "pads": [1, 1, 1, 1]}, ""),  # a corner of padding
        ({"kernel_shape": [2, 2], "dilations": [3, 3], "pads": [2] * 4}, ""),
        ({"kernel_shape": [1, 1], "strides": [5, 5], "rounding": "full"}, DOMAIN),
    ],
)
def test_where_a_window_may_be_empty_the_order_stays(attributes, domain):
    """An empty window gives the lowest number, which rectified would be zero."""
    assert not rectified_pools(net(attributes, domain=domain), ())


def test_where_the_size_is_not_known_the_order_stays():
    assert not rectified_pools(net(PLAIN, size="size"), ())
