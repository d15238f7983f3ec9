"""Nets of every format, read as ``netweave.load`` reads them."""

from __future__ import annotations

import gzip
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import netweave
from benchmarks.hostile.mutations import (
    mutate_bytes,
    mutate_hdf5,
    mutate_json,
    mutate_text,
    mutate_wire,
    mutate_zip,
)
from benchmarks.hostile.readers.reader import Reader, Seed, one_file
from netweave.formats.mxnet.ndarray import read_arrays
from tests.formats.mxnet.cases import CASES
from tests.hostile.nets import KERAS, TENSORFLOW, Net, hdf5_nets, nets
from tests.oracles import mxnet_params

if TYPE_CHECKING:
    from benchmarks.hostile.mutations import Mutation

GOLDEN = KERAS.parent
MAX_SEED_BYTES = 60_000

_KINDS: dict[str, tuple[str, Mutation]] = {
    "prototxt": ("caffe.prototxt", mutate_text),
    "caffemodel": ("caffe.caffemodel", mutate_wire),
    "caffemodel.h5": ("caffe.caffemodel.h5", mutate_hdf5),
    "symbol": ("mxnet.json", mutate_json),
    "params": ("mxnet.params", mutate_bytes),
    "cfg": ("darknet.cfg", mutate_text),
    "weights": ("darknet.weights", mutate_bytes),
    "job.conf": ("singa.conf", mutate_text),
    "checkpoint": ("singa.checkpoint", mutate_wire),
    "onnx": ("onnx", mutate_wire),
    "onnx of ours": ("onnx.written", mutate_wire),
    "keras as text": ("keras.json", mutate_json),
    "keras with masks": ("keras.json", mutate_json),
    "h5": ("keras.h5", mutate_hdf5),
    "weights.h5": ("keras.weights.h5", mutate_hdf5),
    "keras": ("keras.keras", mutate_zip),
    "graph": ("tensorflow.pb", mutate_wire),
    "graph of loops": ("tensorflow.pb", mutate_wire),
    "graph as text": ("tensorflow.pbtxt", mutate_text),
    "loops as text": ("tensorflow.pbtxt", mutate_text),
    "MetaGraph": ("tensorflow.meta", mutate_wire),
    "index": ("tensorflow.index", mutate_bytes),
    "tflite": ("tensorflow.tflite", mutate_bytes),
    "tflite with a loop": ("tensorflow.tflite", mutate_bytes),
    "openvino": ("openvino.xml", mutate_text),
    "openvino's weights": ("openvino.bin", mutate_bytes),
    "gguf": ("arrays.gguf", mutate_bytes),
}
"""Reader and damage of each of the nets that the tests damage."""


def readers() -> list[Reader]:
    """Return a reader for each kind of file."""
    names = dict.fromkeys(name for name, _ in _KINDS.values())
    made = [Reader(name, partial(_seeds, name)) for name in names]
    return [
        *made,
        Reader("mxnet.arrays", _arrays),
        Reader("mxnet.operators", _operators),
        Reader("tensorflow.saved_model", _saved_models),
        Reader("tensorflow.data", _checkpoint_data),
    ]


def seed_of(net: Net, mutation: Mutation, shapes: dict[str, tuple[int, ...]] | None = None) -> Seed:
    """Return a net as a seed."""
    return Seed(net.files, net.damaged, mutation, partial(_load, name=next(iter(net.files)), shapes=shapes))


def _load(folder: Path, *, name: str, shapes: dict[str, tuple[int, ...]] | None = None) -> object:
    return netweave.load(folder / name, input_shapes=shapes)


def _seeds(name: str) -> list[Seed]:
    known = nets() | hdf5_nets()
    own = [seed_of(known[kind], mutation) for kind, (reader, mutation) in _KINDS.items() if reader == name]
    return own + [seed_of(net, own[0].mutation) for net in _more().get(name, [])]


def _more() -> dict[str, list[Net]]:
    """Return files that the frameworks themselves wrote."""

    def files(pattern: str) -> list[Net]:
        paths = [path for path in sorted(GOLDEN.glob(pattern)) if path.stat().st_size < MAX_SEED_BYTES]
        return [Net({path.name: path.read_bytes()}, path.name, text=False) for path in paths]

    keras2 = gzip.decompress((GOLDEN / "keras_layers/keras2.h5.gz").read_bytes())
    return {
        "tensorflow.pb": files("tensorflow/*.pb"),
        "keras.h5": [*files("keras/*.h5"), Net({"all.h5": keras2}, "all.h5", text=False)],
        "keras.keras": files("keras/*.keras"),
    }


def _arrays() -> list[Seed]:
    """Return lists of arrays that MXNet wrote, dense and sparse, which belong to no net."""
    paths = sorted(GOLDEN.glob("mxnet_params/*.params"))
    return [one_file("x.params", path.read_bytes(), mutate_bytes, read_arrays) for path in paths]


def _operators() -> list[Seed]:
    """Return a net of one operator for each of MXNet's."""
    made = []
    for case in CASES.values():
        files = {"case-symbol.json": case.symbol().encode()}
        if arrays := case.arrays(stored=True):
            files["case-0000.params"] = mxnet_params.params(arrays)
        shapes = {name: given.shape for name, given in case.inputs.items() if not given.stored}
        made.append(seed_of(Net(files, "case-symbol.json", text=True), mutate_json, shapes))
    return made


def _folder(folder: Path) -> dict[str, bytes]:
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {f"net/{path.relative_to(folder)}": path.read_bytes() for path in paths}


def _saved_models() -> list[Seed]:
    seeds = []
    for path in sorted(GOLDEN.glob("keras/*_saved_model")):
        files = _folder(path)
        seeds.append(Seed(files, "net/saved_model.pb", mutate_wire, partial(_load, name="net")))
        seeds.append(Seed(files, "net/variables/variables.index", mutate_bytes, partial(_load, name="net")))
    return seeds


def _checkpoint_data() -> list[Seed]:
    """Return the file of numbers beside an index."""
    files = {path.name: path.read_bytes() for path in TENSORFLOW.glob("gru.*") if "pb" not in path.name}
    return [Seed(files, "gru.data-00000-of-00001", mutate_bytes, partial(_load, name="gru.meta"))]
