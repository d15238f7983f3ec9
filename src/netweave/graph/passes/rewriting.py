"""Rewriting of patterns, the machinery of the passes."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnx_ir as ir

from netweave.errors import ShapeError
from netweave.graph import (
    BATCH,
    OPSET,
    Graph,
    effects_of,
    infer_shapes,
    known_shape,
    layer_keys,
    make_attributes,
    set_layer_keys,
)
from netweave.graph.graph import needed_nodes
from netweave.graph.naming import take_name
from netweave.graph.passes.extraction import Extractor

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence


class Pass:
    """A change to graphs: ``pass_(graph)`` gives a changed copy, ``pass_.edit(graph)`` changes in place.

    Both leave names of outputs, the layer table and the aliases true.

    Args:
        edit: The change in place.
    """

    def __init__(self, edit: Callable[[Graph], None]) -> None:
        self._edit = edit
        self.__doc__ = edit.__doc__
        self.__name__ = edit.__name__

    def __call__(self, graph: Graph) -> Graph:
        """Return a changed copy; the graph that is given stays as it is."""
        copy = graph.clone()
        self.edit(copy)
        return copy

    def edit(self, graph: Graph) -> None:
        """Change a graph in place."""
        idle = unused_initializers(graph)
        self.edit_without_cleanup(graph)
        drop_initializers(graph, unused_initializers(graph) - idle)

    def edit_without_cleanup(self, graph: Graph) -> None:
        """Change a graph in place, and leave the initializers that nothing reads any more."""
        self._edit(graph)
        _settle_aliases(graph)


def chain(*passes: Pass) -> Pass:
    """Return passes one after another as one pass, which copies its graph once."""

    def edit(graph: Graph) -> None:
        for one in passes:
            one.edit_without_cleanup(graph)

    return Pass(edit)


class Rewriter:
    """Changes the nodes of one graph; names that it makes are free, layers are passed on."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._inner = graph.model.graph

    @cached_property
    def _names(self) -> set[str]:
        """Names of values that are taken; most passes change nothing, and need none."""
        names = set(self.graph.values()) | set(self.graph.aliases)
        names.update(value.name or "" for node in self._inner.all_nodes() for value in node.outputs)
        return names

    @cached_property
    def _node_names(self) -> set[str | None]:
        return {node.name for node in self._inner.all_nodes()}

    def free_name(self, stem: str) -> str:
        """Return a name that no value has, and take it."""
        return take_name(stem, self._names, separator="@", first=1)

    def initializer(self, tensor: ir.TensorProtocol, name: str) -> ir.Value:
        """Add an initializer."""
        value = ir.Value(
            name=self.free_name(name),
            shape=ir.Shape(tensor.shape.numpy()),
            type=ir.TensorType(tensor.dtype),
            const_value=tensor,
        )
        self._inner.register_initializer(value)
        return value

    def computed(
        self,
        compute: Callable[[], np.ndarray],
        *,
        name: str | None,
        like: ir.TensorProtocol,
        shape: Sequence[int],
    ) -> ir.Value:
        """Add an initializer that is computed when it is read, of the type of another tensor."""
        dtype = like.dtype
        tensor = ir.LazyTensor(
            lambda: ir.Tensor(np.asarray(compute(), dtype.numpy(), order="C")),
            dtype=dtype,
            shape=ir.Shape(shape),
            name=name,
        )
        return self.initializer(tensor, name or "")

    def replace(
        self,
        nodes: Sequence[ir.Node],
        op_type: str,
        inputs: Sequence[ir.Value | None],
        attributes: Mapping[str, Any],
        *,
        domain: str = "",
    ) -> ir.Node:
        """Put one node in the place of others and return it.

        It makes the first output of the last of them, under its name, and belongs to the layers of all.

        Args:
            nodes: What goes; nothing else may read what they make, but for the last one's first output.
            op_type: ONNX's name.
            inputs: Inputs of the new node.
            attributes: Its attributes as Python values.
            domain: Its domain; a standard one by default.
        """
        last = nodes[-1]
        new = self.insert(last, op_type, inputs, attributes, domain=domain)
        set_layer_keys(new, [key for node in nodes for key in layer_keys(node)])
        self.take_over(last.outputs[0], new.outputs[0])
        for node in reversed(nodes):
            self._inner.remove(node, safe=True)
        return new

    def fuse(
        self,
        nodes: Collection[ir.Node],
        result: ir.Value,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        attributes: Mapping[str, Any],
        *,
        domain: str = "",
    ) -> ir.Node:
        """Let one node make a value that others make together, and return it.

        The others stay where something else may read what they make; ``prune`` takes the rest away.

        Args:
            nodes: The nodes whose work it does, and whose layers it belongs to.
            result: The value; it keeps its name.
            op_type: ONNX's name.
            inputs: Inputs of the new node.
            attributes: Its attributes as Python values.
            domain: Its domain; a standard one by default.
        """
        last = result.producer()
        assert last is not None
        new = self.insert(last, op_type, inputs, attributes, domain=domain)
        keys = [key for node in self._inner if node in nodes for key in layer_keys(node)]
        set_layer_keys(new, list(dict.fromkeys(keys)))
        self.take_over(result, new.outputs[0])
        return new

    def insert(
        self,
        before: ir.Node,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        attributes: Mapping[str, Any] | None = None,
        *,
        output: str | None = None,
        num_outputs: int = 1,
        domain: str = "",
    ) -> ir.Node:
        """Put a new node, a standard one by default, before another, in the same layers, and return it."""
        new = self._made(before, op_type, inputs, attributes, output, num_outputs, domain)
        self._inner.insert_before(before, new)
        return new

    def append(
        self,
        after: ir.Node,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        attributes: Mapping[str, Any] | None = None,
        *,
        output: str | None = None,
        domain: str = "",
    ) -> ir.Node:
        """Put a new node with one output after another, in the same layers, and return it."""
        new = self._made(after, op_type, inputs, attributes, output, 1, domain)
        self._inner.insert_after(after, new)
        return new

    def _made(
        self,
        beside: ir.Node,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        attributes: Mapping[str, Any] | None,
        output: str | None,
        num_outputs: int,
        domain: str,
    ) -> ir.Node:
        new = ir.Node(
            domain,
            op_type,
            list(inputs),
            attributes=make_attributes(attributes or {}),
            num_outputs=num_outputs,
            name=take_name(f"{beside.name}/{op_type}", self._node_names, separator="@", first=1),
        )
        for value in new.outputs:
            value.name = self.free_name(output or f"{beside.name}/{op_type}")
        set_layer_keys(new, layer_keys(beside))
        return new

    def bypass(self, node: ir.Node, source: ir.Value) -> bool:
        """Remove a node whose only used output is the same value as ``source``.

        An output of the net keeps its name, which ``source`` then takes; otherwise the name becomes an
        alias. Where ``source`` cannot take the name, since it is an input, an initializer or another
        output of the net, the node stays and False is returned.
        """
        value = node.outputs[0]
        if value.is_graph_output():
            if source.producer() is None or source.is_graph_output():
                return False
            self._rename_for_output(source, value)
        else:
            self.graph.aliases[value.name or ""] = source.name or ""
        ir.convenience.replace_all_uses_with(value, source, replace_graph_outputs=True)
        self._inner.remove(node, safe=True)
        return True

    def take_over(self, old: ir.Value, new: ir.Value) -> None:
        """Let ``new`` stand wherever ``old`` does, under its name; ``old`` gets another one."""
        ir.convenience.replace_all_uses_with(old, new, replace_graph_outputs=True)
        new.shape, new.type = old.shape, old.type
        name = old.name or ""
        old.name = self.free_name(name)
        new.name = name

    def replace_constant(self, value: ir.Value, tensor: ir.TensorProtocol) -> ir.Value:
        """Let an initializer take the place and the name of a node's output; the node is left."""
        new = ir.Value(
            name=value.name,
            shape=ir.Shape(tensor.shape.numpy()),
            type=ir.TensorType(tensor.dtype),
            const_value=tensor,
        )
        value.name = self.free_name(value.name or "")
        self._inner.register_initializer(new)
        ir.convenience.replace_all_uses_with(value, new)
        return new

    def _rename_for_output(self, source: ir.Value, output: ir.Value) -> None:
        old, name = source.name or "", output.name or ""
        output.name = self.free_name(name)
        source.name = name
        self.graph.aliases[old] = name


