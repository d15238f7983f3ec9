"""Upgrades of ONNX models to the opset in use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import onnx
import onnx_ir as ir

from netweave.errors import ReadError, ShapeError, UnsupportedError
from netweave.files.onnx.editing import Editor, Names, all_nodes
from netweave.files.unknown_names import UnknownLayer, refuse_unknown_layers
from netweave.graph import DOMAIN, OPSET, all_operators
from netweave.graph.graph import subgraphs
from netweave.graph.shapes import ShapeContext, infer_node, shape_context

if TYPE_CHECKING:
    from netweave.files.onnx.batch import Batch

# A row says in which opset the form changed and how a node of before is rewritten in place. What is not
# listed changed in its element types only, or gained attributes and inputs whose defaults are the old
# meaning (found by comparing all versions of all schemas in ``onnx.defs``; a test repeats this). The rules
# follow ONNX's operator changelog; ``onnx.version_converter`` is not used because it drops names and
# metadata and gets Resize, GroupNormalization, PRelu and Hardmax wrong.
#
# To add one: write ``@upgrade(opset, "Name", ...)`` over a function that edits the node, or add to a table.

Rule = Callable[["Editor"], None]
"""Rewrites the node of an editor from the form of one opset to that of the next."""

INT64 = ir.DataType.INT64
FLOAT = ir.DataType.FLOAT


class CannotUpgradeError(Exception):
    """A node has no form in today's opset; the message says why."""


_RULES: dict[str, list[tuple[int, Rule]]] = {}


def upgrade(opset: int, *op_types: str) -> Callable[[Rule], Rule]:
    """Register the decorated rule for nodes written in an opset before ``opset``."""

    def register(rule: Rule) -> Rule:
        for op_type in op_types:
            rows = _RULES.setdefault(op_type, [])
            rows.append((opset, rule))
            rows.sort(key=lambda row: row[0])
        return rule

    return register


def next_rules(op_type: str, version: int) -> tuple[int, list[Rule]]:
    """Return the first change of an operator after a version: the opset of the new form, and its rules.

    >>> next_rules("Clip", 11)
    (0, [])
    """
    later = [row for row in _RULES.get(op_type, ()) if version < row[0]]
    return (later[0][0], [rule for opset, rule in later if opset == later[0][0]]) if later else (0, [])


BINARY = ("Add", "And", "Div", "Equal", "Greater", "Less", "Mul", "Or", "Pow", "Sub", "Xor")

REDUCE = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")

_DROPPED = (
    (6, ("consumed_inputs",), "Abs Add BatchNormalization Ceil Clip Div Dropout Elu Exp Floor HardSigmoid "),
    (6, ("consumed_inputs",), "InstanceNormalization LeakyRelu Log Max Mean Min Mul Neg PRelu Reciprocal "),
    (6, ("consumed_inputs",), "Relu Selu Sigmoid Sqrt Sub Sum Tanh "),
    (5, ("consumed_inputs",), "Reshape"),
    (7, ("is_test",), "BatchNormalization Dropout"),
    (7, ("broadcast",), "Gemm"),
    (7, ("output_sequence",), "GRU LSTM RNN"),
)
"""Attributes that told a runtime how to work, or training from test; a Graph is in test mode."""

_MOVED = (
    (5, "shape", 1, INT64, "Reshape"),
    (9, "scales", 1, FLOAT, "Upsample"),
    (10, "starts", 1, INT64, "Slice"),
    (10, "ends", 2, INT64, "Slice"),
    (10, "axes", 3, INT64, "Slice"),
    (11, "min", 1, None, "Clip"),
    (11, "max", 2, None, "Clip"),
    (11, "pads", 1, INT64, "Pad"),
    (11, "value", 2, None, "Pad"),
    (12, "ratio", 1, FLOAT, "Dropout"),
    (13, "axes", 1, INT64, "ReduceSum Squeeze Unsqueeze"),
    (13, "split", 1, INT64, "Split"),
    (18, "axes", 1, INT64, " ".join(f"Reduce{kind}" for kind in REDUCE)),
    (20, "axis", 2, INT64, "DFT"),
)
"""Attributes that became inputs: opset, name, index of the input, type (None: that of input 0)."""


