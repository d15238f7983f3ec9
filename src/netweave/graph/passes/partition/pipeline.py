"""Pipelines: each worker has a run of layers, its stage, and micro-batches pass from one to the next.

The plan is that of any cut net, with every layer on one worker. But the graphs hold no connections: the graph
of a stage takes the values of earlier stages as inputs and gives those for later ones as outputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate
from math import prod

import onnx_ir as ir

from netweave.errors import UnsupportedError, UsageError
from netweave.graph.checks import known_shape
from netweave.graph.costs import node_cost
from netweave.graph.graph import Graph, reads
from netweave.graph.layers import layer_keys
from netweave.graph.parameters import parameter_key, statistics_of
from netweave.graph.passes.extraction import Extractor
from netweave.graph.passes.partition.plan import (
    Edge,
    Holding,
    LayerCut,
    NodePlan,
    PartitionPlan,
    has_rows,
)
from netweave.graph.passes.partition.shardings import BATCH, CONSTANT, on_worker


def pipeline_plan(
    graph: Graph, cuts: Iterable[LayerCut], *, num_workers: int, num_rows: int, wanted: Sequence[str] = ()
) -> PartitionPlan:
    """Return the plan of a net whose layers are the stages of a pipeline.

    A layer without a location lives where the last of the layers lives that it reads. If no layer has one,
    the net is cut into stages of like cost.

    Args:
        graph: The training net, or a test net.
        cuts: The locations of layers.
        num_workers: The number of workers, and so of stages.
        num_rows: Samples of a whole batch.
        wanted: Names of values that are asked for besides the net's outputs.

    Raises:
        UsageError: A layer is to be cut by feature, comes before one that it reads, or a worker has no layer.
        UnsupportedError: A value that goes from stage to stage has no known size, or is no row for each
            sample.
    """
    return _Planner(PartitionPlan(graph, num_workers, num_rows), cuts, wanted).planned()


def locations(plan: PartitionPlan) -> tuple[LayerCut, ...]:
    """Return where each layer of a planned pipeline lives, for the other nets of a run."""
    found: dict[str, LayerCut] = {}
    for node, done in zip(plan.graph.nodes, plan.nodes, strict=True):
        for key in layer_keys(node)[:1] if done.sharding.kind == "worker" else ():
            if key in plan.graph.layers:
                name = plan.graph.layers[key].name
                found.setdefault(name, LayerCut(name, None, done.sharding.worker))
    return tuple(found.values())


def sent_values(plan: PartitionPlan) -> dict[tuple[int, int], list[str]]:
    """Return the names of the values that go from one stage to another, by both, in graph order."""
    found: dict[tuple[int, int], list[str]] = {}
    for edge in plan.edges.values():
        found.setdefault((edge.before.worker, edge.after.worker), []).append(edge.value)
    return dict(sorted(found.items()))


def stage_graph(plan: PartitionPlan, worker: int, *, wanted: Sequence[str] = ()) -> Graph:
    """Return the graph of a stage.

    It takes the inputs of the net that it reads and what other stages send, and gives the outputs of the net
    that it makes and what it sends.

    Args:
        plan: The plan.
        worker: The number of the stage.
        wanted: Names of values that it gives besides the net's outputs, if it makes them.
    """
    graph, own = plan.graph, on_worker(worker)
    received = {edge.value: None for edge in plan.edges.values() if edge.after == own}
    sent = [edge.value for edge in plan.edges.values() if edge.before == own]
    given = [value.name or "" for value in [*graph.outputs, *graph.find(wanted).values()]]
    outputs = dict.fromkeys([*(name for name in given if plan.shardings[name] == own), *sent])
    read = {
        value.name or ""
        for node, done in zip(graph.nodes, plan.nodes, strict=True)
        if done.sharding == own
        for value in reads(node)
    }
    taken = [value.name or "" for value in graph.inputs if value.name in read]
    part = Extractor(graph).extract(inputs=[*taken, *received], outputs=list(outputs))
    held = [key for key, one in plan.holdings.items() if one.sharding == own and key in graph.parameters]
    part.parameters.update({key: graph.parameters[key] for key in held})
    present = part.model.graph.initializers
    for value in graph.model.graph.initializers.values():  # counts of normalisation, and what no node reads
        if parameter_key(value) in held and value.name not in present:
            copy = ir.Value(
                name=value.name, type=value.type, shape=value.shape, const_value=value.const_value
            )
            copy.metadata_props.update(value.metadata_props)
            part.model.graph.register_initializer(copy)
    return replace(
        part, notes=graph.notes, unread={n: array for n, array in graph.unread.items() if n in present}
    )


class _Planner:
    """Gives each node a stage."""

    def __init__(self, plan: PartitionPlan, cuts: Iterable[LayerCut], wanted: Sequence[str]) -> None:
        self._plan, self._wanted, self._graph = plan, wanted, plan.graph
        layers = {layer.name: layer.key for layer in self._graph.layers.values()}
        self._cuts: dict[str, LayerCut] = {}
        for cut in cuts:
            cut.check(plan.num_workers)
            if cut.location is None and cut.is_by_layer:
                how = "feature" if cut.partition_dim == 1 else "image"
                raise UsageError(
                    f"{_at(cut)}layer {cut.name!r} is cut by {how}, and micro-batches pass through whole "
                    "layers; give it a location, or leave micro_batches out"
                )
            if cut.location is not None and cut.name in layers:
                self._cuts[layers[cut.name]] = cut
        self._inputs = set(self._graph.inputs)
        self._stages: dict[ir.Node, int] = {}
        self._computed: dict[ir.Value, ir.Node] = {}
        for node in self._graph.nodes:
            if any(value in self._inputs or value in self._computed for value in reads(node)):
                self._computed.update(dict.fromkeys(node.outputs, node))

    def planned(self) -> PartitionPlan:
        """Return the plan."""
        nodes = [node for node in self._graph.nodes if self._is_computed(node)]
        automatic = {} if self._cuts else self._balanced(nodes)
        for node in nodes:
            before = [self._stages[maker] for maker in self._makers(node) if maker in self._stages]
            stage = automatic.get(node, self._wanted_stage(node, before))
            if stage is not None:
                self._stages[node] = stage
        for node in reversed(nodes):  # what reads inputs of the net alone belongs to those who read it
            if node not in self._stages:
                users = [
                    self._stages[user]
                    for made in node.outputs
                    for user in made.consumers()
                    if user in self._stages
                ]
                self._stages[node] = min(users, default=0)
        self._require_all_stages()
        self._enter(nodes)
        return self._plan

    def _is_computed(self, node: ir.Node) -> bool:
        return any(made in self._computed for made in node.outputs)

    def _makers(self, node: ir.Node) -> list[ir.Node]:
        return [self._computed[value] for value in reads(node) if value in self._computed]

    def _wanted_stage(self, node: ir.Node, before: Sequence[int]) -> int | None:
        cut = next((self._cuts[key] for key in layer_keys(node) if key in self._cuts), None)
        latest = max(before, default=None)
        if cut is None:
            return latest
        assert cut.location is not None
        if latest is not None and latest > cut.location:
            raise UsageError(
                f"{_at(cut)}layer {cut.name!r} lives on worker {cut.location}, and reads what worker "
                f"{latest} makes; the stages of a pipeline follow one another: give it location {latest} or "
                "more, or leave micro_batches out"
            )
        return cut.location

    def _require_all_stages(self) -> None:
        plan = self._plan
        empty = sorted(set(range(plan.num_workers)) - set(self._stages.values()))
        if empty:
            first = next(iter(self._cuts.values()), None)
            raise UsageError(
                f"{_at(first) if first else ''}no layer of {self._graph.name!r} lives on worker {empty[0]}, "
                f"and {plan.num_workers} workers are {plan.num_workers} stages of the pipeline; add "
                f"`layer {{ name: ... location: {empty[0]} }}`, or take fewer workers"
            )

    def _enter(self, nodes: Sequence[ir.Node]) -> None:
        plan, graph = self._plan, self._graph
        for value in [*graph.model.graph.initializers.values()]:
            plan.shardings[value.name or ""] = CONSTANT
        for value in graph.inputs:
            plan.shardings[value.name or ""] = BATCH
        computed = set(nodes)
        for node in graph.nodes:
            sharding = on_worker(self._stages[node]) if node in computed else CONSTANT
            plan.nodes.append(NodePlan(sharding))
            for made in node.outputs:
                plan.shardings[made.name or ""] = sharding
            if self._is_trained(node):
                plan.trained.update(made.name or "" for made in node.outputs)
            if node in computed:
                for value in reads(node):
                    self._connect(node, value)
                self._hold(node, self._stages[node])
        for key in graph.parameters:
            plan.holdings.setdefault(key, Holding(on_worker(0)))

    def _connect(self, node: ir.Node, value: ir.Value) -> None:
        plan, name = self._plan, value.name or ""
        before, after = plan.shardings[name], on_worker(self._stages[node])
        if before.kind != "worker" or before == after or (name, after) in plan.edges:
            return
        if not _can_cross(value):
            raise UnsupportedError(
                f"{name!r} goes from stage {before.worker} to {after.worker} of the pipeline, and is not "
                "known to be a row of a known size for each sample; begin the stage at another layer, or "
                "give the sizes of the inputs",
                place=self._graph.place_of(node),
            )
        elements = plan.num_rows * prod(size or 0 for size in (known_shape(value) or ())[1:])
        plan.edges[name, after] = Edge(name, "Bridge", before, after, elements)

    def _hold(self, node: ir.Node, stage: int) -> None:
        """Note that a stage holds what a node reads, also through nodes that read stored arrays alone."""
        waiting, seen = [node], {node}
        while waiting:
            own = waiting.pop()
            for value in reads(own):
                maker = value.producer()
                if maker is not None and value not in self._computed and maker not in seen:
                    seen.add(maker)
                    waiting.append(maker)
                key = parameter_key(value)
                if key is not None and key in self._graph.parameters:
                    self._hold_one(node, key, stage)
        if node.op_type == "BatchNormalization" and (count := statistics_of(node).count) is not None:
            self._hold_one(node, count, stage)

    def _hold_one(self, node: ir.Node, key: str, stage: int) -> None:
        holding = self._plan.holdings.setdefault(key, Holding(on_worker(stage)))
        if holding.sharding.worker != stage:
            raise UnsupportedError(
                f"the parameter {key!r} belongs to layers on worker {holding.sharding.worker} and on worker "
                f"{stage}; a pipeline needs them in one stage",
                place=self._graph.place_of(node),
            )

    def _is_trained(self, node: ir.Node) -> bool:
        parameters = self._graph.parameters
        for value in reads(node):
            parameter = parameters.get(parameter_key(value) or "")
            if value.name in self._plan.trained or (parameter is not None and parameter.trainable):
                return True
        return False

    def _balanced(self, nodes: Sequence[ir.Node]) -> dict[ir.Node, int]:
        """Return the stages of nodes, cut where the most expensive stage is the cheapest."""
        places, count = self._places(nodes), self._plan.num_workers
        if len(places) < count - 1:
            most = len(places) + 1
            raise UsageError(
                f"{self._graph.name}: {count} workers are {count} stages of a pipeline, and the net can be "
                f"cut into {most} at most; take {most} workers or fewer"
            )
        sums = [0, *accumulate(map(_cost, nodes))]
        bounds = [*places, len(nodes)]
        # best[k]: the least cost of the dearest of so many stages that end at bound k, and where they begin
        best: list[tuple[int, tuple[int, ...]]] = [(sums[bound], (bound,)) for bound in bounds]
        for stages in range(2, count + 1):
            best = [
                min(
                    (max(best[k][0], sums[bound] - sums[bounds[k]]), (*best[k][1], bound))
                    for k in range(stages - 2, end)
                )
                if end >= stages - 1
                else (sums[-1] + 1, ())
                for end, bound in enumerate(bounds)
            ]
        ends = best[-1][1]
        return {node: sum(end <= index for end in ends) for index, node in enumerate(nodes)}

    def _places(self, nodes: Sequence[ir.Node]) -> list[int]:
        """Return the numbers of the nodes before which a net can be cut: where a layer begins."""
        order = {node: index for index, node in enumerate(nodes)}
        tied: dict[str, list[int]] = {}
        for index, node in enumerate(nodes):
            for key in [*layer_keys(node)[:1], *filter(None, map(parameter_key, reads(node)))]:
                tied.setdefault(key, []).append(index)
        forbidden = {
            place for numbers in tied.values() for place in range(min(numbers) + 1, max(numbers) + 1)
        }
        for index, node in enumerate(nodes):
            last = max(
                (
                    order[user]
                    for made in node.outputs
                    if not _can_cross(made)
                    for user in made.consumers()
                    if user in order
                ),
                default=index,
            )
            forbidden.update(range(index + 1, last + 1))
        costs = [0, *accumulate(map(_cost, nodes))]
        return [
            place
            for place in range(1, len(nodes))
            if place not in forbidden and costs[place] and costs[place] < costs[-1]
        ]


def _can_cross(value: ir.Value) -> bool:
    sizes = known_shape(value)
    return sizes is not None and None not in sizes[1:] and has_rows(value)


def _cost(node: ir.Node) -> int:
    """Return what a node costs: its multiply-adds, and for each number that it gives a few more."""
    cost = node_cost(node)
    return cost.multiply_adds + cost.activation_bytes


def _at(cut: LayerCut) -> str:
    return f"{cut.place}: " if cut.place else ""