def has_one_reader(value: ir.Value) -> bool:
    """Return whether exactly one input of one node reads a value, and the net does not give it back."""
    return len(value.uses()) == 1 and not value.is_graph_output()


def remove_unneeded(graph: Graph, keep: Callable[[ir.Node], bool]) -> None:
    """Remove the nodes that neither an output nor a node that is kept needs."""
    kept = {node for node in graph.nodes if keep(node)}
    needed = needed_nodes([*graph.outputs, *(value for node in kept for value in node.outputs)])
    doomed = [node for node in graph.nodes if node not in needed and node not in kept]
    graph.model.graph.remove(doomed, safe=True)


def unused_initializers(graph: Graph) -> set[str]:
    """Return the names of the initializers that nothing reads and the net does not give back."""
    return {
        name
        for name, value in graph.model.graph.initializers.data.items()  # the view of a UserDict is slow
        if not value.uses() and not value.is_graph_output() and not value.is_graph_input()
    }


def drop_initializers(graph: Graph, names: set[str]) -> None:
    """Remove initializers; the table of stored arrays stays as it is."""
    for name in names:
        graph.model.graph.initializers.pop(name, None)


def _settle_aliases(graph: Graph) -> None:
    """Let each alias name a value that is there, and drop those whose value is gone."""
    if not graph.aliases:
        return
    values = graph.values()
    settled = {}
    for name in graph.aliases:
        target = name
        while target in graph.aliases and target not in values:
            target = graph.aliases[target]
        if target in values and name not in values:
            settled[name] = target
    graph.aliases = settled


# A net with fully connected layers over an image says its size only through the rows of their weights.

LARGEST_SIZE = 4096
"""Larger sizes are not looked at."""


