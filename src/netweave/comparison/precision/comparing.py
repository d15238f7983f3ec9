"""Comparing nets of different precision: what rounding explains is no difference (decision 0184).

The rounded net is taken apart into the net that it stands for, in real numbers, and its roundings. Stored
arrays that are the reference's within rounding become the reference's; then both nets are compared as nets in
full precision are. What is left is judged by itself: scales, zero points and axes of stored arrays against
the reference's numbers, ranges of activations against what the net computes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.comparison.precision import measuring
from netweave.comparison.precision.measuring import ArrayPair, Inputs, Measurement, pair_arrays
from netweave.comparison.precision.ranges import fitting_range, range_faults
from netweave.comparison.precision.reference import ReferenceArrays, StoredFault, reference_arrays
from netweave.comparison.precision.verdict import GroupLoss, RoundedResult, both_within
from netweave.comparison.result.comparison import Comparison, Group, TensorValues
from netweave.comparison.result.verdicts import Verdict
from netweave.errors import NetweaveError, RunError
from netweave.graph import Graph
from netweave.graph.passes import absorb
from netweave.graph.passes.rounding import (
    ExplicitRounding,
    NotExplicitError,
    Quantiser,
    RoundingPoint,
    choose_rectifiers,
    explicit_rounding,
    has_rounding,
    rectifier_after,
    rounding_points,
    without_rounding,
)

if TYPE_CHECKING:
    from netweave.comparison.pipeline import StageLog

ALIKE = 1.2
"""A net whose stored arrays lose so many times what the other's do is the coarser one; else B is judged."""

MAX_MEASURED = 12
"""Faults beyond this many are not run one by one."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A fault of the rounded net, and where it is.

    Attributes:
        key: Initializer or rounding node that is at fault.
        node: The node of the rounded net that it belongs to.
        fault: What is wrong.
    """

    key: str
    node: ir.Node | None
    fault: StoredFault


def compare_precisions(
    a: Graph,
    b: Graph,
    exact: Callable[[Graph, Graph], Comparison],
    *,
    probe: Mapping[str, np.ndarray] | None,
    tolerance: float,
    seed: int,
    log: StageLog,
) -> Comparison | None:
    """Compare nets of different precision; None where both compute in the same, or roundings cannot be told.

    Args:
        a: The first net.
        b: The second net.
        exact: Compares two nets in full precision.
        probe: Inputs of A by name; drawn if there are none.
        tolerance: Largest error of an output that counts as none whatever rounding explains.
        seed: What inputs are drawn by.
        log: Takes times and notes.
    """
    if not has_rounding(a) and not has_rounding(b):
        return None
    try:
        with log.stage("take roundings apart"):
            explicit = explicit_rounding(a), explicit_rounding(b)
    except (NotExplicitError, NetweaveError) as reason:
        log.note(f"compared without regard to rounding: {reason}")
        return None
    are_alike = explicit[0].formats == explicit[1].formats
    if are_alike and not any(each.has_integers for each in explicit):
        return None
    if are_alike and (plain := exact(a, b)).equal:  # the same scales
        return plain
    if not all(each.formats for each in explicit):
        of_b = bool(explicit[1].formats)
        return _RoundedPair(a, b, explicit, of_b=of_b).compare(
            exact, probe=probe, tolerance=tolerance, seed=seed, log=log
        )
    # both are rounded: the weights of the finer one are the reference's, then it is judged by itself
    of_b = explicit[0].stored_loss <= ALIKE * explicit[1].stored_loss
    coarse = _RoundedPair(a, b, explicit, of_b=of_b)
    first = coarse.compare(exact, probe=probe, tolerance=tolerance, seed=seed, log=log)
    if not first.equal or first.precision is None:
        return first
    fine = _RoundedPair(a, b, explicit, of_b=not of_b, has_own_arrays=True)
    second = fine.measure(first, probe=probe, tolerance=tolerance, seed=seed, log=log)
    if not second.equal or second.precision is None:
        return second
    return both_within(second, first) if of_b else both_within(first, second)


