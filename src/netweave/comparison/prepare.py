"""Preparation of both sides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import onnx_ir as ir

from netweave.comparison.align.alignment import SignalPair
from netweave.comparison.align.weights import match_weights
from netweave.comparison.copied_weights import complete_weights, redrawn
from netweave.comparison.execution.input_candidates import InputCandidate, input_candidates
from netweave.comparison.execution.inputs import pair_inputs
from netweave.comparison.execution.layer_range import JoinedOutput, find_joined_outputs, part_outputs
from netweave.comparison.execution.tapped_values import ValueStore
from netweave.comparison.held_inputs import HeldInput, hold_inputs
from netweave.comparison.metric import HeldValues, Signals, SignalValues
from netweave.comparison.missing_weights import Completion, Weights, find_weights, looks_untrained
from netweave.graph import Graph
from netweave.graph.passes.attention import attention_forms, fuse_heads
from netweave.graph.passes.branches import cut_splits, num_splits
from netweave.graph.passes.decomposition import num_before_concats, num_behind_concats, spread_activations
from netweave.graph.passes.experts import compute_all_experts, num_looked_up
from netweave.graph.passes.heads import (
    num_neighbours,
    pair_halves,
    part_projections,
    parted_columns,
    rotated_features,
    stored_before_rotations,
)
from netweave.graph.passes.no_effect import drop_before_choices, functions_before_choices
from netweave.graph.passes.rewriting import Pass, chain
from netweave.graph.passes.rounding import (
    drop_idle_roundings,
    num_idle_roundings,
    num_signed_roundings,
    unsigned_roundings,
)
from netweave.graph.passes.steps_first import examples_first, num_over_rows, over_sequences, steps_first
from netweave.graph.passes.sums import num_scaled_operands, order_sums, scale_products, sum_orders
from netweave.graph.passes.windows import num_global_pools, pool_whole_images

if TYPE_CHECKING:
    from netweave.comparison.input_choice import NodePairs
    from netweave.comparison.pipeline import CompareOptions, StageLog


UNALIKE: tuple[tuple[Callable[[Graph], object], Pass], ...] = (
    (num_global_pools, pool_whole_images),
    (steps_first, examples_first),
    (num_idle_roundings, drop_idle_roundings),
    (num_signed_roundings, unsigned_roundings),
    (functions_before_choices, drop_before_choices),
    (num_scaled_operands, scale_products),
)
"""Measures by which two nets may be unalike, each with the pass that writes both alike."""


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """One net of a pair: as it was read, as it is compared, what it computed, and what it is paired with.

    Attributes:
        name: ``A`` for the net that is taken for right, ``B`` for its port.
        source: The net as it was read.
        signals: Its signals, in the form and at the sizes that are compared.
        tensors: What it computes on the probe, by signal: nothing before it is run, and its inputs alone if
            it cannot be run. A large one may be computed when it is looked up, so ask for its shape alone
            where that is enough, and for tensors in the order of the net.
        own_values: Returns what it computes on inputs of its own, if it cannot be run on the other net's.
        pairs: Pairs of an alignment by this side's signal; the alignment adds to it.
        partners: The other side's node by ``id`` of this side's; likewise.
    """

    name: str
    source: Graph
    signals: Signals
    tensors: SignalValues = field(default_factory=lambda: HeldValues({}))
    own_values: Callable[[], SignalValues] | None = None
    pairs: dict[str, SignalPair] = field(default_factory=dict)
    partners: dict[int, ir.Node] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, source: Graph, form: Callable[[Graph], Graph]) -> Side:
        """Return a net in the form in which it is compared."""
        return cls(name, source, Signals.of(form(source)))

    @property
    def graph(self) -> Graph:
        """The net in the form and at the sizes that are compared."""
        return self.signals.graph

    @property
    def is_a(self) -> bool:
        """True if it is the net that is taken for right."""
        return self.name == "A"

    @property
    def other_name(self) -> str:
        """The name of the other side."""
        return "B" if self.is_a else "A"

    def with_graph(self, graph: Graph) -> Side:
        """Return the side with another form of its net, at other sizes for instance."""
        return self if graph is self.graph else replace(self, signals=Signals.of(graph))

    def with_tensors(self, tensors: SignalValues) -> Side:
        """Return the side with what its net computes; what it is paired with stays shared."""
        return replace(self, tensors=tensors)

    def unpaired(self) -> Side:
        """Return the side as no alignment has seen it yet."""
        return replace(self, pairs={}, partners={})

    def is_paired(self, node: ir.Node) -> bool:
        """Return whether the other side has a counterpart of a node."""
        return id(node) in self.partners


class NotComparableError(Exception):
    """Two nets of which nothing can be decided; the message says why. It never leaves the comparison."""


@dataclass(frozen=True, slots=True)
class PreparedPair:
    """Two nets, ready to be run.

    Attributes:
        a: The first net.
        b: The second net.
        seeds: Pairs of nodes with the same weights.
        candidates: Ways in which B may take A's inputs, the likeliest first.
        completion: What the nets were given in the place of weights that they came without.
        joined: Outputs of one net that are compared in parts, since the other returns these.
        joining: Name of the net that they are outputs of.
        held: Inputs that only one net has, and that are held.
    """

    a: Side
    b: Side
    seeds: NodePairs
    candidates: Sequence[InputCandidate]
    completion: Completion
    joined: Sequence[JoinedOutput] = ()
    joining: str = ""
    held: Sequence[HeldInput] = ()


def prepare(
    a: Graph,
    b: Graph,
    form: Callable[[Graph], Graph],
    options: CompareOptions,
    log: StageLog,
    store: ValueStore,
) -> PreparedPair:
    """Bring two nets into the form that is compared, give them weights, and find how their inputs correspond.

    Args:
        a: The first net.
        b: The second net.
        form: Makes a copy of a net in the form that is compared.
        options: What the caller chose.
        log: Takes times and notes.
        store: Holds what nets compute that are run for the sake of their weights.

    Raises:
        NotComparableError: A net computes nothing, or the inputs cannot be paired.
    """
    a, b, held = _hold(a, b, options)
    for note in (*(each.note for each in held), *_notes_of_caches(a, b)):
        log.note(note)
    with log.stage("normalise"):
        side_a, side_b, form = _formed(a, b, form)
        joining, joined = _find_joined(side_a, side_b)
        form_a = _in_parts(form, joined) if joining == "A" else form
        side_a = Side.of("A", a, form_a) if joining == "A" else side_a
        side_b = Side.of("B", b, _in_parts(form, joined)) if joining == "B" else side_b
    for side in (side_a, side_b):
        if not side.signals.nodes:
            raise NotComparableError(f"{side.name} computes nothing: none of its nodes changes a value")
    inputs = pair_inputs(side_a.signals, side_b.signals)
    if inputs is None:
        raise NotComparableError(
            f"A takes {_inputs_in_words(side_a)} and B {_inputs_in_words(side_b)}, which cannot be paired; "
            "compare nets, or functions around them, that take the same"
        )
    weights = find_weights(side_a, side_b)
    for note in _never_trained(side_a, side_b, weights):
        log.note(note)
    completion = Completion()
    if any(of_net.missing for of_net in weights):
        with log.stage("copy weights"):
            drawn = redrawn(a, weights)
            if drawn is not None:
                side_a = replace(side_a, signals=Signals.of(form_a(drawn)))
            completion = complete_weights(side_a, side_b, inputs, weights, store)
        for note in completion.notes:
            log.note(note)
    with log.stage("match weights"):
        seeds = match_weights(side_a.signals.nodes, side_b.signals.nodes)
        candidates = input_candidates(side_a.signals, side_b.signals, inputs, seeds)
    return PreparedPair(side_a, side_b, seeds, candidates, completion, joined, joining, held)


def _hold(a: Graph, b: Graph, options: CompareOptions) -> tuple[Graph, Graph, Sequence[HeldInput]]:
    """Hold inputs that one net alone has.

    Raises:
        NotComparableError: A probe gives one of them other values.
    """
    a, b, held = hold_inputs(a, b)
    for each in held:
        if each.side == "A" and not each.is_held_at(options.inputs or {}):
            told = f"the probe gives {each.name!r} other values than {each.values}"
            raise NotComparableError(f"{told}: {each.note}")
    return a, b, held


def _notes_of_caches(a: Graph, b: Graph) -> list[str]:
    return [
        f"{len(graph.caches)} of {name}'s {len(graph.outputs)} outputs are a cache that it takes back: steps "
        "through it are compared instead"
        for name, graph in (("A", a), ("B", b))
        if graph.caches
    ]


def _inputs_in_words(side: Side) -> str:
    names = [repr(str(value.name)) for value in side.graph.inputs]
    return f"{len(names)} input{'s' * (len(names) != 1)} ({', '.join(names)})" if names else "no input"


def _formed(
    a: Graph, b: Graph, form: Callable[[Graph], Graph]
) -> tuple[Side, Side, Callable[[Graph], Graph]]:
    """Return two nets in the form that they are compared in, and that form."""
    side_a, side_b = Side.of("A", a, form), Side.of("B", b, form)
    for find_passes in (_forms_to_share, _pairs_to_share):
        passes = find_passes(side_a.graph, side_b.graph)
        if passes:
            form = _after(form, passes)
            for side in (side_a, side_b):
                chain(*passes).edit(side.graph)  # a copy of these sides' own
            side_a, side_b = (replace(side, signals=Signals.of(side.graph)) for side in (side_a, side_b))
    if len(side_a.graph.inputs) != len(side_b.graph.inputs):
        form = _reading_all(form)
        side_a, side_b = Side.of("A", a, form), Side.of("B", b, form)
    return side_a, side_b, form


def _never_trained(a: Side, b: Side, weights: tuple[Weights, Weights]) -> list[str]:
    """Say which net's weights are not compared though its file holds some."""
    return [
        f"{side.name} was never trained: its biases and normalisations have their first values"
        for side, of_net in zip((a, b), weights, strict=True)
        if of_net.missing and not side.source.initial and looks_untrained(side.source)
    ]


