"""Kernels of matrix products: candidates against float64, and choices by trials whose clock is the test's."""

from __future__ import annotations

import json
from itertools import count

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional  # noqa: E402 - after the check for torch

from netweave.files.reading_cache import cache_folder  # noqa: E402
from netweave.graph import GraphBuilder, Parameter  # noqa: E402
from netweave.runtime.backends import Purpose, RunSettings, trials  # noqa: E402
from netweave.runtime.backends.torch import TorchNet, kernels, prepare  # noqa: E402
from netweave.runtime.backends.torch.elementwise import pointwise  # noqa: E402
from netweave.runtime.backends.torch.kernels import ATEN, ONEDNN, PACKED, PLAIN, TriedKernels  # noqa: E402

pytestmark = pytest.mark.skipif(not kernels._has_onednn(), reason="this torch has no oneDNN")


@pytest.fixture(autouse=True)
def small_products_count(monkeypatch):
    monkeypatch.setattr(kernels, "MIN_MULTIPLY_ADDS", 1)


class Always(TriedKernels):
    """Kernels of one kind, without a trial."""

    def __init__(self, name, **rest):
        super().__init__(**rest)
        self.name = name

    def _choose(self, question, *rest):
        return self.choices.setdefault(question, self.name)


class Clock:
    """A clock that goes on only while a candidate is called, by so many seconds for each of its calls."""

    def __init__(self, monkeypatch, **seconds):
        self.now, self.calls, call = 0.0, [], TriedKernels._call

        def counted(tried, name, *matrices):
            self.calls.append(name)
            self.now += seconds[name.split(",")[-1].split()[0]]
            return call(tried, name, *matrices)

        monkeypatch.setattr(TriedKernels, "_call", counted)

    def __call__(self):
        return self.now


