"""Bad files of MXNet: symbols and arrays."""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np

from netweave.errors import NetweaveError, ReadError, ShapeError, WeightError
from tests.formats.mxnet.symbols import node as mx
from tests.formats.mxnet.symbols import symbol, variable
from tests.hostile.cases.case import ANY, add, file, weights
from tests.hostile.cases.foreign import PICKLE
from tests.oracles import mxnet_params


def _one(op: str, **settings: str) -> str:
    return symbol([variable("data", __shape__="(1, 3, 8, 8)"), mx(op, "l", [0], **settings)])


def _nodes(nodes: Any, heads: Any = ((0, 0, 0),)) -> str:
    return json.dumps({"nodes": nodes, "arg_nodes": [0], "heads": heads})


def _reading(entry: list[float]) -> str:
    return _nodes([_DATA, _RELU | {"inputs": [entry]}], [[1, 0, 0]])


_DATA = {"op": "null", "name": "data", "attrs": {"__shape__": "(1, 3)"}, "inputs": []}
_RELU = {"op": "relu", "name": "r", "inputs": [[0, 0, 0]]}
_MXNET = {
    "a node that reads itself": (_reading([1, 0, 0]), ReadError, ANY),
    "nodes in a cycle": (
        _nodes([_DATA, _RELU | {"inputs": [[2, 0, 0]]}, _RELU | {"inputs": [[1, 0, 0]]}], [[2, 0, 0]]),
        ReadError, ANY,
    ),
    "an input that is not there": (_reading([9, 0, 0]), ReadError, ANY),
    "an input before the first": (_reading([-1, 0, 0]), ReadError, ANY),
    "an output that is not there": (_reading([0, 2**40, 0]), NetweaveError, ANY),
    "a number with a point as input": (_reading([0.5, 0, 0]), ReadError, ANY),
    "a head that is not there": (_nodes([_DATA, _RELU], [[7, 0, 0]]), ReadError, ANY),
    "nodes that are no list": (_nodes({"op": "null"}), ReadError, ANY),
    "a node that is no object": (_nodes([1]), ReadError, ANY),
    "a name that is a list": (_nodes([_DATA | {"name": [1]}]), ReadError, ANY),
    "an operator that is a number": (_nodes([_DATA, _RELU | {"op": 7}], [[1, 0, 0]]), ReadError, ANY),
    "nested too deep": ('{"nodes": ' + "[" * 100_000, ReadError, "nested|deep"),
    "settings nested too deep": (
        _nodes([_DATA]).replace('"(1, 3)"', "[" * 5000 + "]" * 5000), ReadError, ANY,
    ),
    "cut in a string": ('{"nodes": [{"op": "nul', ReadError, ANY),
    "a number of 5,000 digits": (_nodes([_DATA], [["X", 0, 0]]).replace('"X"', "9" * 5000), ReadError, ANY),
    "2^31 as a size": (_one("relu").replace("(1, 3, 8, 8)", "(1, 2147483648)"), ShapeError, ANY),
    "a huge window": (_one("Pooling", kernel="(99999999999, 1)"), ShapeError, ANY),
    "a step of 0": (_one("Pooling", kernel="(2, 2)", stride="(0, 0)"), NetweaveError, "stride"),
    "2^31 parts": (_one("SliceChannel", num_outputs="2147483648"), NetweaveError, "num_outputs"),
    "a text for a number": (_one("Activation", act_type="7"), ReadError, "act_type"),
    "repeated 2^31 times": (_one("repeat", repeats="2147483648", axis="0"), NetweaveError, ANY),
    "tiled 2^31 times": (_one("tile", reps="(2147483648, 2147483648)"), NetweaveError, ANY),
    "2^62 zeros": (_one("_zeros", shape="(4611686018427387904,)"), NetweaveError, ANY),
    "not UTF-8": (_one("relu").encode().replace(b'"l"', b'"\xff"'), ReadError, ANY),
    "NaN for a number": (_nodes([_DATA], [[float("nan"), 0, 0]]), ReadError, ANY),
}  # fmt: skip
for _name, (_content, _error, _message) in _MXNET.items():
    add(f"symbol: {_name}", file("net-symbol.json", _content), _error, _message)

_HEAD = struct.pack("<QQQ", 0x112, 0, 1)
_DENSE = struct.pack("<Ii", 0xF993FAC9, 0)
_PARAMS = {
    "2^62 arrays": (struct.pack("<QQQ", 0x112, 0, 2**62), ReadError, ANY),
    "an array of 2^60 elements": (_HEAD + _DENSE + struct.pack("<i2q", 2, 2**30, 2**30), ReadError, ANY),
    "2^30 axes": (_HEAD + _DENSE + struct.pack("<i", 2**30), ReadError, ANY),
    "a size below zero": (_HEAD + _DENSE + struct.pack("<iq", 1, -4), ReadError, ANY),
    "a name of 2^60 bytes": (
        _HEAD + mxnet_params.record(np.zeros(2, np.float32), 2) + struct.pack("<QQ", 1, 2**60),
        ReadError, ANY,
    ),
    "arrays of another net": (mxnet_params.params({"arg:other": np.zeros(2, np.float32)}), WeightError, ANY),
    "a pickle": (PICKLE, ReadError, ANY),
    "a sparse array of 2^40 elements": (
        mxnet_params.params(
            {
                "arg:conv_weight": mxnet_params.row_sparse(
                    np.zeros((1, 2**20), np.float32), np.zeros(1, np.int64), (2**20, 2**20)
                )
            }
        ),
        NetweaveError, ANY,
    ),
}  # fmt: skip
for _name, (_content, _error, _message) in _PARAMS.items():
    add(f"params: {_name}", weights("params", _content), _error, _message)
