"""Layers that are missing, moved or incompatible."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from netweave.comparison.align.weights import as_dense, filter_shape, filters_of
from netweave.comparison.explain.findings import edits_of, finding_at, where
from netweave.comparison.explain.known_mismatches.attributes import differences
from netweave.comparison.explain.known_mismatches.constants import scaled_in_attention
from netweave.comparison.explain.outputs import function_of_output
from netweave.comparison.explain.wording import activation_setting, count_of_filters, in_groups, setting
from netweave.comparison.metric import LOCAL_TOLERANCE, family_of, relative_error
from netweave.graph import attributes_of
from netweave.graph.passes.views import scalar_factor
from netweave.graph.summary import joined_text, list_stretch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np
    import onnx_ir as ir

    from netweave.comparison.align.alignment import Alignment
    from netweave.comparison.align.value_matching import Draft
    from netweave.comparison.metric import Signals, SignalValues
    from netweave.comparison.prepare import Side
    from netweave.comparison.result.comparison import Finding

    Run = Callable[[Sequence[ir.Node], Sequence[str]], Mapping[str, np.ndarray]]


def missing_finding(
    alignment: Alignment, side: Side, nodes: Sequence[ir.Node], *, moved: str | None, latent: bool | None
) -> Finding:
    """Return what is wrong where one net has nodes and the other has none.

    Args:
        alignment: Pairs of signals and nodes.
        side: The net that has them.
        nodes: The nodes.
        moved: Where the other net has the same layer, in words, if it has.
        latent: Whether the nodes change nothing; None if that is not known.
    """
    biased = None if moved else _biased(side, nodes)
    if biased is not None:
        return _missing_bias(alignment, side, (nodes[0], biased), latent=bool(latent))
    written = None if moved else _written_with_the_layer(alignment, side, nodes)
    if written is not None:
        fix, node_b = written
        return finding_at(
            (alignment.a.signals, nodes[0] if side.is_a else None),
            (alignment.b.signals, node_b),
            mismatch="missing-layer",
            cause=f"{side.name} computes {nodes[0].op_type} here, {side.other_name} does not",
            fix=fix,
            edits=edits_of([fix]),
            latent=bool(latent),
        )
    names = list_stretch(where(side.signals, node)[0] for node in nodes)
    names += _block(nodes, named=names)
    last = None if moved or not side.is_a else function_of_output(alignment, nodes)
    if last is not None:
        return replace(
            finding_at(
                (alignment.a.signals, nodes[0]),
                (alignment.b.signals, None),
                mismatch="missing-layer",
                cause=f"A has {names} here, B has nothing{_after(alignment, side, nodes[0])}",
                fix=f"add {names} to B: {last.words}",
                latent=bool(latent),
                edits=(last.edit,),
            ),
            place_b=str(alignment.b.source.returned),
        )
    remedy = f"add {names} to B" if side.is_a else f"remove {names} from B"
    alone = f"{side.name} has {names} here, {side.other_name} has nothing{_after(alignment, side, nodes[0])}"
    if all(node.op_type == "Not" for node in nodes):
        alone = f"{side.name} inverts a condition, {side.other_name} does not"
        remedy = "invert the condition" if side.is_a else "do not invert the condition"
    unknown = f"; {side.name} was not run, so what they do was not compared" if latent is None else ""
    return finding_at(
        (alignment.a.signals, nodes[0] if side.is_a else None),
        (alignment.b.signals, None if side.is_a else nodes[0]),
        mismatch="layer-order" if moved else "missing-layer",
        cause=moved or alone + unknown,
        fix="put it where A has it" if moved else remedy,
        latent=bool(latent),
    )


_BLOCKS = {
    "RotaryEmbedding": "a rotary embedding",
    "LayerNormalization": "a layer norm",
    "RMSNormalization": "an RMS norm",
    "Attention": "attention",
}


def _block(nodes: Sequence[ir.Node], *, named: str) -> str:
    """Return in brackets which block of a transformer some nodes are, if their names do not say it."""
    scaled = [scalar_factor(node) for node in nodes]
    if len(nodes) == 1 and nodes[0].op_type in _BLOCKS:
        block = _BLOCKS[nodes[0].op_type]
        return "" if nodes[0].op_type in named else f" ({block})"
    if not nodes or scaled[0] is None:
        return ""
    bent = next((use.node for use in nodes[0].outputs[0].uses()), None)
    if bent is not None and bent.op_type == "Tanh":
        return f" (a soft cap of {1 / scaled[0][1]:.6g}, by tanh)"
    scaling = " ".join(filter(None, (scaled_in_attention(nodes[0]), f"scaled by {scaled[0][1]:.6g}")))
    return f" ({scaling})" if len(nodes) == 1 else ""


def _written_with_the_layer(
    alignment: Alignment, side: Side, nodes: Sequence[ir.Node]
) -> tuple[str, ir.Node] | None:
    """Return the setting of B's layer that says whether it has an activation, and B's node of that layer."""
    signals_b = alignment.b.signals
    if len(nodes) != 1 or not activation_setting(signals_b.graph.format, nodes[0]):
        return None
    node_b = _producer(alignment, side, nodes[0]) if side.is_a else nodes[0]
    layers = signals_b.graph.layers_of(node_b) if node_b is not None else ()
    if node_b is None or not layers or layers[0].type == "activation":
        return None
    return activation_setting(signals_b.graph.format, nodes[0] if side.is_a else None), node_b


def _producer(alignment: Alignment, side: Side, node: ir.Node) -> ir.Node | None:
    """Return the other net's node that makes what a node reads; None if it is not known."""
    pairs = [side.pairs[signal] for signal in side.signals.inputs_of(node) if signal in side.pairs]
    if len(pairs) != 1:
        return None
    return alignment.other(side).signals.producer.get(pairs[0].b if side.is_a else pairs[0].a)


