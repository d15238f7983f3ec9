"""Choosing a backend by trying: what is wrong, missing or slow is not taken, and the trial says why."""

from __future__ import annotations

import time
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import onnx_ir as ir
import pytest

from netweave.errors import RunError, UsageError
from netweave.files.reading_cache import cache_folder
from netweave.graph import GraphBuilder
from netweave.runtime.backends import AUTO, BACKENDS, Purpose, RunSettings, selection
from netweave.runtime.backends.runner import prepare
from netweave.runtime.backends.selection import SLOWER, select
from tests.graph.passes.nets import branching_net

X = {"data": np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype(np.float32)}
SETTINGS = RunSettings(Purpose.INFERENCE, threads=1)


@pytest.fixture(autouse=True)
def short_trials(monkeypatch):
    """Which backend is chosen does not matter here, or is told apart by far."""
    monkeypatch.setattr("netweave.runtime.backends.selection.BLOCK_S", 0.002)
    monkeypatch.setattr("netweave.runtime.backends.selection.BUDGET_S", 0.05)


class Changed:
    """A runner whose outputs are changed, or which takes longer."""

    def __init__(self, runner, *, factor=1.0, wait_s=0.0):
        self.runner, self.factor, self.wait_s = runner, factor, wait_s

    def run(self, inputs):
        time.sleep(self.wait_s)
        return {name: array * np.float32(self.factor) for name, array in self.runner.run(inputs).items()}


@pytest.fixture
def backends(monkeypatch):
    """Backends that are all ONNX Runtime, changed as a test asks for."""

    def change(**changes):
        def prepared(graph, *, backend="onnxruntime", settings):
            if settings.purpose is Purpose.TAPPING:
                return prepare(graph, settings=settings)
            asked = changes.get(backend, {})
            if isinstance(asked, Exception):
                raise asked
            return Changed(prepare(graph, settings=replace(settings, precision="f32")), **asked)

        monkeypatch.setattr(selection, "prepare", prepared)

    return change


def trial(found, backend):
    return next(each for each in found.trials if each.backend == backend)


def test_a_backend_that_computes_something_else_is_not_chosen(backends):
    slow = {"wait_s": 0.2}
    backends(onnxruntime={"factor": 1.01}, openvino={"wait_s": 0.01}, opencv=slow, torch=slow)
    found = select(branching_net(), SETTINGS, X)
    assert found.backend == "openvino"
    assert trial(found, "onnxruntime").failure.startswith(
        "it computes something else: output 'fc' differs from that of ONNX Runtime without optimisations by"
    )


def test_errors_that_the_precision_explains_are_allowed(backends):
    backends(torch={"factor": 1.01})
    found = select(branching_net(), replace(SETTINGS, precision="bf16"), X, backends=["torch"])
    assert (found.backend, trial(found, "torch").failure) == ("torch", "")
    assert selection.TOLERANCES["bf16"] > selection.TOLERANCES["f16"] > selection.TOLERANCES["f32"]


def test_what_cannot_be_used_says_why(backends):
    backends(torch=UsageError("backend 'torch' needs 'torch', which is not installed"))
    found = select(branching_net(), SETTINGS, X)
    assert trial(found, "torch").failure == "backend 'torch' needs 'torch', which is not installed"
    assert trial(found, "torch").median_s == float("inf")
    assert found.trials[-1].backend == "torch"


def test_no_backend_at_all_is_one_error(backends):
    backends(**{name: RunError(f"{name} lacks it") for name in BACKENDS})
    with pytest.raises(RunError, match="branching: no backend can run it in f32: onnxruntime: onnxrun"):
        select(branching_net(), SETTINGS, X)


def test_a_slow_backend_is_timed_once(backends):
    backends(torch={"wait_s": 0.3})
    found = select(branching_net(), SETTINGS, X)
    slow = trial(found, "torch")
    assert (len(slow.times_s), slow.failure) == (1, "")
    assert slow.median_s > SLOWER * trial(found, "onnxruntime").median_s
    assert len(trial(found, found.backend).times_s) >= selection.MIN_ROUNDS


