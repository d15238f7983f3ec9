"""What no writer of another framework's nets takes, though it knows the operator."""

from __future__ import annotations

import onnx
import pytest

import netweave
from netweave.errors import UnsupportedError

UNWRITABLE = {
    "a quotient of integers": (
        "g (int64[N,8] x) => (float[N,8] y) <int64 k = {3}> { q = Div(x, k) y = Cast<to=1>(q) }",
        "Div: integers are divided without their remainder",
    ),
    "more samples": (
        "g (float[N,3,8,8] x) => (float[M,3,16,16] y) <float[4] s = {2, 1, 2, 2}> "
        '{ y = Resize<mode="nearest", coordinate_transformation_mode="asymmetric">(x, , s) }',
        "Resize: it resizes the batch or the channels",
    ),
    "more channels": (
        "g (float[N,3,8,8] x) => (float[N,6,16,16] y) <float[4] s = {1, 2, 2, 2}> "
        '{ y = Resize<mode="nearest", coordinate_transformation_mode="asymmetric">(x, , s) }',
        "Resize: it resizes the batch or the channels",
    ),
}

WRITTEN = {"net.prototxt": None, "net-symbol.json": None, "net.py": None, "net_keras.py": "keras"}


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.parametrize(("text", "reason"), UNWRITABLE.values(), ids=UNWRITABLE)
def test_no_writer_writes_something_else(text, reason, name, tmp_path):
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 19]> {text}')
    onnx.save(model, tmp_path / "net.onnx")
    net = netweave.load(tmp_path / "net.onnx")
    with pytest.raises(UnsupportedError, match=reason):
        netweave.save(net, tmp_path / name, to=WRITTEN[name])
