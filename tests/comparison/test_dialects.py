"""Ports with a wrong padding, told in the words of their own files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import netweave
from tests.comparison.onnx_text import read_text
from tests.formats.tensorflow.lite.files import model, tensor

if TYPE_CHECKING:
    from pathlib import Path

RIGHT = "g (float[1,2,8,8] x) => (float[1,2,R,R] y) { y = MaxPool<kernel_shape=[3,3], SETTINGS>(x) }"


def tensorflow(folder: Path, rule: str, stride: int) -> Path:
    sizes = f"i: 1 i: {stride} i: {stride} i: 1"
    path = folder / "b.pbtxt"
    path.write_text(f"""
node {{ name: "x" op: "Placeholder" attr {{ key: "dtype" value {{ type: DT_FLOAT }} }}
  attr {{ key: "shape" value {{ shape {{
  dim {{ size: 1 }} dim {{ size: 8 }} dim {{ size: 8 }} dim {{ size: 2 }} }} }} }} }}
node {{ name: "pool" op: "MaxPool" input: "x" attr {{ key: "T" value {{ type: DT_FLOAT }} }}
  attr {{ key: "ksize" value {{ list {{ i: 1 i: 3 i: 3 i: 1 }} }} }}
  attr {{ key: "strides" value {{ list {{ {sizes} }} }} }}
  attr {{ key: "padding" value {{ s: "{rule}" }} }} }}
""")
    return path


def tflite(folder: Path, rule: str, stride: int) -> Path:
    size = -(-8 // stride) if rule == "SAME" else (8 - 3) // stride + 1
    tensors = [tensor("x", [1, 8, 8, 2]), tensor("y", [1, size, size, 2])]
    settings = {
        "padding": rule,
        "stride_w": stride,
        "stride_h": stride,
        "filter_width": 3,
        "filter_height": 3,
    }
    path = folder / "b.tflite"
    path.write_bytes(model("MAX_POOL_2D", tensors, [0], options=("Pool2DOptions", settings)))
    return path


def openvino(folder: Path, rule: str, stride: int) -> Path:
    size = (8 + (1 if rule == "SAME" and stride == 2 else 2 if rule == "SAME" else 0) - 3) // stride + 1
    begin, end = ("0,0", "1,1") if rule == "SAME" and stride == 2 else ("0,0", "0,0")
    port = "<dim>1</dim><dim>2</dim>" + 2 * "<dim>{}</dim>"
    path = folder / "b.xml"
    path.write_text(f"""<?xml version="1.0"?><net name="b" version="11"><layers>
<layer id="0" name="x" type="Parameter" version="opset1"><data shape="1,2,8,8" element_type="f32"/>
<output><port id="0" precision="FP32" names="x">{port.format(8, 8)}</port></output></layer>
<layer id="1" name="pool" type="MaxPool" version="opset1">
<data kernel="3,3" strides="{stride},{stride}" pads_begin="{begin}" pads_end="{end}" rounding_type="floor"/>
<input><port id="0">{port.format(8, 8)}</port></input>
<output><port id="1" precision="FP32">{port.format(size, size)}</port></output></layer>
<layer id="2" name="y" type="Result" version="opset1"><input>
<port id="0">{port.format(size, size)}</port></input></layer></layers>
<edges><edge from-layer="0" from-port="0" to-layer="1" to-port="0"/>
<edge from-layer="1" from-port="1" to-layer="2" to-port="0"/></edges></net>""")
    path.with_suffix(".bin").write_bytes(b"")
    return path


BEFORE = "[[0, 0], [1, 1], [1, 1], [0, 0]]"
WORDS = {
    tensorflow: (f"padding='VALID' after tf.pad(x, {BEFORE})", "padding='SAME'"),
    tflite: (f"padding: VALID after a PAD operator with the paddings {BEFORE}", "padding: SAME"),
    openvino: ('pads_begin="1,1" pads_end="1,1"', 'pads_begin="1,1" pads_end="1,1"'),
}


@pytest.mark.parametrize("port", WORDS)
def test_a_padding_on_both_sides(port, tmp_path):
    """SAME pads after the image alone where the stride is 2, as TensorFlow does and most others do not."""
    a = read_text(RIGHT.replace("SETTINGS", "strides=[2,2], pads=[1,1,1,1]").replace("R", "4"), tmp_path, "a")
    comparison = netweave.compare(a, port(tmp_path, "SAME", 2))
    assert [finding.fix for finding in comparison.findings] == [WORDS[port][0]]


@pytest.mark.parametrize("port", WORDS)
def test_a_padding_that_is_missing(port, tmp_path):
    a = read_text(RIGHT.replace("SETTINGS", "strides=[1,1], pads=[1,1,1,1]").replace("R", "8"), tmp_path, "a")
    comparison = netweave.compare(a, port(tmp_path, "VALID", 1))
    assert WORDS[port][1] in [finding.fix for finding in comparison.findings]
