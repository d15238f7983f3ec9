"""Weights for nets that came without: copied from the other net through an alignment by structure alone."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.comparison.align.alignment import Alignment
from netweave.comparison.align.structure import Extension
from netweave.comparison.align.weights import Copied, as_dense, copy_arrays, filter_shape
from netweave.comparison.execution.input_candidates import input_candidates
from netweave.comparison.execution.pair_run import PairRun, PairRunner
from netweave.comparison.execution.sizes import Resizer, declared_sizes
from netweave.comparison.execution.tapped_values import ValueStore
from netweave.comparison.execution.unit_scale import keep_unit_scale
from netweave.comparison.explain.flatten import column_order, flattened
from netweave.comparison.explain.known_mismatches.mismatch import Case
from netweave.comparison.layout.tensors import candidate_layouts
from netweave.comparison.missing_weights import (
    Completion,
    SideCompletion,
    Weights,
    copied_in_words,
    nodes_with,
)
from netweave.comparison.result.comparison import Evidence
from netweave.errors import RunError
from netweave.graph import Graph, drawn_arrays, parameter_layout, with_arrays
from netweave.graph.parameters import apply_layout, drawn
from netweave.graph.stored import stored_values
from netweave.graph.summary import list_names

if TYPE_CHECKING:
    from netweave.comparison.prepare import Side

DENSE = frozenset({"Gemm", "MatMul"})


def column_orders(alignment: Alignment, *, target: Side) -> dict[str, np.ndarray]:
    """Return, for dense nodes behind a flatten in another order, which input takes whose weights.

    Nothing is known of the values yet: what is flattened has the likeliest layout that its sizes tell.

    Args:
        alignment: Pairs found by structure; of the tensors of its sides, sizes are used.
        target: The side that is given weights.

    Returns:
        By the name of the node that is given weights: for each of its inputs the input of the other node.
    """
    a, b = alignment.sides
    orders = {}
    for node_a in a.signals.nodes:
        node_b = a.partners.get(id(node_a))
        # a convolution whose window is all that it reads is a dense layer, too
        if node_b is None or DENSE.isdisjoint({node_a.op_type, node_b.op_type}):
            continue
        name_a, name_b = flattened(a.signals, node_a), flattened(b.signals, node_b)
        if name_a is None or name_b is None:
            continue
        shape, shape_b = a.tensors.shape_of(name_a), b.tensors.shape_of(name_b)
        if shape is None or shape_b is None:
            continue
        layouts = candidate_layouts(shape, shape_b, alignment.hints())
        case = Case(
            a.signals,
            b.signals,
            (node_a,),
            (node_b,),
            changes=dict(zip((name_b,), layouts, strict=False)),
            shapes_a={name_a: shape},
        )
        order = column_order(case, node_a, node_b)
        if order is not None and order.size == _columns(node_b) and (order != np.arange(order.size)).any():
            if target.is_a:
                orders[str(node_a.name)] = np.argsort(order)
            else:
                orders[str(node_b.name)] = order
    return orders


def _columns(node: ir.Node) -> int | None:
    """Number of inputs of an element of the output; of a convolution, all that is in its window."""
    shape = filter_shape(node)
    return None if shape is None else as_dense(shape)[1]


def redrawn(net: Graph, weights: tuple[Weights, Weights]) -> Graph | None:
    """Return A with drawn weights in the place of first ones, which are zeros and ones too often.

    None if that is not needed: B has weights that can be copied, or nobody gave A first values.

    Args:
        net: A as it was read.
        weights: Those of both nets.
    """
    of_a, of_b = weights
    if not of_b.missing or not of_a.missing - of_a.absent:
        return None
    return with_arrays(net, {key: x for key, x in drawn_arrays(net).items() if key in of_a.missing})


def complete_weights(
    a: Side,
    b: Side,
    inputs: Sequence[tuple[str, str]],
    weights: tuple[Weights, Weights],
    store: ValueStore,
) -> Completion:
    """Give each net, in place, what it came without: from the other one; A's own are drawn if B has none.

    Args:
        a: The first net, in a form of its own.
        b: The second net, likewise.
        inputs: Which input of A belongs to which of B.
        weights: Those of both nets. What is present stays, since it is compared.
        store: Holds what the nets compute on the way.
    """
    of_a, of_b = weights
    if of_a.missing and of_b.missing:
        mappings = input_candidates(a.signals, b.signals, inputs, [])[0].mappings
        _read_once(a)
        keep_unit_scale(a.signals, declared_sizes(a.graph, b.graph, mappings), of_a.missing, store)
    to_a = to_b = Copied(0, frozenset())
    if of_b.missing:
        _read_once(a)
        copied = copy_weights(
            a, b, inputs, store, missing=of_b.missing, drawn=of_a.missing, needs_common_size=False
        )
        if copied is None:
            return _completion(a, b, weights, weights_copied=False)
        to_b = copied
    if of_a.missing and (of_b.present or not of_b.missing):
        _read_once(b)
        copied = copy_weights(
            b, a, inputs, store, missing=of_a.missing, given=of_b.present, needs_common_size=False
        )
        if copied is None:
            return _completion(a, b, weights, weights_copied=False)
        to_a = copied
    # where B lacks arrays as well, those that A draws are what it is given
    left_a = of_a.missing - to_a.filled if not of_b.missing else frozenset()
    left_b = of_b.missing - to_b.filled
    notes = [copied_in_words(weights, to_a.count + to_b.count)]
    for side, keys in ((a, left_a), (b, left_b)):
        _draw(side, keys)
        notes += [_unfilled_in_words(side, keys)] if keys else []
    return replace(
        _completion(a, b, weights, weights_copied=True, left_a=left_a, left_b=left_b),
        reordered=to_a.reordered | to_b.reordered,
        notes=tuple(notes),
    )


def _completion(
    a: Side,
    b: Side,
    weights: tuple[Weights, Weights],
    *,
    weights_copied: bool,
    left_a: frozenset[str] = frozenset(),
    left_b: frozenset[str] = frozenset(),
) -> Completion:
    """Return what the nets were given; where nothing could be copied, drawn weights are not theirs either."""
    of_a, of_b = weights
    return Completion(
        SideCompletion(left_a, nodes_with(a.signals, of_a.missing)),
        SideCompletion(left_b, nodes_with(b.signals, of_b.missing)),
        weights_copied=weights_copied or bool(of_a.absent or of_b.absent),
    )


def copy_weights(
    source: Side,
    target: Side,
    inputs: Sequence[tuple[str, str]],
    store: ValueStore,
    *,
    missing: AbstractSet[str] | None = None,
    given: AbstractSet[str] | None = None,
    drawn: AbstractSet[str] = frozenset(),
    needs_common_size: bool = True,
) -> Copied | None:
    """Copy arrays from one net to the other, in place, through an alignment by structure alone.

    Args:
        source: The net whose arrays are copied.
        target: The net that is given them.
        inputs: Which input of A belongs to which of B.
        store: Holds what the nets compute on the way.
        missing: Keys of the parameters to fill, as in ``copy_arrays``.
        given: Keys of the parameters that may be copied, likewise.
        drawn: Keys of those that are drawn, likewise.
        needs_common_size: Whether both nets have to run; else A is run alone where they take no common size.

    Returns:
        What was copied; None if the nets cannot be run.
    """
    a, b = (source, target) if source.is_a else (target, source)
    run = _first_run(a, b, inputs, store)
    if run is None and not needs_common_size:
        run = _run_of_a(a, b, inputs, store)
    if run is None:
        return None
    Extension(run.alignment).run()
    orders = column_orders(run.alignment, target=target)
    originals = _for_originals(run.alignment, a, b)
    return copy_arrays(originals, target=target, orders=orders, missing=missing, given=given, drawn=drawn)


def _first_run(a: Side, b: Side, inputs: Sequence[tuple[str, str]], store: ValueStore) -> PairRun | None:
    """Run both nets under the first mapping of the inputs that they take."""
    failure: RunError | None = None
    resizer = Resizer()
    for candidate in input_candidates(a.signals, b.signals, inputs, []):
        try:
            sizes = declared_sizes(a.graph, b.graph, candidate.mappings)
            run = PairRunner(a, b, sizes, resizer, store).run(replace(candidate, orientation=""))
            if run is not None:
                run.run_all()
        except RunError as error:
            failure = failure or error
            continue
        if run is not None:
            return run
    if failure is not None:
        raise failure
    return None


def _run_of_a(a: Side, b: Side, inputs: Sequence[tuple[str, str]], store: ValueStore) -> PairRun | None:
    """Run A alone: layers of nets without a common size have counterparts, which need the same weights."""
    candidate = input_candidates(a.signals, b.signals, inputs, [])[0]
    sizes = declared_sizes(a.graph, b.graph, candidate.mappings)
    return PairRunner(a, b, sizes, Resizer(), store).run(candidate, without_b=True)


def _for_originals(resized: Alignment, a: Side, b: Side) -> Alignment:
    """Repeat an alignment of resized copies for the nets that they are copies of, by the names of nodes."""
    own = Alignment(a, b)
    nodes_a, nodes_b = ({node.name: node for node in side.signals.nodes} for side in (a, b))
    for pair in resized.a.pairs.values():
        own.pair_signals(replace(pair, change=None))
    for node in resized.a.signals.nodes:
        partner = resized.a.partners.get(id(node))
        if partner is not None and node.name in nodes_a and partner.name in nodes_b:
            own.pair_nodes(nodes_a[node.name], nodes_b[partner.name], Evidence.STRUCTURE)
    return own


def _read_once(side: Side) -> None:
    """Keep what is drawn or read when it is asked for, since it is asked for again and again."""
    for value in side.graph.model.graph.initializers.values():
        if isinstance(value.const_value, ir.LazyTensor):
            value.const_value = ir.Tensor(value.const_value.numpy(), name=value.name)


def _draw(side: Side, keys: AbstractSet[str]) -> None:
    """Draw stored arrays in the place of first values, under which a BatchNorm does nothing."""
    for key, values in stored_values(side.graph).items():
        if key in keys:
            parameter = side.graph.parameters[key]
            array = drawn(key, parameter.shape, parameter.role).numpy()
            for value in values:
                value.const_value = ir.Tensor(
                    np.ascontiguousarray(apply_layout(array, parameter_layout(value)))
                )


def _unfilled_in_words(side: Side, keys: frozenset[str]) -> str:
    return (
        f"no counterpart was found for {len(keys)} arrays of {side.name} ({list_names(sorted(keys))}); "
        "their layers are compared alone"
    )
