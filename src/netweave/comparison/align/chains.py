"""Filters with the scalings after them, which every framework cuts in its own way.

Convolution with bias, BatchNorm, Scale; convolution, BiasAdd, Mul, Add; one folded convolution: all compute
one filter and one scaling per channel. Such chains are compared as wholes wherever their cuts differ, and
node by node where they are cut alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.comparison.metric import Signals, constants_of, family_of, num_signals
from netweave.graph.parameters import source_keys

if TYPE_CHECKING:
    import onnx_ir as ir

    from netweave.comparison.align.alignment import Alignment
    from netweave.comparison.prepare import Side

FILTERS = frozenset({"Conv", "ConvTranspose", "dense"})

Segment = tuple[list["ir.Node"], list["ir.Node"]]
"""Nodes of A and nodes of B that should compute the same together; one side may be empty."""


def find_segments(alignment: Alignment) -> list[Segment]:
    """Return the segments of all chains of A that have a counterpart in B."""
    chains_b = {id(node): chain for chain in chains_of(alignment.b.signals) for node in chain}
    segments: list[Segment] = []
    for chain_a in chains_of(alignment.a.signals):
        chain_b = _partner(alignment, chain_a, chains_b)
        if chain_b is not None and (len(chain_a) > 1 or len(chain_b) > 1):
            segments += _cut(alignment, chain_a, chain_b)
            for node in chain_b:
                chains_b.pop(id(node), None)
    return segments


def _partner(
    alignment: Alignment, chain_a: list[ir.Node], chains_b: dict[int, list[ir.Node]]
) -> list[ir.Node] | None:
    """Return the chain of B that belongs to one of A; what a chain begins with decides."""
    for node in chain_a:
        partner = alignment.a.partners.get(id(node))
        chain_b = chains_b.get(id(partner)) if partner is not None else None
        if chain_b is None:
            continue
        head = alignment.b.partners.get(id(chain_b[0]))
        if head is None or any(head is node for node in chain_a):
            return chain_b
    return None


def chains_of(signals: Signals) -> list[list[ir.Node]]:
    """Return the chains of a net: a filter or scaling and the scalings that alone read what it makes."""
    chains: list[list[ir.Node]] = []
    taken: set[int] = set()
    for node in signals.nodes:
        if id(node) in taken or family_of(node) not in FILTERS | {"affine"} or num_signals(node) != 1:
            continue
        chain = chain_from(signals, node)
        taken.update(map(id, chain))
        chains.append(chain)
    return chains


def chain_from(signals: Signals, node: ir.Node) -> list[ir.Node]:
    """Return a filter or scaling, and the scalings that alone read what it makes."""
    chain = [node]
    reader = only_reader(signals, node)
    while reader is not None and family_of(reader) == "affine":
        chain.append(reader)
        reader = only_reader(signals, reader)
    return chain


def only_reader(signals: Signals, node: ir.Node) -> ir.Node | None:
    """Return the one node that reads what a node makes; None if there are more, or the net ends there."""
    outputs = signals.outputs_of(node)
    if len(outputs) != 1 or outputs[0] in signals.outputs:
        return None
    readers = signals.consumers.get(outputs[0], [])
    return readers[0] if len(readers) == 1 else None


def _cut(alignment: Alignment, a: list[ir.Node], b: list[ir.Node]) -> list[Segment]:
    """Cut two chains where their values agree, and node by node where they are cut alike."""
    place_b = {
        alignment.b.signals.outputs_of(node)[0]: index
        for index, node in enumerate(b)
        if not _lacks_scale(b, index)
    }
    segments: list[Segment] = []
    start_a = start_b = 0
    for index, node in enumerate(a):
        pair = alignment.a.pairs.get(alignment.a.signals.outputs_of(node)[0])
        end_b = place_b.get(pair.b, -1) if pair and pair.has_equal_values else -1
        if end_b < start_b or _lacks_scale(a, index):
            continue
        segments += _split(a[start_a : index + 1], b[start_b : end_b + 1])
        start_a, start_b = index + 1, end_b + 1
    rest_a, rest_b = a[start_a:], b[start_b:]
    if rest_a and rest_b:
        return segments + _split(rest_a, rest_b)
    side, rest = (alignment.a, rest_a) if rest_a else (alignment.b, rest_b)
    return segments if not rest or _leads_to_equal_values(side, rest) else [*segments, (rest_a, rest_b)]


def _leads_to_equal_values(side: Side, rest: list[ir.Node]) -> bool:
    """Return whether scalings of one net alone lead to the other net's next values.

    So are the scale and shift of a HardSigmoid that is written as a clip.
    """
    reader = only_reader(side.signals, rest[-1])
    while reader is not None and not side.is_paired(reader):
        pairs = [side.pairs.get(name) for name in side.signals.outputs_of(reader)]
        if any(pair is not None and pair.has_equal_values for pair in pairs):
            return True
        reader = only_reader(side.signals, reader)
    return False


def _lacks_scale(chain: list[ir.Node], index: int) -> bool:
    """Return whether a BatchNorm's own gamma is fixed and the scaling behind it is used, as in Caffe."""
    gamma = constants_of(chain[index]).get(1)
    is_fixed = chain[index].op_type == "BatchNormalization" and gamma is not None and not source_keys(gamma)
    return is_fixed and index + 1 < len(chain)


def _split(a: list[ir.Node], b: list[ir.Node]) -> list[Segment]:
    if [form_of(node) for node in a] == [form_of(node) for node in b]:
        return [([node_a], [node_b]) for node_a, node_b in zip(a, b, strict=True)]
    return [(a, b)]


def form_of(node: ir.Node) -> tuple[str, int]:
    """Return operator and number of inputs: nodes of one form can be compared array by array."""
    return node.op_type, sum(value is not None for value in node.inputs)
