"""Nets that are prepared once and run many times: the same outputs as ``run``, on every backend."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import netweave
from netweave import api
from netweave.errors import NetweaveError, RunError, UsageError
from netweave.graph import GraphBuilder, Parameter
from netweave.runtime.backends import BACKENDS
from tests.graph.passes.nets import branching_net
from tests.graph.passes.random_nets import nets
from tests.runtime.backends.installed import is_installed

INSTALLED = [name for name in BACKENDS if is_installed(name)]
X = np.random.default_rng(0).standard_normal((6, 3, 8, 8)).astype(np.float32)


@pytest.fixture(autouse=True)
def short_trials(monkeypatch):
    """Which backend is chosen does not matter here, or is told apart by far."""
    monkeypatch.setattr("netweave.runtime.backends.selection.BLOCK_S", 0.002)
    monkeypatch.setattr("netweave.runtime.backends.selection.BUDGET_S", 0.05)


def product(rows, columns, *, name="product", values=None):
    """x @ w, with weights of unit variance."""
    builder = GraphBuilder(name, format="onnx")
    x = builder.input("x", (1, rows))
    if values is None:
        values = np.random.default_rng(1).standard_normal((rows, columns))
    w = builder.parameter(Parameter("w", (rows, columns)), np.asarray(values, np.float32))
    return builder.finish([builder.add("MatMul", [x, w], outputs="y")]), np.asarray(values, np.float64)


def relative_error(found, expected):
    expected = np.asarray(expected, np.float64)
    return np.sqrt(np.mean(np.square(found - expected)) / (np.mean(np.square(expected)) or 1.0))


def prepared_in(precision, graph, backend):
    """Prepare, or skip where the processor has no such arithmetic."""
    try:
        return netweave.prepare(graph, backend=backend, precision=precision, threads=1)
    except UsageError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("backend", INSTALLED)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(case=nets())
def test_random_nets_give_what_run_gives_at_batches_in_turn(backend, case):
    expected = netweave.run(api.to_inference(case.graph), {"data": case.x})
    with netweave.prepare(case.graph, backend=backend, threads=1) as net:
        for rows in ([0, 1], [1], [0, 1, 0, 1, 1], [1, 0]):
            found = net.run({"data": case.x[rows]})
            assert list(found) == list(expected)
            for name, array in expected.items():
                scale = np.abs(array).max() or 1.0
                np.testing.assert_allclose(found[name], array[rows], rtol=1e-4, atol=1e-5 * scale)


@pytest.mark.parametrize("backend", [name for name in INSTALLED if name != "onnxruntime"])
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(case=nets())
def test_random_nets_in_bfloat16_err_as_eight_bits_do(backend, case):
    expected = netweave.run(api.to_inference(case.graph), {"data": case.x})
    found = prepared_in("bf16", case.graph, backend).run({"data": case.x})
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        # ten layers that lose 2^-9 each; a difference of values that nearly cancel loses more
        largest = max(np.abs(x).max() for x in [case.x, *expected.values()])
        assert np.abs(found[name] - array).max() <= 0.1 * max(np.abs(array).max(), 0.1 * largest), name


@pytest.mark.parametrize("backend", [name for name in INSTALLED if name != "onnxruntime"])
def test_bfloat16_rounds_what_is_multiplied_and_sums_in_float32(backend):
    """4096 products with relative roundings of up to 2^-9 on both sides: their errors average out."""
    graph, w = product(4096, 16)
    x = np.random.default_rng(2).standard_normal((8, 4096)).astype(np.float32)
    found = prepared_in("bf16", graph, backend).run({"x": x})["y"]
    assert found.dtype == np.float32
    error = relative_error(found, x.astype(np.float64) @ w)
    assert 2**-12 < error < 2**-7
    assert relative_error(netweave.prepare(graph, backend=backend).run({"x": x})["y"], x @ w) < 1e-6


@pytest.mark.parametrize("backend", [name for name in INSTALLED if name != "onnxruntime"])
def test_whole_numbers_of_eight_bits_are_exact_in_bfloat16(backend):
    rng = np.random.default_rng(3)
    graph, w = product(32, 4, values=rng.integers(-2, 3, (32, 4)))
    x = rng.integers(-3, 4, (5, 32)).astype(np.float32)
    assert np.abs(x @ w).max() < 256
    np.testing.assert_array_equal(prepared_in("bf16", graph, backend).run({"x": x})["y"], x @ w)


@pytest.mark.parametrize("backend", INSTALLED)
def test_weights_of_the_graph_keep_their_bits(backend):
    graph = branching_net()
    stored = graph.model.graph.initializers
    before = {name: value.const_value.numpy().copy() for name, value in stored.items()}
    first = netweave.run(graph, {"data": X})
    for precision in ("f32", "bf16"):
        try:
            netweave.prepare(graph, backend=backend, precision=precision).run({"data": X})
        except UsageError:
            continue
    assert all(np.array_equal(array, stored[name].const_value.numpy()) for name, array in before.items())
    assert np.array_equal(netweave.run(graph, {"data": X})["fc"], first["fc"])


@pytest.mark.parametrize("backend", INSTALLED)
def test_several_threads_run_two_prepared_nets_at_once(backend):
    graph, w = product(64, 8)
    expected = netweave.run(branching_net(), {"data": X})["fc"]
    x = np.random.default_rng(4).standard_normal((6, 64)).astype(np.float32)
    with (
        netweave.prepare(branching_net(), backend=backend, threads=1) as first,
        netweave.prepare(graph, backend=backend, threads=2) as second,
        ThreadPoolExecutor(4) as threads,
    ):
        begun = []
        for number in range(60):
            rows = slice(0, 1 + number % 6)
            begun.append((threads.submit(first.run, {"data": X[rows]}), "fc", expected[rows]))
            begun.append((threads.submit(second.run, {"x": x[rows]}), "y", (x.astype(np.float64) @ w)[rows]))
        for result, name, right in begun:
            np.testing.assert_allclose(result.result()[name], right, rtol=1e-4, atol=1e-4)


def test_what_is_returned_is_the_callers():
    """A later run changes nothing of what an earlier one gave."""
    for backend in INSTALLED:
        net = netweave.prepare(branching_net(), backend=backend)
        first = net.run({"data": X})["fc"]
        kept = first.copy()
        first[0] = 7
        again = net.run({"data": X[::-1]})["fc"]
        np.testing.assert_array_equal(first[1:], kept[1:])
        np.testing.assert_allclose(again, kept[::-1], rtol=1e-4, atol=1e-5)


def test_auto_takes_the_fastest_of_those_tried():
    with netweave.prepare(branching_net(), threads=1) as net:
        assert net.backend in INSTALLED
        assert net.trials[0].backend == net.backend
        assert {trial.backend for trial in net.trials} == set(BACKENDS)
        fastest = [trial.fastest_s for trial in net.trials]
        assert fastest == sorted(fastest)
        for trial in net.trials:
            assert bool(trial.times_s) != bool(trial.failure)
        expected = netweave.run(branching_net(), {"data": X})["fc"]
        np.testing.assert_allclose(net.run({"data": X})["fc"], expected, rtol=1e-4, atol=1e-5)
        assert repr(net) == f"PreparedNet('branching', {net.backend}, f32, 1 threads)"


def test_a_backend_that_the_caller_chose_is_not_tried():
    net = netweave.prepare(branching_net(), backend="onnxruntime")
    assert (net.backend, net.trials) == ("onnxruntime", ())


def test_losses_and_labels_are_gone(tmp_path):
    builder = GraphBuilder("trained", format="caffe")
    x, label = builder.input("data", (1, 4)), builder.input("label", (1,))
    scores = builder.add("Gemm", [x, builder.constant(np.eye(4, 3))], outputs="scores")
    loss = builder.add("SoftmaxWithLoss", [scores, label], domain="netweave", outputs="loss")
    net = netweave.prepare(builder.finish([loss]), backend="onnxruntime")
    (found,) = net.run({"data": np.zeros((2, 4))}).values()
    np.testing.assert_allclose(found, np.full((2, 3), 1 / 3), rtol=1e-6)


def test_a_closed_net_says_so():
    with netweave.prepare(branching_net(), backend="onnxruntime") as net:
        net.run({"data": X})
    net.close()
    with pytest.raises(UsageError, match="branching: the prepared net is closed; prepare it again"):
        net.run({"data": X})


@pytest.mark.parametrize("backend", INSTALLED)
def test_inputs_that_do_not_fit_are_one_error(backend):
    net = netweave.prepare(branching_net(), backend=backend)
    with pytest.raises(UsageError, match=r"inputs is of type ndarray, expected arrays by name: \{'data'"):
        net.run(X)
    for inputs, message in [
        ({}, r"input 'data' is missing, expected float32 \(N, 3, 8, 8\)"),
        ({"data": X[:, :2]}, r"input 'data' has the shape \(6, 2, 8, 8\), expected"),
        ({"data": X, "label": X}, "unknown input 'label'"),
    ]:
        with pytest.raises(RunError, match=message):
            net.run(inputs)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            {"backend": "tpu"},
            "unknown backend 'tpu'; expected one of auto, onnxruntime, openvino, opencv, torch",
        ),
        ({"precision": "int8"}, "unknown precision 'int8'; expected one of f32, bf16, f16"),
        ({"threads": 0}, "threads is 0, expected a whole number >= 1"),
        ({"threads": True}, "threads is True, expected a whole number >= 1"),
    ],
)
def test_settings_that_there_are_not(asked, message):
    with pytest.raises(UsageError, match=message):
        netweave.prepare(branching_net(), **asked)


def test_an_open_size_asks_for_an_example():
    builder = GraphBuilder("open", format="onnx")
    x = builder.input("data", (1, None, 4))
    graph = builder.finish([builder.add("Relu", [x], outputs="y")])
    with pytest.raises(UsageError, match="the size of input 'data' is unknown"):
        netweave.prepare(graph)
    net = netweave.prepare(graph, example={"data": X[:, 0, :, :4]})
    for rows in (8, 3):
        x = X[:2, 0, :rows, :4]
        np.testing.assert_array_equal(net.run({"data": x})["y"], np.maximum(x, 0))


@pytest.mark.parametrize("backend", ["auto", *INSTALLED])
def test_an_example_that_does_not_fit_is_one_error(backend):
    with pytest.raises(RunError, match=r"^input 'data' has the shape \(6, 3, 8\), expected float32"):
        netweave.prepare(branching_net(), backend=backend, example={"data": X[..., 0]})


@pytest.mark.parametrize("backend", INSTALLED)
def test_usual_sizes_and_others_in_turn(backend):
    expected = netweave.run(branching_net(), {"data": X})["fc"]
    with netweave.prepare(branching_net(), backend=backend, batch=3) as net:
        for batch in (3, 1, 3, 6, 2, 3):
            found = net.run({"data": X[:batch]})["fc"]
            np.testing.assert_allclose(found, expected[:batch], rtol=1e-4, atol=1e-5)


def test_a_net_of_weights_alone_is_one_error(tmp_path):
    np.savez(tmp_path / "arrays.npz", w=np.ones((2, 2), np.float32))
    with pytest.raises(NetweaveError, match="holds only weights; there is no net to run"):
        netweave.prepare(tmp_path / "arrays.npz")
