"""Known mismatches of attributes."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from netweave.comparison.explain.known_mismatches.mismatch import Case, Proposal, node_named, together
from netweave.comparison.explain.known_mismatches.same_windows import (
    rounding_with_same_windows,
    take_same_windows,
)
from netweave.comparison.explain.wording import OPERATORS_IN_WORDS, in_words, setting
from netweave.comparison.layout.orientation import ORIENTATIONS
from netweave.formats.dialect import dialect_of
from netweave.graph import DOMAIN, attributes_of, default_attributes, find_operator, known_shape
from netweave.graph.graph import captured
from netweave.graph.ops.pooling import ROUNDED_IN_WORDS, PoolWindows
from netweave.graph.passes.views import OpenSizes, View, views_of
from netweave.graph.passes.windows import PADDING_RULE_PROP

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from netweave.comparison.metric import Signals
    from netweave.graph import Graph


MISMATCH_OF = {
    "pads": "padding",
    "auto_pad": "padding",
    "strides": "stride",
    "dilations": "dilation",
    "kernel_shape": "kernel-size",
    "rounding": "pool-rounding",
    "count_include_pad": "count-include-pad",
    "epsilon": "epsilon",
    "axis": "axis",
    "axes": "axis",
    "keepdims": "axis",
    "perm": "axis-order",
}
"""Key of the mismatch for an attribute; others have a key of the operator and the attribute."""

SPECIAL = {
    ("LRN", "alpha"): "lrn-alpha",
    ("LRN", "bias"): "lrn-k",
    ("LRN", "beta"): "lrn-beta",
    ("LRN", "size"): "lrn-size",
    ("ChannelLRN", "alpha"): "lrn-alpha",
    ("ChannelLRN", "beta"): "lrn-beta",
    ("ChannelLRN", "size"): "lrn-size",
    ("LeakyRelu", "alpha"): "leaky-slope",
    ("Elu", "alpha"): "elu-alpha",
    ("Softmax", "axis"): "softmax-axis",
    ("LogSoftmax", "axis"): "softmax-axis",
    ("Concat", "axis"): "concat-axis",
    ("Attention", "is_causal"): "causal-mask",
    ("Attention", "scale"): "attention-scale",
    ("Attention", "softcap"): "attention-softcap",
}

NUM_AXES_OF_WINDOW = {"LRN": 1, "ChannelLRN": 2}
"""Local response normalisations: along how many axes their window has its size."""

SPATIAL = frozenset({"pads", "strides", "dilations", "kernel_shape", "output_padding"})
WINDOWS = frozenset({"pads", "rounding"})
"""Settings of a pooling that say together how many windows there are."""

POOLS = frozenset({"AveragePool", "MaxPool"})
BETWEEN_WINDOWS = frozenset({"strides", "rounding"})
"""Settings of a pooling that say where a next window lies, and so nothing where there is but one."""

OWN = frozenset({"group"})
"""Attributes that have a mismatch of their own."""
IGNORED = frozenset({"auto_pad", "storage_order", "momentum", "training_mode", "output_shape"})
"""Attributes that say nothing of the values, or say again what the weights say."""

ELSEWHERE = frozenset({"Gemm", "Transpose", "Resize", "RotaryEmbedding"})
"""Operators whose attributes are the layout of their weights or values, or have mismatches of their own."""

SUBGRAPHS = frozenset({"body", "else_branch", "then_branch"})
"""Settings that are graphs: the branches of If, the bodies of Loop and Scan."""

RESIZE_MODES = {"nearest_mode": "nearest", "cubic_coeff_a": "cubic", "exclude_outside": "cubic"}
"""Settings of Resize that one mode alone has."""

NOUNS = {"approximate": "approximation", "epsilon": "eps", "pads": "padding"}
"""Usual names of settings that ONNX calls otherwise."""


def attribute_mismatches(case: Case) -> Iterator[Proposal]:
    """Propose A's value for every setting in which nodes of one operator differ."""
    for node_a, node_b in case.pairs():
        if node_a.op_type != node_b.op_type or node_a.op_type in ELSEWHERE:
            continue
        different = differences(node_a, node_b, orientation=case.orientation)
        if "axis" in different and _is_same_once_turned(case, node_a, node_b, different["axis"]):
            del different["axis"]
        if (proposal := _rounding(case, node_a, node_b)) is not None and different.keys() <= WINDOWS:
            yield proposal
            continue
        if (proposal := _lrn_window(case, node_a, node_b, different)) is not None:
            yield proposal
            different = {name: row for name, row in different.items() if name not in {"alpha", "size"}}
        for name, (value_a, value_b) in different.items():
            if name in OWN:
                continue
            yield Proposal(
                mismatch=mismatch_key(node_b.op_type, name),
                cause=_cause(node_a, name, value_a, value_b),
                fix="" if name in SUBGRAPHS else setting(case.b.graph.format, node_a, name, value_a),
                node_a=node_a,
                node_b=node_b,
                change=keep_as_it_is if name in SUBGRAPHS else set_attribute(node_b.name, name, value_a),
            )


