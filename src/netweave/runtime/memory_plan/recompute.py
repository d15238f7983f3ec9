"""Recomputation: values that are freed after forward and computed again by backward.

A value may be if its operators give the same bits a second time, down to values that stay. What that costs is
counted in multiply-adds. Passes over memory are weighed against these, since an operator without any, such as
a normalisation, is not free.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isqrt
from typing import TYPE_CHECKING

from netweave.runtime.memory_plan.behaviour import behaviour_of, is_stored
from netweave.runtime.memory_plan.program import timeline

if TYPE_CHECKING:
    from collections.abc import Collection

    import onnx_ir as ir

    from netweave.runtime.memory_plan.lifetimes import Timeline
    from netweave.runtime.memory_plan.net import Net

MULTIPLY_ADDS_PER_BYTE = 8
"""A processor does about so many multiply-adds in the time in which a byte comes from memory."""


@dataclass(frozen=True, slots=True)
class Recomputation:
    """A choice of values to compute again.

    Attributes:
        net: The net, with the convolutions that are masked.
        values: The values; None for a step without a plan (a plan frees memory early even if it has none).
        timeline: The step with them.
    """

    net: Net
    values: frozenset[ir.Value] | None
    timeline: Timeline

    @property
    def peak(self) -> int:
        """The most bytes alive at once."""
        return self.timeline.peak

    @property
    def names(self) -> frozenset[str] | None:
        """The names of the values, as a net on torch wants them."""
        return None if self.values is None else frozenset(value.name or "" for value in self.values)


def candidates(net: Net) -> set[ir.Value]:
    """Return the values that backward reads and that can be computed again, bit for bit."""
    kept = net.kept_values()
    can: set[ir.Value] = set()
    for node in net.nodes:
        row = behaviour_of(node)
        if not row.repeatable or len(net.outputs[node]) != 1:
            continue
        given = {net.canonical(value) for value in net.inputs[node]}
        if all(_is_given(value) or value in kept or value in can for value in given):
            can.add(net.canonical(net.outputs[node][0]))
    return (can & kept) - net.wanted - net.given_values()


def _is_given(value: ir.Value) -> bool:
    return is_stored(value) or value.producer() is None


def square_root(net: Net) -> Recomputation:
    """Keep the values at about the square root of N places only, and compute all between them again.

    After Chen, Xu, Zhang and Guestrin 2016, "Training deep nets with sublinear memory cost", whose budget for
    what lies between two places is searched for likewise. The places are those at which one value alone leads
    on. What lies behind the last of them stays: it is read at once.
    """
    able, places = candidates(net), bottlenecks(net)
    root = max(1, isqrt(len(net.nodes)))
    total = sum(map(net.bytes_of, able))
    found = []
    for count in (root // 2, root, 2 * root, 4 * root):
        chosen = _between(net, able, places, total // max(1, count))
        found.append(Recomputation(net, chosen, timeline(net, chosen)))
    return min(found, key=lambda one: one.peak)


def _between(
    net: Net, able: Collection[ir.Value], places: Collection[ir.Value], budget: int
) -> frozenset[ir.Value]:
    """Return the values between places that lie so many bytes apart."""
    stay: set[ir.Value] = set()
    passed, last = 0, -1
    for index, node in enumerate(net.nodes):
        made = {net.canonical(value) for value in net.outputs[node]}
        passed += sum(net.bytes_of(value) for value in made if value in able)
        if passed >= budget and any(value in places for value in made):
            stay |= made
            passed, last = 0, index
    behind = {net.canonical(value) for node in net.nodes[last + 1 :] for value in net.outputs[node]}
    return frozenset(value for value in able if value not in stay and value not in behind)


def bottlenecks(net: Net) -> set[ir.Value]:
    """Return the values through which alone all that comes behind depends on what is before."""
    last: dict[ir.Value, int] = {}
    for index, node in enumerate(net.nodes):
        last.update((net.canonical(value), index) for value in net.inputs[node] if not _is_given(value))
    alive: set[ir.Value] = set()
    found = set()
    for index, node in enumerate(net.nodes):
        alive.update(net.canonical(value) for value in net.outputs[node])
        alive = {value for value in alive if last.get(value, -1) > index}
        if len(alive) == 1:
            found |= alive
    return found


def cheapest(net: Net, limit: int) -> Recomputation:
    """Return values to compute again so that a step needs at most so many bytes, at a low cost.

    Convolutions are masked only where that is less work. If nothing fits, the result is the least that was
    reached.

    Args:
        net: The net, prepared for training.
        limit: Bytes.
    """
    plain = Recomputation(net, None, timeline(net))
    if plain.peak <= limit:
        return plain
    found = [_chosen(replace(net, masked={}), limit)]
    if net.masked:
        found.append(_chosen(net, limit))
    fitting = [one for one in found if one.peak <= limit]
    return min(fitting, key=_work) if fitting else min(*found, plain, key=lambda one: one.peak)


def _work(found: Recomputation) -> float:
    """Return what a plan costs besides the step, in multiply-adds."""
    net, values = found.net, found.values or frozenset()
    masked = sum(net.bytes_of(net.canonical(net.outputs[relu][0])) for relu in net.masked.values())
    return sum(_cost(net, value, values) for value in values) + MULTIPLY_ADDS_PER_BYTE * masked


def _chosen(net: Net, limit: int) -> Recomputation:
    """Let go where the most memory is alive the value with the most bytes for its cost, until it fits.

    A value stays if a step would need more without it. Those that turn out not to be needed are kept again,
    the dearest first.
    """
    able = candidates(net)
    chosen: frozenset[ir.Value] = frozenset()
    now = Recomputation(net, chosen, timeline(net, chosen))
    while now.peak > limit:
        value = _most_for_its_cost(net, now.timeline, chosen, able)
        if value is None:
            break
        able.remove(value)
        tried = Recomputation(net, chosen | {value}, timeline(net, chosen | {value}))
        if tried.peak <= now.peak:  # to compute it again may need more than is let go
            chosen, now = chosen | {value}, tried
    return _pruned(net, now, max(limit, now.peak))


def _most_for_its_cost(
    net: Net, now: Timeline, again: Collection[ir.Value], able: Collection[ir.Value]
) -> ir.Value | None:
    """Return the value that is kept where most is alive and has the most bytes for its cost."""
    live = now.live_bytes()
    peak = live.index(max(live))
    names = {
        buffer.name for buffer in now.buffers if buffer.kind == "value" and buffer.first < peak < buffer.last
    }
    there = [value for value in able if value.name in names]
    return max(
        there,
        key=lambda value: (net.bytes_of(value) / _cost(net, value, again), value.name),
        default=None,
    )


def _cost(net: Net, value: ir.Value, again: Collection[ir.Value]) -> float:
    """Return what it costs to compute a value from what is kept, in multiply-adds."""
    kept = net.kept_values()
    todo, seen, cost = [value], set(), 1.0
    while todo:
        one = todo.pop()
        if one in seen:
            continue
        seen.add(one)
        node = net.runner[one]
        own = net.cost_of(node)
        cost += own.multiply_adds + MULTIPLY_ADDS_PER_BYTE * own.activation_bytes
        given = {net.canonical(given) for given in net.inputs[node]}
        todo += [one for one in given if not _is_given(one) and (one not in kept or one in again)]
    return cost


def _pruned(net: Net, found: Recomputation, limit: int) -> Recomputation:
    """Keep again what need not be computed again."""
    values = found.values or frozenset()
    order = sorted(values, key=lambda value: (-_cost(net, value, ()), value.name or ""))
    for value in order:
        fewer = values - {value}
        tried = Recomputation(net, fewer, timeline(net, fewer))
        if tried.peak <= limit:
            found, values = tried, fewer
    return found
