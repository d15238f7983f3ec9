"""Edits of ONNX models: attributes, operators, inputs and stored arrays of nodes, in the protobuf."""

from __future__ import annotations

import ast
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import onnx
from google.protobuf.message import DecodeError, Message
from onnx import helper, numpy_helper

from netweave.comparison import INPUT_ORDER
from netweave.comparison.fixes.text import NotAppliedError
from netweave.comparison.metric import constants_of
from netweave.files.protobuf_fields import BYTES, Span, field_spans, write_field
from netweave.graph import Graph, parameter_key

if TYPE_CHECKING:
    import onnx_ir as ir

    from netweave.comparison import Comparison, Edit, Finding, Group
    from netweave.comparison.result.report import NetRecord

Proto = TypeVar("Proto", bound=Message)

OP_TYPE = "op_type"
"""The setting of an edit that has a node compute another operator."""

MAX_SHOWN = 8
"""Elements of an attribute that the readable form of a model has."""


VALUES = tuple(f"{kind}_data" for kind in ("raw", "float", "double", "int32", "int64", "uint64", "string"))
"""Fields of an array that hold its values, of which one is set."""


class StoredModel:
    """An ONNX file, which is read once however many fixes are tried on it.

    External data are left where they are.

    Args:
        file: The file.

    Attributes:
        file: The file.
        arrays: The stored arrays by name.
        outline: The model with arrays that have no values: it is small, and is copied for each fix.

    Raises:
        NotAppliedError: It cannot be read again.
    """

    def __init__(self, file: str) -> None:
        self.file = file
        try:
            self.outline = onnx.load(file, load_external_data=False)
        except (OSError, DecodeError) as error:
            raise NotAppliedError(f"{Path(file).name} cannot be read again: {error}") from error
        self.arrays: dict[str, onnx.TensorProto] = {}
        self._lines: dict[str | bytes, str] = {}
        self._fields: dict[str, bytes] = {}
        for array in self.outline.graph.initializer:
            self.arrays[array.name] = _copied(array)
            for name in VALUES:
                array.ClearField(name)

    def text(self, model: onnx.ModelProto) -> str:
        """Return an edited outline in a readable form.

        There is a line for each node with its attributes, and one for each array.
        """
        lines = [self._line(node.SerializeToString(), _node_text, node) for node in model.graph.node]
        for array in model.graph.initializer:
            if self.holds(array):
                lines.append(self._line(array.name, _array_text, self.arrays[array.name]))
            else:
                lines.append(_array_text(array))
        return "\n".join(lines) + "\n"

    def _line(self, key: str | bytes, make: Callable[[Any], str], described: Any) -> str:
        if key not in self._lines:
            self._lines[key] = make(described)
        return self._lines[key]

    def holds(self, array: onnx.TensorProto) -> bool:
        """Return whether an array of an edited outline is one of the file, with its values there."""
        return array.name in self.arrays and not any(known.name in VALUES for known, _ in array.ListFields())

    def content(self, model: onnx.ModelProto) -> bytes:
        """Return an edited outline with all values, as a file holds it.

        The values are written once, and not again for each fix.
        """
        outline = model.SerializeToString()
        arrays = iter(model.graph.initializer)
        return b"".join(
            write_field(span.number, b"".join(self._graph_fields(outline, span, arrays)))
            if span.number == onnx.ModelProto.GRAPH_FIELD_NUMBER
            else outline[span.begin : span.end]
            for span in field_spans(outline, Span(0, BYTES, 0, 0, len(outline)))
        )

    def _graph_fields(
        self, outline: bytes, graph: Span, arrays: Iterator[onnx.TensorProto]
    ) -> Iterator[bytes]:
        for span in field_spans(outline, graph):
            if span.number == onnx.GraphProto.INITIALIZER_FIELD_NUMBER and self.holds(array := next(arrays)):
                yield self._written(array.name)
            else:
                yield outline[span.begin : span.end]

    def _written(self, name: str) -> bytes:
        if name not in self._fields:
            held = self.arrays[name].SerializeToString()
            self._fields[name] = write_field(onnx.GraphProto.INITIALIZER_FIELD_NUMBER, held)
        return self._fields[name]


