"""Frozen graphs of TensorFlow, other forms of them, and faults planted in nodes and constants.

Some are Keras's models, whose other form is the Keras file; the others are graphs as TensorFlow 1 froze them,
whose other form is what its own tool makes of them to predict.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tensorboard.compat.proto import graph_pb2, node_def_pb2

from benchmarks.faults.arrays import Stored, array_faults, spread
from benchmarks.faults.keras_faults import FLATTENED, KerasNet, outputs_first, outputs_last
from benchmarks.faults.model import Fault, Net, Subject, Subjects, Wanted

COUNT = 2
"""Faults of one kind in one net."""

FROM_KERAS = ("classic", "residual", "mobile", "fire")
FROZEN = ("atrous", "grouped")
"""What ``benchmarks.faults.tensorflow_zoo`` writes."""

IMAGES = FLATTENED | {("grouped", "fc"): (3 * 3, 6, 2)}
"""What a dense layer reads flattened, as in ``keras_faults``."""

STATISTICS = {"Cast": "mean", "Cast_1": "variance", "Cast_2": "gamma", "Cast_3": "bias"}
"""What Keras's batch normalisation reads, by the name of the cast that reads it."""

NORMALISED = {1: "gamma", 2: "bias", 3: "mean", 4: "variance"}
"""What a fused batch normalisation reads, by position."""

READERS = {
    "Conv2D": "filter", "DepthwiseConv2dNative": "filter", "Conv2DBackpropInput": "filter",
    "MatMul": "matrix", "Reshape": "bias", "BiasAdd": "bias",
}  # fmt: skip
"""What a stored array is by the operator that reads it; a bias goes through a reshape."""

Node = node_def_pb2.NodeDef


@dataclass(frozen=True)
class FrozenNet:
    """A graph with its input's size."""

    name: str
    graph: graph_pb2.GraphDef
    shape: tuple[int, ...]

    @classmethod
    def read(cls, zoo: Path, name: str, form: str = "") -> FrozenNet:
        """Read what the zoo wrote."""
        graph = graph_pb2.GraphDef.FromString((zoo / f"{name}{form}.pb").read_bytes())
        return cls(name, graph, tuple(json.loads((zoo / f"{name}.json").read_text())["shape"]))

    def net(self) -> Net:
        """Return the net's files."""
        return Net("tensorflow", {"net.pb": self.graph.SerializeToString()}, {"data": self.shape})

    def edited(self, place: int, edit: Callable[[Node], None]) -> FrozenNet:
        """Return the net with one node edited."""
        graph = graph_pb2.GraphDef()
        graph.CopyFrom(self.graph)
        edit(graph.node[place])
        return FrozenNet(self.name, graph, self.shape)

    def stored(self) -> Iterator[tuple[Stored, int, np.ndarray]]:
        """Yield what is stored, with the place of its constant and its values."""
        readers: dict[str, Node] = {}
        for node in self.graph.node:
            for source in node.input:
                readers.setdefault(source, node)
        for place, node in enumerate(self.graph.node):
            identity = readers.get(node.name)
            if node.op != "Const" or identity is None or identity.op != "Identity":
                continue
            read, tensor = identity.name, node.attr["value"].tensor
            role = self._role(readers[read], read)
            if role is not None and tensor.tensor_content:
                sizes = [axis.size for axis in tensor.tensor_shape.dim]
                values = np.frombuffer(tensor.tensor_content, "<f4").reshape(sizes)
                image = IMAGES.get((self.name, self._layer(read)))
                yield Stored(str(place), self._owner(readers, read), role, image), place, values

    def _role(self, reader: Node, read: str) -> str | None:
        """Return what is stored by what reads it."""
        scope, _, last = read.removesuffix("/ReadVariableOp").rpartition("/")
        if "_bn" in scope:
            return STATISTICS.get(last)
        if reader.op == "FusedBatchNormV3":
            return NORMALISED.get(list(reader.input).index(read))
        return READERS.get(reader.op)

    def _layer(self, node: str) -> str:
        """Return the layer that a node stands in: ``NET_1/LAYER_1/Conv2D`` of Keras, ``LAYER/Conv2D``."""
        first, *rest = node.split("/")
        return rest[0].removesuffix("_1") if first == f"{self.name}_1" else first

    def _owner(self, readers: dict[str, Node], read: str) -> str:
        """Return the first node behind an array that is a layer of its own."""
        node = readers[read]
        while node.op in {"Reshape", "Squeeze", "Identity"}:
            node = readers[node.name]
        return _whole(node.name)


