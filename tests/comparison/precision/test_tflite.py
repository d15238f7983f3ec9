"""Nets by TensorFlow's own converter against their float version, and faults planted in their files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import netweave
from netweave.comparison import Status, Verdict
from netweave.comparison.precision.ranges import has_given_range
from netweave.files.onnx import metadata
from netweave.formats.tensorflow.lite.program import SCHEMA
from netweave.graph import StoredFormat
from netweave.graph.passes.rounding import explicit_rounding, rounding_points

if TYPE_CHECKING:
    from collections.abc import Callable

GOLDEN = Path(__file__).parents[2] / "golden" / "tflite"
FORMATS = {
    "float16": ("float16",),
    "dynamic": ("int8",),
    "int8": ("int8",),
    "int8_per_tensor": ("int8",),
    "uint8_io": ("int8",),
}
"""What each file of ``tests/oracles/tflite_nets.py`` is rounded to."""


def small(form: str) -> Path:
    return GOLDEN / f"small_{form}.tflite"


@pytest.mark.parametrize("form", FORMATS)
def test_a_file_by_the_converter_is_equal_within_its_rounding(form: str) -> None:
    comparison = netweave.compare(small("float"), small(form))
    assert comparison.verdict is Verdict.EQUAL
    assert comparison.findings == ()
    assert comparison.precision is not None
    assert comparison.precision.formats == FORMATS[form]
    assert 0 < comparison.precision.seen <= 2 * comparison.precision.expected
    assert {group.status for group in comparison.groups} <= {Status.EQUAL, Status.MAPPED}
    assert all(group.rounding_error is not None for group in comparison.groups)


def arrays_of(form: str) -> list[tuple[list[int], list[float]]]:
    """The sorted integers of each array of a file, and its sorted scales, as its tables have them."""
    model = SCHEMA.decode("Model", small(form).read_bytes(), place="net")
    dtypes = {"INT8": np.int8, "INT32": np.int32}
    rows = []
    for tensor in model["subgraphs"][0]["tensors"]:
        data = model["buffers"][tensor["buffer"]]["data"]
        if data.size and tensor["type"] in dtypes and tensor["quantization"] is not None:
            integers = np.sort(data.view(dtypes[tensor["type"]]))
            rows.append((integers.tolist(), np.sort(tensor["quantization"]["scale"]).tolist()))
    return rows


@pytest.mark.parametrize("form", ["dynamic", "int8"])
def test_stored_arrays_are_the_integers_of_the_file(form: str) -> None:
    expected = arrays_of(form)
    stored = explicit_rounding(netweave.load(small(form))).stored
    assert stored
    for rounding in stored.values():
        assert rounding.integers is not None
        assert rounding.quantiser is not None
        scales = np.sort(rounding.quantiser.scale.reshape(-1)).tolist()
        assert (np.sort(rounding.integers, None).tolist(), scales) in expected


@pytest.mark.parametrize("forms", [("int8", "int8_per_tensor"), ("dynamic", "int8"), ("float16", "int8")])
@pytest.mark.parametrize("swapped", [False, True])
def test_two_rounded_files_of_one_net_are_equal(forms: tuple[str, str], swapped: bool) -> None:
    a, b = forms[::-1] if swapped else forms
    comparison = netweave.compare(small(a), small(b))
    assert comparison.verdict is Verdict.EQUAL
    assert comparison.findings == ()
    assert comparison.precision is not None
    assert comparison.precision.side == "A and B"
    assert "they stand for the same net" in comparison.sentence


def test_a_rounded_file_is_identical_to_itself() -> None:
    assert netweave.compare(small("int8"), small("int8")).verdict is Verdict.IDENTICAL


def changed(source: Path, target: Path, find: Callable[[dict], np.ndarray], factor: float) -> Path:
    """Write a file with some of its scales multiplied: their bytes are found and replaced where they lie."""
    content = source.read_bytes()
    scales = find(SCHEMA.decode("Model", content, place="net")["subgraphs"][0])
    before = np.asarray(scales, "<f4").tobytes()
    places = [i for i in range(len(content) - len(before)) if content.startswith(before, i)]
    assert places
    after = (np.asarray(scales, "<f4") * np.float32(factor)).astype("<f4").tobytes()
    target.write_bytes(content.replace(before, after))
    return target


def scales_of(name: str) -> Callable[[dict], np.ndarray]:
    """Find the scales of the filters of a layer: there is one for each."""

    def find(graph: dict) -> np.ndarray:
        known = [tensor["quantization"]["scale"] for tensor in graph["tensors"] if name in tensor["name"]]
        return next(scales for scales in known if scales.size > 1)

    return find


ROUNDED_BY_A_FAULT = (
    "with the faulty int8 net as A and the dynamically rounded one as B, rounding is not set apart: the "
    "finding is that the bias differs, and the Relu that stands for an int8 range is told as missing in B"
)


@pytest.mark.parametrize(
    "other",
    ["float", pytest.param("dynamic", marks=pytest.mark.findings_by_order(reason=ROUNDED_BY_A_FAULT))],
)
def test_a_wrong_scale_of_filters_is_located(other: str, tmp_path: Path) -> None:
    port = changed(small("int8"), tmp_path / "net.tflite", scales_of("pointwise"), 3.0)
    comparison = netweave.compare(small(other), port)
    assert comparison.verdict is Verdict.DIFFERENT
    (finding,) = comparison.findings
    assert finding.mismatch == "quantised-scale"
    assert "pointwise" in finding.layer_a


def test_a_range_that_is_cut_is_located_also_against_a_rounded_file(tmp_path: Path) -> None:
    def hidden(graph: dict) -> np.ndarray:
        made = (t for t in graph["tensors"] if "hidden" in t["name"] and t["shape"].tolist() == [1, 64])
        return next(made)["quantization"]["scale"]

    port = changed(small("int8"), tmp_path / "net.tflite", hidden, 0.2)
    for other in ("float", "int8_per_tensor"):
        comparison = netweave.compare(small(other), port)
        assert comparison.verdict is Verdict.DIFFERENT, other
        assert {finding.mismatch for finding in comparison.findings} == {"quantised-range"}
        assert all("hidden" in finding.layer_a for finding in comparison.findings)


def test_a_fault_of_the_first_net_is_located_too(tmp_path: Path) -> None:
    port = changed(small("int8"), tmp_path / "net.tflite", scales_of("pointwise"), 3.0)
    comparison = netweave.compare(port, small("int8_per_tensor"))
    assert comparison.verdict is Verdict.DIFFERENT
    assert {"pointwise" in finding.layer_a for finding in comparison.findings} == {True}


def test_a_softmax_has_the_range_that_the_format_gives_it() -> None:
    points = rounding_points(explicit_rounding(netweave.load(small("uint8_io"))).graph)
    given = [point for point in points if has_given_range(point)]
    softmax = [point for point in given if point.quantiser and np.isclose(point.quantiser.scale, 1 / 256)]
    assert len(softmax) == 2  # as int8, and as the uint8 of the output
    assert len(given) < len(points)


def test_stored_formats_are_written_and_read() -> None:
    graph = netweave.load(small("int8"))
    formats = {key: p.stored_format for key, p in graph.parameters.items()}
    assert any(known is not None and len(known.scale) > 1 for known in formats.values())
    graph.model.metadata_props.update(metadata.dump(graph))
    saved = metadata.load(graph.model, place="net")
    assert saved is not None
    assert {key: p.stored_format for key, p in saved.parameters.items()} == formats


def test_other_numbers_are_not_those_of_the_file() -> None:
    graph = netweave.load(small("int8"))
    key = next(key for key, p in graph.parameters.items() if p.stored_format is not None)
    shape = graph.parameters[key].shape
    other = netweave.graph.with_arrays(graph, {key: np.ones(shape, np.float32)})
    assert other.parameters[key].stored_format is None
    assert isinstance(graph.parameters[key].stored_format, StoredFormat)