class ModelEdits:
    """Fixes applied to an ONNX model, in a copy.

    Only an array that a fix replaces moves from external data into the model.

    Args:
        stored: The model.
        read: Reads the model that nodes are copied from.
    """

    def __init__(self, stored: StoredModel, read: Callable[[str], StoredModel]) -> None:
        self._stored = stored
        self._read = read
        self.model = _copied(stored.outline)
        self._edited: set[tuple[str, str]] = set()

    @property
    def text(self) -> str:
        """The model in a readable form."""
        return self._stored.text(self.model)

    @property
    def content(self) -> bytes:
        """The model as a file holds it."""
        return self._stored.content(self.model)

    @property
    def data_files(self) -> list[str]:
        """Files of external data, as the model names them from its own folder."""
        arrays = [one for one in self.model.graph.initializer if one.external_data]
        entries = [entry for array in arrays for entry in array.external_data]
        return list(dict.fromkeys(entry.value for entry in entries if entry.key == "location"))

    def apply(self, finding: Finding, group: Group | None, comparison: Comparison) -> None:
        """Apply the fix of a finding; nothing is changed if it cannot be applied whole.

        Args:
            finding: The finding.
            group: The group that it is about; None if it is about none.
            comparison: The comparison; the first net has the values of weights that differ, and the settings
                of an operator that replaces another.

        Raises:
            NotAppliedError: The model has no such node, or the fix takes more than such edits.
        """
        before = _copied(self.model)
        edited = set(self._edited)
        try:
            self._apply(finding, group, comparison)
        except NotAppliedError:
            self.model, self._edited = before, edited
            raise

    def _apply(self, finding: Finding, group: Group | None, comparison: Comparison) -> None:
        if not finding.fix:
            raise NotAppliedError("no fix is known")
        if finding.mismatch == "missing-layer" and finding.layer_a and not finding.layer_b:
            self._insert(finding.layer_a, comparison.a)
        elif finding.mismatch == "weights" and not finding.edits:
            self._give_weights(finding, group, comparison)
        elif group is not None and self._is_function(finding, group):
            self._copy_nodes(group, comparison.a)
        elif not finding.edits:
            raise NotAppliedError(f"the fix is more than a setting; do it by hand: {finding.fix}")
        else:
            names = (finding.layer_b, *(group.nodes_b if group is not None else ()))
            for edit in finding.edits:
                node = self._node(*names, edit=edit)
                self._edit(node, edit)
                if edit.name == OP_TYPE and group is not None:
                    _take_settings(node, comparison.a, group.nodes_a, self._opset)

    def _node(self, *names: str, edit: Edit | None = None) -> onnx.NodeProto:
        """Return the first node of some names, and of those that have a setting."""
        for name in names:
            found = [node for node in self.model.graph.node if node.name == name]
            if not found:  # a node without a name is called after its output
                found = [node for node in self.model.graph.node if not node.name and name in node.output]
            if len(found) == 1 and (edit is None or self._has(found[0], edit.name)):
                return found[0]
        of = f" with the setting {edit.name}" if edit is not None else ""
        raise NotAppliedError(
            f"{Path(self._stored.file).name} has no node {names[0]!r}{of} of its own in its graph"
        )

    def _is_function(self, finding: Finding, group: Group) -> bool:
        """Return whether a fix changes what several nodes compute together, and no setting of one of them."""
        if group.mapping is not None:
            return False
        if not finding.edits:
            return finding.mismatch == "operator"
        if max(len(group.layers_a), len(group.layers_b)) < 2:
            return False
        names = {finding.layer_b, *group.layers_b}
        nodes = [node for node in self.model.graph.node if node.name in names or names & set(node.output)]
        return not all(any(self._has(node, edit.name) for node in nodes) for edit in finding.edits)

    def _has(self, node: onnx.NodeProto, setting: str) -> bool:
        if setting in {INPUT_ORDER, OP_TYPE}:
            return True
        try:
            return setting in onnx.defs.get_schema(node.op_type, self._opset, node.domain).attributes
        except onnx.defs.SchemaError:
            return False

    def _edit(self, node: onnx.NodeProto, edit: Edit) -> None:
        key = (node.output[0], edit.name)
        if key in self._edited:
            raise NotAppliedError(f"another fix changes {edit.name} of {node.name}; compare again after that")
        self._edited.add(key)
        if edit.name == INPUT_ORDER:
            _reorder(node, edit.value)
        elif edit.name == OP_TYPE:
            _replace_operator(node, edit.value, self._opset)
        else:
            _set_attribute(node, edit, self._opset)

    @property
    def _opset(self) -> int:
        versions = [entry.version for entry in self.model.opset_import if entry.domain in {"", "ai.onnx"}]
        return max(versions, default=1)

    def _give_weights(self, finding: Finding, group: Group | None, comparison: Comparison) -> None:
        """Give B's arrays of a layer the values of A's of the same roles and sizes."""
        given = _arrays_by_role(comparison.a, finding.layer_a)
        own = _arrays_by_role(comparison.b, finding.layer_b)
        arrays = {array.name: array for array in self.model.graph.initializer}
        changed = [
            (arrays[key], values)
            for role, (key, old) in own.items()
            if role in given and key in arrays
            for values in [given[role][1]]
            if values.shape == old.shape == tuple(arrays[key].dims) and not np.array_equal(values, old)
        ]
        if not changed and not self._give_constants(finding.layer_b, group, comparison):
            raise NotAppliedError(f"the arrays of {finding.layer_b} are not stored as those of the first net")
        for array, values in changed:
            if (num_users := self._num_users(array.name)) > 1:
                raise NotAppliedError(f"{num_users} nodes share the array {array.name!r}")
            kind = helper.tensor_dtype_to_np_dtype(array.data_type)
            array.CopyFrom(numpy_helper.from_array(np.asarray(values, kind, order="C"), array.name))

    def _give_constants(self, name: str, group: Group | None, comparison: Comparison) -> bool:
        """Give a node of B the constants of A's node, such as a factor; return whether any differ.

        They become arrays of the node's own, since other nodes may read what it read.
        """
        a, b = (
            [node for node in net.nodes if node.name in names] if isinstance(net, Graph) else []
            for net, names in (
                (comparison.a, group.nodes_a if group is not None else ()),
                (comparison.b, (name,)),
            )
        )
        same = [node for node in a if b and node.op_type == b[0].op_type]
        if len(same) != 1 or len(b) != 1:
            return False
        constants = [constants_of(node) for node in (same[0], b[0])]
        node, is_given = self._node(name), False
        for index in constants[0].keys() & constants[1].keys():
            wanted, own = (_array_of(values[index]) for values in constants)
            if wanted is None or own is None or wanted.shape != own.shape or np.array_equal(wanted, own):
                continue
            made = f"{node.name or node.output[0]}/input{index}"
            if any(array.name == made for array in self.model.graph.initializer):
                raise NotAppliedError(f"the model has another array called {made!r}")
            self.model.graph.initializer.append(numpy_helper.from_array(wanted.astype(own.dtype), made))
            node.input[index] = made
            is_given = True
        return is_given

    def _num_users(self, name: str) -> int:
        return sum(name in node.input for node in self.model.graph.node)

    def _insert(self, name: str, a: Graph | NetRecord) -> None:
        """Insert a node of A with one input and no arrays behind the node that it follows in A."""
        if not a.files or not a.files[0].endswith(".onnx"):
            raise NotAppliedError("a node is copied only from another ONNX model")
        source = ModelEdits(self._read(a.files[0]), self._read)
        node = source._node(name)
        before = next((one for one in source.model.graph.node if node.input[0] in one.output), None)
        if len(node.input) != 1 or len(node.output) != 1 or before is None:
            raise NotAppliedError(f"{name} has other inputs than one node, and only such nodes are copied")
        readers = [one.name for one in source.model.graph.node if node.output[0] in one.input]
        output = self._node(before.name).output[list(before.output).index(node.input[0])]
        graph = self.model.graph
        moved = [one for one in graph.node if output in one.input]
        if not readers or sorted(one.name for one in moved) != sorted(readers):
            raise NotAppliedError(f"other nodes read {output!r} than read {name} in the first net")
        copied = _copied(node)
        names = {value for one in graph.node for value in (*one.input, *one.output)}
        copied.input[0] = output
        copied.output[0] = node.output[0] if node.output[0] not in names else f"{name}/output"
        if any(one.name == name for one in graph.node) or copied.output[0] in names:
            raise NotAppliedError(f"the model has another node or value called {name!r}")
        for one in moved:
            for place, value in enumerate(one.input):
                if value == output:
                    one.input[place] = copied.output[0]
        place = 1 + next(number for number, one in enumerate(graph.node) if output in one.output)
        graph.node.insert(place, copied)

    def _copy_nodes(self, group: Group, a: Graph | NetRecord) -> None:
        """Put A's nodes of a function in the place of B's, such as those of the other form of GELU."""
        if not a.files or not a.files[0].endswith(".onnx"):
            raise NotAppliedError("nodes are copied only from another ONNX model")
        source = self._read(a.files[0])
        theirs, own = _Cut.of(source.outline, group.layers_a), _Cut.of(self.model, group.layers_b)
        graph = self.model.graph
        taken = {value for node in graph.node for value in (node.name, *node.input, *node.output)}
        prefix = f"{own.output}/"
        if any(value.startswith(prefix) for value in taken):
            raise NotAppliedError(f"the model has other values called {prefix}...")
        names = {theirs.input: own.input, theirs.output: own.output}
        place = list(graph.node).index(own.nodes[-1])
        copies = []
        for node in (*theirs.constants, *theirs.nodes):
            copy = _copied(node)
            copy.name = f"{prefix}{node.name or node.output[0]}"
            for values in (copy.input, copy.output):
                values[:] = [names.get(value, f"{prefix}{value}") if value else "" for value in values]
            copies.append(copy)
        for array in theirs.arrays:
            moved = _copied(source.arrays[array.name])
            moved.name = f"{prefix}{array.name}"
            graph.initializer.append(moved)
        for number, copy in enumerate(copies, start=1):
            graph.node.insert(place + number, copy)
        for node in own.nodes:
            graph.node.remove(node)


