"""Convolutions with a window of one against torch's own, values and gradients."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional  # noqa: E402 - after the check for torch

from netweave.graph import GraphBuilder, Parameter  # noqa: E402
from netweave.runtime.backends.torch import TorchNet  # noqa: E402
from netweave.runtime.backends.torch.convolution import conv, conv_transpose  # noqa: E402
from netweave.runtime.backends.torch.elementwise import every, is_pointwise, pointwise  # noqa: E402

PLAIN = {"strides": [1, 1], "padding": [0, 0], "group": 1}
STRIDES = [(1, 1), (2, 2), (3, 1), (1, 2)]


def drawn(*shape, seed=0, dtype=torch.float64):
    made = torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))
    made = made.contiguous(memory_format=torch.channels_last) if len(shape) == 4 else made
    return made.requires_grad_()


def leaves(shape=(2, 3, 5, 4), *, bias=True, dtype=torch.float64):
    given = [drawn(*shape, dtype=dtype), drawn(6, shape[1], 1, 1, seed=1, dtype=dtype)]
    return [*given, drawn(6, seed=2, dtype=dtype) if bias else None]


@pytest.mark.parametrize("bias", [True, False])
def test_gradients_of_both_orders(bias):
    """By finite differences."""
    x, w, b = leaves(bias=bias)
    given = (x, w, b) if bias else (x, w)
    assert torch.autograd.gradcheck(lambda x, w, b=None: pointwise(x, w, b), given)
    assert torch.autograd.gradgradcheck(lambda x, w, b=None: pointwise(x, w, b).square(), given)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(2, 3, 5, 4), (1, 3, 1, 1), (2, 1, 7, 7), (1, 8, 3, 3), (0, 3, 5, 4)])
def test_values_and_gradients_are_torchs(shape, bias):
    found = []
    for function in (conv, functional.conv2d):
        x, w, b = leaves(shape, bias=bias)
        assert is_pointwise(x, w, **PLAIN)
        y = torch.relu_(function(x, w, b))  # as the net has it: written over what the convolution gave
        y.backward(drawn(*y.shape, seed=3).detach().contiguous())
        assert function is functional.conv2d or y.is_contiguous(memory_format=torch.channels_last)
        found.append([y.detach(), x.grad, w.grad, *([] if b is None else [b.grad])])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("memory_format", [torch.channels_last, torch.contiguous_format])
@pytest.mark.parametrize("strides", STRIDES)
def test_every_so_many_pixels(strides, memory_format):
    x = drawn(2, 3, 5, 4).detach().contiguous(memory_format=memory_format).requires_grad_()
    y = every(x, strides)
    assert torch.equal(y, x[:, :, :: strides[0], :: strides[1]])
    assert y.is_contiguous(memory_format=memory_format)
    assert torch.autograd.gradcheck(lambda x: every(x, strides), x)
    assert torch.autograd.gradgradcheck(lambda x: every(x, strides).square(), x)


def siblings(*, strides, kernel=1, pads=0, group=1):
    """Return a net of two convolutions that read the same image."""
    builder = GraphBuilder("siblings", format="onnx")
    x = builder.add("Relu", [builder.input("data", (2, 4, 5, 6))])
    arrays = [drawn(6, 4 // group, kernel, kernel, seed=n).detach().float().numpy() for n in range(2)]
    attributes = {"strides": strides, "pads": [pads] * 4, "group": group}
    branches = [
        builder.add("Conv", [x, builder.parameter(Parameter(f"w{n}", array.shape), array)], attributes)
        for n, array in enumerate(arrays)
    ]
    return builder.finish([builder.add("Sum", branches, outputs="y")]), arrays


@pytest.mark.parametrize(
    ("settings", "shared"),
    [
        ({"strides": [2, 2]}, 1),
        ({"strides": [3, 1], "group": 2}, 1),
        ({"strides": [1, 1]}, 0),
        ({"strides": [2, 2], "pads": 1}, 0),
        ({"strides": [2, 2], "kernel": 3}, 0),
    ],
)
def test_convolutions_with_a_stride_share_their_pixels(settings, shared):
    graph, arrays = siblings(**settings)
    net = TorchNet(graph).to(torch.float64).train()
    assert [node.target for node in net.module.graph.nodes].count(every) == shared
    data = drawn(2, 4, 5, 6)
    net(data=data)["y"].square().sum().backward()
    own = data.detach().clone().requires_grad_()
    given = {"stride": settings["strides"], "padding": settings.get("pads", 0)}
    weights = [torch.from_numpy(array).double().requires_grad_() for array in arrays]
    parts = [functional.conv2d(own.relu(), w, groups=settings.get("group", 1), **given) for w in weights]
    sum(parts).square().sum().backward()
    torch.testing.assert_close(data.grad, own.grad, rtol=1e-12, atol=1e-12)
    for number, weight in enumerate(weights):
        torch.testing.assert_close(net.grads[f"w{number}"], weight.grad, rtol=1e-12, atol=1e-12)


def test_what_needs_no_gradient_has_none():
    for frozen in range(3):
        given = leaves()
        given[frozen] = given[frozen].detach()
        pointwise(*given).sum().backward()
        assert [leaf.grad is None for leaf in given] == [number == frozen for number in range(3)]


def test_what_is_no_product_of_matrices_is_left_to_torch():
    x, w, _ = leaves()
    assert is_pointwise(x, w, **PLAIN)
    for other in ({"padding": [1, 0]}, {"strides": [1, 2]}, {"group": 3}):
        assert not is_pointwise(x, w, **(PLAIN | other))
    assert not is_pointwise(x, drawn(6, 3, 1, 2), **PLAIN)
    assert not is_pointwise(drawn(2, 3, 5), drawn(6, 3, 1), **PLAIN)
    assert not is_pointwise(x.detach().contiguous(), w, **PLAIN)
    assert not is_pointwise(x, w.float(), **PLAIN)


@pytest.mark.parametrize("function", [conv, conv_transpose])
@pytest.mark.parametrize("kernel", [1, 3])
def test_autocast_has_its_way(function, kernel):
    """``precision: bf16`` is what computes convolutions in bfloat16."""
    x, w = drawn(2, 3, 5, 5, dtype=torch.float32), drawn(3, 3, kernel, kernel, dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        assert function(x, w).dtype == torch.bfloat16


def test_images_in_the_other_order_of_memory_give_the_same():
    x, w, b = leaves()
    torch.testing.assert_close(conv(x.detach().contiguous(), w, b), conv(x, w, b), rtol=1e-12, atol=1e-12)
