"""The graph that one worker of a partitioned net computes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from netweave.graph.attributes import attributes_of, make_attributes
from netweave.graph.checks import known_shape
from netweave.graph.graph import Graph
from netweave.graph.opset import DOMAIN
from netweave.graph.parameters import LAYOUT_PROP, parameter_key, parameter_layout
from netweave.graph.passes.partition.plan import NodePlan, PartitionPlan, cut_steps
from netweave.graph.passes.partition.rules import is_stored
from netweave.graph.passes.partition.shardings import BATCH, CONSTANT, Range, Ranges, Sharding, length
from netweave.graph.passes.rewriting import Rewriter, drop_initializers, unused_initializers

PART_PROP = "netweave.part"
"""Metadata key of the channels and places that a node computes for the whole batch, as JSON."""


@dataclass(frozen=True, slots=True)
class Part:
    """The part that a node computes of a value, of which this worker has the whole batch.

    Attributes:
        channels: The channels.
        num_channels: How many there are of all workers together.
        places: The rows and columns, where the image is cut.
        sizes: How many there are of all workers together.
    """

    channels: Ranges
    num_channels: int
    places: Ranges = ()
    sizes: tuple[int, ...] = ()


def part_of(node: ir.Node) -> Part | None:
    """Return what a node computes for the whole batch; None where this worker has its rows of a batch."""
    text = node.metadata_props.get(PART_PROP)
    if text is None:
        return None
    content = json.loads(text)
    channels, places = (tuple((a, b) for a, b in content[name]) for name in ("channels", "places"))
    return Part(channels, content["of"], places, tuple(content["sizes"]))


def cut_array(array: np.ndarray, axis: int, ranges: Ranges) -> np.ndarray:
    """Return the part of an array that lies in some ranges of an axis."""
    before = (slice(None),) * axis
    return np.concatenate([array[(*before, slice(a, b))] for a, b in ranges], axis)


def worker_graph(plan: PartitionPlan, worker: int, *, wanted: Sequence[str] = ()) -> Graph:
    """Return the graph that a worker computes: its parts of layers, and connections between them.

    Inputs and outputs are those of the whole net; the worker is given its rows of a batch and gives its rows.
    All workers compute all connections, in the same order.

    Args:
        plan: The plan.
        worker: The number of the worker.
        wanted: Names of values that it gives besides the net's outputs; the plan knows them.
    """
    return _Writer(plan, worker).write(wanted)


class _Writer:
    """Changes a copy of the whole graph to that of a worker."""

    def __init__(self, plan: PartitionPlan, worker: int) -> None:
        self._plan, self._worker = plan, worker
        self._graph = plan.graph.clone()
        self._rewriter = Rewriter(self._graph)
        self._whole = plan.graph.values()
        self._made: dict[tuple[str, Sharding], ir.Value] = {}
        self._stored: dict[tuple[str, int, Ranges], ir.Value] = {}
        self._tokens: dict[str, tuple[ir.Value, ...]] = {}
        self._absent: list[ir.Node] = []
        self._idle = unused_initializers(self._graph)

    def write(self, wanted: Sequence[str]) -> Graph:
        graph, plan = self._graph, self._plan
        for node, done in zip(list(graph.nodes), plan.nodes, strict=True):
            for index, sharding in done.inputs.items():
                value = node.inputs[index]
                assert value is not None
                if plan.shardings[value.name or ""] != sharding:
                    node.replace_input_with(index, self._connection(value.name or "", sharding, node))
            if done.sharding.kind == "worker":
                tokens = self._tokens_into(node, done)
                for made in node.outputs:
                    self._tokens[made.name or ""] = tokens
                if done.sharding.worker != self._worker:
                    self._absent.append(node)
            self._write_node(node, done)
        self._give(list(dict.fromkeys([*(value.name or "" for value in graph.outputs), *wanted])))
        self._drop_absent()
        self._cut_parameters()
        graph.notes = (*graph.notes, *plan.notes)
        return graph

    def _tokens_into(self, node: ir.Node, done: NodePlan) -> tuple[ir.Value, ...]:
        """Return the connections that come into the layers of another worker ahead of a node."""
        tokens: dict[ir.Value, None] = {}
        for index in done.inputs:
            value = node.inputs[index]
            assert value is not None
            tokens.update(dict.fromkeys(self._tokens.get(value.name or "", (value,))))
        return tuple(tokens)

    def _connection(self, name: str, sharding: Sharding, before: ir.Node | None) -> ir.Value:
        """Return a value in another sharding; the connection stands before the first node that needs it."""
        if (name, sharding) in self._made:
            return self._made[name, sharding]
        plan, whole = self._plan, self._whole[name]
        source, target = plan.boxes(whole, plan.shardings[name]), plan.boxes(whole, sharding)
        edge = plan.edges[name, sharding]
        is_elsewhere = plan.shardings[name].kind == "worker" and plan.shardings[name].worker != self._worker
        own = None if is_elsewhere else self._graph.find([name])[name]
        attributes = {
            "worker": self._worker,
            "source": source.to_text(),
            "target": target.to_text(),
            "rank": len(known_shape(whole) or ()),
            "trained": int(name in plan.trained),
        }
        inputs = [own, *self._tokens.get(name, ())]
        put = self._rewriter.append if before is None else self._rewriter.insert
        beside = self._graph.nodes[-1] if before is None else before
        node = put(beside, edge.op_type, inputs, attributes, output=f"{name}/{edge.op_type}", domain=DOMAIN)
        made = node.outputs[0]
        made.type = whole.type
        made.shape = whole.shape.copy() if whole.shape is not None else None
        if made.shape is not None:
            for axis, size in enumerate(target.sizes(self._worker)[1 : len(made.shape)], 1):
                made.shape[axis] = size
        self._made[name, sharding] = made
        return made

    def _write_node(self, node: ir.Node, done: NodePlan) -> None:
        if done.sharding.kind == "worker":
            self._mark(node, None)
        elif done.image is not None:
            places = done.image.places[self._worker]
            self._mark(node, None, places)
            change = done.image.changes[self._worker]
            if change.attributes is not None:
                node.attributes.clear()
                node.attributes.update({made.name: made for made in make_attributes(change.attributes)})
            if change.kept:
                self._trim(node, dict(enumerate(change.kept, 2)))
        elif done.cut is not None:
            self._mark(node, done.cut.channels[self._worker])
            self._cut_node(node, done)

    def _mark(self, node: ir.Node, channels: Ranges | None, places: Ranges = ()) -> None:
        for value in node.outputs:
            dims = known_shape(self._whole[value.name or ""]) if value.name else None
            if not dims or None in dims[1:2]:
                continue
            count = dims[1] if len(dims) > 1 else 1
            part = {
                "channels": channels or ((0, count),),
                "of": count,
                "places": places,
                "sizes": dims[2:] if places else (),
            }
            node.metadata_props.setdefault(PART_PROP, json.dumps(part))
            if channels is not None and value.shape is not None and len(dims) > 1:
                value.shape = value.shape.copy()
                value.shape[1] = length(channels)
            if places and value.shape is not None and len(dims) == len(places) + 2:
                value.shape = value.shape.copy()
                for axis, (start, stop) in enumerate(places, 2):
                    value.shape[axis] = stop - start

    def _cut_node(self, node: ir.Node, done: NodePlan) -> None:
        cut, worker = done.cut, self._worker
        assert cut is not None
        for index, (axis, channels) in cut.stored.items():
            value = node.inputs[index]
            if value is not None and is_stored(value):
                node.replace_input_with(index, self._cut_initializer(value, axis, channels[worker]))
        if cut.form == "grouped":
            source, weight = cut.inputs[0].channels[worker], node.inputs[1]
            assert weight is not None
            assert weight.const_value is not None
            node.attributes.add(ir.AttrInt64("group", length(source) // weight.const_value.shape.numpy()[1]))
        elif cut.form == "flat" and node.op_type != "Flatten":
            flat = self._rewriter.replace([node], "Flatten", [node.inputs[0]], {"axis": 1})
            flat.metadata_props.update(node.metadata_props)
        elif cut.form == "halo":
            ((first, last),), ((low, _),) = cut.channels[worker], cut.inputs[0].channels[worker]
            self._trim(node, {1: (first - low, last - low)})

    def _trim(self, node: ir.Node, kept: Mapping[int, Range]) -> None:
        """Keep a part, by axis, of the only output of a node that computes more than it should."""
        limits = [
            self._rewriter.initializer(ir.Tensor(np.array(numbers)), f"{node.name}/{name}")
            for name, numbers in (
                ("starts", [start for start, _ in kept.values()]),
                ("ends", [stop for _, stop in kept.values()]),
                ("axes", [*kept]),
            )
        ]
        wider = self._rewriter.insert(
            node, node.op_type, list(node.inputs), attributes_of(node), domain=node.domain
        )
        wider.outputs[0].type = node.outputs[0].type
        wider.metadata_props.update(node.metadata_props)
        self._rewriter.replace([node], "Slice", [wider.outputs[0], *limits], {})

    def _cut_initializer(self, value: ir.Value, axis: int, ranges: Ranges) -> ir.Value:
        tensor, name = value.const_value, value.name or ""
        assert tensor is not None
        if (name, axis, ranges) in self._stored:
            return self._stored[name, axis, ranges]
        made = self._rewriter.initializer(ir.Tensor(cut_array(tensor.numpy(), axis, ranges)), name)
        made.metadata_props.update(value.metadata_props)
        key = parameter_key(value)
        if key is not None:
            holding, parameter = self._plan.holdings[key], self._plan.graph.parameters[key]
            steps = cut_steps(parameter.shape, parameter_layout(value), holding.axis, length(ranges))
            assert steps is not None
            if steps[1]:
                made.metadata_props[LAYOUT_PROP] = json.dumps(steps[1])
        self._stored[name, axis, ranges] = made
        return made

    def _give(self, names: Sequence[str]) -> None:
        """Give this worker's rows of values that it has in another sharding, under the same names."""
        outputs = self._graph.model.graph.outputs
        for asked in names:
            name = self._plan.graph.find([asked])[asked].name or ""
            if self._plan.shardings[name] in {BATCH, CONSTANT}:
                continue
            given = self._connection(name, BATCH, None)
            present = self._graph.values().get(name)
            is_output = [index for index, value in enumerate(outputs) if value.name == name]
            if present is not None:
                present.name = self._rewriter.free_name(f"{name}/part")
            given.name = name
            for index in is_output:
                outputs[index] = given

    def _drop_absent(self) -> None:
        """Remove the nodes of layers that live on another worker."""
        for node in reversed(self._absent):
            self._graph.model.graph.remove(node, safe=True)

    def _cut_parameters(self) -> None:
        graph, plan = self._graph, self._plan
        drop_initializers(graph, unused_initializers(graph) - self._idle)
        for key, holding in plan.holdings.items():
            if not holding.has(self._worker):
                del graph.parameters[key]
            elif holding.sharding.kind == "feature":
                whole = graph.parameters[key]
                sizes = list(whole.shape)
                sizes[holding.axis] = length(holding.sharding.channels[self._worker])
                graph.parameters[key] = replace(whole, shape=tuple(sizes))