def drawn(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def error(one, right):
    return float((one.double() - right).norm() / right.norm())


def leaves(*tensors):
    return [None if one is None else one.detach().requires_grad_() for one in tensors]


@pytest.mark.parametrize("name", [ATEN, ONEDNN])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("transposed", [True, False])
@pytest.mark.parametrize("lead", [(7,), (3, 5), (0,), (1,)])
def test_dense_layers_and_their_gradients(name, bias, transposed, lead):
    x, w, b = drawn(*lead, 12), drawn(12, 9, seed=1), drawn(9, seed=2) if bias else None
    w = w.t() if transposed else w.t().contiguous()
    above, found = drawn(*lead, 9, seed=3), []
    for linear in (Always(name).linear, functional.linear):
        wide = (lambda one: one) if len(found) == 0 else torch.Tensor.double
        given = leaves(*(None if one is None else wide(one) for one in (x, w, b)))
        y = torch.relu_(linear(*given))
        y.backward(wide(above))
        found.append([y.detach(), *(one.grad for one in given if one is not None)])
        assert given[1].grad.stride() == given[1].stride()
    for one, right in zip(*found, strict=True):
        assert one.shape == right.shape
        torch.testing.assert_close(one.double(), right, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", [ATEN, ONEDNN])
@pytest.mark.parametrize(
    "shapes", [((4, 6, 5), (4, 5, 7)), ((2, 3, 6, 5), (2, 3, 5, 7)), ((3, 6, 5), (5, 7))]
)
def test_products_and_their_gradients(name, shapes):
    a, b, found = drawn(*shapes[0]), drawn(*shapes[1], seed=1), []
    for wide in (False, True):
        given = leaves(*((one.double() if wide else one) for one in (a, b)))
        y = (PLAIN if wide else Always(name)).matmul(*given)
        y.square().sum().backward()
        found.append([y.detach(), *(one.grad for one in given)])
    for one, right in zip(*found, strict=True):
        torch.testing.assert_close(one.double(), right, rtol=1e-5, atol=1e-4)


def test_matrices_with_gaps_between_their_rows():
    """Heads of an attention, of which oneDNN has only a reference kernel."""
    heads = drawn(16, 4, 8).transpose(0, 1)
    a, b = heads, drawn(16, 4, 8, seed=1).transpose(0, 1).mT
    assert error(Always(ONEDNN).matmul(a, b), a.double() @ b.double()) < 1e-6
    kept = []
    original = torch.ops.mkldnn._linear_pointwise

    class Seen:
        def __call__(self, a, w, *rest):
            kept.append(w)
            return original(a, w, *rest)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(torch.ops.mkldnn, "_linear_pointwise", Seen())
        Always(ONEDNN).matmul(a, b)
    assert len(kept) == 4
    assert all(one.is_contiguous() or one.t().is_contiguous() for one in kept)


@pytest.mark.parametrize("bias", [True, False])
def test_pointwise_convolutions(bias):
    x = drawn(2, 5, 4, 3).contiguous(memory_format=torch.channels_last)
    w, b, found = drawn(6, 5, 1, 1, seed=1), drawn(6, seed=2) if bias else None, []
    for convolve in (lambda x, w, b: pointwise(x, w, b, Always(ONEDNN)), functional.conv2d):
        given = leaves(*(one if one is None or not found else one.double() for one in (x, w, b)))
        y = torch.relu_(convolve(*given))
        y.square().sum().backward()
        found.append([y.detach(), *(one.grad for one in given if one is not None)])
    for one, right in zip(*found, strict=True):
        torch.testing.assert_close(one.double(), right, rtol=1e-5, atol=1e-4)


def test_gradients_of_gradients_are_torchs():
    x, w = leaves(drawn(3, 4), drawn(5, 4, seed=1))
    found = []
    for linear in (Always(ONEDNN).linear, functional.linear):
        (of_x,) = torch.autograd.grad(linear(x, w).square().sum(), x, create_graph=True)
        found.append(torch.autograd.grad(of_x.square().sum(), [x, w]))
    for one, right in zip(*found, strict=True):
        torch.testing.assert_close(one, right, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("onednn_s", "chosen"), [(0.5, ONEDNN), (0.95, ATEN), (1.5, ATEN)])
def test_a_trial_takes_what_is_faster_by_more_than_noise(monkeypatch, onednn_s, chosen):
    tried = TriedKernels(clock=Clock(monkeypatch, aten=1.0, oneDNN=onednn_s))
    tried.linear(drawn(4, 6), drawn(5, 6))
    assert list(tried.choices.values()) == [chosen]


def test_hopeless_candidates_are_called_once(monkeypatch):
    clock = Clock(monkeypatch, aten=0.01, oneDNN=60.0)
    TriedKernels(clock=clock).linear(drawn(4, 6), drawn(5, 6))
    assert clock.calls.count(ONEDNN) == 1


def test_torchs_own_kernel_remains_however_slow_its_next_call_is(monkeypatch):
    """On a busy machine the first call can be over before another process takes the processor."""
    clock, call = Clock(monkeypatch, aten=0.01, oneDNN=60.0), TriedKernels._call

    def slower(tried, name, *matrices):
        if name == ATEN and clock.calls:
            clock.now += 1.0
        return call(tried, name, *matrices)

    monkeypatch.setattr(TriedKernels, "_call", slower)
    tried = TriedKernels(clock=clock)
    tried.linear(drawn(4, 6), drawn(5, 6))
    assert list(tried.choices.values()) == [ATEN]


def test_candidates_that_fail_or_compute_something_else_are_left_out(monkeypatch):
    def fails(a, w, bias):
        raise RuntimeError("could not create a primitive")

    for wrong in (fails, lambda a, w, bias: a @ w.t() * 1.001):
        monkeypatch.setattr(kernels, "_onednn", wrong)
        tried = TriedKernels(clock=count().__next__)
        x, w = drawn(4, 6), drawn(len(tried.choices) + (5 if wrong is fails else 7), 6)
        assert torch.equal(tried.linear(x, w), functional.linear(x, w))
        assert list(tried.choices.values()) == [ATEN]


def test_choices_are_remembered_by_processor_and_version(monkeypatch):
    clock = Clock(monkeypatch, aten=1.0, oneDNN=0.5)
    TriedKernels(clock=clock).linear(drawn(4, 6), drawn(5, 6))
    (rows,) = json.loads((cache_folder() / trials.FILE).read_text()).values()
    (question,) = rows
    assert torch.__version__ in question
    assert "threads" in question
    clock.calls.clear()
    again = TriedKernels(clock=clock)
    again.linear(drawn(4, 6), drawn(5, 6))
    assert clock.calls == [ONEDNN]
    monkeypatch.setattr(torch, "__version__", "99")
    TriedKernels(clock=clock).linear(drawn(4, 6), drawn(5, 6))
    assert clock.calls.count(ATEN) > 1


@pytest.mark.parametrize("content", ["no JSON", "[1]", '{"here": 1}', None])
def test_a_damaged_or_unwritable_memory_only_costs_a_trial(monkeypatch, content):
    if content is None:
        cache_folder().parent.mkdir(parents=True, exist_ok=True)
        cache_folder().write_text("a file where the folder would be")
    else:
        cache_folder().mkdir(parents=True)
        (cache_folder() / trials.FILE).write_text(content)
    tried = TriedKernels(clock=Clock(monkeypatch, aten=1.0, oneDNN=0.5))
    tried.linear(drawn(4, 6), drawn(5, 6))
    assert list(tried.choices.values()) == [ONEDNN]


def test_recorded_choices_come_before_trials_and_memory(monkeypatch):
    clock = Clock(monkeypatch, aten=1.0, oneDNN=0.5)
    first = TriedKernels(clock=clock)
    first.linear(drawn(4, 6), drawn(5, 6))
    recorded = dict.fromkeys(first.choices, ATEN)
    clock.calls.clear()
    x, w = drawn(4, 6), drawn(5, 6)
    assert torch.equal(TriedKernels(recorded, clock=clock).linear(x, w), functional.linear(x, w))
    assert clock.calls == [ATEN]


def test_sizes_that_change_forever_are_torchs_at_last(monkeypatch):
    monkeypatch.setattr(kernels, "MAX_TRIALS", 3)
    tried = TriedKernels(clock=Clock(monkeypatch, aten=1.0, oneDNN=0.5))
    for rows in range(1, 9):
        tried.linear(drawn(rows, 6), drawn(5, 6))
    assert len(tried.choices) == 3


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_types_are_torchs(dtype):
    tried = TriedKernels()
    x, w = drawn(4, 6).to(dtype), drawn(5, 6).to(dtype)
    assert torch.equal(tried.linear(x, w), functional.linear(x, w))
    assert not tried.choices


def test_a_bias_of_one_element_is_torchs():
    """ONNX's Gemm spreads it over all outputs; oneDNN would read past its end."""
    tried, (x, w, b) = TriedKernels(), leaves(drawn(4, 6), drawn(5, 6), drawn(1))
    y = tried.linear(x, w, b)
    y.sum().backward()
    assert torch.equal(y, functional.linear(x, w, b))
    assert b.grad.shape == (1,)
    assert not tried.choices


def test_deterministic_algorithms_and_autocast_are_torchs():
    tried, x, w = TriedKernels(), drawn(4, 6), drawn(5, 6)
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.equal(tried.linear(x, w), functional.linear(x, w))
    finally:
        torch.use_deterministic_algorithms(False)
    with torch.autocast("cpu", torch.bfloat16):
        assert tried.linear(x, w).dtype == torch.bfloat16
    assert not tried.choices


def dense_net():
    """Return a dense layer as a graph, and its weights."""
    builder, weights = GraphBuilder("net", format="onnx"), drawn(6, 5).numpy()
    x = builder.input("x", (4, 6), batch=False)
    w = builder.parameter(Parameter("w", (6, 5)), weights)
    return builder.finish([builder.add("MatMul", [x, w], outputs="y")]), weights


def test_inference_packs_weights_once_and_tapping_stays_with_torchs_kernels(monkeypatch):
    graph, weights = dense_net()
    clock = Clock(monkeypatch, aten=1.0, oneDNN=0.5, packed=0.1)
    monkeypatch.setattr(TriedKernels.__init__, "__kwdefaults__", {"constants": (), "clock": clock})
    packed, original = [], torch.ops.mkldnn._reorder_linear_weight

    def pack(weights, num_rows):
        packed.append(num_rows)
        return original(weights, num_rows)

    monkeypatch.setattr(torch.ops.mkldnn, "_reorder_linear_weight", pack)
    x = {"x": np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)}
    runner = prepare(graph, [], RunSettings(Purpose.INFERENCE))
    for _ in range(3):
        np.testing.assert_allclose(runner.run(x)["y"], x["x"] @ weights, rtol=1e-5, atol=1e-5)
    assert clock.calls[-2:] == [PACKED, PACKED]
    assert packed == [4]
    clock.calls.clear()
    tapping = prepare(graph, [], RunSettings()).run(x)
    np.testing.assert_array_equal(
        tapping["y"], (torch.from_numpy(x["x"]) @ torch.from_numpy(weights)).numpy()
    )
    assert not clock.calls


def test_weights_that_may_change_are_not_packed(monkeypatch):
    graph, _ = dense_net()
    net = TorchNet(graph)
    clock = Clock(monkeypatch, aten=1.0, oneDNN=0.5)
    net.set_kernels(TriedKernels(clock=clock))
    net(x=drawn(4, 6))["y"].sum().backward()
    assert set(clock.calls) == {ATEN, ONEDNN}
    assert len(net.module.kernels.choices) == 2  # the input of the net needs no gradient