def _drop(names: tuple[str, ...]) -> Rule:
    def rule(edit: Editor) -> None:
        for name in names:
            edit.take(name)

    return rule


def _move(name: str, index: int, dtype: ir.DataType | None) -> Rule:
    def rule(edit: Editor) -> None:
        values = edit.take(name)
        if values is not None:
            data = edit.input(0)
            own = data.dtype if data is not None and data.dtype is not None else FLOAT
            edit.set_input(index, edit.constant(values, dtype or own, name))

    return rule


@upgrade(2, "Pad")
def _pad_name(edit: Editor) -> None:
    edit.put(pads=edit.take("paddings", []))


@upgrade(2, "Split")
def _split_input(edit: Editor) -> None:
    if edit.input(1) is not None:
        raise CannotUpgradeError("sizes as an input")


@upgrade(2, "LpPool", "GlobalLpPool")
def _integer_norm(edit: Editor) -> None:
    norm = edit.get("p", 2.0)
    if norm != int(norm):
        raise CannotUpgradeError(f"norm {norm}")
    edit.put(p=int(norm))


@upgrade(3, "GRU")
def _gru_direction(edit: Editor) -> None:
    if edit.get("direction") == "foward":
        edit.put(direction="forward")


@upgrade(4, "Concat")
def _concat_axis(edit: Editor) -> None:
    edit.put(axis=edit.get("axis", 1))


@upgrade(6, "Cast")
def _cast_target(edit: Editor) -> None:
    name = edit.get("to", "")
    if name not in ir.DataType.__members__:
        raise CannotUpgradeError(f"element type {name!r}")
    edit.put(to=int(ir.DataType[name]))


@upgrade(6, "Selu")
def _selu_defaults(edit: Editor) -> None:
    edit.put(alpha=edit.get("alpha", 1.6732), gamma=edit.get("gamma", 1.0507))


@upgrade(6, "Tile")
def _tile_axis(edit: Editor) -> None:
    raise CannotUpgradeError("repeats along one axis")


@upgrade(7, *BINARY)
def _broadcast(edit: Editor) -> None:
    axis, broadcast = edit.take("axis"), edit.take("broadcast", 0)
    if not broadcast or axis is None:
        return
    a, b = edit.shape(0), edit.shape(1)
    if a is None or b is None:
        raise CannotUpgradeError("broadcasting along an axis of an unknown shape")
    missing = len(a) - axis % max(1, len(a)) - len(b)
    if missing > 0:
        axes = edit.constant(range(len(b), len(b) + missing), INT64, "axes")
        edit.set_input(1, edit.add("Unsqueeze", [edit.input(1), axes]))


@upgrade(7, "PRelu")
def _prelu_slope(edit: Editor) -> None:
    data, slope = edit.shape(0), edit.shape(1)
    if data is None or slope is None:
        raise CannotUpgradeError("an unknown shape")
    if len(slope) == 1 and slope[0] != 1 and len(data) > 2:
        axes = edit.constant(range(1, len(data) - 1), INT64, "axes")
        edit.set_input(1, edit.add("Unsqueeze", [edit.input(1), axes]))


@upgrade(7, "Upsample")
def _upsample_scales(edit: Editor) -> None:
    edit.put(scales=[1.0, 1.0, edit.take("height_scale", 1.0), edit.take("width_scale", 1.0)])
    if edit.get("mode") == "bilinear":
        edit.put(mode="linear")


@upgrade(9, "BatchNormalization")
def _batch_norm_spatial(edit: Editor) -> None:
    if not edit.take("spatial", 1):
        raise CannotUpgradeError("statistics for each pixel (spatial=0)")


