"""Shapes of a graph's values, for standard operators and for those of the domain ``netweave``.

Standard operators are inferred by ``onnx-shape-inference``, which is right for ceil pooling and keeps
symbolic sizes; this file hands it the shape rules of the registry, adds the checks that it does not make
(``graph.checks``) and turns the findings of both into errors.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Hashable, Mapping, Sequence

import onnx_ir as ir
import onnx_shape_inference as osi

from netweave.errors import ShapeError, UsageError
from netweave.graph.attributes import attributes_of
from netweave.graph.checks import check_inputs, check_outputs, known_shape
from netweave.graph.costs import MAX_AXES, MAX_ELEMENTS, MAX_FOLLOWED, num_elements
from netweave.graph.graph import Graph, Output, likeness, output_of
from netweave.graph.operators import Dim, all_operators, find_operator
from netweave.graph.opset import DOMAIN, OPSET

MAX_FORMULA = 200
"""A size that follows from open ones by a longer formula gets a symbol of its own; they grow with depth."""


def symbol_for(name: str, axis: int) -> str:
    """Return the symbol of an open size of an input: a plain word, since inference reads formulas.

    >>> symbol_for("image:0", 2)
    'image_0_2'
    """
    word = re.sub(r"\W", "_", name, flags=re.ASCII)
    return f"{word if word[:1].isalpha() else f'x{word}'}_{axis}"


class ShapeContext(osi.ShapeInferenceContext):  # type: ignore[misc]  # the library has no types
    """Context of shape inference for one graph: it gives each unknown size a symbol of its own.

    Args:
        opsets: Version by domain.

    Attributes:
        alike: The outputs of nodes met so far, by ``likeness``.
    """

    def __init__(self, opsets: Mapping[str, int]) -> None:
        super().__init__(opsets, policy="override")
        self.alike: dict[Hashable, Output] = {}

    def get_symbolic_value(self, value: ir.Value) -> list[int | ir.SymbolicDim] | None:
        """Return the numbers in a value that may be somebody's sizes; None for a longer one."""
        if is_long(value):
            return None
        sizes: list[int | ir.SymbolicDim] | None = super().get_symbolic_value(value)
        return sizes

    def set_symbolic_value(self, value: ir.Value, data: list[int | ir.SymbolicDim]) -> None:
        """Note the numbers in a value that may be somebody's sizes.

        A longer one is not followed, nor are numbers that its type cannot hold, as -1 that is cast to uint8.
        """
        if len(data) <= MAX_FOLLOWED and _can_hold(value, data):
            super().set_symbolic_value(value, data)


def _can_hold(value: ir.Value, data: list[int | ir.SymbolicDim]) -> bool:
    if value.dtype is None or not value.dtype.is_integer():
        return True
    return all(value.dtype.min <= number <= value.dtype.max for number in data if isinstance(number, int))


def is_long(value: ir.Value | None) -> bool:
    """Return whether a value has more elements than are followed one by one while shapes are inferred."""
    sizes = known_shape(value)
    if sizes is None:
        return False
    count = num_elements(size for size in sizes if size is not None)
    return count is None or count > MAX_FOLLOWED


def shape_context(opsets: Mapping[str, int] | None = None) -> ShapeContext:
    """Return what the shapes of one graph are inferred in.

    Args:
        opsets: Version by domain, where nodes of other domains than ``""`` and ``netweave`` are met.
    """
    _register()
    return ShapeContext({**(opsets or {}), "": OPSET, DOMAIN: 1})


def infer_node(node: ir.Node, context: ShapeContext) -> None:
    """Set types and shapes of a node's outputs from those of its inputs; the node is in opset ``OPSET``.

    Args:
        node: The node; its inputs are inferred.
        context: The graph's ``shape_context``.

    Raises:
        ShapeError: The sizes do not fit; the message names the node.
    """
    key = likeness(node)
    known = context.alike.get(key) if key is not None else None
    if known is not None:
        node.outputs[0].shape = known.shape
        if known.dtype is not None:
            node.outputs[0].dtype = known.dtype
        return
    _infer(node, context)
    if key is not None and (found := output_of(node)) is not None:
        context.alike[key] = found


def infer_shapes(graph: Graph, shapes: Mapping[str, Sequence[int | str | None]] | None = None) -> None:
    """Infer all shapes of a graph anew, in place; what was known before is forgotten.

    Args:
        graph: The graph.
        shapes: New sizes for some inputs, by name; None keeps a size as it is.

    Raises:
        UsageError: There is no such input, or it has another number of axes.
        ShapeError: The sizes do not fit; the message names the node.
    """
    _register()
    _set_input_shapes(graph, shapes or {})
    for value in graph.model.graph.initializers.values():
        if value.const_value is not None:
            value.shape = ir.Shape(value.const_value.shape.numpy())
    _forget_sizes(graph)
    if any(True for _ in graph.model.graph.subgraphs()):
        _infer_with_subgraphs(graph)
        return
    context = ShapeContext(graph.model.opset_imports)
    for node in graph.nodes:
        for output in node.outputs:
            output.shape = None
        try:
            infer_node(node, context)
        except ShapeError as error:
            raise ShapeError(error.message, place=graph.place_of(node)) from error


