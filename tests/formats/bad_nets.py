"""Small nets of every framework with one mistake each: how to write them.

The input of each is an image of 3 channels and 8 by 8 elements (channels last in Keras and TensorFlow); the
layer with the mistake is the only one, unless it takes two.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx

from tests.formats.mxnet import symbols
from tests.formats.onnx.models import model
from tests.formats.onnx.models import node as onnx_node
from tests.formats.singa import nets as singa_nets
from tests.oracles import mxnet_params
from tests.oracles.caffemodel import caffemodel
from tests.oracles.singa_net import checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Make = Callable[[Path], Path]

SIZES = (1, 3, 8, 8)


def caffe(kind: str, settings: str = "", *, bottoms: int = 1, weights: np.ndarray | None = None) -> Make:
    """A layer over the image, or over it several times."""
    read = 'bottom: "data" ' * bottoms
    text = (
        'input: "data"\ninput_shape { dim: 1 dim: 3 dim: 8 dim: 8 }\n'
        f'layer {{ name: "bad" type: "{kind}" {read} top: "bad"\n{settings} }}\n'
    )
    arrays = None if weights is None else caffemodel([("bad", "convolution", [weights])], generation=2)
    return _files("net.prototxt", text, **({"net.caffemodel": arrays} if arrays else {}))


def mxnet(op: str, *, names: str = "", weights: dict[str, np.ndarray] | None = None, **settings: str) -> Make:
    """An operator over the image and further variables."""
    variables = ["data", *(f"bad_{name}" for name in names.split())]
    nodes = [symbols.variable(name) for name in variables]
    nodes.append(symbols.node(op, "bad", range(len(variables)), **settings))
    files = {}
    if weights is not None:
        arrays = {f"arg:bad_{name}": array for name, array in weights.items()}
        files["net-0001.params"] = mxnet_params.params(arrays)
    return _files("net-symbol.json", symbols.symbol(nodes), **files)


def darknet(section: str, *, weights: np.ndarray | None = None) -> Make:
    """A section behind ``[net]``."""
    files = {}
    if weights is not None:
        files["net.weights"] = np.array([0, 2, 0, 0, 0], "<i4").tobytes() + weights.tobytes()
    return _files("net.cfg", f"[net]\nchannels=3\nheight=8\nwidth=8\n{section}\n", **files)


def singa(
    kind: str, settings: str = "", *, sources: str = "data", weights: dict[str, np.ndarray] | None = None
) -> Make:
    """A layer over the images of an input layer."""
    text = singa_nets.conf(
        singa_nets.data(3, 8, 8), singa_nets.layer(kind, settings, sources=sources, name="bad", params="w b")
    )
    files = {"step9-worker0": checkpoint(weights)} if weights is not None else {}
    return _files("job.conf", text, **files)


def keras(kind: str, **settings: Any) -> Make:
    """A layer over the image, as a configuration of Keras 3."""
    layers = [
        {"class_name": "InputLayer", "config": {"name": "x", "batch_shape": [None, 8, 8, 3]}},
        {"class_name": kind, "config": {"name": "bad", **settings}},
    ]
    return _files(
        "net.json", json.dumps({"class_name": "Sequential", "config": {"name": "net", "layers": layers}})
    )


def tensorflow(op: str, *inputs: str, **attributes: str) -> Make:
    """A node over the image, as a GraphDef in text."""
    read = "".join(f' input: "{source}"' for source in inputs)
    held = "".join(f' attr {{ key: "{key}" value {{ {value} }} }}' for key, value in attributes.items())
    sizes = "dim { size: -1 } dim { size: 8 } dim { size: 8 } dim { size: 3 }"
    return _files(
        "net.pbtxt",
        'node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } '
        f'attr {{ key: "shape" value {{ shape {{ {sizes} }} }} }} }}\n'
        f'node {{ name: "bad" op: "{op}"{read}{held} }}\n',
    )


def onnx_file(
    op_type: str, inputs: str = "x", *, arrays: dict[str, Any] | None = None, **settings: Any
) -> Make:
    """A node over the image and stored arrays."""
    bad = onnx_node(op_type, inputs, "y", name="bad", **settings)

    def make(folder: Path) -> Path:
        onnx.save(model([bad], {"x": list(SIZES)}, ["y"], arrays), folder / "net.onnx")
        return folder / "net.onnx"

    return make


def _files(net: str, text: str, **others: bytes) -> Make:
    def make(folder: Path) -> Path:
        for name, content in others.items():
            (folder / name).write_bytes(content)
        (folder / net).write_text(text)
        return folder / net

    return make
