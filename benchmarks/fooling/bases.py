"""Real nets as ONNX files to be mutated: small trained ones of the corpus."""

from __future__ import annotations

import tempfile
from pathlib import Path

import onnx

import netweave

SMALL = (
    "mtcnn/det1.prototxt,mtcnn/det1.caffemodel",
    "mtcnn/det2.prototxt,mtcnn/det2.caffemodel",
    "mtcnn/det1-symbol.json,mtcnn/det1-0001.params",
    "mtcnn/det2-symbol.json,mtcnn/det2-0001.params",
)
"""Trained nets of the corpus that run in milliseconds."""


def real_nets(corpus: Path) -> list[tuple[str, onnx.ModelProto]]:
    """Return real nets with their kinds: those of the corpus that are there.

    Args:
        corpus: The folder of real nets.
    """
    nets = []
    with tempfile.TemporaryDirectory() as folder:
        for spec in SMALL:
            files = [corpus / name for name in spec.split(",")]
            if not all(file.exists() for file in files):
                continue
            target = Path(folder) / f"{len(nets)}.onnx"
            netweave.save(netweave.load(",".join(map(str, files))), target)
            nets.append(("real", onnx.load(target)))
    return nets


def with_stored_constants(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a net whose constants are stored arrays, which can be changed, instead of nodes."""
    nodes = []
    for node in model.graph.node:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            tensor = node.attribute[0].t
            tensor.name = node.output[0]
            model.graph.initializer.append(tensor)
        else:
            nodes.append(node)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model