def _forms_to_share(a: Graph, b: Graph) -> list[Pass]:
    """Return passes that write alike what only one of two nets writes in a way of its own.

    Nets that both write it so stay as they are: a form with more nodes tells less of what is wrong.
    """
    forms: list[Pass] = []
    if num_looked_up(a) != num_looked_up(b):
        forms.append(compute_all_experts)
        a, b = compute_all_experts(a), compute_all_experts(b)
    if num_over_rows(a) != num_over_rows(b):
        forms.append(over_sequences)
        a, b = over_sequences(a), over_sequences(b)
    parts = parted_columns(a), parted_columns(b)
    if parts[0] != parts[1] or (all(parts) and steps_first(a) != steps_first(b)):
        forms.append(part_projections)
        a, b = part_projections(a), part_projections(b)
    if num_splits(a) != num_splits(b):
        forms.append(cut_splits)
    behind = num_behind_concats(a) - num_behind_concats(b)
    before = num_before_concats(b) - num_before_concats(a)
    if behind * before > 0:  # what one net has behind, the other has in front
        forms.append(spread_activations)
    forms += [form for measure, form in UNALIKE if measure(a) != measure(b)]
    orders = sum_orders(a), sum_orders(b)
    if orders[0] != orders[1] and set(map(len, orders[0])) == set(map(len, orders[1])):
        forms.append(order_sums)
    return forms + _attention_to_share(a, b)


