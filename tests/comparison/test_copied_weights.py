"""What is copied where a net came without weights: stored arrays, bit for bit, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from netweave.comparison.copied_weights import copy_weights
from netweave.comparison.execution.inputs import pair_inputs
from netweave.comparison.execution.tapped_values import ValueStore
from netweave.comparison.metric import comparable
from netweave.comparison.prepare import Side
from netweave.graph import GraphBuilder, Layer, Parameter
from netweave.graph.parameters import source_keys
from tests.comparison.nets import Form, build
from tests.comparison.test_missing_weights import without

KEYS = frozenset({"conv1", "gamma", "beta", "mean", "var", "conv2", "fc"})


def copied(form: Form, missing: frozenset[str] = KEYS, given: frozenset[str] | None = None):
    """Return A's arrays, B's after the copy, and what was copied."""
    a = Side.of("A", build(Form(file="a.net")), comparable)
    b = Side.of("B", without(build(form), *missing), comparable)
    before = arrays_of(b)
    pairs = pair_inputs(a.signals, b.signals) or []
    report = copy_weights(a, b, pairs, ValueStore(), missing=missing, given=given)
    assert report is not None
    return arrays_of(a), before, arrays_of(b), report


def arrays_of(side: Side) -> dict[str, np.ndarray]:
    values = side.graph.model.graph.initializers.values()
    return {"+".join(keys): v.const_value.numpy().copy() for v in values if (keys := source_keys(v))}


@pytest.mark.parametrize(
    "form",
    [Form(), Form(eps=0.5), Form(slope=0.9), Form(rounding="floor")],
    ids=["same", "eps", "slope", "rounding"],
)
def test_the_same_quantities_are_copied_bit_for_bit_whatever_the_settings(form: Form) -> None:
    a, _, after, report = copied(form)
    assert report.filled == KEYS
    for key in KEYS & {*a}:
        np.testing.assert_array_equal(a[key].reshape(-1), after[key].reshape(-1), err_msg=key)


@pytest.mark.parametrize("missing", [{"conv1"}, {"gamma", "mean"}, {"fc", "var"}])
def test_only_what_is_missing_is_written(missing: set[str]) -> None:
    changed = Form(changed={"conv2": ((0, 0, 0, 0), 1.0), "beta": ((1,), 1.0)})
    a, before, after, report = copied(changed, frozenset(missing))
    assert report.filled == missing
    for key in KEYS & {*a}:
        expected = a if key in missing else before
        np.testing.assert_array_equal(expected[key].reshape(-1), after[key].reshape(-1), err_msg=key)


def test_only_what_is_given_is_copied() -> None:
    _, before, after, report = copied(Form(), given=frozenset({"conv1", "fc"}))
    assert report.filled == {"conv1", "fc"}
    np.testing.assert_array_equal(before["conv2"], after["conv2"])
    np.testing.assert_array_equal(before["gamma"], after["gamma"])


def test_a_folded_normalisation_is_computed() -> None:
    """Then only one form has the quantities; the outputs must agree, which no rounding hides."""
    a, _, after, report = copied(
        replace(Form(), fold=True), frozenset({"conv1", "conv1/bias", "conv2", "fc"})
    )
    assert "conv1" in report.filled
    factor = a["gamma"] / np.sqrt(a["var"] + np.float32(1e-5))
    expected = a["conv1"] * factor.reshape(-1, 1, 1, 1)
    np.testing.assert_allclose(after["conv1"], expected, rtol=1e-5)


def test_a_factor_of_the_definition_stays() -> None:
    def scaled(factor: float, file: str):
        builder = GraphBuilder("net", format="onnx", files=(file,))
        x = builder.input("data", (1, 3, 8, 8))
        rng = np.random.default_rng(0)
        with builder.layer(Layer("conv", "conv", "Convolution")):
            weight = builder.parameter(
                Parameter("conv", (3, 3, 3, 3)), rng.standard_normal((3, 3, 3, 3), np.float32)
            )
            x = builder.add("Conv", [x, weight])
        with builder.layer(Layer("scale", "scale", "Power")):
            x = builder.add("Mul", [x, builder.constant(factor)])
        return builder.finish([x])

    a = Side.of("A", scaled(0.5, "a.net"), comparable)
    b = Side.of("B", without(scaled(0.7, "b.net")), comparable)
    pairs = pair_inputs(a.signals, b.signals) or []
    report = copy_weights(a, b, pairs, ValueStore(), missing=frozenset({"conv"}))
    assert report is not None
    assert report.filled == {"conv"}
    (factor,) = (
        v.const_value.numpy() for v in b.graph.model.graph.initializers.values() if not source_keys(v)
    )
    assert factor == np.float32(0.7)
