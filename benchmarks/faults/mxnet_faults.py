"""MXNet nets, other forms of them, and faults planted in the JSON of the symbol or in the arrays."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.faults.arrays import Stored, array_faults, spread
from benchmarks.faults.model import Fault, Net, Subject, Subjects, Wanted
from tests.oracles.mxnet_params import params
from tests.oracles.resnet50_forms import FORMS

COUNT = 2
"""Faults of one kind in one net."""

LARGE = frozenset({"squeezenet"})
"""Nets that take long: one fault of a kind, and one other form."""

FOLDABLE = frozenset({"mobilenet", "mobilenet_v2", "resnet_v1", "vgg11_bn"})
"""Nets in which every normalisation stands right behind a convolution."""

IMAGES = {"conv4_weight": (64, 3, 3)}
"""What a dense layer's weights read flattened (det2)."""

ROLES = {
    "gamma": "gamma", "bias": "bias", "beta": "bias", "running_var": "variance", "running_mean": "mean",
}  # fmt: skip

Node = dict[str, Any]


@dataclass(frozen=True)
class MxnetNet:
    """A symbol and its arrays by the keys of a ``.params`` file."""

    symbol: dict[str, Any]
    arrays: dict[str, np.ndarray]
    shape: tuple[int, ...]

    def net(self) -> Net:
        """Return the net's files."""
        files = {
            "net-symbol.json": json.dumps(self.symbol, indent=2).encode(),
            "net-0000.params": params(self.arrays),
        }
        return Net("mxnet", files, {"data": self.shape})

    def formed(self, name: str) -> MxnetNet:
        """Return another form of the net."""
        symbol, arrays = FORMS[name](self.symbol, self.arrays)
        return replace(self, symbol=symbol, arrays=arrays)

    def stored(self) -> Iterator[Stored]:
        """Yield what is stored, by role, in the order of the nodes."""
        nodes = self.symbol["nodes"]
        owners = {nodes[source]["name"]: node for node in nodes for source, *_ in node["inputs"]}
        for node in nodes:
            for prefix in ("arg", "aux"):
                key = f"{prefix}:{node['name']}"
                if key not in self.arrays:
                    continue
                owner = owners[node["name"]]
                role = _role(node["name"], owner, self.arrays[key])
                yield Stored(key, owner["name"], role, IMAGES.get(node["name"]))


def _role(name: str, owner: Node, array: np.ndarray) -> str:
    if owner["op"] == "LeakyReLU":
        return "slope"
    if name.endswith("_gamma") and _attribute(owner, "fix_gamma") == "True":
        return "gamma that is not read"
    if name.endswith("_weight"):
        return "filter" if array.ndim == 4 else "matrix"
    return next(role for end, role in ROLES.items() if name.endswith(f"_{end}"))


def subjects(corpus: Path, zoo: Path, wanted: Wanted) -> Subjects:
    """Yield every net that is wanted with its other forms and its faults.

    Args:
        corpus: The corpus.
        zoo: What ``benchmarks.faults.zoo`` wrote.
        wanted: Which nets.
    """
    for name in filter(lambda name: wanted(f"mxnet-{name}"), json.loads((zoo / "sizes.json").read_text())):
        net = read(zoo, name)
        forms = ["renamed"] if name in LARGE else ["renamed", "shuffled"]
        forms += ["folded"] if name in FOLDABLE else []
        partners = {form: net.formed(form).net() for form in forms}
        names = {"renamed": _new_names(net, net.formed("renamed"))}
        if name.startswith("det"):
            partners["caffe"] = caffe_faces(corpus / "mtcnn", name, net.shape)
            names["caffe"] = {node["name"]: node["name"].replace("_", "-") for node in net.symbol["nodes"]}
        found = list(faults(net, count=1 if name in LARGE else COUNT))
        norms = frozenset(node["name"] for node in net.symbol["nodes"] if node["op"] == "BatchNorm")
        yield Subject(f"mxnet-{name}", net.net(), partners, found, names, {"folded": norms})