def _lrn_window(
    case: Case, node_a: ir.Node, node_b: ir.Node, different: dict[str, tuple[Any, Any]]
) -> Proposal | None:
    """Propose another window where alpha differs by it alone: B's format multiplies the sum by alpha."""
    if not dialect_of(case.b.graph.format).sums_in_lrn:
        return None
    if node_a.op_type != "LRN" or not {"alpha", "size"} <= different.keys():
        return None
    (alpha_a, alpha_b), (size_a, size_b) = different["alpha"], different["size"]
    if not _same(alpha_a / size_a, alpha_b / size_b):
        return None
    return Proposal(
        mismatch=mismatch_key("LRN", "size"),
        cause=_cause(node_a, "size", size_a, size_b),
        fix=setting(case.b.graph.format, node_a, "size", size_a),
        node_a=node_a,
        node_b=node_b,
        change=together(
            *(set_attribute(node_b.name, name, different[name][0]) for name in ("alpha", "size"))
        ),
    )


def _rounding(case: Case, node_a: ir.Node, node_b: ir.Node) -> Proposal | None:
    """Propose to round otherwise, where A pads behind the image instead and no padding of B's does that."""
    if node_a.op_type != "MaxPool" or node_b.op_type != "MaxPool" or case.orientation:
        return None
    if dialect_of(case.b.graph.format).rounding is None:
        return None
    values_a, values_b = canonical(node_a), canonical(node_b)
    rounding = rounding_with_same_windows(values_a, values_b)
    if not rounding:
        return None
    pads, rule = in_words("pads", values_a["pads"]), values_b["rounding"]
    return Proposal(
        mismatch=MISMATCH_OF["rounding"],
        cause=f"padding is {pads} in A, which makes as many windows as rounding {ROUNDED_IN_WORDS[rounding]}"
        f"; the output size is rounded {ROUNDED_IN_WORDS.get(rule, rule)} in B",
        fix=setting(case.b.graph.format, node_b, "rounding", rounding),
        node_a=node_a,
        node_b=node_b,
        change=set_attribute(node_b.name, "rounding", rounding),
    )


def mismatch_key(op_type: str, name: str) -> str:
    """Return the key of the mismatch for an attribute of an operator."""
    return SPECIAL.get((op_type, name)) or MISMATCH_OF.get(name) or f"{op_type.lower()}-{name}"


def differences(node_a: ir.Node, node_b: ir.Node, *, orientation: str = "") -> dict[str, tuple[Any, Any]]:
    """Return the settings in which two nodes of one operator differ: name to (A's, B's) value.

    Args:
        node_a: A's node.
        node_b: B's node of the same ``op_type``.
        orientation: What was done to the image that B sees, a key of ``ORIENTATIONS``, and so to A's values.
    """
    values_a, values_b = canonical(node_a), canonical(node_b)
    if orientation:
        values_a = {name: _reoriented(name, value, orientation) for name, value in values_a.items()}
    different = {}
    for name in sorted(values_a.keys() | values_b.keys()):
        a, b = values_a.get(name), values_b.get(name)
        is_axis = name == "axis" and _is_same_from_the_end(node_a, node_b, (a, b))
        if name not in IGNORED and not _same(a, b) and a is not None and not is_axis:
            different[name] = (a, b)
    if node_a.op_type == "AveragePool" and not any(values_a.get("pads", ())) and "pads" not in different:
        different.pop("count_include_pad", None)
    if node_a.op_type in POOLS and _has_one_window(node_a) and _has_one_window(node_b):
        different = {name: row for name, row in different.items() if name not in BETWEEN_WINDOWS}
    if "strides" not in different and set(values_a.get("strides", ())) <= {1}:
        different.pop("rounding", None)  # a step of one leaves nothing to round
    if node_a.op_type in {"Conv", "ConvTranspose"}:
        different.pop("kernel_shape", None)
    written_otherwise = _same_windows(node_a.op_type, different, values_a, values_b)
    different = {name: row for name, row in different.items() if name not in written_otherwise}
    if node_a.op_type == "Resize":
        different = {n: row for n, row in different.items() if _says_something(n, values_a["mode"])}
    return different