@upgrade(9, "Scan")
def _scan(edit: Editor) -> None:
    raise CannotUpgradeError("the form of opset 8")


@upgrade(10, "TopK")
def _topk_input(edit: Editor) -> None:
    edit.set_input(1, edit.constant([edit.take("k", 1)], INT64, "k"))


@upgrade(10, "Upsample")
def _upsample(edit: Editor) -> None:
    edit.node.op_type = "Resize"


@upgrade(11, "Resize")
def _resize(edit: Editor) -> None:
    """Sampling before opset 11 is ``asymmetric``; nearest rounds down, or up when the image shrinks."""
    scales = edit.input(1)
    edit.set_input(2, scales)
    edit.set_input(1, None)
    edit.put(coordinate_transformation_mode="asymmetric")
    if edit.get("mode", "nearest") == "nearest":
        known = ir.convenience.get_const_tensor(scales) if scales is not None else None
        shrinks = known is not None and bool((known.numpy() < 1).any())
        edit.put(nearest_mode="ceil" if shrinks else "floor")


@upgrade(11, "Scatter")
def _scatter(edit: Editor) -> None:
    edit.node.op_type = "ScatterElements"


@upgrade(13, "Resize")
def _resize_mode(edit: Editor) -> None:
    if edit.get("coordinate_transformation_mode") == "tf_half_pixel_for_nn":
        raise CannotUpgradeError("coordinate_transformation_mode tf_half_pixel_for_nn")


@upgrade(13, "Softmax", "LogSoftmax", "Hardmax")
def _softmax(edit: Editor) -> None:
    """Before opset 13 all axes from ``axis`` on are one."""
    axis, shape = edit.get("axis", 1), edit.shape()
    if shape is not None and shape and all(size == 1 for size in shape[axis % len(shape) + 1 :]):
        edit.put(axis=axis)
        return
    data = edit.input(0)
    sizes = edit.add("Shape", [data])
    edit.set_input(0, edit.add("Flatten", [data], {"axis": axis}))
    edit.put(axis=-1)
    edit.add_after("Reshape", [sizes])


@upgrade(14, "BatchNormalization")
def _batch_norm_outputs(edit: Editor) -> None:
    _trim_outputs(edit)


@upgrade(12, "Dropout")
def _dropout_mask(edit: Editor) -> None:
    _trim_outputs(edit)


def _trim_outputs(edit: Editor) -> None:
    """Take away all outputs but the first, which changed their meaning."""
    if any(value.uses() or value.is_graph_output() for value in edit.node.outputs[1:]):
        raise CannotUpgradeError("a second output that is used")
    edit.node.resize_outputs(min(1, len(edit.node.outputs)))


@upgrade(16, "RoiAlign")
def _roi_align(edit: Editor) -> None:
    edit.put(coordinate_transformation_mode="output_half_pixel")


@upgrade(18, "Split")
def _split_count(edit: Editor) -> None:
    if edit.input(1) is None:
        edit.put(num_outputs=len(edit.node.outputs))


@upgrade(20, "GridSample")
def _grid_mode(edit: Editor) -> None:
    names = {"bilinear": "linear", "bicubic": "cubic"}
    mode = edit.get("mode", "bilinear")
    edit.put(mode=names.get(mode, mode))


