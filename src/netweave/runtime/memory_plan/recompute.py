"""Recomputation and tiling within a limit."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from math import isqrt

import onnx_ir as ir

from netweave.errors import UsageError
from netweave.graph import Graph, total_cost
from netweave.graph.costs import num_bytes
from netweave.graph.passes.projections import NotTileableError, is_tileable, tile
from netweave.graph.summary import bytes_text
from netweave.runtime.memory_plan.behaviour import behaviour_of, is_stored
from netweave.runtime.memory_plan.lifetimes import Timeline
from netweave.runtime.memory_plan.net import Net, prepare
from netweave.runtime.memory_plan.program import timeline

# A value may be if its operators give the same bits a second time, down to values that stay. What that
# costs is counted in multiply-adds. Passes over memory are weighed against these, since an operator without
# any, such as a normalisation, is not free.

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
    plans = []
    for count in (root // 2, root, 2 * root, 4 * root):
        chosen = _between(net, able, places, total // max(1, count))
        plans.append(Recomputation(net, chosen, timeline(net, chosen)))
    return min(plans, key=lambda one: one.peak)


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
    narrow = set()
    for index, node in enumerate(net.nodes):
        alive.update(net.canonical(value) for value in net.outputs[node])
        alive = {value for value in alive if last.get(value, -1) > index}
        if len(alive) == 1:
            narrow |= alive
    return narrow


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
    plans = [_chosen(replace(net, masked={}), limit)]
    if net.masked:
        plans.append(_chosen(net, limit))
    fitting = [one for one in plans if one.peak <= limit]
    return min(fitting, key=_work) if fitting else min(*plans, plain, key=lambda one: one.peak)


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


_UNITS = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "t": 1000**4}
_BINARY = {"k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}


def parse_bytes(text: str | int) -> int:
    """Return a number of bytes: 4 GB are 4 * 10**9, 4 GiB are 4 * 2**30.

    Raises:
        UsageError: The text is no size.

    >>> parse_bytes("4GB"), parse_bytes("1.5 MiB"), parse_bytes(1000)
    (4000000000, 1572864, 1000)
    """
    if isinstance(text, int):
        return text
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?\s*", str(text).lower())
    if match is None or (match[3] and not match[2]):
        raise UsageError(f"memory is {text!r}, expected a size such as 4GB, 512MB or 4GiB")
    unit = _BINARY[match[2]] if match[3] else _UNITS[match[2]]
    return int(float(match[1]) * unit)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingMemory:
    """Memory of a training run, without the values of a step.

    Attributes:
        parameters: All stored arrays.
        solver: What the solver keeps for them.
        batches: Batches that are there at once: the one that is computed with, and those being made.
        accumulate: Batches whose gradients are added up for an update.
        exchange: What several ranks exchange their gradients in.
    """

    parameters: int
    solver: int
    batches: int
    accumulate: int = 1
    exchange: int = 0

    def fixed(self, graph: Graph, batch: int) -> int:
        """Return the bytes that no plan changes."""
        inputs = sum(num_bytes(value, batch) for value in graph.inputs)
        return self.parameters + self.solver + self.exchange + self.batches * inputs


def plan_training(
    graph: Graph,
    *,
    batch: int,
    limit: int,
    run: TrainingMemory,
    losses: Collection[str] | None = None,
    kept: Collection[str] = (),
    stages: Sequence[Collection[ir.Node]] = (),
) -> Recomputation:
    """Return the cheapest plan with which training fits in a limit.

    Args:
        graph: The training net.
        batch: Records in a batch.
        limit: Bytes, for all that a run holds.
        run: What it holds besides the values of a step.
        losses: Names of the values that gradients begin at; all outputs if nothing is said.
        kept: Names of values that are needed until forward ends.
        stages: The nodes of each stage that the net is cut into.

    Raises:
        UsageError: None fits; the message says what would.
    """

    def needed(batch: int) -> tuple[Recomputation, int]:
        """Return the cheapest plan for batches of a size, and the bytes of a run with it."""
        net = prepare(graph, batch=batch, training=True, losses=losses, kept=kept, stages=stages)
        fixed = run.fixed(graph, batch)
        plan = cheapest(net, limit - fixed)
        return plan, fixed + plan.peak

    plan, num_bytes = needed(batch)
    if num_bytes <= limit:
        return plan
    fits = _largest_batch(batch, lambda size: needed(size)[1] <= limit)
    advice = f"give it {bytes_text(num_bytes)}"
    if fits:
        times = -(-batch * run.accumulate // fits)
        advice += f", or take batches of {fits} or less ({times} of them accumulated are the same update)"
    fixed = bytes_text(run.fixed(graph, batch))
    raise UsageError(
        f"{graph.name}: training with batches of {batch} needs at least {bytes_text(num_bytes)}, however "
        f"much is recomputed; {fixed} of that are parameters, solver state and batches. The limit is "
        f"{bytes_text(limit)}: {advice}"
    )


def _largest_batch(batch: int, fits: Callable[[int], bool]) -> int:
    """Return the largest batch size below one that does not fit; 0 if not even one record fits."""
    low, high = 0, batch
    while high - low > max(1, low // 16):  # a size near the largest will do
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


BANDS = (2, 3, 4, 6, 8, 12, 16, 24, 32)
"""Numbers of bands that are tried."""

PLACES = 4
"""So many places before and behind the largest layer are tried as ends of what is tiled."""


def tile_to_fit(graph: Graph, limit: int, *, batch: int = 1) -> Graph:
    """Return a graph that computes the same with less memory: its large layers over bands of the image.

    Where the most memory is alive, the run of layers is tiled that costs the least more and fits; if none
    does, the one that brings the most, and so on.

    Args:
        graph: The net as it predicts, with known heights and widths.
        limit: Bytes for values and kernels, besides parameters and inputs.
        batch: Records in a batch.

    Raises:
        UsageError: No tiling fits; the message says how near one came.
    """
    peak, _ = _peak(graph, batch)
    while peak > limit:
        tried = [
            (now, cost, found) for found in _tilings(graph, batch) for now, cost in [_judged(found, batch)]
        ]
        fitting = [row for row in tried if row[0] <= limit]
        best = min(fitting, key=lambda row: row[1]) if fitting else min(tried, key=_first, default=None)
        if best is None or best[0] >= peak:
            raise UsageError(
                f"{graph.name}: a run of {batch} needs {bytes_text(peak)} at least, over bands of the image "
                f"where that helps, and is limited to {bytes_text(limit)}; give it more, or run fewer at once"
            )
        peak, graph = best[0], best[2]
    return graph


def _first(row: tuple[int, float, Graph]) -> int:
    return row[0]


def _judged(graph: Graph, batch: int) -> tuple[int, float]:
    """Return what a graph needs, and what it costs: multiply-adds, and filters written anew for each band."""
    net = prepare(graph, batch=batch)
    plan = timeline(net)
    written = sum(buffer.num_bytes for buffer in plan.buffers if buffer.kind == "workspace")
    return plan.peak, total_cost(graph, batch=batch).multiply_adds + MULTIPLY_ADDS_PER_BYTE * written


def _peak(graph: Graph, batch: int) -> tuple[int, int]:
    """Return the most bytes alive in a run, and the number of the node at which they are."""
    live = timeline(prepare(graph, batch=batch)).live_bytes()
    return max(live, default=0), live.index(max(live)) if live else 0


def _tilings(graph: Graph, batch: int) -> Iterator[Graph]:
    """Yield the graph with the layers around its largest tiled."""
    net = prepare(graph, batch=batch)
    _, at = _peak(graph, batch)
    places = bottlenecks(net)
    cuts = [i for i, node in enumerate(net.nodes) if any(value in places for value in net.outputs[node])]
    begins = [*[cut + 1 for cut in cuts if cut < at][-PLACES:], 0]
    ends = [cut for cut in cuts if cut >= at][:PLACES]
    last = len(net.nodes) - 1
    if len(ends) < PLACES and set(net.outputs[net.nodes[last]]) == set(graph.outputs):
        ends = sorted({*ends, last})  # a net whose last layers are its largest
    for begin in dict.fromkeys(begins):
        for end in ends:
            nodes = [part for node in net.nodes[begin : end + 1] for part in net.parts_of(node)]
            if all(map(is_tileable, nodes)):
                yield from _by_bands(graph, nodes)


def _by_bands(graph: Graph, nodes: Sequence[ir.Node]) -> Iterator[Graph]:
    for count in BANDS:
        try:
            yield tile(graph, nodes, count)
        except NotTileableError:
            return