def _same_windows(
    op_type: str, different: Mapping[str, Any], a: Mapping[str, Any], b: Mapping[str, Any]
) -> frozenset[str]:
    """Return settings that differ though the windows are the same."""
    if op_type == "ConvTranspose" and _cut(a) == _cut(b):
        return frozenset({"output_padding", "pads"})
    if op_type == "MaxPool" and different.keys() & WINDOWS and take_same_windows(a, b):
        return WINDOWS
    return frozenset()


def _cut(values: Mapping[str, Any]) -> tuple[int, ...]:
    """Return how much a transposed convolution cuts off each begin and end: what it adds there is not cut."""
    pads, added = values["pads"], values["output_padding"]
    ends = (end - more for end, more in zip(pads[len(added) :], added, strict=True))
    return (*pads[: len(added)], *ends)


def _is_same_from_the_end(node_a: ir.Node, node_b: ir.Node, axes: tuple[Any, Any]) -> bool:
    """Return whether an axis is as far from the last in both nets, of which one has rows in fewer axes."""
    ranks = [len(value.shape) for node in (node_a, node_b) if (value := node.inputs[0]) and value.shape]
    is_known = len(ranks) == 2 and None not in axes
    return is_known and ranks[0] != ranks[1] and axes[0] - ranks[0] == axes[1] - ranks[1]


def _is_same_once_turned(case: Case, node_a: ir.Node, node_b: ir.Node, axes: tuple[Any, Any]) -> bool:
    """Return whether an axis of B is that of A, as one net turns what it reads, or later what it makes."""
    if None in axes:
        return False
    if _is_same_line(case, node_a, node_b, axes):
        return True
    made = case.known.get(str(node_b.outputs[0].name))
    change = made.change if made is not None and made.a == node_a.outputs[0].name else None
    if change is None or change.axes is None or change.split is not None:
        return False
    return axes in {(of_a, of_b) for of_b, of_a in enumerate(change.axes)}


def _is_same_line(case: Case, node_a: ir.Node, node_b: ir.Node, axes: tuple[int, int]) -> bool:
    """Return whether along the two axes of what the nodes read lie the same elements of a pair of signals."""
    views = _read(case.a, node_a), _read(case.b, node_b)
    if views[0] is None or views[1] is None:
        return False
    name = str(views[1].source.name)
    pair = case.known.get(name)
    if pair is not None and pair.a != views[0].source.name:
        return False
    # where values differ, how A's became what the group of B was given alone
    change = (pair.change if pair is not None else None) or case.changes.get(name)
    if change is None or change.scale != 1:
        return False
    try:
        numbers = change.apply(np.arange(prod(views[0].sizes)).reshape(views[0].sizes)).reshape(-1)
        own = views[0].elements, numbers[views[1].elements]
        first, second = (np.unique(np.diff(x, axis=axis)) for x, axis in zip(own, axes, strict=True))
    except (IndexError, ValueError):  # sizes that stand for open ones do not fit
        return False
    is_same = own[0].shape[axes[0]] == own[1].shape[axes[1]] and np.array_equal(first, second)
    return is_same and first.size == 1


def _read(signals: Signals, node: ir.Node) -> View | None:
    """Return what a node reads first as a view of the signal that it is of."""
    value = node.inputs[0]
    views = views_of(value, OpenSizes()) if value is not None else []
    root = signals.root.get(str(value.name)) if value is not None else None
    return next((view for view in views if view.source.name == root), None)