@dataclass(frozen=True, slots=True)
class _Cut:
    """Nodes of a model that compute one value of another and of constants.

    Attributes:
        nodes: The nodes, in the model's order.
        input: The value that they read.
        output: The value that others read of theirs.
        constants: Constant nodes that they read.
        arrays: Stored arrays that they read.
    """

    nodes: tuple[onnx.NodeProto, ...]
    input: str
    output: str
    constants: tuple[onnx.NodeProto, ...]
    arrays: tuple[onnx.TensorProto, ...]

    @classmethod
    def of(cls, model: onnx.ModelProto, names: Sequence[str]) -> _Cut:
        """Return the nodes of some names.

        Raises:
            NotAppliedError: They are not all in the model's graph, or read or make several values.
        """
        graph = model.graph
        nodes = [
            node for node in graph.node if node.name in names or (not node.name and node.output[0] in names)
        ]
        made = {value for node in nodes for value in node.output}
        read = dict.fromkeys(value for node in nodes for value in node.input if value and value not in made)
        constants = [node for node in graph.node if node.op_type == "Constant" and node.output[0] in read]
        arrays = [array for array in graph.initializer if array.name in read]
        known = {node.output[0] for node in constants} | {array.name for array in arrays}
        inputs = [value for value in read if value not in known]
        used = {value for node in graph.node if node not in nodes for value in node.input}
        outputs = sorted(made & (used | {value.name for value in graph.output}))
        if len(nodes) != len(names) or len(inputs) != 1 or len(outputs) != 1:
            raise NotAppliedError(
                "the fix takes other nodes, and these do not compute one value of one other"
            )
        return cls(tuple(nodes), inputs[0], outputs[0], tuple(constants), tuple(arrays))