def _whole(node: str) -> str:
    """Return the node that a layer is named after: the last one of a normalisation, and a padding itself."""
    scope, normalises, _ = node.partition("/batchnorm/")
    if node.endswith("_pad_1/Const"):
        return node.removesuffix("Const") + "Pad"
    if node.endswith("/Pad/paddings"):
        return node.removesuffix("/paddings")
    return f"{scope}/batchnorm/add_1" if normalises else node


def subjects(keras: Path, zoo: Path, wanted: Wanted) -> Subjects:
    """Yield every graph that is wanted with its other form and its faults.

    Args:
        keras: What ``benchmarks.faults.keras_zoo`` wrote.
        zoo: What ``benchmarks.faults.tensorflow_zoo`` wrote.
        wanted: Which nets.
    """
    for name in filter(lambda name: wanted(f"tensorflow-{name}"), FROM_KERAS):
        net = FrozenNet.read(keras, name)
        partners = {"keras": KerasNet.read(keras, name).net()}
        names = {"keras": {node.name: _layer(node.name) for node in net.graph.node}}
        yield Subject(f"tensorflow-{name}", net.net(), partners, list(faults(net, count=COUNT)), names)
    for name in filter(lambda name: wanted(f"tensorflow-{name}"), FROZEN):
        net = FrozenNet.read(zoo, name)
        other = FrozenNet.read(zoo, name, ".folded")
        yield Subject(
            f"tensorflow-{name}",
            net.net(),
            {"folded": other.net()},
            list(faults(net, count=COUNT)),
            folded={"folded": _norms(net) - _norms(other)},
        )


def _norms(net: FrozenNet) -> frozenset[str]:
    return frozenset(node.name for node in net.graph.node if node.op == "FusedBatchNormV3")


def _layer(node: str) -> str:
    """Return the name of the Keras layer that a node stands in: ``net_1/LAYER_1/Conv2D``."""
    return node.split("/")[1].removesuffix("_1") if "/" in node else node


def faults(net: FrozenNet, *, count: int) -> Iterator[Fault]:
    """Yield the faults of a net."""
    nodes = net.graph.node
    for kind, op, test, edit, mismatches, in_table in EDITS:
        for place in spread([i for i, node in enumerate(nodes) if node.op == op and test(node)], count):
            made = net.edited(place, edit)
            yield Fault(kind, _whole(nodes[place].name), frozenset(mismatches), made.net(), in_table)
    for place in spread([i for i, node in enumerate(nodes) if node.op in REMOVABLE], count):
        made = net.edited(place, lambda node: _become(node, "Identity"))
        # a rectifier that is part of a PReLU leaves another activation
        mismatches = frozenset(
            {"missing-layer", "operator"} if "prelu" in nodes[place].name else {"missing-layer"}
        )
        yield Fault("layer left out", nodes[place].name, mismatches, made.net(), False)
    stored = {entry.key: (place, values) for entry, place, values in net.stored()}
    arrays = {key: outputs_first(values) for key, (_, values) in stored.items()}
    for found in array_faults([entry for entry, *_ in net.stored()], arrays, count=count):
        place, _ = stored[found.stored.key]
        content = np.ascontiguousarray(outputs_last(found.values)).tobytes()
        made = net.edited(place, lambda node, content=content: _store(node, content))
        yield Fault(found.kind, found.stored.layer, found.mismatches, made.net(), found.in_table)


def _store(node: Node, content: bytes) -> None:
    node.attr["value"].tensor.tensor_content = content


def _any(node: Node) -> bool:
    return True


def _become(node: Node, op: str) -> None:
    """Make a node one of another operator, which has only the type of its values for a setting."""
    kept = node.attr["T"].type
    node.op = op
    node.attr.clear()
    node.attr["T"].type = kept


def _op(op: str) -> Callable[[Node], None]:
    return lambda node: _become(node, op)


def _pool(op: str) -> Callable[[Node], None]:
    def edit(node: Node) -> None:
        node.op = op
        node.attr.pop("explicit_paddings", None)

    return edit


def _same(node: Node) -> None:
    values = node.attr["padding"]
    values.s = b"VALID" if values.s == b"SAME" else b"SAME"


def _more(name: str) -> Callable[[Node], None]:
    def edit(node: Node) -> None:
        sizes = node.attr[name].list.i
        sizes[1], sizes[2] = sizes[1] + 1, sizes[2] + 1

    return edit


def _number(name: str, value: float) -> Callable[[Node], None]:
    def edit(node: Node) -> None:
        node.attr[name].f = value

    return edit


def _half_pixels(node: Node) -> None:
    node.attr["half_pixel_centers"].b = not node.attr["half_pixel_centers"].b


def _sides(node: Node) -> None:
    """Move the padding of an image from its end to its beginning, or the other way round."""
    tensor = node.attr["value"].tensor
    values = np.frombuffer(tensor.tensor_content, "<i4").reshape(-1, 2)
    tensor.tensor_content = np.ascontiguousarray(values[:, ::-1]).tobytes()