@dataclass(slots=True)
class _RoundedPair:
    """A rounded net and the one that it is held against, which may be rounded as well.

    Attributes:
        a: The first net.
        b: The second net.
        explicit: Both, with their roundings as nodes.
        of_b: Whether B is judged.
        has_own_arrays: Whether the judged one keeps its stored arrays: only its activations are judged.
        rounded: The one that is judged, with its roundings.
        reference: The other one without rounding.
        real: The judged one without rounding, with the reference's arrays where rounding explains the rest.
        arrays: These arrays, and what is wrong with others.
    """

    a: Graph
    b: Graph
    explicit: tuple[ExplicitRounding, ExplicitRounding]
    of_b: bool
    has_own_arrays: bool = False
    rounded: ExplicitRounding = field(init=False)
    reference: Graph = field(init=False)
    real: Graph = field(init=False)
    arrays: ReferenceArrays = field(init=False)

    def __post_init__(self) -> None:
        self.rounded, other = self.explicit[self.of_b], self.explicit[not self.of_b]
        self.real = without_rounding(self.rounded.graph)
        self.reference, of_reference = without_rounding(other.graph), other.stored
        if _num_normalisations(self.reference) > _num_normalisations(self.real):
            # the quantiser had them folded; arrays are then not those that a file stores
            self.reference, of_reference = absorb(self.reference), {}
        pairs = pair_arrays(self.reference, self.real)
        self._choose_rectifiers(pairs)
        if self.has_own_arrays:
            self.arrays = ReferenceArrays()
            return
        self.arrays = reference_arrays(pairs, self.rounded.stored, of_reference)
        self.real = measuring.with_arrays(self.real, self.arrays.arrays)

    def _choose_rectifiers(self, pairs: Mapping[str, ArrayPair]) -> None:
        """Let rectifiers that only ranges speak of be the reference's."""
        products = {
            str(pair.place.node.name): pair.reference.node for pair in pairs.values() if pair.place.is_filters
        }

        def behind(product: ir.Node) -> ir.Node | None:
            other = products.get(str(product.name))
            return None if other is None else rectifier_after(other)

        for graph in (self.rounded.graph, self.real):
            choose_rectifiers(graph, behind)

    def compare(
        self,
        exact: Callable[[Graph, Graph], Comparison],
        *,
        probe: Mapping[str, np.ndarray] | None,
        tolerance: float,
        seed: int,
        log: StageLog,
    ) -> Comparison:
        nets = (self.reference, self.real) if self.of_b else (self.real, self.reference)
        plain = exact(*nets)
        if plain.verdict is Verdict.UNDECIDED or not plain.inputs:
            return replace(plain, a=self.a, b=self.b)
        return self.measure(plain, probe=probe, tolerance=tolerance, seed=seed, log=log)

    def measure(
        self,
        plain: Comparison,
        *,
        probe: Mapping[str, np.ndarray] | None,
        tolerance: float,
        seed: int,
        log: StageLog,
    ) -> Comparison:
        """Return a comparison without roundings with what those of the judged net cost."""
        own = {str(value.name) for value in self.real.inputs}
        if not {mapping.b if self.of_b else mapping.a for mapping in plain.inputs} <= own:
            return self._unmeasured(plain, tolerance, "a range of layers is compared")
        try:
            with log.stage("measure rounding"):
                rounded = self.rounded.graph
                shown = (self.reference, rounded) if self.of_b else (rounded, self.reference)
                inputs = measuring.own_inputs(shown, plain.inputs, of_b=self.of_b, probe=probe, seed=seed)
                return self._measured(plain, inputs, tolerance=tolerance, is_drawn=probe is None)
        except RunError as reason:
            return self._unmeasured(plain, tolerance, str(reason))

    def _result(self, plain: Comparison, tolerance: float) -> RoundedResult:
        side = "B" if self.of_b else "A"
        return RoundedResult(replace(plain, a=self.a, b=self.b), side, self.rounded.formats, tolerance)

    def _unmeasured(self, plain: Comparison, tolerance: float, reason: str) -> Comparison:
        """Return the comparison without roundings with what is wrong with its stored arrays alone."""
        result = self._result(plain, tolerance)
        for fault in self._judged({}):
            number = self._group_of(plain, fault.node)
            if number is not None:
                result.add(number, self.rounded.graph, fault.node, fault.fault, None, None)
        return result.unmeasured(reason)

    def _measured(
        self, plain: Comparison, inputs: Sequence[Inputs], *, tolerance: float, is_drawn: bool
    ) -> Comparison:
        """Return the comparison without roundings with what they cost, and what is wrong with them."""
        points = rounding_points(self.rounded.graph)
        tensors = self._tensors(plain)
        outputs = _outputs(self.real)
        names = list(dict.fromkeys([*tensors.values(), *(str(p.value.name) for p in points), *outputs]))
        reference = measuring.run_at(self.real, inputs, names)
        if is_drawn:
            inputs = measuring.fitted_inputs(inputs, reference, points)
            reference = measuring.run_at(self.real, inputs, names)
        range_findings = range_faults(points, reference, is_drawn=is_drawn)
        for point in self._shared_ranges(plain, points):
            range_findings.pop(str(point.there.name), None)
        judged = self._judged(range_findings)
        proper = self._proper_arrays() | measuring.point_arrays(
            self.rounded.graph, _fitting_ranges(points, range_findings, reference)
        )
        measured = Measurement(self.rounded, inputs, reference, names, proper)
        result = self._result(plain, tolerance)
        for fault in judged:
            number = self._group_of(plain, fault.node)
            name = tensors.get(number) if number is not None else None
            alone = measured.with_fault(fault.key, name) if name and len(judged) <= MAX_MEASURED else None
            usual = measured.loss(name) if name else None
            result.add(number, self.rounded.graph, fault.node, fault.fault, alone, usual)
        losses = {
            number: GroupLoss(loss, self._values(measured, plain.groups[number], name))
            for number, name in tensors.items()
            if (loss := measured.loss(name))
        }
        return result.comparison(losses, [lost for name in outputs if (lost := measured.loss(name))])

    def _values(self, measured: Measurement, group: Group, name: str) -> TensorValues | None:
        """Return what is shown of a group's tensor: without rounding, as in the other net, and with it."""
        if group.values is None:
            return None
        names = group.values.name_a, group.values.name_b
        return measured.values(name, names, of_b=self.of_b)

    def _judged(self, of_points: Mapping[str, StoredFault]) -> list[Judged]:
        rows = [Judged(key, node, fault) for key, (node, fault) in self.arrays.faults.items()]
        for point in rounding_points(self.rounded.graph):
            fault = of_points.get(str(point.there.name))
            if fault is not None:
                readers = [reader for back in point.backs for reader, _ in back.outputs[0].uses()]
                node = point.value.producer() or (readers[0] if readers else None)
                rows.append(Judged(str(point.there.name), node, fault))
        order = {str(node.name): place for place, node in enumerate(self.rounded.graph.nodes)}
        return sorted(rows, key=lambda row: order.get(str(row.node.name), 0) if row.node is not None else 0)

    def _proper_arrays(self) -> dict[str, np.ndarray]:
        """Return the stored arrays as they should be: what the format holds of the reference's numbers."""
        values = self.real.values()
        proper = {}
        for name, array in self.arrays.arrays.items():
            axis = self.arrays.channel_axes.get(name, 0)
            is_right = name not in self.arrays.faults
            if name in values and name in self.rounded.stored:
                proper[name] = measuring.properly_rounded(
                    array, self.rounded.stored[name], is_right=is_right, axis=axis
                )
        return proper

    def _tensors(self, plain: Comparison) -> dict[int, str]:
        """Return the tensor of the rounded net that each group makes, by the group's number."""
        nodes = {str(node.name): node for node in self.real.nodes}
        by_layer = self.real.nodes_of()
        made = {}
        for number, group in enumerate(plain.groups):
            names, keys = _own(group, of_b=self.of_b)
            own = [nodes[name] for name in names if name in nodes]
            own = own or [node for key in keys for node in by_layer.get(key, ())]
            if own and group.is_pair:
                made[number] = str(own[-1].outputs[0].name)
        return made

    def _shared_ranges(self, plain: Comparison, points: Sequence[RoundingPoint]) -> list[RoundingPoint]:
        """Return the places that the other net rounds in the same way: whatever a range loses, both lose."""
        of_b = not self.of_b
        others: dict[int, list[Quantiser]] = {}
        for point in rounding_points(self.explicit[of_b].graph):
            number = self._group_of(plain, point.value.producer(), of_b=of_b)
            if number is not None and point.quantiser is not None:
                others.setdefault(number, []).append(point.quantiser)
        return [
            point
            for point in points
            if (number := self._group_of(plain, point.value.producer())) is not None
            and point.quantiser is not None
            and any(point.quantiser.has_scales_of(other) for other in others.get(number, ()))
        ]

    def _group_of(self, plain: Comparison, node: ir.Node | None, *, of_b: bool | None = None) -> int | None:
        """Return the number of the group that a node of the judged net belongs to, or of A or B as told."""
        if node is None:
            return None
        of_b = self.of_b if of_b is None else of_b
        keys = {layer.key for layer in self.explicit[of_b].graph.layers_of(node)}
        for number, group in enumerate(plain.groups):
            names, layers = _own(group, of_b=of_b)
            if str(node.name) in names or keys.intersection(layers):
                return number
        return None


def _fitting_ranges(
    points: Sequence[RoundingPoint], faults: Mapping[str, StoredFault], runs: Sequence[Inputs]
) -> dict[str, tuple[float, int]]:
    """Return a scale and zero point that hold what a range at fault should, by the rounding node."""
    ranges = {}
    for point in points:
        if str(point.there.name) in faults and point.quantiser is not None:
            values = [run[str(point.value.name)] for run in runs]
            low = min(float(x.min(initial=0.0, where=np.isfinite(x))) for x in values)
            high = max(float(x.max(initial=0.0, where=np.isfinite(x))) for x in values)
            ranges[str(point.there.name)] = fitting_range(low, high, point.quantiser)
    return ranges


def _own(group: Group, *, of_b: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return (group.nodes_b, group.layers_b) if of_b else (group.nodes_a, group.layers_a)


def _outputs(graph: Graph) -> list[str]:
    return [str(value.name) for value in graph.outputs]


def _num_normalisations(graph: Graph) -> int:
    return sum(node.op_type == "BatchNormalization" for node in graph.nodes)