def _copied(message: Proto) -> Proto:
    copy = type(message)()
    copy.CopyFrom(message)
    return copy


def _array_of(value: ir.Value) -> np.ndarray | None:
    return value.const_value.numpy() if value.const_value is not None else None


def _arrays_by_role(graph: Graph | NetRecord, layer: str) -> dict[str, tuple[str, np.ndarray]]:
    """Return key and values of the stored arrays of a layer by their role; none of a net without arrays."""
    if not isinstance(graph, Graph):
        return {}
    keys = graph.layers[layer].parameters if layer in graph.layers else ()
    arrays = {
        key: value.const_value.numpy()
        for value in graph.model.graph.initializers.values()
        if value.const_value is not None and (key := parameter_key(value)) in keys
    }
    return {graph.parameters[key].role: (key, arrays[key]) for key in keys if key in arrays}


def _reorder(node: onnx.NodeProto, order: str) -> None:
    places = [int(place) - 1 for place in order.split(",")]
    if sorted(places) != list(range(len(node.input))):
        raise NotAppliedError(f"{node.name} has {len(node.input)} inputs, and the order is {order}")
    inputs = [node.input[place] for place in places]
    del node.input[:]
    node.input.extend(inputs)


def _replace_operator(node: onnx.NodeProto, op_type: str, opset: int) -> None:
    try:
        schema = onnx.defs.get_schema(op_type, opset, "")
    except onnx.defs.SchemaError as error:
        raise NotAppliedError(f"opset {opset} of the model has no {op_type}") from error
    if node.domain or not schema.min_input <= len(node.input) <= schema.max_input:
        raise NotAppliedError(f"{op_type} does not take the inputs of {node.name}")
    node.op_type = op_type
    for attribute in [one for one in node.attribute if one.name not in schema.attributes]:
        node.attribute.remove(attribute)


