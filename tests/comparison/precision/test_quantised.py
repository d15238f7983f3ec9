"""Nets by ONNX Runtime's own quantisers against their float version; it also says what they compute."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnx.parser
import pytest

import netweave
from netweave.comparison import Status, Verdict, open_comparison, save_comparison
from netweave.graph.passes.rounding import explicit_rounding, without_rounding
from tests.comparison.precision.nets import edited, float_net, images, quantised
from tests.comparison.precision.planted import PER_CHANNEL, PER_TENSOR, PLANTED, Planted

if TYPE_CHECKING:
    from pathlib import Path

runtime = pytest.importorskip("onnxruntime")
quantization = pytest.importorskip("onnxruntime.quantization")

FORMAT, TYPE = quantization.QuantFormat, quantization.QuantType

STATIC: dict[str, dict[str, Any]] = {
    PER_CHANNEL: {"quant_format": FORMAT.QDQ, "per_channel": True, "weight_type": TYPE.QInt8},
    PER_TENSOR: {"quant_format": FORMAT.QDQ, "per_channel": False, "weight_type": TYPE.QInt8},
    "unsigned": {"quant_format": FORMAT.QDQ, "activation_type": TYPE.QUInt8, "weight_type": TYPE.QUInt8},
    "symmetric": {
        "quant_format": FORMAT.QDQ,
        "activation_type": TYPE.QInt8,
        "weight_type": TYPE.QInt8,
        "extra_options": {"ActivationSymmetric": True},
    },
    "operators": {"quant_format": FORMAT.QOperator, "weight_type": TYPE.QInt8},
    "operators per channel": {
        "quant_format": FORMAT.QOperator,
        "per_channel": True,
        "weight_type": TYPE.QInt8,
    },
}
"""Settings of ONNX Runtime's static quantiser."""

DYNAMIC: dict[str, dict[str, Any]] = {
    "dynamic": {"weight_type": TYPE.QUInt8},
    "dynamic per channel": {"weight_type": TYPE.QInt8, "per_channel": True},
}
"""Settings of its dynamic one."""


@pytest.fixture(scope="module", autouse=True)
def quiet() -> Any:
    """The quantiser logs advice as warnings."""
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


