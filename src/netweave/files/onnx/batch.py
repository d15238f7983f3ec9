"""Open sizes: the batch size is kept free, whatever the file declares, and inference can read all names.

The first size of the inputs becomes the symbol ``BATCH``. What exporters hard-code for a batch of the
declared size is written anew where that keeps its meaning; a net that stays bound to its batch is read
as declared, with a note.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import onnx_ir as ir

from netweave.files.onnx.editing import Editor, all_graphs, all_values
from netweave.graph import BATCH, known_shape
from netweave.graph.checks import BROADCASTING
from netweave.graph.costs import num_elements
from netweave.graph.naming import free_name
from netweave.graph.shapes import symbol_for

_TERM = r"(?:[A-Za-z_]\w{0,60}|\d{1,9})"
_FORMULA = re.compile(rf"{_TERM}(?:\s*[-+*]\s*{_TERM}){{0,4}}")

_NO_NAMES = frozenset({"", "?", "None", "-1", "unknown"})
"""Words that exporters write for a size that they do not know."""


def plain_symbols(graph: ir.Graph) -> None:
    """Give every open size in a graph and its bodies a name that inference can read; equal stays equal."""
    names: dict[str, str | None] = {}
    for inner in all_graphs(graph):
        for value in all_values(inner):
            if value.shape is not None and not all(isinstance(dim, int) for dim in value.shape):
                value.shape = ir.Shape([_plain(dim, names) for dim in value.shape])


def _plain(dim: int | ir.SymbolicDim, names: dict[str, str | None]) -> int | str | None:
    if isinstance(dim, int) or dim.value is None:
        return dim if isinstance(dim, int) else None
    if dim.value not in names:
        names[dim.value] = _free_name(dim.value, names)
    return names[dim.value]


def _free_name(text: str, names: Mapping[str, str | None]) -> str | None:
    if text.strip() in _NO_NAMES:
        return None
    if _FORMULA.fullmatch(text) and not text.isdigit():
        return text
    stem = re.sub(r"\W+", "_", text)[:60].strip("_") or "size"
    return free_name(f"d{stem}" if stem[0].isdigit() else stem, {*names, *names.values()}, first=1)


def renamed(dim: int | ir.SymbolicDim, old: str, new: str) -> int | ir.SymbolicDim:
    """Return a size with one symbol called otherwise, also inside a formula."""
    if isinstance(dim, int) or dim.value is None:
        return dim
    return ir.SymbolicDim(re.sub(rf"\b{re.escape(old)}\b", new, dim.value))


_ANONYMOUS = re.compile(r"unk__\d+")
"""Symbols that an exporter made up for sizes that its source left open (tf2onnx)."""

_OF_SIZES = frozenset({ir.DataType.INT64, ir.DataType.INT32, ir.DataType.BOOL})
"""Types of what is computed from sizes, which the batch is no axis of."""

Dims = tuple[int | ir.SymbolicDim, ...]


class BatchBoundError(Exception):
    """The net works for the declared batch size only; the message names the node."""


class Batch:
    """The batch of one net while it is read.

    Args:
        size: The declared size, >= 1; None if the file leaves it open or it is kept as declared.
    """

    def __init__(self, size: int | None = None) -> None:
        self.size = size

    def free(self, edit: Editor) -> None:
        """Write a node that hard-codes the batch size so that it takes any."""
        rule = _FREE.get(edit.node.op_type)
        if rule and self.size is not None and edit.node.domain == "":
            rule(edit, self.size)

    def check(self, node: ir.Node) -> None:
        """Raise ``BatchBoundError`` if a node, with shapes inferred, takes only the declared batch size."""
        rule = _CHECKS.get(node.op_type)
        if self.size is not None and node.domain == "" and rule and not rule(node, self.size):
            raise BatchBoundError(f"{node.op_type} {node.name!r} is made for it")

    def check_outputs(self, outputs: Sequence[ir.Value]) -> None:
        """Raise ``BatchBoundError`` if an output of the net has not the batch as its first size."""
        for value in outputs:
            if self.size is not None and (not value.shape or value.shape[0] != BATCH):
                raise BatchBoundError(f"output {value.name!r} would have the shape {value.shape}")


def open_batch(inputs: Sequence[ir.Value]) -> Batch:
    """Make the first size of the inputs the symbol ``BATCH``, and name all sizes that are open.

    An input takes part if its first size is the same as that of the first input with two axes or more,
    or if it is open and has no name of its own.
    """
    shaped = {value: list(value.shape) for value in inputs if value.shape is not None}
    main = next((dims[0] for dims in shaped.values() if len(dims) > 1), None)
    for value, dims in shaped.items():
        joins = dims[:1] == [main] or (isinstance(main, ir.SymbolicDim) and _is_open(*dims[:1]))
        named = _named(value, dims, batch=main.value if isinstance(main, ir.SymbolicDim) else None)
        value.shape = ir.Shape([BATCH, *named[1:]] if joins else named)
    return Batch(main if isinstance(main, int) and main > 0 else None)


def keep_batch(inputs: Sequence[ir.Value]) -> Batch:
    """Leave the batch as declared, but name all sizes that are open."""
    for value in inputs:
        if value.shape is not None:
            value.shape = ir.Shape(_named(value, value.shape, batch=None))
    return Batch()


def _is_open(dim: int | ir.SymbolicDim = 0) -> bool:
    return isinstance(dim, ir.SymbolicDim) and (dim.value is None or bool(_ANONYMOUS.fullmatch(dim.value)))


def _named(
    value: ir.Value, dims: Iterable[int | ir.SymbolicDim], *, batch: str | None
) -> list[int | ir.SymbolicDim]:
    """Return sizes with a name for each open one; ``batch`` is what the file calls the batch."""
    named: list[int | ir.SymbolicDim] = []
    for axis, dim in enumerate(dims):
        if isinstance(dim, ir.SymbolicDim) and dim.value is None:
            named.append(ir.SymbolicDim(symbol_for(value.name or "", axis)))
        elif batch == BATCH:
            named.append(dim)
        else:
            other = renamed(dim, BATCH, f"{BATCH}_")
            named.append(renamed(other, batch, BATCH) if batch else other)
    return named


def _num_elements(shape: ir.Shape | None, batch: int) -> int | None:
    """Return the number of elements for a batch of the given size, None if a size is open."""
    if shape is None:
        return None
    sizes = [dim if isinstance(dim, int) else dim.evaluate({BATCH: batch}) for dim in shape]
    known = [size for size in sizes if isinstance(size, int)]
    return num_elements(known) if len(known) == len(sizes) else None


def _constant(value: ir.Value | None) -> list[int] | None:
    tensor = ir.convenience.get_const_tensor(value) if value is not None else None
    return None if tensor is None else [int(number) for number in tensor.numpy().reshape(-1)]


def _free_reshape(edit: Editor, size: int) -> None:
    data, sizes = edit.input(0), _constant(edit.input(1))
    if not sizes or sizes[0] != size or data is None or not data.shape:
        return
    if 0 in sizes and edit.get("allowzero", 0):
        return
    edit.take("allowzero")  # says something of zeros only, and there is none (PyTorch writes it always)
    if data.shape[0] == BATCH:
        sizes[0] = 0
    else:
        total = _num_elements(data.shape, size)
        if total is None or 0 in sizes or BATCH not in {s for d in data.shape for s in _free_symbols(d)}:
            return
        rest, given = total // size, num_elements(n for n in sizes[1:] if n > 0)
        if given is None:
            return
        sizes[1:] = [rest // given if n < 0 else n for n in sizes[1:]]
        if num_elements(sizes[1:]) != rest:
            return
        sizes[0] = -1
    edit.set_input(1, edit.constant(sizes, ir.DataType.INT64, "shape"))


def _free_resize(edit: Editor, size: int) -> None:
    data, sizes = edit.input(0), _constant(edit.input(3))
    if not sizes or sizes[0] != size or data is None or not data.shape or data.shape[0] != BATCH:
        return
    if edit.get("axes") is None and len(sizes) == len(data.shape):
        edit.put(axes=list(range(1, len(sizes))))
        edit.set_input(3, edit.constant(sizes[1:], ir.DataType.INT64, "sizes"))


def _free_symbols(dim: int | ir.SymbolicDim) -> frozenset[str]:
    return frozenset() if isinstance(dim, int) else dim.free_symbols()


def _keeps_elements(node: ir.Node, size: int) -> bool:
    """Reshape: as many elements for another batch; constant sizes for data of unknown ones hold the batch."""
    data, sizes = node.inputs[0], _constant(node.inputs[1])
    if data is not None and data.shape is None and data.dtype not in _OF_SIZES and sizes and len(sizes) > 1:
        return min(sizes) <= 0
    before = _num_elements(data.shape if data is not None else None, size + 1)
    after = _num_elements(node.outputs[0].shape, size + 1)
    return before is None or after is None or before == after


def _same_batch(node: ir.Node, size: int) -> bool:
    """Concat: either all inputs have the batch as first size or none."""
    axis = node.attributes["axis"].as_int() if "axis" in node.attributes else 0
    shapes = [value.shape for value in node.inputs if value is not None and value.shape]
    firsts = {str(shape[0]) for shape in shapes if axis % len(shape)}
    return BATCH not in firsts or len(firsts) == 1


def _meets_no_other_axis(node: ir.Node, size: int) -> bool:
    """Operators that broadcast: the batch stands on one axis of all inputs, where no other size is fixed."""
    shapes = [list(map(str, value.shape))[::-1] for value in node.inputs if value is not None and value.shape]
    axes = {shape.index(BATCH) for shape in shapes if BATCH in shape}
    sizes = {shape[axis] for axis in axes for shape in shapes if axis < len(shape)}
    return len(axes) < 2 and not any(each.isdigit() and each != "1" for each in sizes)


def _open_states(node: ir.Node, size: int) -> bool:
    """Recurrent operators: first states that are given have the batch too."""
    layout = node.attributes["layout"].as_int() if "layout" in node.attributes else 0
    data = known_shape(node.inputs[0])
    if data is None or len(data) != 3 or data[1 - layout] is not None:
        return True
    states = [known_shape(value) for value in node.inputs[4:7]]
    return all(s is None or len(s) < 2 or s[0 if len(s) == 1 or layout else 1] is None for s in states)


_FREE: dict[str, Callable[[Editor, int], None]] = {"Reshape": _free_reshape, "Resize": _free_resize}

_CHECKS: dict[str, Callable[[ir.Node, int], bool]] = {
    **dict.fromkeys(BROADCASTING, _meets_no_other_axis),
    "Reshape": _keeps_elements,
    "Concat": _same_batch,
    "GRU": _open_states,
    "LSTM": _open_states,
    "RNN": _open_states,
}