def _take_settings(node: onnx.NodeProto, a: Graph | NetRecord, names: Sequence[str], opset: int) -> None:
    """Give a node whose operator was replaced the settings that the operator has in the first net."""
    known = onnx.defs.get_schema(node.op_type, opset, "").attributes
    for other in a.nodes if isinstance(a, Graph) else ():
        if other.name in names and other.op_type == node.op_type:
            del node.attribute[:]
            node.attribute.extend(
                helper.make_attribute(name, attribute.value)
                for name, attribute in other.attributes.items()
                if name in known and isinstance(attribute.value, int | float | str | list | tuple)
            )


def _set_attribute(node: onnx.NodeProto, edit: Edit, opset: int) -> None:
    """Set an attribute to a value of the type that the operator declares."""
    try:
        schema = onnx.defs.get_schema(node.op_type, opset, node.domain)
        kind = schema.attributes[edit.name].type
    except (onnx.defs.SchemaError, KeyError) as error:
        raise NotAppliedError(f"{edit.name} is no attribute of {node.op_type} in opset {opset}") from error
    value = _value(edit.value)
    kinds = onnx.defs.OpSchema.AttrType
    converters: dict[Any, Any] = {
        kinds.INT: int,
        kinds.FLOAT: float,
        kinds.STRING: str,
        kinds.INTS: lambda given: [int(one) for one in given],
        kinds.FLOATS: lambda given: [float(one) for one in given],
    }
    try:
        converted = converters[kind](value)
    except (KeyError, TypeError, ValueError) as error:
        raise NotAppliedError(f"{edit.value} is no value for {edit.name} of {node.op_type}") from error
    for attribute in [one for one in node.attribute if one.name == edit.name]:
        node.attribute.remove(attribute)
    if edit.name == "pads":  # with which automatic padding must not stand
        for attribute in [one for one in node.attribute if one.name == "auto_pad"]:
            node.attribute.remove(attribute)
    node.attribute.append(helper.make_attribute(edit.name, converted))


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


def _node_text(node: onnx.NodeProto) -> str:
    attributes = [f"{one.name}={_attribute_text(one)}" for one in node.attribute]
    call = ", ".join([*node.input, *sorted(attributes)])
    domain = f"{node.domain}::" if node.domain else ""
    return f"{node.name}: {', '.join(node.output)} = {domain}{node.op_type}({call})"


def _attribute_text(attribute: onnx.AttributeProto) -> str:
    types = onnx.AttributeProto
    if attribute.type in {types.GRAPH, types.GRAPHS}:
        return "{...}"
    value = helper.get_attribute_value(attribute)
    if isinstance(value, onnx.TensorProto):
        return _array_text(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Iterable) and not isinstance(value, str):
        return _list_text(list(value))
    return str(value)


def _list_text(values: Sequence[Any]) -> str:
    shown = [f"{one:.6g}" if isinstance(one, float) else str(one) for one in values[:MAX_SHOWN]]
    return f"[{', '.join([*shown, *(['...'] if len(values) > MAX_SHOWN else [])])}]"


def _array_text(array: onnx.TensorProto) -> str:
    sizes = "x".join(map(str, array.dims)) or "scalar"
    head = f"{array.name or 'tensor'}: {onnx.TensorProto.DataType.Name(array.data_type).lower()} {sizes}"
    if array.data_location == onnx.TensorProto.EXTERNAL:
        return f"{head}, external"
    values = numpy_helper.to_array(array).reshape(-1)
    return f"{head} {_list_text(values[: MAX_SHOWN + 1].tolist())}, {_digest(array)}"


def _digest(array: onnx.TensorProto) -> str:
    """Return a check sum of an array, so that the readable form shows each change."""
    return f"crc32 {zlib.crc32(np.ascontiguousarray(numpy_helper.to_array(array)).tobytes()):08x}"