def read(zoo: Path, name: str) -> MxnetNet:
    """Return a net that ``benchmarks.faults.zoo`` wrote."""
    shape = json.loads((zoo / "sizes.json").read_text())[name]
    with np.load(zoo / f"{name}.npz") as stored:
        arrays = {key.replace("|", ":"): stored[key] for key in stored}
    return MxnetNet(json.loads((zoo / f"{name}.json").read_text()), arrays, tuple(shape))


def _new_names(net: MxnetNet, renamed: MxnetNet) -> dict[str, str]:
    pairs = zip(net.symbol["nodes"], renamed.symbol["nodes"], strict=True)
    return {old["name"]: new["name"] for old, new in pairs}


def caffe_faces(folder: Path, name: str, shape: tuple[int, ...]) -> Net:
    """Return one of the face nets as Caffe has it."""
    files = {f"net{end}": (folder / f"{name}{end}").read_bytes() for end in (".prototxt", ".caffemodel")}
    return Net("caffe", files, {"data": shape})


def faults(net: MxnetNet, *, count: int) -> Iterator[Fault]:
    """Yield the faults of a net."""
    for kind, op, test, change, mismatches in EDITS:
        places = [i for i, n in enumerate(net.symbol["nodes"]) if n["op"] == op and test(n)]
        for place in spread(places, count):
            symbol = copy.deepcopy(net.symbol)
            node = symbol["nodes"][place]
            node["attrs"] = {**node.get("attrs", {}), **change(node)}
            yield Fault(kind, node["name"], frozenset(mismatches), replace(net, symbol=symbol).net())
    yield from _structure(net, count)
    for found in array_faults(net.stored(), net.arrays, count=count):
        made = replace(net, arrays={**net.arrays, found.stored.key: found.values}).net()
        yield Fault(found.kind, found.stored.layer, found.mismatches, made, found.in_table)


def _attribute(node: Node, name: str, default: str = "") -> str:
    return str(node.get("attrs", {}).get(name, default))


def _pair(node: Node, name: str, default: int) -> tuple[int, int]:
    text = _attribute(node, name)
    values = [int(part) for part in text.strip("() ").split(",") if part.strip()] if text else []
    return (values[0], values[1]) if values else (default, default)


def _grown(name: str, default: int, by: int = 1) -> Callable[[Node], dict[str, str]]:
    def change(node: Node) -> dict[str, str]:
        first, second = _pair(node, name, default)
        return {name: f"({first + by}, {second + by})"}

    return change


def _dilated(node: Node) -> dict[str, str]:
    (height, width), (top, left) = _pair(node, "kernel", 1), _pair(node, "pad", 0)
    return {"dilate": "(2, 2)", "pad": f"({top + (height - 1) // 2}, {left + (width - 1) // 2})"}


def _local(node: Node) -> bool:
    return _attribute(node, "global_pool", "False") in {"False", "0"}


def _windowed(node: Node) -> bool:
    return _pair(node, "kernel", 1)[0] > 1


def _padded_average(node: Node) -> bool:
    return _local(node) and _attribute(node, "pool_type") == "avg" and _pair(node, "pad", 0) != (0, 0)


def _set(**values: str) -> Callable[[Node], dict[str, str]]:
    return lambda node: values


def _other(name: str, first: str, second: str) -> Callable[[Node], dict[str, str]]:
    return lambda node: {name: second if _attribute(node, name, first) == first else first}


COUNTED = {"count-include-pad"}
SLOPES = {"operator", "slope", "leaky-slope"}

Edit = tuple[str, str, Callable[[Node], bool], Callable[[Node], dict[str, str]], set[str]]