def _forget_sizes(graph: Graph) -> None:
    """Forget the numbers in values that are computed: some were taken from sizes, which may be others now."""
    for node in graph.model.graph.all_nodes():
        for output in node.outputs:
            output.const_value = None
            output.metadata_props.pop(osi.SYM_DATA_KEY, None)


def _set_input_shapes(graph: Graph, shapes: Mapping[str, Sequence[int | str | None]]) -> None:
    by_name = {value.name: value for value in graph.inputs}
    for name, sizes in shapes.items():
        if name not in by_name:
            raise UsageError(f"no input {name!r}; the net has: {', '.join(map(str, by_name)) or 'none'}")
        value = by_name[name]
        old = value.shape.dims if value.shape is not None else [None] * len(sizes)
        if len(old) != len(sizes):
            raise UsageError(
                f"input {name!r} has the shape {value.shape}, not {len(sizes)} axes: {list(sizes)}"
            )
        value.shape = ir.Shape([o if s is None else s for s, o in zip(sizes, old, strict=True)])


def _infer_with_subgraphs(graph: Graph) -> None:
    try:
        osi.infer_symbolic_shapes(graph.model, policy="override", warn_on_missing=False)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise ShapeError(str(error), place=graph.name) from error


def _infer(node: ir.Node, context: ShapeContext) -> None:
    place = f"{node.op_type} {node.name!r}" if node.name else node.op_type
    infer = osi.registry.get(node.domain, node.op_type, version=context.get_opset_version(node.domain))
    if infer is None:
        return
    try:
        check_inputs(node)
        _check_size_list(node)
        if not any(rule(node, context) for rule in (_joined_long, _joined_many, _flattened)):
            infer(context, node)
        _check_axes(node)
        check_outputs(node)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ShapeError(getattr(error, "message", str(error)), place=place) from error
    if context.errors:
        raise ShapeError(context.errors[0].message, place=place)
    for value in node.outputs:
        _tidy(value, context)
        check_size(value, place=place)


_SIZE_LISTS = {"ConstantOfShape": 0, "Expand": 1, "Reshape": 1}
"""Which input of an operator has a number for each axis of the output."""


def _check_size_list(node: ir.Node) -> None:
    """Raise ``ValueError`` if a list of sizes is longer than any tensor has axes.

    The inference makes a symbol for each; a few bytes describe a list of 2**31 of them.
    """
    index = _SIZE_LISTS.get(node.op_type) if node.domain == "" else None
    if index is None or index >= len(node.inputs):
        return
    sizes = known_shape(node.inputs[index])
    if sizes is not None and len(sizes) == 1 and (sizes[0] or 0) > MAX_AXES:
        raise ValueError(f"would make a tensor of {sizes[0]:,} axes, at most {MAX_AXES} are possible")


def _check_axes(node: ir.Node) -> None:
    for value in node.outputs:
        if value.shape is not None and len(value.shape) > MAX_AXES:
            raise ValueError(f"makes a tensor of {len(value.shape):,} axes, at most {MAX_AXES} are possible")


def _joined_long(node: ir.Node, context: ShapeContext) -> bool:
    """Infer a concatenation of long vectors; the inference would make a symbol for each unknown element."""
    vectors = [known_shape(value) for value in node.inputs]
    first = node.inputs[0] if node.inputs else None
    if node.op_type != "Concat" or node.domain or first is None or not any(map(is_long, node.inputs)):
        return False
    if any(sizes is None or len(sizes) != 1 for sizes in vectors):
        return False
    sizes = [size for sizes in vectors if sizes is not None for size in sizes]
    known = [size for size in sizes if size is not None]
    total = sum(known) if len(known) == len(sizes) else context.new_symbolic_dim()
    context.set_shape_and_dtype(node.outputs[0], ir.Shape([total]), first.dtype)
    return True


