"""What copied weights make up for is told all the same."""

from __future__ import annotations

import numpy as np
import pytest

import netweave
from netweave.comparison import Evidence, Verdict
from netweave.comparison.align.alignment import Alignment, SignalPair
from netweave.comparison.align.structure import Extension
from netweave.comparison.metric import comparable
from netweave.comparison.prepare import Side
from netweave.graph import GraphBuilder, Layer, Parameter
from netweave.graph.parameters import drawn
from tests.comparison.nets import Form, build
from tests.comparison.planted import mxnet
from tests.comparison.planted.plan import Plan
from tests.comparison.test_missing_weights import without


@pytest.mark.parametrize(("fixed", "lacks"), [((True, False), "A"), ((False, True), "B")])
def test_gammas_that_one_net_fixes(fixed, lacks, tmp_path) -> None:
    """Neither net has weights, so those that the other one stores may be ones."""
    nets = [_fixing(tmp_path / name, is_fixed) for name, is_fixed in zip("ab", fixed, strict=True)]
    found = netweave.compare(*nets)
    assert found.verdict is Verdict.STRUCTURE
    (finding,) = found.findings
    assert (finding.mismatch, finding.latent) == ("fix-gamma", True)
    assert finding.cause.startswith(f"{lacks} takes every gamma as 1")


def test_gammas_of_a_trained_net_that_the_port_fixes(tmp_path) -> None:
    net = _fixing(tmp_path / "a", is_fixed=False, weights=True)
    found = netweave.compare(net, _fixing(tmp_path / "b", is_fixed=True))
    assert found.verdict is Verdict.DIFFERENT
    assert [finding.mismatch for finding in found.findings] == ["fix-gamma"]


def _fixing(folder, is_fixed, *, weights=False):
    folder.mkdir()
    return mxnet.load(Plan(fixed_gamma=is_fixed), folder, weights=weights)


def test_a_normalisation_that_one_net_has_folded() -> None:
    found = netweave.compare(build(Form(file="a.net")), without(build(Form(fold=True))))
    assert found.verdict is Verdict.STRUCTURE
    (finding,) = found.findings
    assert (finding.mismatch, finding.latent) == ("missing-layer", True)
    assert finding.cause.startswith("A has bn1, B has none")


def test_with_weights_a_folded_normalisation_is_no_difference() -> None:
    assert netweave.compare(build(Form(file="a.net")), build(Form(fold=True))).findings == ()


@pytest.mark.parametrize("has_bias", [(True, False), (False, True), (True, True), (False, False)])
def test_a_bias_in_front_of_a_normalisation_that_one_net_has(has_bias) -> None:
    """Copied weights put it into the normalisation's mean, so nothing else tells."""
    found = netweave.compare(*(_normalised(has, name) for has, name in zip(has_bias, "ab", strict=True)))
    assert found.verdict is Verdict.STRUCTURE
    findings = [(finding.mismatch, finding.latent, finding.cause[:10]) for finding in found.findings]
    expected = [("missing-bias", True, f"{'A' if has_bias[0] else 'B'} has a bi")]
    assert findings == (expected if has_bias[0] != has_bias[1] else [])


@pytest.mark.parametrize("is_normalised", [False, True])
def test_a_bias_that_is_added_behind_the_filters_is_one(is_normalised) -> None:
    """TensorFlow adds biases by an operator of its own."""
    nets = [_normalised(form, name, is_normalised) for form, name in ((True, "a"), ("added", "b"))]
    for a, b in (nets, nets[::-1]):
        found = netweave.compare(a, b)
        assert (found.verdict, found.findings) == (Verdict.STRUCTURE, ())


def _normalised(has_bias, prefix, is_normalised=True):
    """Return a convolution, with its BatchNorm or not, without weights."""
    builder = GraphBuilder("net", format="onnx", files=(f"{prefix}.net",))
    x = builder.input("data", (1, 3, 9, 9))

    def stored(name, shape, role):
        key = f"{prefix}{name}"
        return builder.parameter(Parameter(key, shape, role=role, loaded=False), drawn(key, shape, role))

    with builder.layer(Layer("conv", "conv", "Convolution")):
        bias = [stored("bias", (4,), "bias")] if has_bias is True else []
        x = builder.add("Conv", [x, stored("weight", (4, 3, 3, 3), "weight"), *bias])
        if has_bias == "added":
            x = builder.add("Add", [x, stored("bias", (4, 1, 1), "bias")])
    if not is_normalised:
        return builder.finish([builder.add("Relu", [x])])
    with builder.layer(Layer("norm", "norm", "BatchNorm")):
        roles = ("gamma", "beta", "mean", "variance")
        x = builder.add("BatchNormalization", [x, *(stored(role, (4,), role) for role in roles)])
    return builder.finish([builder.add("Relu", [x])])


def test_a_padding_of_its_own_does_not_stop_the_alignment() -> None:
    """TensorFlow's ports pad in a node of its own; what is behind it belongs together and is no guess."""
    a = Side.of("A", _branched(padded=False), comparable)
    b = Side.of("B", _branched(padded=True), comparable)
    alignment = Alignment(a, b)
    alignment.pair_signals(SignalPair("data", "data", Evidence.VALUES))
    Extension(alignment).run()
    assert set(alignment.evidence.values()) == {Evidence.STRUCTURE}
    assert len(alignment.a.partners) == len(a.signals.nodes)


def _branched(*, padded: bool):
    """Return a residual net without weights; the padded one has its shortcut last."""
    builder = GraphBuilder("net", format="onnx", files=(f"{padded}.net",))
    x = builder.input("data", (1, 3, 12, 12))

    def filters(name, x, width, size):
        key = f"{name}{padded}"
        with builder.layer(Layer(key, key, "Convolution")):
            shape = (width, x.shape[1], size, size)
            value = builder.parameter(Parameter(key, shape, loaded=False), drawn(key, shape, "weight"))
            pads = [size // 2] * 4
            if padded and name == "conv1":
                amounts = builder.constant([0, 1, 1, 0, 0, 1, 1, 0], dtype=np.int64)
                x, pads = builder.add("Transpose", [x], {"perm": [0, 2, 3, 1]}), [0] * 4
                x = builder.add("Transpose", [builder.add("Pad", [x, amounts])], {"perm": [0, 3, 1, 2]})
            return builder.add("Conv", [x, value], {"pads": pads})

    for stage in range(3):
        x = builder.add("Relu", [filters(f"conv{stage + 1}", x, 6, 3)])
        parts = {}
        for name in ("main", "shortcut") if padded else ("shortcut", "main"):
            width = 6 if name == "main" else 8
            parts[name] = filters(f"{name}{stage}", x, width, 1)
            if name == "main":
                parts[name] = filters(f"end{stage}", builder.add("Relu", [parts[name]]), 8, 1)
        x = builder.add("Add", [parts["shortcut"], parts["main"]])
    return builder.finish([x])