EDITS: tuple[Edit, ...] = (
    ("conv: padding", "Convolution", lambda n: True, _grown("pad", 0), {"padding"}),
    ("conv: stride", "Convolution", lambda n: True, _grown("stride", 1), {"stride"}),
    ("conv: dilation", "Convolution", _windowed, _dilated, {"dilation", "padding"}),
    ("pool: operator", "Pooling", _local, _other("pool_type", "max", "avg"), {"operator"}),
    ("pool: operator", "Pooling", lambda n: not _local(n), _other("pool_type", "avg", "max"), {"operator"}),
    (
        "pool: rounding",
        "Pooling",
        _local,
        _other("pooling_convention", "valid", "full"),
        {"pool-rounding"},
    ),
    ("pool: padding", "Pooling", _local, _grown("pad", 0), {"padding"}),
    ("pool: kernel", "Pooling", _local, _grown("kernel", 2), {"kernel-size"}),
    ("pool: stride", "Pooling", _local, _grown("stride", 1), {"stride"}),
    ("pool: padding counted", "Pooling", _padded_average, _set(count_include_pad="False"), COUNTED),
    ("bn: eps", "BatchNorm", lambda n: True, _set(eps="0.1"), {"epsilon"}),
    ("bn: fix_gamma", "BatchNorm", lambda n: True, _other("fix_gamma", "True", "False"), {"fix-gamma"}),
    ("relu: other", "Activation", lambda n: True, _other("act_type", "relu", "softsign"), {"operator"}),
    ("relu: sigmoid", "Activation", lambda n: True, _set(act_type="sigmoid"), {"operator"}),
    ("prelu: leaky", "LeakyReLU", lambda n: True, _set(act_type="leaky"), SLOPES),
)  # fmt: skip
"""Kind of fault, operator, which of its nodes, what is set to what, keys of what explains it."""

REMOVABLE = frozenset({"Activation", "BatchNorm"})


def _structure(net: MxnetNet, count: int) -> Iterator[Fault]:
    nodes = net.symbol["nodes"]
    missing, order = frozenset({"missing-layer"}), frozenset({"input-order"})
    for place in spread([i for i, n in enumerate(nodes) if n["op"] in REMOVABLE], count):
        symbol = copy.deepcopy(net.symbol)
        source = symbol["nodes"][place]["inputs"][0]
        for node in symbol["nodes"]:
            node["inputs"] = [source if entry[0] == place else entry for entry in node["inputs"]]
        made = _without(symbol, place)
        yield Fault(
            "layer left out", nodes[place]["name"], missing, replace(net, symbol=made).net(), in_table=False
        )
    for place in spread([i for i, n in enumerate(nodes) if n["op"] == "Concat"], count):
        symbol = copy.deepcopy(net.symbol)
        symbol["nodes"][place]["inputs"][:2] = symbol["nodes"][place]["inputs"][1::-1]
        yield Fault(
            "branches swapped", nodes[place]["name"], order, replace(net, symbol=symbol).net(), in_table=False
        )
    for place in spread([i for i, n in enumerate(nodes) if n["op"] == "elemwise_add"], count):
        symbol = copy.deepcopy(net.symbol)
        symbol["nodes"][place]["op"] = "elemwise_mul"
        made = replace(net, symbol=symbol).net()
        yield Fault("sum: product", nodes[place]["name"], frozenset({"operator"}), made, in_table=False)


def _without(symbol: dict[str, Any], place: int) -> dict[str, Any]:
    """Return a symbol without one node that nothing reads, and without the variables that it alone read."""
    nodes = symbol["nodes"]
    used = {source for i, node in enumerate(nodes) if i != place for source, *_ in node["inputs"]}
    used |= {head[0] for head in symbol["heads"]}
    kept = [i for i, node in enumerate(nodes) if i != place and (node["op"] != "null" or i in used)]
    number = {old: new for new, old in enumerate(kept)}
    made = []
    for i in kept:
        inputs = [[number[source], *rest] for source, *rest in nodes[i]["inputs"]]
        made.append({**nodes[i], "inputs": inputs})
    return {
        **symbol,
        "nodes": made,
        "arg_nodes": [i for i, node in enumerate(made) if node["op"] == "null"],
        "node_row_ptr": list(range(len(made) + 1)),
        "heads": [[number[head[0]], *head[1:]] for head in symbol["heads"]],
    }
