"""Every operator of TensorFlow that is read computes what TensorFlow computes; one without a case fails here.

The net and the golden values are written by ``tests/oracles/tensorflow_operators.py``.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import netweave
from netweave.files import Source
from netweave.formats.tensorflow import operators
from netweave.formats.tensorflow.folding import simplify
from netweave.formats.tensorflow.opening import open_net
from netweave.formats.tensorflow.operators import READERS

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path(__file__).parent.parent / "golden"
NET = FOLDER / "tensorflow_operators"
GOLDEN = np.load(NET / "operators.npz")
OUTPUTS = [name for name in GOLDEN.files if not name.startswith("in/")]

OLDER = {
    "AutoReloadVariable": "VariableV2",
    "HostConst": "Const",
    "PlaceholderV2": "Placeholder",
    "RefIdentity": "Identity",
    "RefMerge": "Merge",
    "RefSwitch": "Switch",
    "TemporaryVariable": "VariableV2",
    "TopK": "TopKV2",
    "Variable": "VariableV2",
    "swish_f32": "SwishF32",
}
"""Operators that TensorFlow 2.21 writes no more, and the one in the table that does the same."""


ELSEWHERE = {
    "BatchNormWithGlobalNormalization",
    "CudnnRNN",
    "CudnnRNNV2",
    "CudnnRNNV3",
    "SwishF32",
    "_FusedBatchNormEx",
    "_FusedDepthwiseConv2dNative",
}
"""Operators that TensorFlow runs on a GPU alone, or that only TensorFlow 1 wrote: other tests hold them."""


def files() -> Iterator[Path]:
    """Give all files that TensorFlow and Keras wrote for the tests."""
    yield from (
        *FOLDER.glob("tensorflow*/*.pb"),
        *FOLDER.glob("tensorflow/*.meta"),
        *FOLDER.rglob("saved_model.pb"),
    )


@cache
def written() -> set[str]:
    """Return the operators of these files, groups that are read as one node included."""
    found: set[str] = set()
    for path in files():
        program = open_net(Source(path)).program
        for body in (program.main, *program.functions.values()):
            found.update(node.op for node in (*body.nodes.values(), *simplify(body).nodes.values()))
    return found


@cache
def outputs() -> dict[str, np.ndarray]:
    graph = netweave.load(NET)
    inputs = {value.name: GOLDEN[f"in/{value.name}"] for value in graph.inputs}
    return netweave.run(graph, inputs)


@pytest.mark.parametrize("case", OUTPUTS)
def test_an_operator_makes_what_tensorflow_makes(case):
    found, expected = np.asarray(outputs()[case]), GOLDEN[case]
    assert found.shape == expected.shape
    rms = float(np.sqrt(np.mean(expected.astype(np.float64) ** 2))) or 1.0
    np.testing.assert_allclose(
        found.astype(np.float64), expected.astype(np.float64), atol=2e-6 * rms, rtol=2e-5
    )


def test_every_operator_has_a_case():
    assert operators  # imported for what it registers
    known = READERS
    assert sorted(set(known) - written() - set(OLDER) - ELSEWHERE) == []
    assert {name.partition("/")[0] for name in OUTPUTS} <= set(known)
    assert not [old for old, now in OLDER.items() if known[old].read is not known[now].read]
