"""Graphs run by OpenVINO and by OpenCV: what they do not refuse, or leave to ONNX Runtime, is right."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

pytest.importorskip("torch")  # which says what of a node test is a setting

from netweave.errors import RunError
from netweave.graph import OPSET
from netweave.runtime.backends import Purpose, RunSettings, prepare
from tests.graph.passes.nets import branching_net
from tests.runtime.backends.installed import is_installed
from tests.runtime.backends.torch.node_cases import check_all
from tests.runtime.backends.torch.test_node_cases import our_cases, with_constant_settings
from tests.time_limits import IN_CI

X = np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype(np.float32)

BACKENDS = [
    pytest.param(name, marks=pytest.mark.skipif(not is_installed(name), reason=f"needs the extra {name}"))
    for name in ("openvino", "opencv")
]

REFUSED = ("rejects the net", "cannot run the net")

ROUNDED_DIFFERENTLY = {
    "resize_downsample_scales_cubic_align_corners",
    "resize_downsample_scales_linear_align_corners",
}
"""ONNX Runtime and OpenVINO take the rounded size for the sides, ONNX's reference scale times size."""


def is_fit(case):
    dtypes = {array.dtype.name for array in (*case.inputs.values(), *case.outputs.values())}
    return (
        len(case.graph.nodes) == 1
        and case.graph.model.opset_imports[""] == OPSET
        and dtypes <= {"float32", "int32", "int64", "bool"}
        and all(array.size for array in (*case.inputs.values(), *case.outputs.values()))
    )


def few_of_each(cases):
    """Return the first two cases of each operator, and each fifth of the others."""
    seen = Counter()
    chosen = []
    for case in cases:
        op_type = case.graph.nodes[0].op_type
        if seen[op_type] < 2 or not seen[op_type] % 5:
            chosen.append(case)
        seen[op_type] += 1
    return chosen


LEFT_TO_ONNX_RUNTIME = {
    "maxunpool_export_with_output_shape",
    "mod_float32_mixed_sign_fmod_0",
    "mod_float_edge_cases_fmod_0_float32",
}
"""Operators that OpenCV is not given, and that ONNX Runtime computes otherwise than ONNX's reference."""


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("purpose", Purpose)
def test_node_cases_are_right_or_refused(purpose, backend):
    left_out = ROUNDED_DIFFERENTLY | (LEFT_TO_ONNX_RUNTIME if backend == "opencv" else set())
    cases = [case for case in our_cases() if is_fit(case) and case.name not in left_out]
    assert len(cases) > 400
    if IN_CI:
        cases = few_of_each(cases)
    check_all(cases, lambda case: check_right_or_refused(case, purpose, backend))


def check_right_or_refused(case, purpose, backend):
    stored = with_constant_settings(case)
    try:
        found = prepare(stored.graph, backend=backend, settings=RunSettings(purpose)).run(stored.inputs)
    except RunError as error:
        if any(text in str(error) for text in REFUSED):
            return
        raise
    for name, array in case.outputs.items():
        assert found[name].shape == array.shape
        rms = np.sqrt(np.mean(np.square(array, dtype=np.float64)))
        np.testing.assert_allclose(found[name], array, rtol=1e-3, atol=1e-4 * rms, err_msg=name)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("batch", [1, 3])
def test_agrees_with_onnx_runtime_with_the_registry_in_between(batch, backend):
    graph, x = branching_net(), np.repeat(X[:1], batch, axis=0)
    taps = [value.name for node in graph.nodes for value in node.outputs]
    expected = prepare(graph, taps=taps).run({"data": x})
    found = prepare(graph, taps=taps, backend=backend, settings=RunSettings(threads=1)).run({"data": x})
    assert list(found) == list(expected)
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-5, err_msg=name)