def test_a_net_that_draws_has_no_outputs_to_agree_with():
    pytest.importorskip("torch")
    builder = GraphBuilder("noise", format="onnx")
    x = builder.input("data", (1, 3, 8, 8))
    graph = builder.finish([builder.add("RandomNormalLike", [x], outputs="y")])
    assert select(graph, SETTINGS, X, backends=["torch"]).backend == "torch"


@pytest.fixture
def prepared(monkeypatch):
    """Return the backends on which nets are made ready, in order; those without optimisations aside."""
    names = []

    def note(graph, *, backend="onnxruntime", settings):
        if settings.purpose is not Purpose.TAPPING:
            names.append(backend)
        return prepare(graph, backend="onnxruntime", settings=settings)

    monkeypatch.setattr(selection, "prepare", note)
    return names


def test_what_was_the_fastest_is_remembered(prepared):
    first = select(branching_net(), SETTINGS, X)
    assert prepared == list(BACKENDS)
    again = select(branching_net(), SETTINGS, X)
    assert prepared[len(BACKENDS) :] == [first.backend]
    assert (again.backend, again.trials) == (first.backend, first.trials)
    y = again.runner.run(X)
    np.testing.assert_array_equal(y["fc"], first.runner.run(X)["fc"])


@pytest.mark.parametrize("change", ["asked", "sizes", "weights", "threads", "version", "damage", "nothing"])
def test_a_trial_holds_for_the_same_net_weights_sizes_settings_and_versions(change, prepared, monkeypatch):
    fastest = select(branching_net(), SETTINGS, X).backend
    graph, settings, inputs = branching_net(), SETTINGS, X
    if change == "sizes":
        inputs = {"data": X["data"][:1]}
    elif change == "weights":
        value = next(iter(graph.model.graph.initializers.values()))
        value.const_value = ir.tensor(value.const_value.numpy() + 1)
    elif change == "threads":
        settings = replace(SETTINGS, threads=2)
    elif change == "version":
        monkeypatch.setattr(selection, "_version", lambda backend: "99")
    elif change == "damage":
        (file,) = cache_folder().glob("*.json")
        file.write_text(file.read_text().replace("times_s", "times"))
    select(graph, settings, inputs, again=change == "asked")
    assert prepared[len(BACKENDS) :] == ([fastest] if change == "nothing" else list(BACKENDS))


def test_a_net_that_its_backend_no_longer_takes_is_tried_anew(prepared, monkeypatch):
    first = select(branching_net(), SETTINGS, X)

    def lost(graph, *, backend="onnxruntime", settings):
        if backend == first.backend and settings.purpose is not Purpose.TAPPING:
            raise RunError("lost")
        return prepare(graph, settings=settings)

    monkeypatch.setattr(selection, "prepare", lost)
    found = select(branching_net(), SETTINGS, X)
    assert found.backend != first.backend
    assert trial(found, first.backend).failure == "lost"


def test_inputs_that_do_not_fit_are_said_once():
    with pytest.raises(RunError, match=r"^input 'data' has the shape \(2, 3, 8\), expected float32"):
        select(branching_net(), SETTINGS, {"data": X["data"][..., 0]})


@pytest.mark.parametrize(
    ("output", "error"),
    [
        ([[1.0, 2.0]], 0.0),
        ([[1.0, 2.5]], 0.5 / np.sqrt(5)),
        ([[1.0, np.nan]], np.inf),
        ([1.0, 2.0], np.inf),
    ],
)
def test_error_relative_to_the_rms(output, error):
    found = selection._relative_error(np.array(output, np.float32), np.array([[1, 2]], np.float32))
    assert found == pytest.approx(error, rel=1e-6)


def test_infinities_in_their_places_are_no_error():
    right = np.array([1.0, -np.inf, 3.0], np.float32)
    assert selection._relative_error(right.copy(), right) == 0


def test_auto_is_no_backend():
    assert AUTO not in BACKENDS
    assert all(find_spec(f"netweave.runtime.backends.{name}") for name in BACKENDS)