def _attention_to_share(a: Graph, b: Graph) -> list[Pass]:
    """Return a pass that makes one operator of each core of attention, if two nets write theirs otherwise.

    The scale stands before the product, behind it or half of it on either side, a mask is added or chosen,
    and what it takes out gets minus infinity or the lowest number of the type; only if all cores of both
    nets become the operator do the nets become more alike.
    """
    forms_a, forms_b = attention_forms(a), attention_forms(b)
    if forms_a == forms_b or not forms_a or not forms_b:
        return []
    numbers = [sum(node.op_type == "Attention" for node in fuse_heads(graph).nodes) for graph in (a, b)]
    return [fuse_heads] if numbers == [len(forms_a), len(forms_b)] else []


def _pairs_to_share(a: Graph, b: Graph) -> list[Pass]:
    """Return a pass that lets rotations turn halves, if more of one net's weights are then the other's.

    A rotation of neighbours is one of halves where the dense layer before it makes the features in another
    order, as the weights of Llama have it in Meta's code and in Hugging Face's.
    """
    if num_neighbours(a) == num_neighbours(b):
        return []
    a, b = fuse_heads(a), fuse_heads(b)  # of nets that write attention alike, too: it tells what is scored
    before = [stored_before_rotations(graph) for graph in (a, b)]
    best, most = None, (before[0] & before[1]).total()
    for count in (None, *sorted(rotated_features(a) ^ rotated_features(b))):
        form = pair_halves(count)
        behind = [stored_before_rotations(form(graph)) for graph in (a, b)]
        if (behind[0] & behind[1]).total() > most:
            best, most = form, (behind[0] & behind[1]).total()
    return [fuse_heads, best] if best is not None else []


def _after(form: Callable[[Graph], Graph], passes: Sequence[Pass]) -> Callable[[Graph], Graph]:
    return lambda graph: chain(*passes)(form(graph))


def _reading_all(form: Callable[[Graph], Graph]) -> Callable[[Graph], Graph]:
    """Return a form without inputs that nothing reads, of which only one net may have one."""

    def without_unread(graph: Graph) -> Graph:
        formed = form(graph)
        for value in list(formed.inputs):
            if not value.uses() and not value.is_graph_output():
                formed.model.graph.inputs.remove(value)
        return formed

    return without_unread


def _find_joined(a: Side, b: Side) -> tuple[str, Sequence[JoinedOutput]]:
    """Return which net returns joined what the other returns as several, and what; empty if none does."""
    counts = len(a.graph.outputs), len(b.graph.outputs)
    fewer = a if counts[0] < counts[1] else b
    joined = find_joined_outputs(fewer.graph, max(counts)) if counts[0] != counts[1] else []
    return (fewer.name if joined else ""), joined


def _in_parts(form: Callable[[Graph], Graph], joined: Sequence[JoinedOutput]) -> Callable[[Graph], Graph]:
    return lambda graph: part_outputs(form(graph), joined)