class Files:
    """Files of one net in all forms, written when they are first asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def floats(self, spread: float = 1.0) -> Path:
        path = self.folder / f"float {spread}.onnx"
        if not path.exists():
            onnx.save(float_net(spread=spread), str(path))
        return path

    def in_form(self, form: str, spread: float = 1.0) -> Path:
        path = self.folder / f"{form} {spread}.onnx"
        if path.exists():
            return path
        if form in STATIC:
            return quantised(self.floats(spread), path, **STATIC[form])
        quantization.quantize_dynamic(str(self.floats(spread)), str(path), **DYNAMIC[form])
        return path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("quantised"))


@pytest.mark.parametrize("form", [*STATIC, *DYNAMIC])
def test_explicit_rounding_computes_what_onnx_runtime_does(files: Files, form: str) -> None:
    path = files.in_form(form)
    x = images(1, seed=5)[0]
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    (wanted,) = runtime.InferenceSession(str(path), options).run(None, {"x": x})
    explicit = explicit_rounding(netweave.load(path))
    made = netweave.run(explicit.graph, {"x": x})
    assert explicit.formats == ("int8",)
    # one step of some tensor may be rounded the other way, which is less than what rounding costs
    (plain,) = runtime.InferenceSession(str(files.floats())).run(None, {"x": x})
    (found,) = made.values()
    assert np.abs(found - wanted).max() <= 0.25 * np.abs(wanted - plain).max()
    (real,) = netweave.run(without_rounding(explicit.graph), {"x": x}).values()
    assert np.abs(real - plain).max() <= 0.05 * np.sqrt(np.mean(plain**2))


@pytest.mark.parametrize("form", [*STATIC, *DYNAMIC])
def test_a_quantised_net_is_equal_within_its_rounding(files: Files, form: str) -> None:
    comparison = netweave.compare(files.floats(), files.in_form(form))
    assert comparison.verdict is Verdict.EQUAL
    assert comparison.exit_status == 0
    assert comparison.findings == ()
    assert comparison.precision is not None
    assert comparison.precision.side == "B"
    assert comparison.precision.formats == ("int8",)
    assert "within what int8 with these scales can hold" in comparison.sentence
    assert all(group.rounding_error is not None and group.rounding_error > 0 for group in comparison.groups)
    assert {group.status for group in comparison.groups} == {Status.MAPPED}


def test_the_expected_loss_is_what_the_net_loses_on_its_own_data(files: Files) -> None:
    """The oracle is ONNX Runtime on the same image, without its integer kernels.

    On x86 without VNNI these saturate: the sum of two products of 8 bits has 16 bits (ONNX Runtime's
    documentation on U8S8), which loses more than the file's rounding does.
    """
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    x = images(1, seed=5)[0]
    comparison = netweave.compare(files.floats(), files.in_form(PER_CHANNEL), probe={"x": x})
    plain, rounded = (
        runtime.InferenceSession(str(path), options).run(None, {"x": x})[0]
        for path in (files.floats(), files.in_form(PER_CHANNEL))
    )
    loss = np.abs(plain - rounded).max() / np.sqrt(np.mean(plain**2))
    assert comparison.precision is not None
    assert comparison.precision.seen == pytest.approx(loss, rel=0.3)


def test_the_rounded_net_may_be_the_first(files: Files) -> None:
    comparison = netweave.compare(files.in_form(PER_CHANNEL), files.floats())
    assert comparison.verdict is Verdict.EQUAL
    assert comparison.precision is not None
    assert comparison.precision.side == "A"


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.name)
def test_a_planted_fault_is_located(files: Files, planted: Planted, tmp_path: Path) -> None:
    source = files.in_form(planted.form, planted.spread)
    port = edited(source, tmp_path / "planted.onnx", planted.change)
    comparison = netweave.compare(files.floats(planted.spread), port)
    assert comparison.verdict is Verdict.DIFFERENT
    assert comparison.exit_status == 1
    assert comparison.findings
    assert {finding.mismatch for finding in comparison.findings} <= set(planted.mismatches)
    assert {finding.layer_a for finding in comparison.findings} <= set(planted.layers)
    for finding in comparison.findings:
        assert finding.fix
        assert finding.error is not None
        assert finding.error_fixed is not None
        assert finding.error_fixed <= finding.error


def test_a_fault_of_the_net_is_found_beneath_rounding(files: Files, tmp_path: Path) -> None:
    """A net with another stride, quantised: the finding is about the stride, and not about any scale."""
    model = float_net()
    (pool,) = (node for node in model.graph.node if node.op_type == "GlobalAveragePool")
    pool.op_type = "GlobalMaxPool"
    other = tmp_path / "other.onnx"
    onnx.save(model, str(other))
    port = quantised(other, tmp_path / "port.onnx", **STATIC[PER_CHANNEL])
    comparison = netweave.compare(files.floats(), port, keep_values=True)
    assert comparison.verdict is Verdict.DIFFERENT
    assert [finding.layer_a for finding in comparison.findings] == ["gap"]
    (group,) = (group for group in comparison.groups if group.status is Status.DIFFERENT)
    assert group.error is not None  # of the stride, which rounding does not explain
    assert group.rounding_error is not None
    assert group.error > 10 * group.rounding_error
    assert group.values is not None
    assert group.values.value_a != group.values.value_b


@pytest.mark.parametrize("swapped", [False, True])
def test_shown_values_are_those_of_the_rounded_net(files: Files, tmp_path: Path, swapped: bool) -> None:
    """The scale of one filter is three times what it should be: its channel is shown, and what that does."""
    planted = next(planted for planted in PLANTED if planted.change.__name__ == "_one_filter")
    port = edited(files.in_form(planted.form, planted.spread), tmp_path / "planted.onnx", planted.change)
    pair = (files.floats(planted.spread), port)
    comparison = netweave.compare(*(reversed(pair) if swapped else pair), keep_values=True)
    shown = {group.layers_a[0]: group.values for group in comparison.groups if group.is_pair}
    before, wrong = shown["conv1"], shown["conv2"]
    assert before is not None
    assert wrong is not None
    errors = wrong.channel_errors
    assert errors.index(max(errors)) == 5
    assert max(errors) > 20 * sorted(errors)[-2]
    assert abs(wrong.value_a - wrong.value_b) / wrong.rms == pytest.approx(max(errors), rel=1e-5)
    assert 0 < max(before.channel_errors) < 0.2  # what int8 costs, and no more
    rounded, real = (wrong.map_a, wrong.map_b) if swapped else (wrong.map_b, wrong.map_a)
    share = float(np.linalg.lstsq(real.reshape(-1, 1), rounded.reshape(-1), rcond=None)[0][0])
    assert share > 2  # the bias of the filter is right: not quite three times


def test_a_comparison_with_rounding_is_saved_and_opened(files: Files, tmp_path: Path) -> None:
    comparison = netweave.compare(files.floats(), files.in_form(PER_CHANNEL))
    save_comparison(comparison, tmp_path / "found.json")
    opened = open_comparison(tmp_path / "found.json")
    assert opened.precision == comparison.precision
    assert opened.groups == comparison.groups


def test_stored_arrays_are_judged_in_a_range_of_layers(files: Files, tmp_path: Path) -> None:
    source = files.in_form(PER_CHANNEL)
    right = netweave.compare(files.floats(), source, first="conv2", last="conv4")
    assert right.exit_status == 0
    planted = next(planted for planted in PLANTED if planted.name == "zero point")
    port = edited(source, tmp_path / "planted.onnx", planted.change)
    inside = netweave.compare(files.floats(), port, first="conv2", last="conv4")
    assert [finding.layer_a for finding in inside.findings] == ["conv3"]
    assert inside.verdict is Verdict.DIFFERENT
    assert netweave.compare(files.floats(), port, first="conv4").exit_status == 0


def test_values_that_are_no_numbers_widen_no_range(tmp_path: Path) -> None:
    """The logarithm of what is negative is NaN; a range is judged by the other values."""
    frame = '<ir_version: 9, opset_import: ["" : 19]> g (float[N,8] x) => (float[N,8] y) '
    bodies = {
        "floats": "{ y = Log(x) }",
        "rounded": "<float s = {0.0001}, uint8 z = {128}> "
        "{ l = Log(x) q = QuantizeLinear(l, s, z) y = DequantizeLinear(q, s, z) }",
    }
    for name, body in bodies.items():
        onnx.save(onnx.parser.parse_model(frame + body), tmp_path / f"{name}.onnx")
    comparison = netweave.compare(tmp_path / "floats.onnx", tmp_path / "rounded.onnx")
    assert "the range from -0.0128 to 0.0127 cuts values" in comparison.sentence


ROUNDED = "q = QuantizeLinear(e, s, z) d = DequantizeLinear(q, s, z) "

TWICE = "p = MaxPool<kernel_shape=[2,2]>(d) r = QuantizeLinear(p, s, z) t = DequantizeLinear(r, s, z) "

WIDER = "r = QuantizeLinear(d, w, z) y = DequantizeLinear(r, w, z) "

SHARED = {
    "a range that few values fill, once more behind a pooling": (
        ROUNDED + "p = MaxPool<kernel_shape=[2,2]>(d) y = Tanh(p)",
        ROUNDED + TWICE + "y = Tanh(t)",
    ),
    "a range that cuts nearly everything": (
        ROUNDED.replace("s,", "c,") + "y = Identity(d)",
        ROUNDED.replace("s,", "c,") + WIDER,
    ),
    "a range that few values fill, once more by twice the scale": (
        ROUNDED.replace("s,", "f,") + "y = Identity(d)",
        ROUNDED.replace("s,", "f,") + WIDER.replace("w,", "g,"),
    ),
}
"""Nodes of two quantised nets with one range that does not suit their values."""


@pytest.mark.parametrize(("a", "b"), SHARED.values(), ids=SHARED)
def test_a_range_that_both_nets_have_is_no_difference(tmp_path: Path, a: str, b: str) -> None:
    """Whatever it loses, both nets lose; a second rounding cuts nothing that the first has cut."""
    for name, body in (("a", a), ("b", b)):
        model = onnx.parser.parse_model(
            '<ir_version: 9, opset_import: ["" : 19]> g (float[N,3,8,8] x) => (float[N,3,H,W] y) '
            "<float s = {0.5}, float c = {0.002}, float w = {0.003}, float f = {2.0}, float g = {4.0}, "
            "int8 z = {3}> { e = Mul(x, x) " + body + " }"
        )
        onnx.save(model, tmp_path / f"{name}.onnx")
    comparison = netweave.compare(tmp_path / "a.onnx", tmp_path / "b.onnx")
    assert comparison.verdict is not Verdict.DIFFERENT
    assert not comparison.findings