def open_shapes(graph: Graph) -> dict[str, tuple[int | str | None, ...]]:
    """Return the shapes of the inputs that have open sizes besides the batch; None stands for those."""
    shapes = {}
    for value in graph.inputs:
        dims = [dim if isinstance(dim, int) else dim.value for dim in value.shape or ()]
        shape = tuple(dim if isinstance(dim, int) or dim == BATCH else None for dim in dims)
        if None in shape:
            shapes[value.name or ""] = shape
    return shapes


def fitting_sizes(graph: Graph) -> range | None:
    """Return the sizes that all open sizes of the inputs may have together, the batch apart.

    Follows the first matrix that asks for a size; several sizes are usual, since strides round. None if no
    matrix asks for one: then any will do that the windows fit in.
    """
    asked = _first_open_matrix(graph)
    shapes = open_shapes(graph)
    if asked is None or not shapes:
        return None
    name, wanted = asked
    inputs = [value.name or "" for value in graph.inputs]
    prefix = Extractor(graph).extract(inputs=inputs, outputs=[name])

    def columns(size: int) -> int:
        """Sizes too small for a window have none, so that columns never fall as sizes rise."""
        if not _fits(prefix, shapes, size):
            return 0
        return (known_shape(prefix.outputs[0]) or (None,))[-1] or 0

    sizes = range(1, LARGEST_SIZE + 1)
    first, last = bisect_left(sizes, wanted, key=columns), bisect_right(sizes, wanted, key=columns)
    return sizes[first:last]


def likely_size(graph: Graph) -> int | None:
    """Return the size that a net with open sizes was most likely made for; None if it takes any, or none.

    Of the sizes that fit it is the smallest multiple of 8, or of 4, or of 2: people cut images so.
    """
    sizes = fitting_sizes(graph) or range(0)
    shapes, copy = open_shapes(graph), graph.clone()
    ordered = sorted(sizes, key=lambda size: (-min(size & -size, 8), size))
    return next((size for size in ordered if _fits(copy, shapes, size)), None)


def _first_open_matrix(graph: Graph) -> tuple[str, int] | None:
    """Return the first value of open columns that meets a matrix, and the columns that it must have."""
    for node in graph.nodes:
        if node.op_type not in {"Gemm", "MatMul"} or node.domain:
            continue
        data, weight = (known_shape(value) for value in node.inputs[:2])
        transposed = "transB" in node.attributes and node.attributes["transB"].as_int() == 1
        rows = weight[1 if transposed else 0] if weight is not None and len(weight) == 2 else None
        if rows is not None and data is not None and len(data) == 2 and data[1] is None:
            return node.inputs[0].name or "", rows  # type: ignore[union-attr]  # its shape is known, so it is there
    return None


def _fits(graph: Graph, shapes: Mapping[str, tuple[int | str | None, ...]], size: int) -> bool:
    filled = {name: [size if dim is None else dim for dim in shape] for name, shape in shapes.items()}
    try:
        infer_shapes(graph, filled)
    except ShapeError:
        return False
    return True


def evaluate_node(node: onnx.NodeProto, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the outputs of a standard node without subgraphs.

    Args:
        node: The node.
        arrays: Its inputs in order, without those that it leaves out.

    Raises:
        Exception: The evaluator does not know the operator, or cannot compute it for these inputs; it has no
            type of its own for either.
    """
    from onnx.reference import ReferenceEvaluator  # loaded when first needed: it takes 0.2 s

    names = [name for name in node.input if name]
    feeds = dict(zip(names, arrays, strict=True))
    graph = onnx.GraphProto(name="constant")
    graph.node.append(node)
    for name in dict.fromkeys(names):
        graph.input.append(onnx.helper.make_tensor_value_info(name, _element_type(feeds[name]), None))
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in node.output)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", OPSET)])
    evaluator = ReferenceEvaluator(model, new_ops=[_gather_elements()])
    return [np.asarray(array) for array in evaluator.run(None, feeds)]


def _element_type(array: np.ndarray) -> int:
    return int(onnx.helper.np_dtype_to_tensor_dtype(array.dtype))


@cache
def _gather_elements() -> type[Any]:
    from onnx.reference.op_run import OpRun

    class GatherElements(OpRun):
        """GatherElements-13: ``data[..., indices[i][j], ...]``, where the other axes may be read in part.

        The evaluator's own takes ``np.choose``, which knows no more than 64 choices (BERT looks among 512
        positions), and refuses indices that are of another size than the data on other axes.
        """

        def _run(self, data: np.ndarray, indices: np.ndarray, axis: int = 0) -> tuple[np.ndarray]:
            axis %= data.ndim
            part = tuple(slice(None if i == axis else size) for i, size in enumerate(indices.shape))
            return (np.take_along_axis(data[part], indices, axis),)

    return GatherElements


@Pass
def prune(graph: Graph) -> None:
    """Remove nodes and initializers that no output needs; inputs stay, and so do nodes with effects.

    Layers whose nodes are gone stay in the table, without nodes; stored arrays stay in theirs, since
    the source counts them.
    """
    remove_unneeded(graph, keep=lambda node: bool(effects_of(node)))
    drop_initializers(graph, unused_initializers(graph))