def _wider(node: Node) -> None:
    node.attr["depth_radius"].i += 1


def _no_corners(node: Node) -> None:
    node.attr["align_corners"].b = False


def _corners(node: Node) -> bool:
    return node.attr["align_corners"].b


def _swapped(node: Node) -> None:
    node.input[0], node.input[1] = node.input[1], node.input[0]


def _padding(node: Node) -> bool:
    is_padding = "_pad" in node.name or node.name.endswith("/Pad/paddings")
    return is_padding and bool(node.attr["value"].tensor.tensor_content)


def _epsilon(node: Node) -> bool:
    return node.name.endswith("/batchnorm/add/y")


def _large_epsilon(node: Node) -> None:
    tensor = node.attr["value"].tensor
    tensor.tensor_content = b""
    tensor.float_val[:] = [0.1]


def _of_branches(node: Node) -> bool:
    branches = node.name == "add" or node.name.endswith(("add_1/Add", "_add_1/add"))
    return branches and "batchnorm" not in node.name


def _windowed(node: Node) -> bool:
    return "pw" not in node.name and "expand" not in node.name


def _unstrided(node: Node) -> bool:
    return list(node.attr["strides"].list.i) == [1, 1, 1, 1]


REMOVABLE = frozenset({"Relu", "Relu6", "LeakyRelu", "Elu", "Tanh"})

Edit = tuple[str, str, Callable[[Node], bool], Callable[[Node], None], set[str], bool]

EDITS: tuple[Edit, ...] = (
    ("conv: padding", "Conv2D", _windowed, _same, {"padding"}, True),
    ("conv: padding", "DepthwiseConv2dNative", _any, _same, {"padding"}, True),
    ("conv: stride", "Conv2D", _any, _more("strides"), {"stride", "padding"}, True),
    ("conv: dilation", "Conv2D", _unstrided, _more("dilations"), {"dilation", "padding"}, True),
    ("padding at the other end", "Const", _padding, _sides, {"padding"}, True),
    ("pool: operator", "MaxPool", _any, _pool("AvgPool"), {"operator"}, True),
    ("pool: operator", "AvgPool", _any, _pool("MaxPool"), {"operator"}, True),
    ("pool: operator", "Mean", _any, lambda node: setattr(node, "op", "Max"), {"operator"}, True),
    ("pool: padding", "MaxPool", _any, _same, {"padding", "pool-rounding"}, True),
    ("pool: padding", "AvgPool", _any, _same, {"padding", "pool-rounding"}, True),
    ("pool: kernel", "MaxPool", _any, _more("ksize"), {"kernel-size", "padding"}, True),
    ("pool: kernel", "AvgPool", _any, _more("ksize"), {"kernel-size", "padding"}, True),
    ("pool: stride", "MaxPool", _any, _more("strides"), {"stride", "padding"}, True),
    ("bn: eps", "Const", _epsilon, _large_epsilon, {"epsilon"}, True),
    ("bn: eps", "FusedBatchNormV3", _any, _number("epsilon", 0.1), {"epsilon"}, True),
    ("lrn: size", "LRN", _any, _wider, {"lrn-size", "lrn-alpha"}, True),
    ("lrn: alpha", "LRN", _any, _number("alpha", 1.0), {"lrn-alpha"}, True),
    ("lrn: beta", "LRN", _any, _number("beta", 0.5), {"lrn-beta"}, True),
    ("lrn: k", "LRN", _any, _number("bias", 2.0), {"lrn-k"}, True),
    ("relu: sigmoid", "Relu", _any, _op("Sigmoid"), {"operator"}, True),
    ("tanh: sigmoid", "Tanh", _any, _op("Sigmoid"), {"operator"}, True),
    ("relu: bound", "Relu6", _any, _op("Relu"), {"operator"}, True),
    ("elu: relu", "Elu", _any, _op("Relu"), {"operator"}, True),
    ("leaky slope", "LeakyRelu", _any, _number("alpha", 0.01), {"leaky-slope"}, True),
    ("resize: centres", "ResizeBilinear", _any, _half_pixels,
     {"resize-coordinate_transformation_mode"}, True),
    ("resize: corners", "ResizeBilinear", _corners, _no_corners,
     {"resize-coordinate_transformation_mode"}, True),
    ("branches swapped", "ConcatV2", _any, _swapped, {"input-order"}, False),
    ("sum: product", "AddV2", _of_branches, _op("Mul"), {"operator"}, False),
)  # fmt: skip
"""Kind, operator, which of its nodes, what is done, mismatches that explain it, whether the table has it."""