def _flattened(node: ir.Node, context: ShapeContext) -> bool:
    """Infer a Flatten that multiplies no open size; the inference would load sympy for 1 times N."""
    value = node.inputs[0] if node.op_type == "Flatten" and not node.domain and node.inputs else None
    if value is None or value.shape is None:
        return False
    axis = node.attributes.get_int("axis", 1)
    if not -len(value.shape) <= axis <= len(value.shape):
        return False
    axis += len(value.shape) if axis < 0 else 0
    sides: list[Dim] = []
    for dims in (value.shape.dims[:axis], value.shape.dims[axis:]):
        known = math.prod(dim for dim in dims if isinstance(dim, int))
        unknown = [dim for dim in dims if not isinstance(dim, int)]
        if len(unknown) > 1 or (unknown and known != 1):
            return False
        sides.append(unknown[0] if unknown else known)
    context.set_shape_and_dtype(node.outputs[0], ir.Shape(sides), value.dtype)
    return True


def _joined_many(node: ir.Node, context: ShapeContext) -> bool:
    """Infer a concatenation of many values whose sizes are open along its axis.

    The inference would write down a sum with a term for each, and copy it as often.
    """
    axis = node.attributes.get("axis")
    if node.op_type != "Concat" or node.domain or axis is None or len(node.inputs) <= MAX_SUM:
        return False
    shapes = [value.shape for value in node.inputs if value is not None and value.shape is not None]
    first, number = shapes[0] if shapes else None, axis.as_int()
    if first is None or len(shapes) < len(node.inputs) or not -len(first) <= number < len(first):
        return False
    if any(len(shape) != len(first) for shape in shapes) or all(isinstance(s[number], int) for s in shapes):
        return False
    number %= len(first)
    dims: list[Dim] = []
    for place, along in enumerate(zip(*(shape.dims for shape in shapes), strict=True)):
        sizes = {dim for dim in along if isinstance(dim, int)}
        if place == number:
            dims.append(context.new_symbolic_dim())
        elif len(sizes) > 1:
            raise ValueError(
                f"axis {place} has the sizes {sorted(sizes)[:5]}, expected one size for all inputs"
            )
        else:
            dims.append(next(iter(sizes), along[0]))
    context.set_shape_and_dtype(node.outputs[0], ir.Shape(dims), node.inputs[0].dtype)  # type: ignore[union-attr]  # all have shapes
    return True


def _tidy(value: ir.Value, context: ShapeContext) -> None:
    """Make numbers of formulas without symbols (``168*N/N``), and symbols of those beyond ``MAX_FORMULA``."""
    if value.shape is not None and any(not isinstance(dim, int) for dim in value.shape):
        value.shape = ir.Shape([_tidy_dim(dim, context) for dim in value.shape.dims])


def _tidy_dim(dim: Dim, context: ShapeContext) -> Dim:
    if isinstance(dim, int) or dim.value is None:
        return dim
    if dim.value.removeprefix("-").isdecimal():
        return int(dim.value)
    return context.new_symbolic_dim() if len(dim.value) > MAX_FORMULA else dim


def check_size(value: ir.Value, *, place: str) -> None:
    """Raise ``ShapeError`` if a value has a size below zero or more than ``MAX_ELEMENTS`` elements."""
    sizes = [size for size in known_shape(value) or () if size is not None]
    count = 1
    for size in sizes:
        count *= size
    if count > MAX_ELEMENTS or any(size < 0 for size in sizes):
        raise ShapeError(
            f"{value.name!r} would have the shape {value.shape}: {count:,} elements, "
            f"at most {MAX_ELEMENTS:,} are possible; check the sizes in the file",
            place=place,
        )


_registered: set[str] = set()


def _register() -> None:
    """Hand the rules of the registry to the inference, those that came since the last time."""
    if not _registered:
        osi.registry.collect()
    for op_type in all_operators().keys() - _registered:
        osi.registry.register(DOMAIN, op_type, since_version=1)(_rule(op_type))
        _registered.add(op_type)


def _is_unknown(dim: Dim) -> bool:
    return not isinstance(dim, int) and dim.value is None


def _rule(op_type: str) -> Callable[[osi.ShapeInferenceContext, ir.Node], None]:
    def infer(context: osi.ShapeInferenceContext, node: ir.Node) -> None:
        entry = find_operator(op_type)  # looked up anew: one of the user's own may be defined again
        inputs = [value.shape for value in node.inputs if value is not None]
        if any(shape is None for shape in inputs):
            return
        dims = [tuple(shape.dims) for shape in inputs if shape is not None]
        shapes = entry.shapes(dims, attributes_of(node))
        first = node.inputs[0].dtype if node.inputs and node.inputs[0] is not None else None
        for index, (output, shape) in enumerate(zip(node.outputs, shapes, strict=False)):
            dtype = entry.dtypes[index] if index < len(entry.dtypes) else first
            named = [context.new_symbolic_dim() if _is_unknown(dim) else dim for dim in shape]
            context.set_shape_and_dtype(output, ir.Shape(named), dtype or ir.DataType.FLOAT)

    return infer


MAX_SUM = 256
"""Terms of an open size that a concatenation makes; the sum of more of them is a symbol of its own."""