def _after(alignment: Alignment, side: Side, node: ir.Node) -> str:
    """Say which layer of the other net makes what a node reads; nothing if none is known."""
    producer = _producer(alignment, side, node)
    return f" after {where(alignment.other(side).signals, producer)[0]}" if producer is not None else ""


def _biased(side: Side, nodes: Sequence[ir.Node]) -> ir.Node | None:
    """Return the other net's filter that lacks a bias, if that is all that the nodes are."""
    signals = side.signals
    if len(nodes) != 1 or nodes[0].op_type != "Add" or family_of(nodes[0]) != "affine":
        return None
    read = signals.inputs_of(nodes[0])
    filters = signals.producer.get(read[0]) if len(read) == 1 else None
    if filters is None or filters_of(filters) is None:
        return None
    return side.partners.get(id(filters))


def _missing_bias(
    alignment: Alignment, side: Side, nodes: tuple[ir.Node, ir.Node], *, latent: bool
) -> Finding:
    """Return that one net's filter lacks a bias: the nodes are the other's bias, and the filter."""
    node_a, node_b = nodes if side.is_a else nodes[::-1]
    return finding_at(
        (alignment.a.signals, node_a),
        (alignment.b.signals, node_b),
        mismatch="missing-bias",
        cause=f"{side.name} has a bias, {side.other_name} has none",
        fix="give B's layer A's bias" if side.is_a else "take the bias from B's layer",
        latent=latent,
    )


def find_moved(alignment: Alignment, drafts: Sequence[Draft]) -> dict[int, str]:
    """Return where the node of a draft that only one net has stands in the other: words by ``id``."""
    only_a = [draft for draft in drafts if not draft.nodes_b and len(draft.nodes_a) == 1]
    only_b = [draft for draft in drafts if not draft.nodes_a and len(draft.nodes_b) == 1]
    moved: dict[int, str] = {}
    for draft_a in only_a:
        node_a = draft_a.nodes_a[0]
        draft_b = next((d for d in only_b if id(d) not in moved and _alike(node_a, d.nodes_b[0])), None)
        if draft_b is not None:
            moved[id(draft_a)] = moved[id(draft_b)] = _words(alignment, node_a, draft_b.nodes_b[0])
    return moved


