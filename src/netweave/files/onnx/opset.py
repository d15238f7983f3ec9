"""Bringing every node to opset ``OPSET`` and inferring its shapes, in one walk."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, Any

import onnx
import onnx_ir as ir

from netweave.errors import ReadError, ShapeError, UnsupportedError
from netweave.files.onnx.editing import Editor, Names, bodies
from netweave.files.onnx.upgrades import CannotUpgradeError, next_rules
from netweave.graph import OPSET
from netweave.graph.shapes import infer_node, shape_context

if TYPE_CHECKING:
    from collections.abc import Mapping

    from netweave.files.onnx.batch import Batch
    from netweave.graph.shapes import ShapeContext

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
            for body in bodies(node):
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
    """What a schema allows; plain Python, since asking a schema is slow."""

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