def _has_one_window(pool: ir.Node) -> bool:
    """Return whether a pooling has a single window in each channel, as one over the whole image."""
    shape = known_shape(pool.outputs[0])
    return shape is not None and len(shape) > 2 and all(size == 1 for size in shape[2:])


def _says_something(name: str, mode: Any) -> bool:
    """Return whether a setting of Resize has an effect in a mode.

    The setting ``axes`` has none: the sizes say the same.
    """
    return name != "axes" and RESIZE_MODES.get(name, mode) == mode


def canonical(node: ir.Node) -> dict[str, Any]:
    """Return a node's attributes with every default filled in and pooling's rounding by name."""
    own = find_operator(node.op_type) if node.domain == DOMAIN else None
    values = {**default_attributes(node.op_type), **(own.defaults if own else {}), **attributes_of(node)}
    kernel = values.get("kernel_shape") or _kernel(node)
    if kernel:
        rank = len(kernel)
        values["kernel_shape"] = tuple(kernel)
        values.setdefault("strides", (1,) * rank)
        values.setdefault("dilations", (1,) * rank)
        values.setdefault("pads", (0,) * (2 * rank))
        if node.op_type == "ConvTranspose":
            values.setdefault("output_padding", (0,) * rank)
    if node.op_type in POOLS:
        windows = PoolWindows.of(node.domain, attributes_of(node))
        values["rounding"] = windows.rounding
        if rule := node.metadata_props.get(PADDING_RULE_PROP):
            values["auto_pad"] = rule
        values.pop("ceil_mode", None)
        if node.op_type == "AveragePool":
            values["count_include_pad"] = int(windows.counts_padding)  # its default depends on the domain
    if isinstance(axis := values.get("axis"), int) and axis < 0:
        indexed = node.outputs[0] if node.op_type == "OneHot" else node.inputs[0]
        shape = known_shape(indexed) if indexed is not None else None
        values["axis"] = axis + len(shape) if shape else axis
    return {name: _plain(value) for name, value in values.items()}


def _plain(value: Any) -> Any:
    """Return a setting as a value that can be held against another net's: a branch by what it computes."""
    if isinstance(value, ir.Graph):
        return _subgraph_text(value)
    return tuple(value) if isinstance(value, (list, tuple)) else value


def _kernel(node: ir.Node) -> tuple[int, ...] | None:
    if node.op_type not in {"Conv", "ConvTranspose"} or len(node.inputs) < 2:
        return None
    shape = known_shape(node.inputs[1])
    if shape is None or any(size is None for size in shape):
        return None
    return tuple(size for size in shape[2:] if size is not None)


def _reoriented(name: str, value: Any, orientation: str) -> Any:
    if name not in SPATIAL or not isinstance(value, tuple) or len(value) not in {2, 4}:
        return value
    return ORIENTATIONS[orientation].of_setting(value)


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, (int, float)):
        return abs(a - b) <= 1e-6 * max(abs(a), abs(b))
    return bool(a == b)


def _cause(node_a: ir.Node, name: str, a: Any, b: Any) -> str:
    if name == "pads" and b is not None and len(a) == len(b):
        half = len(a) // 2
        if (*b[half:], *b[:half]) == a:
            return (
                f"begin and end of the padding are swapped: A pads {in_words(name, a)}, "
                f"B pads {in_words(name, b)}"
            )
    if name == "alpha" and node_a.op_type in NUM_AXES_OF_WINDOW and b is not None:
        num_values = attributes_of(node_a)["size"] ** NUM_AXES_OF_WINDOW[node_a.op_type]
        reason = _lrn_alpha(float(a), float(b), num_values)
        if reason:
            return f"{reason}: alpha is {in_words(name, a)} in A and {in_words(name, b)} in B"
    if name == "is_causal":
        masked, plain = ("A", "B") if a else ("B", "A")
        return f"no step of {masked} sees a later one (a causal mask); those of {plain} see all"
    if name == "rounding":
        return f"the output size is rounded {ROUNDED_IN_WORDS[a]} in A and {ROUNDED_IN_WORDS.get(b, b)} in B"
    noun = NOUNS.get(name, name)
    if (owner := OPERATORS_IN_WORDS.get(node_a.op_type)) is not None:
        noun = f"{noun} of {owner}"
    return f"{noun} is {in_words(name, a)} in A and {in_words(name, b)} in B"