NORMS = frozenset({"LayerNormalization", "RMSNormalization"})

PARALLEL_IN_A = (
    "{a!r} of A reads the residual, in parallel with what is added to it; "
    "{b!r} of B reads its sum with the output of {branch!r}, one after the other"
)
SEQUENTIAL_IN_A = (
    "{a!r} of A reads the sum of the residual and the output of {branch!r}, one after the other; "
    "{b!r} of B reads the residual alone, in parallel"
)


def find_parallel(alignment: Alignment, drafts: Sequence[Draft]) -> dict[int, Finding]:
    """Return norms that read a residual in one net and its sum with a branch in the other: by B's node.

    In a parallel block, attention and MLP read the same residual; in a sequential one, the MLP reads the sum.
    """
    a, b = alignment.sides
    found: dict[int, Finding] = {}
    for draft in drafts:
        for node_a, node_b in zip(draft.nodes_a, draft.nodes_b, strict=False):
            if node_a.op_type not in NORMS or node_a.op_type != node_b.op_type:
                continue
            read_a, read_b = (s.signals.inputs_of(n)[:1] for s, n in ((a, node_a), (b, node_b)))
            if not read_a or not read_b:
                continue
            branch_b = _added_to(alignment, b, read_b[0], read_a[0])
            branch_a = _added_to(alignment, a, read_a[0], read_b[0])
            if bool(branch_a) == bool(branch_b):
                continue
            name_a, name_b = where(a.signals, node_a)[0], where(b.signals, node_b)[0]
            if branch_b:
                cause, fix = (
                    PARALLEL_IN_A,
                    f"let {name_b!r} read the residual without the output of {branch_b!r}",
                )
            else:
                cause, fix = SEQUENTIAL_IN_A, f"let {name_b!r} read the sum"
            found[id(node_b)] = finding_at(
                (a.signals, node_a),
                (b.signals, node_b),
                mismatch="residual-order",
                cause=cause.format(a=name_a, b=name_b, branch=branch_a or branch_b),
                fix=fix,
            )
    return found


def _added_to(alignment: Alignment, side: Side, summed: str, alone: str) -> str:
    """Return the layer whose output a net adds to what the other net reads alone; empty if it does not."""
    node = side.signals.producer.get(summed)
    pair = alignment.other(side).pairs.get(alone)
    if node is None or node.op_type != "Add" or pair is None or not pair.has_equal_values:
        return ""
    terms = side.signals.inputs_of(node)
    own = pair.a if side.is_a else pair.b
    maker = side.signals.producer.get(next((term for term in terms if term != own), ""))
    return where(side.signals, maker)[0] if own in terms and len(terms) == 2 and maker is not None else ""


def _alike(a: ir.Node, b: ir.Node) -> bool:
    return a.op_type == b.op_type and a.domain == b.domain and not differences(a, b)


def _words(alignment: Alignment, node_a: ir.Node, node_b: ir.Node) -> str:
    a, b = alignment.sides
    name_a, name_b = where(a.signals, node_a)[0], where(b.signals, node_b)[0]
    name = name_a if name_a == name_b else f"{name_a} / {name_b}"
    places = []
    for side, node in ((a, node_a), (b, node_b)):
        before = _neighbour(side.signals, node)
        places.append(f"after {before} in {side.name}" if before else f"first in {side.name}")
    return f"{name} stands {places[0]} and {places[1]}"


def _neighbour(signals: Signals, node: ir.Node) -> str:
    for signal in signals.inputs_of(node):
        producer = signals.producer.get(signal)
        if producer is not None:
            return where(signals, producer)[0]
    return ""


MAX_OPERATORS = 6
"""More operators than this are not listed."""


