"""Nets in half precision against their float version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import netweave
from netweave.comparison import Verdict
from netweave.graph.passes.rounding import explicit_rounding
from tests.comparison.precision.nets import edited, float_net, images
from tests.comparison.torch_pairs import copied, drawn, load

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def floats(tmp_path: Path) -> Path:
    path = tmp_path / "float.onnx"
    onnx.save(float_net(), str(path))
    return path


def as_float16(source: Path, target: Path, **settings: Any) -> Path:
    float16 = pytest.importorskip("onnxruntime.transformers.float16")
    onnx.save(float16.convert_float_to_float16(onnx.load(str(source)), **settings), str(target))
    return target


@pytest.mark.parametrize("keep_io_types", [True, False])
def test_a_net_by_the_converter_is_equal_within_float16(
    floats: Path, tmp_path: Path, keep_io_types: bool
) -> None:
    port = as_float16(floats, tmp_path / "half.onnx", keep_io_types=keep_io_types)
    comparison = netweave.compare(floats, port)
    assert comparison.verdict is Verdict.EQUAL
    assert "within what float16 can hold" in comparison.sentence
    assert comparison.findings == ()
    texts = {group.evidence_text for group in comparison.groups if group.rounding_error is not None}
    assert texts == {"values agree within rounding"}
    assert comparison.precision is not None
    # the rounding unit of float16 is 2 ** -11; a net of five layers adds up a few of them
    assert 2**-12 < comparison.precision.expected < 20 * 2**-11


def test_float16_is_computed_as_onnx_runtime_does(floats: Path, tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    port = as_float16(floats, tmp_path / "half.onnx", keep_io_types=True)
    x = images(1, seed=5)[0]
    (wanted,) = runtime.InferenceSession(str(port)).run(None, {"x": x})
    (plain,) = runtime.InferenceSession(str(floats)).run(None, {"x": x})
    (found,) = netweave.run(explicit_rounding(netweave.load(port)).graph, {"x": x}).values()
    assert np.abs(found - wanted).max() <= 2 * np.abs(wanted - plain).max()


def test_a_filter_that_is_doubled_is_found_beneath_float16(floats: Path, tmp_path: Path) -> None:
    def doubled(arrays: dict[str, np.ndarray], model: onnx.ModelProto) -> None:
        arrays["conv3.weight"][7] *= 2

    port = as_float16(edited(floats, tmp_path / "doubled.onnx", doubled), tmp_path / "half.onnx")
    comparison = netweave.compare(floats, port)
    assert comparison.verdict is Verdict.DIFFERENT
    assert [finding.layer_a for finding in comparison.findings] == ["conv3"]


def test_a_small_change_of_one_weight_is_found_beneath_float16(floats: Path, tmp_path: Path) -> None:
    """By one part in a hundred: ten times what float16 explains, and too little to be seen in the output."""

    def changed(arrays: dict[str, np.ndarray], model: onnx.ModelProto) -> None:
        arrays["fc.weight"][3, 4] *= 1.01

    port = as_float16(edited(floats, tmp_path / "changed.onnx", changed), tmp_path / "half.onnx")
    comparison = netweave.compare(floats, port)
    assert [finding.layer_a for finding in comparison.findings] == ["fc"]


def test_values_beyond_float16_are_named(floats: Path, tmp_path: Path) -> None:
    def large(arrays: dict[str, np.ndarray], model: onnx.ModelProto) -> None:
        arrays["conv2.weight"] *= 60000
        arrays["conv2.bias"] *= 60000

    source = edited(floats, tmp_path / "large.onnx", large)
    comparison = netweave.compare(source, as_float16(source, tmp_path / "half.onnx"))
    assert comparison.verdict is Verdict.DIFFERENT
    assert comparison.findings[0].layer_a == "conv2"
    assert comparison.findings[0].mismatch == "float-overflow"


def _module() -> Any:
    from torch import nn

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(3, 8, 3, padding=1, bias=False)
            self.norm1 = nn.BatchNorm2d(8)
            self.conv2 = nn.Conv2d(8, 8, 3, padding=1)
            self.fc = nn.Linear(8, 5)

        def forward(self, x: Any) -> Any:
            x = self.norm1(self.conv1(x)).relu()
            x = (self.conv2(x) + x).relu()
            return self.fc(x.mean((2, 3)))

    return Net()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_module_in_half_precision_is_equal(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    source = drawn(_module())
    port = copied(source, _module()).to(getattr(torch, dtype))
    comparison = netweave.compare(load(source), load(port))
    assert comparison.verdict is Verdict.EQUAL, comparison.sentence
    assert comparison.precision is not None
    assert comparison.precision.formats == (dtype,)
    assert comparison.findings == ()


def test_a_net_under_autocast_is_read_without_it() -> None:
    """Autocast belongs to a run and not to the net, and a note says that it was left out."""
    torch = pytest.importorskip("torch")

    class Autocast(torch.nn.Module):
        def __init__(self, inner: Any) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: Any) -> Any:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return self.inner(x).float()

    source = drawn(_module())
    port = load(Autocast(copied(source, _module())))
    assert any("autocast" in note for note in port.notes), port.notes
    comparison = netweave.compare(load(source), port)
    assert comparison.verdict is Verdict.IDENTICAL, comparison.sentence


def test_stored_numbers_that_were_cut_off_are_within_bfloat16(floats: Path, tmp_path: Path) -> None:
    """Converters cut float32 to its upper half; that is off by up to one spacing, and not by half of one."""
    model = onnx.load(str(floats))
    for tensor in model.graph.initializer:
        bits = numpy_helper.to_array(tensor).view(np.uint32) & np.uint32(0xFFFF0000)
        tensor.CopyFrom(numpy_helper.from_array(bits.view(np.float32), tensor.name))
    import onnx_ir as ir

    from netweave.graph.passes.rounding.formats import float_bound

    plain = {tensor.name: numpy_helper.to_array(tensor) for tensor in float_net().graph.initializer}
    for tensor in model.graph.initializer:
        wanted, cut = plain[tensor.name], numpy_helper.to_array(tensor)
        assert (np.abs(wanted - cut) <= float_bound(wanted, ir.DataType.BFLOAT16)).all()
