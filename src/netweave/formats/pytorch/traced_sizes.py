"""Sizes that PyTorch's tracer knew and its exporter lets the model compute.

The tracer takes the steps of its example as the size of a GRU's output, open or not, and the exporter writes
that number into a Reshape. What the operator makes is known without: steps, examples, directions, units.

Code that takes a tensor apart (``chunk``, ``split``) makes a sequence and takes its parts out one by one,
though the tracer knew how many there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from netweave.graph.passes.scaffolding import settled_sizes

RECURRENT = frozenset({"GRU", "LSTM", "RNN"})

SIDE_BY_SIDE = [0, 2, 1, 3]
"""The order of axes by which the directions of a recurrent operator come to lie beside the units."""


def settle_symbols(model: ir.Model) -> None:
    """Give inputs the sizes that they must have; the exporter makes symbols like '2' of those it found.

    Those of a net with recurrent operators stay: their steps seem fixed to the tracer, and are not.

    Args:
        model: The model as exported.
    """
    if any(node.op_type in RECURRENT for node in model.graph):
        return
    for value in model.graph.inputs:
        if value.shape is not None:
            value.shape = ir.Shape([_settled(dim) for dim in value.shape])


def _settled(dim: int | ir.SymbolicDim) -> int | ir.SymbolicDim:
    name = None if isinstance(dim, int) else dim.value
    return int(name) if name is not None and name.isdecimal() else dim


def settle_reshapes(model: ir.Model) -> None:
    """Give each Reshape its sizes as numbers where they are computed, though the tracer knew them.

    Args:
        model: The model as exported, with the tracer's shapes: a size that is open stays one.
    """
    for node in model.graph:
        if (node.domain, node.op_type) != ("", "Reshape") or len(node.inputs) < 2 or node.inputs[1] is None:
            continue  # the model comes from a process that ran foreign code, and is not checked yet
        width = _width_of_directions(node)
        if width is not None:
            _write(model, node, [0, 0, width])
            _forget_shapes(node)
        elif node.inputs[1].const_value is None and (sizes := settled_sizes(node)) is not None:
            _write(model, node, sizes)


def settle_splits(model: ir.Model) -> None:
    """Write one Split for a sequence of parts and the nodes that take parts out, where all sizes are known.

    Args:
        model: The model as exported, with the tracer's shapes.
    """
    for node in list(model.graph):
        if (node.domain, node.op_type) != ("", "SplitToSequence") or not (node.inputs and node.outputs):
            continue
        takers = [use.node for use in node.outputs[0].uses()]
        sizes = _sizes_of_parts(node)
        places = [_number(taker.inputs[1]) for taker in takers if _is_taker(taker)]
        if sizes is None or None in places or len(places) < len(takers) or len(set(places)) < len(places):
            continue
        _split(
            model,
            node,
            sizes,
            {place: taker for place, taker in zip(places, takers, strict=True) if place is not None},
        )


def _is_taker(node: ir.Node) -> bool:
    return node.op_type == "SequenceAt" and len(node.inputs) == 2


def _split(model: ir.Model, node: ir.Node, sizes: Sequence[int], takers: Mapping[int, ir.Node]) -> None:
    new = ir.Node(
        "",
        "Split",
        [node.inputs[0], _stored(model, f"{node.outputs[0].name}/sizes", sizes)],
        attributes=[ir.AttrInt64("axis", _axis(node))],
        num_outputs=len(sizes),
        name=node.name,
        metadata_props=dict(node.metadata_props),
    )
    model.graph.insert_before(node, new)
    for index, value in enumerate(new.outputs):
        value.name = f"{node.outputs[0].name}/{index}"
    for place, taker in takers.items():
        old, value = taker.outputs[0], new.outputs[place]
        value.name, value.shape, value.type = old.name, old.shape, old.type
        ir.convenience.replace_all_uses_with(old, value, replace_graph_outputs=True)
        model.graph.remove(taker, safe=True)
    model.graph.remove(node, safe=True)


def _sizes_of_parts(node: ir.Node) -> list[int] | None:
    """Return the sizes of the parts that a SplitToSequence makes; None if they are not known."""
    keeps = node.attributes.get("keepdims")
    x, given = node.inputs[0], node.inputs[1] if len(node.inputs) > 1 else None
    if x is None or x.shape is None or given is None or given.const_value is None:
        return None
    size, numbers = x.shape[_axis(node)], given.const_value.numpy()
    if not isinstance(size, int) or (keeps is not None and not keeps.as_int()):
        return None
    if numbers.ndim:
        return [int(number) for number in numbers]
    step = int(numbers)
    return [min(step, size - begin) for begin in range(0, size, step)]


def _axis(node: ir.Node) -> int:
    axis = node.attributes.get("axis")
    return axis.as_int() if axis is not None else 0


def _number(value: ir.Value | None) -> int | None:
    """Return a stored whole number >= 0."""
    if value is None or value.const_value is None:
        return None
    number = int(value.const_value.numpy())
    return number if number >= 0 else None


def _stored(model: ir.Model, name: str, numbers: Sequence[int]) -> ir.Value:
    tensor = ir.Tensor(np.array(numbers, np.int64), name=name)
    value = ir.Value(
        name=name, shape=ir.Shape([len(numbers)]), type=ir.TensorType(tensor.dtype), const_value=tensor
    )
    model.graph.register_initializer(value)
    return value


def _write(model: ir.Model, node: ir.Node, sizes: Sequence[int]) -> None:
    node.replace_input_with(1, _stored(model, f"{node.outputs[0].name}/sizes", sizes))
    node.attributes.pop("allowzero", None)


def _width_of_directions(node: ir.Node) -> int | None:
    """Return directions times units, if a Reshape joins these two axes of a recurrent operator's steps."""
    turn = node.inputs[0].producer() if node.inputs[0] is not None else None
    made = node.outputs[0].shape
    if turn is None or turn.op_type != "Transpose" or turn.inputs[0] is None or made is None:
        return None
    perm = turn.attributes.get("perm")
    layer = turn.inputs[0].producer()
    if layer is None or layer.op_type not in RECURRENT or turn.inputs[0] is not layer.outputs[0]:
        return None
    units, way = layer.attributes.get("hidden_size"), layer.attributes.get("direction")
    if perm is None or list(perm.as_ints()) != SIDE_BY_SIDE or units is None or len(made) != 3:
        return None
    width = units.as_int() * (2 if way is not None and way.as_string() == "bidirectional" else 1)
    return width if made[2] == width else None


