"""Count layers, parameters and outputs of every net of the corpus, apart from Netweave.

    cd REPOSITORY; ORACLES/bin/python -m tests.oracles.corpus_table CORPUS

Writes ``tests/golden/corpus_nets.json``. Caffe's nets are counted from their text by ``caffe_net``, whose
shapes agree with OpenCV's wherever that runs the net; MXNet's by MXNet. Nets that Netweave refuses are not
in the table.
"""

from __future__ import annotations

import json
import sys
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mxnet as mx

from tests.oracles import caffe_net, golden
from tests.oracles.caffe_net import DATA, SINKS
from tests.oracles.caffe_nets import NOT_HERE, STAGES, input_shapes
from tests.oracles.real_nets import SYMBOLS, TRAINED

if TYPE_CHECKING:
    from tests.oracles.caffe_net import Body, Shape

GOLDEN = Path(__file__).parent.parent / "golden" / "corpus_nets.json"

REFUSED = "caffe/v0.9999/examples__cifar10__cifar10_full.prototxt"
"""A net with a field in the wrong message: Caffe's own parser refuses it."""


def main(corpus: Path) -> None:
    """Write the golden file."""
    rows = []
    for path in sorted(corpus.rglob("*.prototxt")):
        name = path.relative_to(corpus).as_posix()
        if not NOT_HERE.search(path.name) and name != REFUSED:
            rows += [{"file": name, **row} for row in caffe_rows(path)]
    symbols = {f"{name}-symbol.json": shapes[0] for name, shapes in TRAINED.items()} | SYMBOLS
    rows += [{"file": name, **mxnet_row(corpus / name, shape)} for name, shape in symbols.items()]
    golden.write_json(GOLDEN, rows)


def caffe_rows(path: Path) -> list[dict[str, Any]]:
    """Return a row for each phase; one for both where they are the same."""
    stages = next((stages for word, stages in STAGES.items() if word in path.name), ())
    rows = []
    for phase in ("TEST", "TRAIN"):
        body = caffe_net.read(path.read_text(), phase=phase, stages=stages if phase == "TEST" else ())
        row = caffe_row(body, input_shapes(path, body))
        if not rows or row != {key: rows[0][key] for key in row}:
            rows.append({"phase": phase, "stages": stages if phase == "TEST" else (), **row})
    return rows


def caffe_row(body: Body, inputs: dict[str, Shape]) -> dict[str, Any]:
    """Count a net: its layers as Caffe has them after upgrading an old file."""
    shapes, blobs = caffe_net.stored(body, inputs)
    owned = {blob.owner: blob.shape for entries in blobs.values() for blob in entries}
    layers = [layer.name for layer in body.layers if layer.kind != "padding"]
    by_field = body.declared and not any(layer.kind == "input" for layer in body.layers)
    return {
        "inputs": {name: shape[1:] for name, shape in inputs.items()},
        "layers": len(layers) + bool(by_field),
        "parameters": sum(prod(shape) for shape in owned.values()),
        "outputs": {name: symbolic(shapes.get(name)) for name in unread(body)},
    }


def unread(body: Body) -> list[str]:
    """Return the blobs that no layer reads, in order of their names; one layer at least makes each."""
    ends: dict[str, None] = {}
    for layer in body.layers:
        for name in layer.bottoms:
            ends.pop(name, None)
        if layer.kind not in DATA:
            # a loss without a top makes one all the same, here called as the layer
            tops = layer.tops or ([layer.name] if SINKS.fullmatch(layer.kind) else [])
            ends.update(dict.fromkeys(tops))
    return sorted(ends)


def symbolic(shape: Shape | None) -> list[int | str]:
    """Return a shape with the batch as N; losses and metrics, which have none, are scalars."""
    return ["N", *shape[1:]] if shape else []


def mxnet_row(path: Path, shape: Shape) -> dict[str, Any]:
    """Count a symbol as MXNet reads it."""
    symbol = mx.sym.load(str(path))
    args, outputs, aux = symbol.infer_shape(data=shape)
    inputs = {"data"} | {name for name in symbol.list_arguments() if name.endswith("label")}
    stored = [size for name, size in zip(symbol.list_arguments(), args, strict=True) if name not in inputs]
    return {
        "phase": "TEST",
        "stages": (),
        "inputs": {"data": shape[1:]},
        "layers": sum(node["op"] != "null" for node in json.loads(symbol.tojson())["nodes"]),
        "parameters": sum(map(prod, [*stored, *aux])),
        "outputs": {name: symbolic(size) for name, size in zip(symbol.list_outputs(), outputs, strict=True)},
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]))
