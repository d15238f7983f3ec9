"""The attributes of TensorFlow's operators: the table against TensorFlow's own definitions."""

from __future__ import annotations

import json

import pytest

import netweave
from netweave.errors import ReadError
from netweave.formats.tensorflow.attributes import ATTRIBUTES
from netweave.formats.tensorflow.folding import can_fold
from netweave.formats.tensorflow.operators import READERS
from tests.oracles.tensorflow_attributes import GOLDEN

DEFINED = json.loads(GOLDEN.read_text())

JOINED = {"BatchNormalization", "Dropout"}
"""Groups of nodes that ``patterns.py`` makes one: no file has them."""

NET = """
node {{ name: "x" op: "Placeholder" attr {{ key: "dtype" value {{ type: DT_FLOAT }} }}
  attr {{ key: "shape" value {{ shape {{ dim {{ size: 1 }} dim {{ size: 4 }} }} }} }} }}
node {{ name: "y" op: "LeakyRelu" input: "x" {} }}
"""


def test_the_table_is_tensorflow_s():
    assert {op: set(names) for op, names in DEFINED.items() if names is not None} == ATTRIBUTES


def test_every_operator_that_is_read_is_in_it():
    assert set(READERS) - JOINED <= set(DEFINED)
    assert all(can_fold(op) for op in set(DEFINED) - set(READERS))


def test_annotations_of_tensorflow_pass_and_other_attributes_are_refused(tmp_path):
    path = tmp_path / "net.pbtxt"
    path.write_text(NET.format('attr { key: "_alhpa" value { f: 0.1 } }'))
    netweave.load(path)
    path.write_text(NET.format('attr { key: "alhpa" value { f: 0.1 } } attr { key: "beta" value { f: 2 } }'))
    message = (
        r"net.pbtxt: .*alhpa=.* \(LeakyRelu 'y' on line 4; did you mean 'alpha'\?\); beta=.*LeakyRelu 'y'"
    )
    with pytest.raises(ReadError, match=message):
        netweave.load(path)


def test_a_function_of_the_file_may_have_any_attribute(tmp_path):
    """TensorFlow 1 calls a function by a node of its name."""
    path = tmp_path / "net.pbtxt"
    function = """
library { function {
  signature { name: "Twice" input_arg { name: "a" type: DT_FLOAT } output_arg { name: "b" type: DT_FLOAT } }
  node_def { name: "sum" op: "Add" input: "a" input: "a" attr { key: "T" value { type: DT_FLOAT } } }
  ret { key: "b" value: "sum:z:0" } } }
"""
    net = NET.format("").replace("LeakyRelu", "Twice")
    path.write_text(net.replace('input: "x" ', 'input: "x" attr { key: "mine" value { i: 1 } }') + function)
    assert next(node.op_type for node in netweave.load(path).nodes) == "Add"