def other_filters(
    nodes_a: Sequence[ir.Node], nodes_b: Sequence[ir.Node], *, format_b: str
) -> tuple[str, str, ir.Node, ir.Node] | None:
    """Return how the filters of two groups differ: the cause, the fix, and the two nodes.

    The number of channels that a filter reads is named only if nothing else differs: it follows from the
    layers before, and has no fix of its own, which is an empty text then.

    Args:
        nodes_a: A's nodes.
        nodes_b: B's nodes.
        format_b: B's format, in whose words the fix is.
    """
    filtered = [[n for n in nodes if filter_shape(n) is not None] for nodes in (nodes_a, nodes_b)]
    if len(filtered[0]) != 1 or len(filtered[1]) != 1:
        return None
    node_a, node_b = filtered[0][0], filtered[1][0]
    shape_a, shape_b = filter_shape(node_a) or (), filter_shape(node_b) or ()
    if as_dense(shape_a) == as_dense(shape_b):
        return None
    if family_of(node_a) != family_of(node_b) or len(shape_a) != len(shape_b):
        return f"A has filters of {_times(shape_a)}, B of {_times(shape_b)}", "", node_a, node_b
    causes, fixes = [], []
    if shape_a[0] != shape_b[0]:
        causes.append(f"A has {shape_a[0]:,} filters, B has {shape_b[0]:,}")
        fixes.append(count_of_filters(format_b, node_b, shape_a[0]))
    if shape_a[2:] != shape_b[2:]:
        windows = _times(shape_a[2:]), _times(shape_b[2:])
        causes.append(f"the window of the filters is {windows[0]} in A and {windows[1]} in B")
        fixes.append(setting(format_b, node_b, "kernel_shape", shape_a[2:]))
    groups = [attributes_of(node).get("group", 1) for node in (node_a, node_b)]
    if groups[0] != groups[1]:
        causes.append(in_groups(*groups))
        fixes.append(setting(format_b, node_b, "group", groups[0]))
    if not causes:
        causes.append(f"each filter reads {shape_a[1]:,} channels in A and {shape_b[1]:,} in B")
    return "; ".join(causes), joined_text(fixes), node_a, node_b


def shape_mismatch(a: ir.Node, b: ir.Node) -> str:
    """Return the key of the mismatch for filters of other shapes: only of other groups, or of other sizes."""
    shapes = [filter_shape(node) or () for node in (a, b)]
    groups = [attributes_of(node).get("group", 1) for node in (a, b)]
    same = [(shape[:1], shape[2:]) for shape in shapes]
    return "group" if same[0] == same[1] and groups[0] != groups[1] else "filter-shape"


def other_operators(nodes_a: Sequence[ir.Node], nodes_b: Sequence[ir.Node]) -> str:
    """Say which operators two groups are made of; empty if they are alike, or too many."""
    if max(len(nodes_a), len(nodes_b)) > MAX_OPERATORS:
        return ""
    if sorted(map(family_of, nodes_a)) == sorted(map(family_of, nodes_b)):
        return ""
    listed = [", ".join(node.op_type for node in nodes) for nodes in (nodes_a, nodes_b)]
    return f"A computes {listed[0]} here, B {listed[1]}"


def _times(sizes: Sequence[int]) -> str:
    return "x".join(map(str, sizes))


def is_pass_through(side: Side, nodes: Sequence[ir.Node], run: Run) -> bool | None:
    """Return whether nodes make nothing but what they read; None if their values are not known.

    Args:
        side: The net that has the nodes.
        nodes: The nodes, in topological order.
        run: Runs nodes alone, on the other net's values: returns what they read and the given signals, as far
            as that is possible.
    """
    left = side.signals.leaving(nodes)
    if not left:
        return True
    read = side.signals.reads_from_outside(nodes)
    tensors: SignalValues | Mapping[str, np.ndarray] = side.tensors
    if len(read) == 1 and not all(name in tensors for name in (*read, *left)):
        tensors = run(nodes, left)
    if not all(name in tensors for name in (*read, *left)):
        return None if len(read) == 1 else False
    return all(any(_holds_same(tensors[source], tensors[name]) for source in read) for name in left)


def _holds_same(x: np.ndarray, y: np.ndarray) -> bool:
    """Return whether two tensors hold the same elements in the same order, reshaped or not."""
    return x.size == y.size and relative_error(x.reshape(y.shape), y) <= LOCAL_TOLERANCE
