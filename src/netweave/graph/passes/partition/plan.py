"""The plan of a net that is cut across workers: who computes what, and what goes from worker to worker."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from math import isqrt, prod

import onnx_ir as ir

from netweave.errors import UnsupportedError, UsageError
from netweave.graph.checks import known_shape
from netweave.graph.graph import Graph, captured, subgraphs
from netweave.graph.layers import layer_keys
from netweave.graph.opset import BATCH as BATCH_SIZE
from netweave.graph.parameters import Step, parameter_key, parameter_layout, statistics_of
from netweave.graph.passes.partition.rules import (
    FeatureCut,
    ImageCut,
    Surroundings,
    feature_cut,
    image_cut,
    is_even,
    is_stored,
    passes_on,
)
from netweave.graph.passes.partition.shardings import (
    BATCH,
    CONNECTIONS,
    CONSTANT,
    Boxes,
    Ranges,
    Sharding,
    by_image,
    length,
    on_worker,
    shares,
)

OF_ALL_SAMPLES = frozenset(
    {
        "ContrastiveLoss", "EuclideanLoss", "HingeLoss", "InfogainLoss", "LinearRegressionOutput",
        "LogisticRegressionOutput", "MAERegressionOutput", "MakeLoss", "MultiBoxLoss", "MultiBoxTarget",
        "MultinomialLogisticLoss", "RegionLoss", "SVMOutput", "SigmoidCrossEntropyLoss", "SmoothL1Loss",
        "SoftmaxOutput", "SoftmaxWithLoss", "YoloLoss",
    }
)  # fmt: skip
"""Operators of the domain ``netweave`` whose gradient looks at the size of the whole batch."""


@dataclass(frozen=True, slots=True)
class LayerCut:
    """The cut of a layer, as the user wants it.

    Attributes:
        name: Of the layer.
        partition_dim: 0 for the batch, 1 for the features, 2 for the rows of the image, 3 for its columns;
            None where it is not said.
        location: The worker that the layer lives on; None for all.
        place: Where that is said, for messages.
        image_grid: Rows and columns of a grid of workers among which the image is cut, such as ``2x2``.
    """

    name: str
    partition_dim: int | None = None
    location: int | None = None
    place: str = ""
    image_grid: str = ""

    @property
    def is_by_layer(self) -> bool:
        """True if the layer is cut in another way than by batch."""
        return self.partition_dim in {1, 2, 3} or self.location is not None or bool(self.image_grid)

    def grid(self, num_workers: int) -> tuple[int, int] | None:
        """Return the grid of workers among which the image is cut; None where it is not."""
        if self.image_grid:
            rows, columns = map(int, self.image_grid.split("x"))
            return rows, columns
        return {2: (num_workers, 1), 3: (1, num_workers)}.get(self.partition_dim or 0)

    def check(self, num_workers: int) -> None:
        """Refuse a dimension or a worker that is not there.

        Raises:
            UsageError: It is not.
        """
        place = f"{self.place}: " if self.place else ""
        if self.partition_dim not in {None, -1, 0, 1, 2, 3}:
            raise UsageError(
                f"{place}partition_dim of layer {self.name!r} is {self.partition_dim}, expected 0 (the "
                "batch), 1 (the features), 2 (the rows of the image) or 3 (its columns)"
            )
        if self.image_grid:
            is_grid = re.fullmatch(r"[1-9]\d*x[1-9]\d*", self.image_grid)
            if not is_grid or prod(map(int, self.image_grid.split("x"))) != num_workers:
                wide = isqrt(num_workers)
                while num_workers % wide:
                    wide -= 1
                raise UsageError(
                    f"{place}image_grid of layer {self.name!r} is {self.image_grid!r}, expected rows x "
                    f"columns of a grid of {num_workers} workers, such as '{num_workers // wide}x{wide}'"
                )
            if self.partition_dim in {1, 2, 3}:
                raise UsageError(
                    f"{place}layer {self.name!r} has image_grid and partition_dim {self.partition_dim}; give "
                    "one of them"
                )
        if self.location is not None and not 0 <= self.location < num_workers:
            raise UsageError(
                f"{place}the location of layer {self.name!r} is {self.location}, and a group has "
                f"{num_workers} worker{'s' * (num_workers > 1)}; take 0 to {num_workers - 1}, or more workers"
            )


@dataclass(frozen=True, slots=True)
class Holding:
    """The part of a stored array that each worker has.

    Attributes:
        sharding: ``constant`` (all of it), by feature, or on one worker.
        axis: The axis of the stored array that is cut.
    """

    sharding: Sharding
    axis: int = 0

    def has(self, worker: int) -> bool:
        """Return whether a worker has any of it."""
        return self.sharding.kind != "worker" or self.sharding.worker == worker

    @property
    def is_shared(self) -> bool:
        """True if all workers have all of it."""
        return self.sharding.kind == "constant"


SHARED = Holding(CONSTANT)


@dataclass(frozen=True, slots=True)
class NodePlan:
    """The cut of one node.

    Attributes:
        sharding: ``constant``, by batch, by feature, by image or on one worker.
        inputs: The sharding that inputs must have, by index.
        cut: How it is cut by feature.
        image: How it is cut by image.
    """

    sharding: Sharding
    inputs: Mapping[int, Sharding] = field(default_factory=dict)
    cut: FeatureCut | None = None
    image: ImageCut | None = None


@dataclass(frozen=True, slots=True)
class Edge:
    """A connection: a value that is needed in another sharding.

    Attributes:
        value: Name of the value.
        op_type: The operator that connects.
        before: The sharding that the value has.
        after: The sharding that is needed.
        elements: Elements that go from one worker to another.
    """

    value: str
    op_type: str
    before: Sharding
    after: Sharding
    elements: int


@dataclass(slots=True)
class PartitionPlan:
    """A net cut across workers.

    Attributes:
        graph: The whole net.
        num_workers: The number of workers.
        num_rows: Samples of the whole batch.
        nodes: The plan of each node, in order.
        shardings: The sharding of each value, by name.
        edges: The connections by value and sharding, in the order in which they are computed.
        holdings: The part of each stored array that workers have, by key.
        trained: Names of the values that depend on a trained parameter.
        notes: What is done in another way than was asked for, one sentence each.
    """

    graph: Graph
    num_workers: int
    num_rows: int
    nodes: list[NodePlan] = field(default_factory=list)
    shardings: dict[str, Sharding] = field(default_factory=dict)
    edges: dict[tuple[str, Sharding], Edge] = field(default_factory=dict)
    holdings: dict[str, Holding] = field(default_factory=dict)
    trained: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)

    def boxes(self, value: ir.Value, sharding: Sharding) -> Boxes:
        """Return what each worker holds of a value in a sharding."""
        dims = [size or 0 for size in (known_shape(value) or ())[1:]]
        return Boxes.of(sharding, [self.num_rows, *(dims or [1])], self.num_workers)

    def elements_of(self, worker: int) -> int:
        """Return the elements of the stored arrays that a worker holds."""
        total = 0
        for key, parameter in self.graph.parameters.items():
            holding = self.holdings.get(key, SHARED)
            if not holding.has(worker):
                continue
            size = parameter.size
            if holding.sharding.kind == "feature":
                size = size // parameter.shape[holding.axis] * length(holding.sharding.channels[worker])
            total += size
        return total


def partition_plan(
    graph: Graph,
    cuts: Iterable[LayerCut],
    *,
    num_workers: int,
    num_rows: int,
    wanted: Sequence[str] = (),
) -> PartitionPlan:
    """Return the plan of a net that is cut across workers.

    Args:
        graph: The training net, or a test net.
        cuts: The layers that are not cut by batch.
        num_workers: The number of workers.
        num_rows: Samples of a whole batch.
        wanted: Names of values that are asked for besides the net's outputs.

    Raises:
        UsageError: There is no such layer or worker.
        UnsupportedError: A layer cannot be cut so.
    """
    planner = _Planner(PartitionPlan(graph, num_workers, num_rows), cuts)
    for node in graph.nodes:
        planner.add(node)
    for value in dict.fromkeys([*graph.outputs, *graph.find(wanted).values()]):
        planner.give(value)
    return planner.plan


class _Planner:
    """Makes a plan node by node."""

    def __init__(self, plan: PartitionPlan, cuts: Iterable[LayerCut]) -> None:
        self.plan = plan
        graph = plan.graph
        self._around = Surroundings(plan.shardings, plan.num_workers)
        layers = {layer.name: layer.key for layer in graph.layers.values()}
        self._cuts: dict[str, LayerCut] = {}
        for cut in cuts:
            cut.check(plan.num_workers)
            if cut.name in layers:
                self._cuts[layers[cut.name]] = cut
        for value in graph.model.graph.initializers.values():
            plan.shardings[value.name or ""] = CONSTANT
        for value in graph.inputs:
            plan.shardings[value.name or ""] = BATCH

    def add(self, node: ir.Node) -> None:
        """Plan the next node."""
        plan, cut = self.plan, self._cut_of(node)
        self._require_rows_inside(node)
        sharding = self._sharding_of(node, cut)
        done: NodePlan | None = None
        if sharding.kind == "feature" and not passes_on(node, self._around):
            done = self._by_feature(node, cut)
        elif sharding.kind == "image":
            done = self._by_image(node, cut)
        elif sharding.kind == "worker":
            self._require_movable(node, cut)
            done = NodePlan(sharding, self._inputs(node, sharding))
        if done is None:
            has_batch = any(plan.shardings[v.name or ""] != CONSTANT for v in _given(node))
            sharding = BATCH if has_batch else CONSTANT
            done = NodePlan(sharding, self._inputs(node, BATCH) if has_batch else {})
        plan.nodes.append(done)
        for index, wanted in done.inputs.items():
            value = node.inputs[index]
            assert value is not None
            self._connect(value, wanted)
        for value in node.outputs:
            plan.shardings[value.name or ""] = done.sharding
        self._hold(node, done)
        if self._is_trained(node):
            plan.trained.update(value.name or "" for value in node.outputs)

    def give(self, value: ir.Value) -> None:
        """Plan that each worker gives its rows of a value."""
        if self.plan.shardings[value.name or ""] != CONSTANT:
            self._connect(value, BATCH)

    def _cut_of(self, node: ir.Node) -> LayerCut | None:
        return next((self._cuts[key] for key in layer_keys(node) if key in self._cuts), None)

    def _sharding_of(self, node: ir.Node, cut: LayerCut | None) -> Sharding:
        if cut is None or all(self.plan.shardings[v.name or ""] == CONSTANT for v in _given(node)):
            return BATCH
        wanted = Sharding("feature") if cut.partition_dim == 1 else BATCH
        if cut.grid(self.plan.num_workers) is not None:
            wanted = Sharding("image")
        if cut.location is not None:
            wanted = on_worker(cut.location)
        one_number = any(value.shape is not None and not len(value.shape) for value in node.outputs)
        if wanted != BATCH and (one_number or (node.domain and node.op_type in OF_ALL_SAMPLES)):
            note = f"layer {cut.name!r} computes a loss or a mean over all samples, which is cut by batch"
            if note not in self.plan.notes:
                self.plan.notes.append(note)
            return BATCH
        return wanted

    def _inputs(self, node: ir.Node, sharding: Sharding) -> dict[int, Sharding]:
        return {
            index: sharding
            for index, value in enumerate(node.inputs)
            if value is not None and self.plan.shardings[value.name or ""] != CONSTANT
        }

    def _by_feature(self, node: ir.Node, cut: LayerCut | None) -> NodePlan:
        assert cut is not None
        self._require_movable(node, cut)
        found = feature_cut(node, self._around)
        if found is None or not is_even(found.channels):
            raise self._error(node, cut, "be cut by feature", f"use partition_dim: 0 for layer {cut.name!r}")
        return NodePlan(Sharding("feature", found.channels), found.inputs, found)

    def _by_image(self, node: ir.Node, cut: LayerCut | None) -> NodePlan:
        assert cut is not None
        grid = cut.grid(self.plan.num_workers)
        assert grid is not None
        self._require_movable(node, cut)
        found = image_cut(node, self._around, grid)
        if isinstance(found, str):
            raise self._error(node, cut, "be cut by image", found)
        return NodePlan(by_image(found.places), found.inputs, image=found)

    def _require_movable(self, node: ir.Node, cut: LayerCut | None) -> None:
        """Refuse to cut a loop, or values whose first axis is not the batch."""
        assert cut is not None
        how = "be cut by image" if cut.grid(self.plan.num_workers) is not None else "be cut by feature"
        how = how if cut.location is None else "live on one worker"
        if next(subgraphs(node), None) is not None:
            raise self._error(node, cut, how, "it is a loop or a branch; cut the layers around it")
        used = (value for value in node.outputs if value.uses() or value.is_graph_output())
        for value in [*_given(node), *used]:
            if self.plan.shardings.get(value.name or "") != CONSTANT and not has_rows(value):
                what = f"the samples are not the first axis of {value.name!r}"
                raise self._error(node, cut, how, f"{what}; use partition_dim: 0 for layer {cut.name!r}")

    def _require_rows_inside(self, node: ir.Node) -> None:
        """Refuse a loop or a branch that reads a value which is not cut by batch."""
        for value in captured(node):
            sharding = self.plan.shardings.get(value.name or "", CONSTANT)
            if sharding not in {BATCH, CONSTANT}:
                raise UnsupportedError(
                    f"{node.op_type} {node.name!r} reads {value.name!r} inside, which is cut by "
                    f"{sharding.kind}; use partition_dim: 0 for the layer that makes it",
                    place=self.plan.graph.place_of(node).partition(": layer ")[0],
                )

    def _error(self, node: ir.Node, cut: LayerCut, how: str, why: str) -> UnsupportedError:
        at = f" among {self.plan.num_workers} workers" if how.startswith("be cut") else ""
        return UnsupportedError(
            f"layer {cut.name!r} ({node.op_type}) cannot {how}{at}: {why}",
            place=cut.place or self.plan.graph.place_of(node).partition(": layer ")[0],
        )

    def _connect(self, value: ir.Value, wanted: Sharding) -> None:
        plan, name = self.plan, value.name or ""
        before = plan.shardings[name]
        if before == wanted or (name, wanted) in plan.edges:
            return
        if known_shape(value) is None or None in (known_shape(value) or ())[1:]:
            raise UnsupportedError(
                f"value {name!r} goes from sharding {before} to {wanted}, and its size is unknown; give the "
                "sizes of the inputs"
            )
        moved = plan.boxes(value, before).moved(plan.boxes(value, wanted))
        op_type = CONNECTIONS[before.kind, wanted.kind]
        plan.edges[name, wanted] = Edge(name, op_type, before, wanted, moved)

    def _hold(self, node: ir.Node, done: NodePlan) -> None:
        for index, value in enumerate(node.inputs):
            key = None if value is None or not is_stored(value) else parameter_key(value)
            if value is None or key is None:
                continue
            holding = SHARED
            if done.sharding.kind == "worker":
                holding = Holding(done.sharding)
            elif done.cut is not None and index in done.cut.stored:
                axis, channels = done.cut.stored[index]
                parameter = self.plan.graph.parameters[key]
                steps = parameter_layout(value)
                axes = [
                    a for a in range(len(parameter.shape)) if last_axis(parameter.shape, steps, a) == axis
                ]
                if not axes:
                    cut = self._cut_of(node)
                    assert cut is not None
                    why = f"the file stores {key!r} in another order"
                    raise self._error(node, cut, "be cut by feature", why)
                holding = Holding(Sharding("feature", channels), axes[0])
            self._hold_one(node, key, holding)
        if node.op_type == "BatchNormalization" and (count := statistics_of(node).count) is not None:
            holding = Holding(done.sharding) if done.sharding.kind == "worker" else SHARED
            self._hold_one(node, count, holding)

    def _hold_one(self, node: ir.Node, key: str, holding: Holding) -> None:
        if self.plan.holdings.setdefault(key, holding) != holding:
            raise UnsupportedError(
                f"the parameter {key!r} belongs to layers that are cut differently; cut them alike",
                place=self.plan.graph.place_of(node),
            )

    def _is_trained(self, node: ir.Node) -> bool:
        parameters = self.plan.graph.parameters
        for value in node.inputs:
            if value is None:
                continue
            parameter = parameters.get(parameter_key(value) or "")
            if value.name in self.plan.trained or (parameter is not None and parameter.trainable):
                return True
        return False


@dataclass(frozen=True, slots=True)
class Placement:
    """The place of a layer: who computes which part of it, and what comes and goes for it.

    Attributes:
        layer: Its name.
        kind: Its type in the source, or its operators.
        sharding: How it is cut.
        received: Elements that come from other workers for a forward pass of the whole batch.
        sent: Elements of it that go to other workers.
    """

    layer: str
    kind: str
    sharding: Sharding
    received: int
    sent: int

    def part_of(self, worker: int, plan: PartitionPlan) -> str:
        """Return what a worker computes, such as ``samples 0 to 3``; nothing if that is none of it."""
        if self.sharding.kind == "worker":
            return "all" if self.sharding.worker == worker else ""
        if self.sharding.kind == "feature":
            text = channels_text(self.sharding.channels[worker])
            return text and f"features {text}"
        if self.sharding.kind == "image":
            return places_text(self.sharding.places[worker])
        text = channels_text((shares(plan.num_rows, plan.num_workers)[worker],))
        return text and f"samples {text}"


def placements(plan: PartitionPlan) -> list[Placement]:
    """Return the places of the layers that depend on the batch, in the order of the graph.

    A value that several layers need in one sharding is moved once, for the first of them.
    """
    order = {id(node): done for node, done in zip(plan.graph.nodes, plan.nodes, strict=True)}
    left, found = dict(plan.edges), []
    for key, nodes in plan.graph.nodes_of().items():
        own = [(node, order[id(node)]) for node in nodes if id(node) in order]
        cut = [done.sharding for _, done in own if done.sharding.kind in {"feature", "image", "worker"}]
        shardings = cut or [done.sharding for _, done in own]
        if not shardings or shardings[-1].kind == "constant":
            continue
        received = 0
        for node, done in own:
            for index, value in enumerate(node.inputs):
                needed = ("" if value is None else value.name or "", done.inputs.get(index, done.sharding))
                received += left.pop(needed).elements if needed in left else 0
        made = {value.name for node, _ in own for value in node.outputs}
        sent = sum(edge.elements for edge in left.values() if edge.value in made)
        layer = plan.graph.layers.get(key)
        kind = layer.type if layer is not None else ", ".join(node.op_type for node, _ in own)
        found.append(Placement(layer.name if layer else key, kind, shardings[-1], received, sent))
    return found


def require_layers(cuts: Iterable[LayerCut], graphs: Iterable[Graph]) -> None:
    """Refuse the cut of a layer that none of some nets has.

    Raises:
        UsageError: There is one; the message has the nearest name.
    """
    names = {layer.name for graph in graphs for layer in graph.layers.values()}
    for cut in cuts:
        if cut.name not in names:
            near = get_close_matches(cut.name, sorted(names), 1, 0)
            nearest = f"; the nearest name is {near[0]!r}" if near else ""
            raise UsageError(
                f"{cut.place + ': ' if cut.place else ''}the net has no layer {cut.name!r}{nearest}"
            )


def _given(node: ir.Node) -> Iterator[ir.Value]:
    return (value for value in node.inputs if value is not None)


def has_rows(value: ir.Value) -> bool:
    """Return whether the first axis of a value counts the samples of the batch."""
    if value.shape is None or not len(value.shape):
        return False
    first = value.shape[0]
    return not isinstance(first, int) and first.value == BATCH_SIZE


def last_axis(shape: Sequence[int], steps: Sequence[Step], axis: int) -> int | None:
    """Return where an axis of a stored array is after the steps of a layout; None if it is no axis there.

    >>> last_axis((6, 2, 5, 5), [("reshape", (6, 50)), ("transpose", (1, 0))], 0)
    1
    """
    found = cut_steps(shape, steps, axis, shape[axis])
    return None if found is None else found[0]


def cut_steps(
    shape: Sequence[int], steps: Sequence[Step], axis: int, size: int
) -> tuple[int, tuple[Step, ...]] | None:
    """Return the steps of a layout for a part of an array, and where its cut axis is after them.

    Args:
        shape: Of the whole array.
        steps: Of the whole array.
        axis: The axis that is cut.
        size: Its size in the part.
    """
    sizes, made = list(shape), []
    for kind, numbers in steps:
        if kind == "ranges":
            return None
        if kind == "transpose":
            axis = numbers.index(axis)
            sizes = [sizes[i] for i in numbers]
            made.append((kind, numbers))
            continue
        before = prod(sizes[:axis])
        axes = [a for a in range(len(numbers)) if prod(numbers[:a]) == before and numbers[a] == sizes[axis]]
        if not axes:
            return None
        axis, sizes = axes[0], list(numbers)
        made.append((kind, tuple(size if a == axis else n for a, n in enumerate(numbers))))
    return axis, tuple(made)


def channels_text(ranges: Ranges) -> str:
    """Return the channels of a worker for people.

    >>> channels_text(((0, 4), (10, 11)))
    '0 to 3, 10'
    """
    return ", ".join(str(a) if b == a + 1 else f"{a} to {b - 1}" for a, b in ranges if a < b)


def places_text(places: Ranges) -> str:
    """Return the part of an image for people.

    >>> places_text(((0, 4), (0, 3)))
    'rows 0 to 3, columns 0 to 2'
    """
    names = zip(("rows", "columns"), places, strict=True)
    return ", ".join(f"{name} {channels_text((one,))}" for name, one in names)
