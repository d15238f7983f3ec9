"""A convolution that goes back through its Relu against torch's own two: bits, and the memory it takes."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from netweave.runtime.backends.torch import TorchNet  # noqa: E402 - after the check for torch
from netweave.runtime.backends.torch.convolution import (  # noqa: E402
    conv,
    masked_conv,
    unmasked_relu,
)
from netweave.runtime.backends.torch.memory import record_allocations  # noqa: E402
from netweave.runtime.memory_plan import prepare, timeline  # noqa: E402
from tests.runtime.memory_plan.drawn import build  # noqa: E402

SETTINGS = [
    {"pads": (1, 1, 1, 1)},
    {"strides": (2, 1), "pads": (0, 2, 0, 2), "group": 2},
    {"dilations": (2, 2)},
    {},
]


def drawn(*shape, seed=0, dtype=torch.float32):
    made = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)
    return made.contiguous(memory_format=torch.channels_last) if len(shape) == 4 else made


def step(masked, settings, *, bias, dtype=torch.float32, mixed=False, special=0.0):
    """Return the output and all gradients of a Relu with a convolution behind it."""
    z = drawn(3, 4, 9, 8, dtype=dtype)
    z[1, 2, 3, 4] = special
    z.requires_grad_()
    w = drawn(6, 4 // settings.get("group", 1), 3, 3, seed=1, dtype=dtype).requires_grad_()
    b = drawn(6, seed=2, dtype=dtype).requires_grad_() if bias else None
    with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
        x = unmasked_relu(z * 1, in_place=True) if masked else torch.relu_(z * 1)
        y = (masked_conv if masked else conv)(x, w, b, **settings)
    y.backward(drawn(*y.shape, seed=3).to(y.dtype))
    return [y.detach(), z.grad, w.grad, *([] if b is None else [b.grad])]


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("form", [{}, {"dtype": torch.float64}, {"mixed": True}, {"special": float("nan")}])
def test_every_bit_is_torchs(settings, bias, form):
    own, expected = (step(masked, settings, bias=bias, **form) for masked in (True, False))
    for one, other in zip(own, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("trained", ["z", "w"])
def test_where_only_one_of_the_two_wants_a_gradient(trained):
    results = []
    for masked in (True, False):
        z, w = drawn(2, 4, 6, 6), drawn(6, 4, 3, 3, seed=1)
        (z if trained == "z" else w).requires_grad_()
        x = (unmasked_relu if masked else lambda x, in_place: torch.relu(x))(z, in_place=False)
        y = (masked_conv if masked else conv)(x, w)
        y.sum().backward()
        results.append((z.grad, w.grad))
    for own, expected in zip(*results, strict=True):
        assert (own is None) == (expected is None)
        assert own is None or torch.equal(own, expected)


def test_backward_needs_one_image_less():
    """Of input, gradient above and gradient below, each as large as the others, two are there at once."""
    graph = build([("relu", 0), ("conv", 0), ("max pool", 0)], batch=4)
    plan = prepare(graph, batch=4, training=True)
    assert [node.op_type for pair in plan.masked.items() for node in pair] == ["Conv", "Relu"]
    peaks = []
    for values in (None, set()):
        net = TorchNet(graph).train()
        net.recompute(plan, values)
        data = net.store.placed(drawn(4, 3, 24, 24))
        peaks.append(record_allocations(lambda n=net, d=data: n(data=d)["y"].sum().backward()).peak)
    image = 4 * 8 * 24 * 24 * 4
    assert peaks[0] - peaks[1] > image / 3  # the max pooling then needs the most
    assert timeline(plan, ()).peak < timeline(plan).peak
