"""The PyTorch nets with their partners of other frameworks and their faults."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from onnx import numpy_helper

from benchmarks.faults import caffe_nets, mxnet_faults, onnx_nets
from benchmarks.faults.halves import UNSEEN
from benchmarks.faults.model import Net, Subject, Subjects, Wanted
from benchmarks.faults.onnx_faults import net_of
from benchmarks.faults.torch_faults import faults, norms
from benchmarks.faults.torch_nets import (
    TorchNet,
    drawn,
    exported,
    exported_names,
    exported_norms,
    from_caffe,
    from_mxnet,
    own,
    state,
)

if TYPE_CHECKING:
    from benchmarks.faults.torch_nets import Arrays

COUNT = 1
"""Faults of one kind in one net."""

FROM_CAFFE = ("lenet", "cifar10_full", "cifar10_bn")
FROM_MXNET = ("mobilenet",)
FROM_ONNX = ("attention", "enhance", "mixed")


def subjects(corpus: Path, zoo: Path, folder: Path, wanted: Wanted) -> Subjects:
    """Yield every net that is wanted with its partners and its faults.

    Args:
        corpus: The corpus.
        zoo: What ``benchmarks.faults.zoo`` wrote.
        folder: For what PyTorch's exporter writes.
        wanted: Which nets.
    """
    ported = (*FROM_CAFFE, *FROM_MXNET, *UNSEEN["pytorch"])
    for name in filter(lambda name: wanted(f"pytorch-{name}"), ported):
        if name in caffe_nets.NETS and name not in FROM_MXNET:
            caffe = caffe_nets.read(corpus, name)
            yield subject(name, from_caffe(name, caffe), {"caffe": caffe.net()}, folder, count=COUNT)
        else:
            mxnet = mxnet_faults.read(zoo, name)
            yield subject(name, from_mxnet(name, mxnet), {"mxnet": mxnet.net()}, folder, count=COUNT)
    for name in filter(lambda name: wanted(f"pytorch-{name}"), FROM_ONNX):
        model = onnx_nets.NETS["inception" if name == "mixed" else name]()
        arrays = {array.name: numpy_helper.to_array(array) for array in model.graph.initializer}
        net = _own(name, {key: np.array(values) for key, values in arrays.items()})
        yield subject(name, net, {"onnx": net_of(model)}, folder, count=COUNT)
    if wanted("pytorch-heads"):
        yield subject("heads", drawn("heads", (3, 32, 32)), {}, folder, count=COUNT)
    if wanted("pytorch-det1"):
        yield _faces(corpus / "mtcnn", zoo, folder)


def subject(name: str, net: TorchNet, partners: dict[str, Net], folder: Path, *, count: int) -> Subject:
    """Return a net with its partners, and with itself as exported to ONNX."""
    names = dict.fromkeys(partners, net.names)
    partners = {**partners, "exported": exported(net, folder / name)}
    names["exported"] = exported_names(partners["exported"])
    kept = exported_norms(partners["exported"])
    folded = {"exported": frozenset(x for x in norms(net) if names["exported"].get(x) not in kept)}
    return Subject(f"pytorch-{name}", net.net(), partners, list(faults(net, count=count)), names, folded)


def _faces(folder: Path, zoo: Path, exports: Path) -> Subject:
    """Return the proposal net, as three people ported it, with their own weights."""
    stored = {name: tensor.numpy() for name, tensor in state(folder / "pnet.pt").items()}
    net = own("det1", (3, 36, 36), stored)
    partners = {
        "caffe": mxnet_faults.caffe_faces(folder, "det1", net.shape),
        "mxnet": mxnet_faults.read(zoo, "det1").net(),
    }
    found = subject("det1", net, partners, exports, count=COUNT)
    return replace(found, names={**found.names, "caffe": FACES})


FACES = {
    "conv4_1": "conv4-1", "conv4_2": "conv4-2", "prelu1": "PReLU1", "prelu2": "PReLU2", "prelu3": "PReLU3",
}  # fmt: skip
"""What Caffe calls layers of the proposal net that MXNet calls as here."""


def _own(name: str, stored: Arrays) -> TorchNet:
    """Return a port of one of the benchmark's own ONNX nets, with its arrays."""
    return {"attention": _attention, "enhance": _enhance, "mixed": _mixed}[name](stored)


def _attention(stored: Arrays) -> TorchNet:
    arrays = {}
    for norm in ("norm1", "norm2"):
        arrays |= {f"{norm}.weight": stored[f"{norm}.scale"], f"{norm}.bias": stored[f"{norm}.bias"]}
    for dense in ("q", "k", "v", "up", "down"):
        arrays[f"{dense}.weight"] = stored[f"{dense}.weight"].T
    arrays["up.bias"] = stored["up.bias"]
    return own("attention", (12, 16), arrays)


def _enhance(stored: Arrays) -> TorchNet:
    names = {"in.scale": "instance.weight", "in.bias": "instance.bias", "slope1": "prelu1.weight"}
    arrays = {names.get(key, key): values for key, values in stored.items() if key != "scales"}
    arrays["prelu1.weight"] = arrays["prelu1.weight"].reshape(-1)
    return own("enhance", (3, 17, 17), arrays)


def _mixed(stored: Arrays) -> TorchNet:
    ends = {".scale": ".weight", ".mean": ".running_mean", ".var": ".running_var"}
    arrays = {}
    for key, values in stored.items():
        if not key.endswith("_factor"):
            end = next((old for old in ends if key.endswith(old)), "")
            arrays[key.removesuffix(end) + ends.get(end, "")] = values
    arrays |= {f"mix{number}_bn.num_batches_tracked": np.array(0) for number in (1, 2)}
    return own("mixed", (3, 32, 32), arrays, images={"fc": (8, 4, 4)})