def _lrn_alpha(a: float, b: float, num_values: int) -> str:
    if _same(a * num_values, b):
        return "B does not divide alpha by the window's size"
    return "B divides alpha by the window's size once more" if _same(a / num_values, b) else ""


def keep_as_it_is(graph: Graph) -> None:
    """Change nothing: a branch reads values of its own net, so that the other net cannot be given it."""


def set_attribute(node: str | None, name: str, value: Any) -> Callable[[Graph], None]:
    """Return a change that gives a node, by its name, another value for a setting."""
    return _Change(node, name, value)


class _Change:
    """Gives a node of a subgraph A's value for one setting."""

    def __init__(self, node: str | None, name: str, value: Any) -> None:
        self._node, self._name, self._value = node, name, value

    def __call__(self, graph: Graph) -> None:
        node = node_named(graph, self._node)
        if self._name == "rounding":
            self._round(node)
            return
        node.attributes[self._name] = ir.convenience.convert_attribute(self._name, self._value)

    def _round(self, node: ir.Node) -> None:
        node.attributes.pop("rounding", None)
        node.attributes.pop("ceil_mode", None)
        if self._value in {"floor", "ceil"}:
            node.domain = ""
            node.attributes["ceil_mode"] = ir.AttrInt64("ceil_mode", int(self._value == "ceil"))
        else:
            node.domain = "netweave"
            node.attributes["rounding"] = ir.AttrString("rounding", self._value)


SHOWN = 8
"""Elements of a constant that are written out; of a larger one, its sum and shape are."""


def _subgraph_text(graph: ir.Graph) -> str:
    """Return what a branch or a body computes, as text that is equal for equal graphs.

    Values are numbered in the order in which the results need them, whatever order the nodes are stored in;
    those of the graph around are ``outer``.

    Args:
        graph: The branch or body.
    """
    names: dict[int, str] = {id(value): f"in{i}" for i, value in enumerate(graph.inputs)}
    own = {id(value) for node in graph for value in node.outputs}
    lines = [_node_text(node, names, own) for node in _in_order_of_need(graph)]
    results = ", ".join(_value_text(value, names, own) for value in graph.outputs)
    return f"{'; '.join(lines)} -> {results}"


def _in_order_of_need(graph: ir.Graph) -> Iterator[ir.Node]:
    """Yield the nodes of a graph that its results need, each behind what it reads, in the order they do."""
    left = {id(node) for node in graph}
    waiting = [value.producer() for value in reversed(graph.outputs)]
    while waiting:
        node = waiting[-1]
        if node is None or id(node) not in left:
            waiting.pop()
            continue
        read = [*filter(None, node.inputs), *captured(node)]
        before = [maker for value in read if (maker := value.producer()) is not None and id(maker) in left]
        if before:
            waiting += reversed(before)
            continue
        left.discard(id(node))
        waiting.pop()
        yield node


def _node_text(node: ir.Node, names: dict[int, str], own: set[int]) -> str:
    read = ", ".join(_value_text(value, names, own) for value in node.inputs)
    settings = "".join(f", {text}" for text in _settings(node))
    for value in node.outputs:
        names[id(value)] = f"v{len(names)}"
    return f"{node.op_type}({read}{settings})"


def _settings(node: ir.Node) -> Iterator[str]:
    for name, attribute in sorted(node.attributes.items()):
        value = attribute.value
        if isinstance(value, ir.TensorProtocol):
            yield f"{name}={_array_text(value)}"
        else:
            yield f"{name}={_subgraph_text(value) if isinstance(value, ir.Graph) else value}"


def _value_text(value: ir.Value | None, names: dict[int, str], own: set[int]) -> str:
    if value is None:
        return "-"
    if value.const_value is not None and id(value) not in own:
        return _array_text(value.const_value)
    return names.setdefault(id(value), f"outer{len(names)}")


def _array_text(tensor: ir.TensorProtocol) -> str:
    x = tensor.numpy()
    return str(x.tolist()) if x.size <= SHOWN else f"array of {x.shape} with the sum {x.sum():.9g}"