@upgrade(21, "GroupNormalization")
def _group_norm(edit: Editor) -> None:
    """Before opset 21 scale and bias have one entry per group, now one per channel."""
    shape, groups = edit.shape(), edit.get("num_groups", 1)
    channels = shape[1] if shape is not None and len(shape) > 1 else None
    if channels is None or groups < 1 or channels % groups:
        raise CannotUpgradeError("an unknown number of channels")
    column = edit.constant([-1, 1], INT64, "column")
    grid = edit.constant([groups, channels // groups], INT64, "grid")
    flat = edit.constant([-1], INT64, "flat")
    for index in (1, 2):
        upright = edit.add("Reshape", [edit.input(index), column])
        edit.set_input(index, edit.add("Reshape", [edit.add("Expand", [upright, grid]), flat]))


for _opset, _names, _op_types in _DROPPED:
    upgrade(_opset, *_op_types.split())(_drop(_names))
for _opset, _name, _index, _dtype, _op_types in _MOVED:
    upgrade(_opset, *_op_types.split())(_move(_name, _index, _dtype))


ML_DOMAIN = "ai.onnx.ml"


def modernise(model: ir.Model, batch: Batch, *, place: str) -> None:
    """Rewrite every node in today's opset and infer all shapes, in place.

    Args:
        model: A sorted model without functions.
        batch: What is done to keep the batch size free.
        place: The file, for messages.

    Raises:
        ReadError: A node is not what the schema of its operator allows.
        UnsupportedError: Some operators have no form in opset ``OPSET``; all are named.
        ShapeError: Sizes do not fit.
        BatchBoundError: The net works for its declared batch size only.
    """
    version = model.opset_imports.get("", OPSET)
    walk = _Walk(version, Names(model.graph), shape_context(model.opset_imports), batch)
    walk.context.reserve_symbol_names(_symbols(model.graph))
    try:
        walk.graph(model.graph)
    except (ReadError, ShapeError) as error:
        raise type(error)(error.message, place=f"{place}: {error.place}") from error
    if walk.refused:
        raise UnsupportedError(f"no form in opset {OPSET} for {describe(walk.refused)}", place=place)
    model.opset_imports[""] = OPSET


def describe(counts: Counter[str]) -> str:
    """Return counted operators as text: ``2 operators: Unique-11 (1 node), If-1 (3 nodes)``."""
    listed = ", ".join(f"{name} ({num} node{'s' * (num > 1)})" for name, num in sorted(counts.items()))
    return f"{len(counts)} operator{'s' * (len(counts) > 1)}: {listed}"


def label(node: ir.Node, version: int) -> str:
    """Return an operator as in messages: ``Conv-11``, ``com.microsoft::Attention-1``."""
    domain = f"{node.domain}::" if node.domain else ""
    try:
        since = onnx.defs.get_schema(node.op_type, version, node.domain).since_version
    except onnx.defs.SchemaError:
        since = version
    return f"{domain}{node.op_type}-{since}"


class _Walk:
    def __init__(self, version: int, names: Names, context: ShapeContext, batch: Batch) -> None:
        self.version = version
        self.names = names
        self.context = context
        self.batch = batch
        self.refused: Counter[str] = Counter()

    def graph(self, graph: ir.Graph) -> None:
        """Walk over a graph or a body."""
        for node in list(graph):
            for body in subgraphs(node):
                self.graph(body)
            edit = Editor(node, self.version, self.names)
            own = _own_form(node, self.version)
            problem = own.problem(node) if own else None
            try:
                if node.domain == "":
                    self._upgrade(edit)
                self._check(node)
            except CannotUpgradeError as error:
                # Files with an attribute that no schema knows are read as long as a rule takes it away.
                if problem is not None:
                    raise ReadError(problem, place=f"{node.op_type} {node.name!r}") from error
                self.refused[f"{label(node, self.version)}, {error}"] += 1
                continue
            _check_window(node)
            self.batch.free(edit)
            for made in (*edit.added, node, *([edit.after] if edit.after else [])):
                infer_node(made, self.context)
            self.batch.check(node)

    def _upgrade(self, edit: Editor) -> None:
        form = _form("", edit.node.op_type, self.version)
        if form is not None:
            form.check_types(edit.node, ignore_unknown=True)
        while (found := next_rules(edit.node.op_type, edit.version))[1]:
            edit.version, rules = found
            for rule in rules:
                rule(edit)

    def _check(self, node: ir.Node) -> None:
        version = OPSET if node.domain == "" else self.context.get_opset_version(node.domain)
        form = _form(node.domain, node.op_type, version)
        if form is None:
            return
        if form.deprecated:
            raise CannotUpgradeError("which was taken out")
        form.check_types(node)
        missing = form.required - set(node.attributes)
        if missing:
            raise CannotUpgradeError(f"attribute {min(missing)!r} is missing")
        num_inputs = len(node.inputs)
        if not form.min_inputs <= num_inputs <= form.max_inputs or len(node.outputs) > form.max_outputs:
            raise CannotUpgradeError(f"{num_inputs} inputs and {len(node.outputs)} outputs")


class _Form:
    """Attributes and counts that a schema allows; plain Python, since asking a schema is slow."""

    def __init__(self, schema: onnx.defs.OpSchema) -> None:
        rows: Mapping[str, Any] = schema.attributes  # onnx's stubs do not know that its types are enums
        self.attributes = {name: row.type.name for name, row in rows.items()}
        self.required = {name for name, row in rows.items() if row.required}
        self.min_inputs = schema.min_input
        self.max_inputs = schema.max_input
        self.max_outputs = schema.max_output
        self.deprecated = schema.deprecated

    def problem(self, node: ir.Node) -> str | None:
        """Return what the schema does not allow of a node; None if it allows the node."""
        for name, attribute in node.attributes.items():
            expected = self.attributes.get(name)
            if expected is None:
                return f"has the attribute {name!r}, which its schema does not know"
            if expected != attribute.type.name:
                return f"its attribute {name!r} is of type {attribute.type.name}, expected {expected}"
        if missing := self.required - set(node.attributes):
            return f"has no attribute {min(missing)!r}"
        if not self.min_inputs <= len(node.inputs) <= self.max_inputs:
            most = "" if self.max_inputs == self.min_inputs else f" to {self.max_inputs}"
            return f"has {len(node.inputs)} inputs, expected {self.min_inputs}{most}"
        return None

    def check_types(self, node: ir.Node, *, ignore_unknown: bool = False) -> None:
        """Raise ``CannotUpgradeError`` if an attribute is unknown or of another type than the schema says."""
        for name, attribute in node.attributes.items():
            expected = self.attributes.get(name)
            if expected != attribute.type.name and not (expected is None and ignore_unknown):
                raise CannotUpgradeError(f"attribute {name!r} of type {attribute.type.name}")


def _check_window(node: ir.Node) -> None:
    """Refuse a window that no runtime takes; shape inference lets some of them pass.

    Raises:
        ReadError: A size, a step or a distance is below 1.
    """
    for name in ("kernel_shape", "strides", "dilations"):
        attribute = node.attributes.get(name) if node.domain == "" else None
        if attribute is not None and min(attribute.as_ints(), default=1) < 1:
            raise ReadError(
                f"its attribute {name!r} is {list(attribute.as_ints())}, expected 1 or more",
                place=f"{node.op_type} {node.name!r}",
            )


def _own_form(node: ir.Node, version: int) -> _Form | None:
    """Return what a node of the file's opset may look like; None where ONNX does not say it."""
    try:
        return _form(node.domain, node.op_type, version) if node.domain == "" else None
    except CannotUpgradeError:
        return None


@cache
def _form(domain: str, op_type: str, version: int) -> _Form | None:
    """Return what an operator may look like; None where ONNX has no say.

    Raises:
        CannotUpgradeError: ONNX does not know the operator in this version.
    """
    if domain not in {"", ML_DOMAIN}:
        return None
    try:
        schema = onnx.defs.get_schema(op_type, version, domain)
    except onnx.defs.SchemaError:
        raise CannotUpgradeError("which came later") from None
    return _Form(schema)


def _symbols(graph: ir.Graph) -> set[str]:
    return {
        symbol
        for value in graph.inputs
        if value.shape is not None
        for dim in value.shape
        if isinstance(dim, ir.SymbolicDim)
        for symbol in (dim.value,)
        if symbol is not None
    }


MAX_OPSET = onnx.defs.onnx_opset_version()


def check_operators(model: ir.Model, *, place: str) -> None:
    """Check that every operator is known in the version that the file names.

    Args:
        model: The model, without functions.
        place: The file, for messages.

    Raises:
        UnsupportedError: Some are not; all are named, with their first nodes.
    """
    version = model.opset_imports.get("", MAX_OPSET)
    if not 1 <= version <= MAX_OPSET:
        raise UnsupportedError(
            f"is written in opset {version}; 1 to {MAX_OPSET} are supported: update onnx, or export the net "
            "again",
            place=place,
        )
    unknown = []
    for node in all_nodes(model.graph):
        if not is_known_operator(node, model):
            own = model.opset_imports.get(node.domain, 1)
            unknown.append(UnknownLayer(label(node, own), node.name or ""))
    refuse_unknown_layers(
        unknown,
        place=place,
        noun="operator",
        advice="neither ONNX nor ONNX Runtime has them, and the file holds no functions of these names: "
        "export with standard operators",
    )


def is_known_operator(node: ir.Node, model: ir.Model) -> bool:
    """Return whether a node's operator is known in the version that the file names."""
    return _is_known(node.domain, node.op_type, model.opset_imports.get(node.domain, 1))


@cache
def _is_known(domain: str, op_type: str, version: int) -> bool:
    if domain == DOMAIN:
        return op_type in all_operators()
    if domain in {"", ML_DOMAIN}:
        try:
            onnx.defs.get_schema(op_type, version, domain)
        except onnx.defs.SchemaError:
            return False
        return True
    return (domain, op_type) in _runtime_operators()


@cache
def _runtime_operators() -> frozenset[tuple[str, str]]:
    """Return (domain, name) of the operators of ONNX Runtime; it is imported only when asked."""
    from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

    return frozenset((schema.domain, schema.name) for schema in get_all_operator_schema())


def add_functions_of_later_operators(model: ir.Model) -> None:
    """Add a function for each node of an operator that came later: Attention-23, Swish-24.

    A node stays as it is where its function depends on types or ranks that the file does not say.
    """
    version = model.opset_imports.get("", OPSET)
    if version <= OPSET:
        return
    for number, node in enumerate(list(all_nodes(model.graph))):
        if node.domain or onnx.defs.has(node.op_type, OPSET) or not onnx.defs.has(node.op_type, version):
            continue
        schema = onnx.defs.get_schema(node.op_type, version)
        function = _function_of(node, schema)
        if function is None:
            continue
        function.overload = node.overload = f"later-{number}"
        function.opset_import[0].version = version
        del function.output[len(node.outputs) :]  # a body leaves out what nobody asks for
        for name, row in schema.attributes.items():
            if name not in node.attributes and row.default_value.name:
                node.attributes[name] = ir.from_proto(row.default_value)
        body = ir.from_proto(function)
        model.functions[body.identifier()] = body


def _function_of(node: ir.Node, schema: onnx.defs.OpSchema) -> onnx.FunctionProto | None:
    """Return the function that ONNX defines a node by; None without one."""
    if schema.has_function:  # type: ignore[attr-defined]  # not in onnx's stubs
        return schema.function_body
    types = [_type_of(value) for value in node.inputs]
    if not schema.has_context_dependent_function or None in types:  # type: ignore[attr-defined]  # likewise
        return None
    node_bytes = ir.to_proto(node).SerializeToString()
    written = schema.get_context_dependent_function(node_bytes, types)  # type: ignore[attr-defined]  # likewise
    return onnx.FunctionProto.FromString(written) if written else None


def _type_of(value: ir.Value | None) -> bytes | None:
    """Return the type of an input as ONNX's message, empty for an input left out; None if it is not known."""
    if value is None:
        return b""
    if value.type is None or value.shape is None:
        return None
    return ir.to_proto(value).type.SerializeToString()