def _forget_shapes(node: ir.Node) -> None:
    """Leave to be inferred what the tracer said of the sizes from a recurrent operator on."""
    stack, seen = [node], set()
    while stack:
        reader = stack.pop()
        if reader in seen:
            continue
        seen.add(reader)
        for value in reader.outputs:
            value.shape = None
            stack += [use.node for use in value.uses()]


def drop_volume_biases(model: ir.Model) -> None:
    """Take the bias from each Conv of volumes whose bias is an expanded zero: the code has none.

    The exporter writes zeros for a bias that a convolution does not have, for volumes of a size that does not
    fit (onnxscript 0.7, ``aten_conv3d``: ``[C, 2]`` for ``[C]``).
    """
    for node in list(model.graph):
        if node.op_type != "Conv" or len(node.inputs) < 3 or node.inputs[1] is None or node.inputs[2] is None:
            continue
        weight, expand = node.inputs[1], node.inputs[2].producer()
        is_volume = weight.shape is not None and len(weight.shape) == 5
        if is_volume and expand is not None and expand.op_type == "Expand" and _is_zero(expand.inputs[0]):
            node.replace_input_with(2, None)
            _remove_unused(model, expand)


def _remove_unused(model: ir.Model, node: ir.Node) -> None:
    """Remove a node that nothing reads any more, and then those that only it read."""
    if any(value.uses() or value.is_graph_output() for value in node.outputs):
        return
    producers = [value.producer() for value in node.inputs if value is not None]
    model.graph.remove(node, safe=True)
    for producer in dict.fromkeys(producers):
        if producer is not None and producer.graph is not None:
            _remove_unused(model, producer)


def _is_zero(value: ir.Value | None) -> bool:
    """Return whether a value is one zero: stored, or of a Constant, or cast from such a one."""
    producer = value.producer() if value is not None else None
    if producer is not None and producer.op_type in {"Cast", "CastLike"}:
        return _is_zero(producer.inputs[0])
    stored = value.const_value if value is not None else None
    if stored is None and producer is not None and producer.op_type == "Constant":
        number = producer.attributes.get("value_float")
        tensor = producer.attributes.get("value")
        if number is not None:
            return number.as_float() == 0
        stored = tensor.as_tensor() if tensor is not None else None
    return stored is not None and stored.size == 1 and not stored.numpy().any()
