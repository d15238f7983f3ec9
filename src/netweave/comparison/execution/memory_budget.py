"""Slices of nets within a memory budget."""

from __future__ import annotations

import os
import re
import resource
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.comparison.execution.draws import draw_array
from netweave.comparison.execution.input_domains import domain_of
from netweave.errors import RunError, ShapeError, UsageError
from netweave.graph import BATCH, DOMAIN, infer_shapes, known_shape
from netweave.graph.costs import num_bytes
from netweave.graph.graph import needed_nodes, reads
from netweave.graph.operators import effects_of
from netweave.graph.passes.branches import absorb_crops
from netweave.graph.passes.scaffolding import has_scaffolding, see_through
from netweave.graph.passes.windows import explicit
from netweave.graph.summary import bytes_text
from netweave.runtime.backends import prepare

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from netweave.comparison.execution.input_domains import Domain
    from netweave.graph import Graph


USUAL_BYTES = 2_000_000_000
"""What a comparison takes at most unless it is allowed more: values beyond it are computed again instead.

More would hardly make it faster, since most values are looked up again soon or never.
"""

LEAST_BYTES = 1_000_000_000
"""Without a limit of the caller's, values may take this much however large the weights are."""

RESERVE_BYTES = 60_000_000
"""Taken by sessions of the runtime, by what they compute with, and by what is found out about the nets."""


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """The memory that a comparison may use.

    Of what is left for values, a half holds tensors of both nets, two thirds where nothing was promised: what
    does not fit is computed again. A quarter of that is what one slice of a net makes, and what the tests of
    layers hold besides. The rest is for what is made of single tensors.

    Attributes:
        total_bytes: What the process may take.
        taken_bytes: What it takes without any values: what was read, and what is still to be read.
        is_promised: Whether the caller asked for it, so that what does not fit is an error.
    """

    total_bytes: int
    taken_bytes: int
    is_promised: bool

    @classmethod
    def of(cls, memory: int | None, *nets: Graph) -> MemoryBudget:
        """Return the budget for some nets.

        Args:
            memory: Bytes that the process may take; None for half of what is free, if that much is useful.
            nets: The nets, read.
        """
        taken = process_bytes() + RESERVE_BYTES + sum(unread_bytes(net) for net in nets)
        if memory is not None:
            return cls(memory, taken, is_promised=True)
        free = free_bytes() // 2
        return cls(taken + min(free, max(USUAL_BYTES - taken, LEAST_BYTES)), taken, is_promised=False)

    @property
    def value_bytes(self) -> int:
        """Bytes of the tensors of both nets that may be held at once."""
        left = self.total_bytes - self.taken_bytes
        return max(left // 2 if self.is_promised else left * 2 // 3, 1)

    def check(self, *, node: str, node_bytes: int, tensor_bytes: int) -> None:
        """Check that a node can be run within the budget, if that was promised.

        Args:
            node: Where the node stands.
            node_bytes: What it reads and makes.
            tensor_bytes: The largest tensor of these: A's, B's, and what tells them apart are there at once.

        Raises:
            UsageError: It cannot.
        """
        needed = self.taken_bytes + max(2 * node_bytes, 6 * tensor_bytes)
        if self.is_promised and needed > self.total_bytes:
            raise UsageError(
                f"{bytes_text(self.total_bytes)} of memory are too little for these nets: they take "
                f"{bytes_text(self.taken_bytes)} with their weights, and {node}, which reads and makes "
                f"{bytes_text(node_bytes)}, needs {bytes_text(needed - self.taken_bytes)} more; allow "
                f"{bytes_text(_rounded_up(needed))} (--memory), or compare at smaller sizes (--input-shape)"
            )


def unread_bytes(graph: Graph) -> int:
    """Return the bytes of the stored arrays of a net that are read, or computed, when they are looked at."""
    tensors = {id(value.const_value): value.const_value for value in graph.model.graph.initializers.values()}
    unread = (ir.LazyTensor, ir.ExternalTensor)
    return sum(tensor.nbytes for tensor in tensors.values() if isinstance(tensor, unread))


def process_bytes() -> int:
    """Return what this process takes of the memory; the most that it took where that is not known."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
    return pages * os.sysconf("SC_PAGE_SIZE")


def free_bytes() -> int:
    """Return the memory that is free: of the machine, or of the control group that the process is in."""
    free = [found for found in (_free_of_machine(), _free_of_group()) if found is not None]
    return min(free, default=2 * USUAL_BYTES)


def _free_of_machine() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        (kilobytes,) = (line.split()[1] for line in lines if line.startswith("MemAvailable:"))
        return int(kilobytes) * 1024
    except (OSError, ValueError):
        return None


def _free_of_group(mount: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Return what the control group (cgroups v2) may still take; None if it has no limit."""
    try:
        limit, current = ((mount / f"memory.{name}").read_text().strip() for name in ("max", "current"))
        return max(int(limit) - int(current), 0)
    except (OSError, ValueError):
        return None


def _rounded_up(num_bytes: int, digits: int = 2) -> int:
    """Return a number of bytes with a few digits, not less.

    >>> _rounded_up(1_234_567)
    1300000
    """
    unit: int = 10 ** max(len(str(num_bytes)) - digits, 0)
    return -(-num_bytes // unit) * unit


@dataclass(frozen=True, slots=True)
class NetSlice:
    """Some consecutive nodes of a net.

    Attributes:
        nodes: The nodes.
        read: The values that they read and do not make, but for initializers.
        made: The values to return: those wanted, and those that later slices read.
        boundary: Names of the latter.
        num_bytes: Estimate of the bytes of all values that they make.
    """

    nodes: tuple[ir.Node, ...]
    read: tuple[ir.Value, ...]
    made: tuple[ir.Value, ...]
    boundary: frozenset[str]
    num_bytes: int

    @property
    def inputs(self) -> list[str]:
        """Names of the values that they read."""
        return [str(value.name) for value in self.read]

    @property
    def outputs(self) -> list[str]:
        """Names of the values to return."""
        return [str(value.name) for value in self.made]


def cut_net(
    graph: Graph, wanted: Mapping[str, ir.Value], *, batch: int, max_bytes: int | None
) -> list[NetSlice]:
    """Cut a net into slices, in topological order; into one if it fits, or cannot be cut.

    A slice of one node may be larger. A net with random operators is never cut: computed again, they would
    give other values.

    Args:
        graph: The net, with its shapes inferred.
        wanted: The values to compute, by name.
        batch: What the open batch is.
        max_bytes: Most bytes of the values of a slice; None for any number.
    """
    needed = needed_nodes(wanted.values())
    nodes = [node for node in graph.nodes if node in needed]
    sizes = node_bytes(nodes, batch)
    parts = [nodes]
    if max_bytes is not None and sum(sizes) > max_bytes and _can_be_cut(nodes):
        parts = _parts(nodes, sizes, max_bytes)
    bytes_of = dict(zip(nodes, sizes, strict=True))
    return _bounded(parts, set(wanted.values()), bytes_of)


def check_budget(graph: Graph, wanted: Mapping[str, ir.Value], *, batch: int, budget: MemoryBudget) -> None:
    """Check, before a net is run, that each of its nodes can be run within a budget.

    Args:
        graph: The net, with its shapes inferred.
        wanted: The values to compute, by name.
        batch: What the open batch is.
        budget: The budget.

    Raises:
        UsageError: The largest node does not fit; of a net that cannot be cut, all its nodes.
    """
    needed = needed_nodes(wanted.values())
    nodes = [node for node in graph.nodes if node in needed]
    if not budget.is_promised or not nodes:
        return
    made = node_bytes(nodes, batch)
    read = [sum(num_bytes(value, batch) for value in reads(node)) for node in nodes]
    largest = max(range(len(nodes)), key=lambda index: made[index] + read[index])
    tensors = [num_bytes(value, batch) for node in nodes for value in node.outputs]
    budget.check(
        node=graph.place_of(nodes[largest]),
        node_bytes=made[largest] + read[largest] if _can_be_cut(nodes) else sum(made),
        tensor_bytes=max(tensors, default=0),
    )


def node_bytes(nodes: Sequence[ir.Node], batch: int) -> list[int]:
    """Return what each node makes, in bytes; of unknown size, as much as the largest value that it reads."""
    known: dict[ir.Value, int] = {}
    sizes = []
    for node in nodes:
        largest = max((known.get(value, 0) for value in reads(node)), default=0)
        for value in node.outputs:
            known[value] = num_bytes(value, batch) or largest
        sizes.append(sum(known[value] for value in node.outputs if value.name))
    return sizes


def _can_be_cut(nodes: Sequence[ir.Node]) -> bool:
    """Return whether every value can be handed from one slice to the next, and comes out the same again."""
    values = [value for node in nodes for value in node.outputs if value.name]
    return all(isinstance(value.type, ir.TensorType) for value in values) and not any(map(effects_of, nodes))


def _parts(nodes: Sequence[ir.Node], sizes: Sequence[int], max_bytes: int) -> list[list[ir.Node]]:
    parts: list[list[ir.Node]] = []
    filled = max_bytes
    for node, size in zip(nodes, sizes, strict=True):
        if not parts or filled + size > max_bytes:
            parts.append([])
            filled = 0
        parts[-1].append(node)
        filled += size
    return parts


def _bounded(
    parts: Sequence[Sequence[ir.Node]], wanted: set[ir.Value], bytes_of: Mapping[ir.Node, int]
) -> list[NetSlice]:
    slices: list[NetSlice] = []
    read_later: set[ir.Value] = set()
    for nodes in reversed(parts):
        outputs = [value for node in nodes for value in node.outputs]
        inside = set(outputs)
        read = dict.fromkeys(value for node in nodes for value in reads(node))
        outside = [v for v in read if v not in inside and not v.is_initializer()]
        slices.append(
            NetSlice(
                nodes=tuple(nodes),
                read=tuple(outside),
                made=tuple(v for v in outputs if v in wanted or v in read_later),
                boundary=frozenset(str(v.name) for v in outputs if v in read_later),
                num_bytes=sum(bytes_of[node] for node in nodes),
            )
        )
        read_later.update(outside)
    return slices[::-1]


NUM_SAMPLES = 3
"""Samples of a probe: noise, a smooth positive image, and noise of the size of pixels."""

OPEN_SIZE = 33
"""Stands for a spatial size that neither net says; odd, so that rounding rules show."""


@dataclass(frozen=True, slots=True)
class Probe:
    """Inputs of one net.

    Attributes:
        inputs: Arrays by input name, batch first.
        text: The sizes in words.
    """

    inputs: Mapping[str, np.ndarray]
    text: str


def base_sizes(graph: Graph) -> dict[str, tuple[int | None, ...]]:
    """Return the input sizes of a net as declared, None where it says nothing and for an open batch."""
    base: dict[str, tuple[int | None, ...]] = {}
    for value in graph.inputs:
        name = str(value.name)
        declared = graph.declared.get(name)
        sizes = tuple(declared) if declared is not None else known_shape(value) or ()
        base[name] = (None, *sizes[1:]) if has_open_batch(value) else sizes
    return base


def has_open_batch(value: ir.Value) -> bool:
    """Return whether the first size of an input may be any."""
    return value.shape is not None and len(value.shape) > 0 and not isinstance(value.shape[0], int)


def resized(graph: Graph, sizes: Mapping[str, Sequence[int]]) -> Graph | None:
    """Return a graph at other input sizes, the batch left open; None if they do not fit.

    It is a copy, but for a graph that is at these sizes already: that one is returned as it is.
    """
    if has_sizes(graph, sizes):
        return graph
    copy = graph.clone()
    return copy if resize(copy, sizes) else None


def resize(graph: Graph, sizes: Mapping[str, Sequence[int]]) -> bool:
    """Change a graph in place to other input sizes, the batch left open; False if they do not fit.

    A graph that they do not fit is half changed then, and of no more use.
    """
    if any(v.shape is not None and len(v.shape) != len(sizes[str(v.name)]) for v in graph.inputs):
        return False
    shapes = _shapes(graph, sizes)
    batched = _batched_outputs(graph)
    is_plain = not has_rules(graph) and not has_scaffolding(graph)
    try:
        infer_shapes(graph, shapes)
        if not is_plain:
            explicit.edit(graph)
            if has_scaffolding(graph):
                see_through.edit(graph)
        absorb_crops.edit(graph)
    except ShapeError:
        return False
    # a Reshape whose first size is -1 may take what is left over for more examples
    return all(_is_batched(value) is not False for value in graph.outputs if value.name in batched)


def _batched_outputs(graph: Graph) -> set[str | None]:
    return {value.name for value in graph.outputs if _is_batched(value)}


def _is_batched(value: ir.Value) -> bool | None:
    """Return whether the first size of a value is that of the batch; None if it is not known."""
    first = value.shape[0] if value.shape is not None and len(value.shape) else None
    if first is None or isinstance(first, int) or first.value is None:
        return None
    return True if first.value == BATCH else False if BATCH in re.split(r"\W+", first.value) else None


def _shapes(graph: Graph, sizes: Mapping[str, Sequence[int]]) -> dict[str, list[int | str]]:
    """Return the shapes of a graph's inputs at some sizes, the batch left open where it is open."""
    shapes: dict[str, list[int | str]] = {}
    for value in graph.inputs:
        given = list(sizes[str(value.name)])
        shapes[str(value.name)] = [BATCH, *given[1:]] if has_open_batch(value) and given else [*given]
    return shapes


def has_sizes(graph: Graph, sizes: Mapping[str, Sequence[int]]) -> bool:
    """Return whether a graph has these input sizes already, so that ``resize`` changes nothing."""
    shapes = _shapes(graph, sizes)
    if any(
        value.shape is None or list(value.shape.dims) != shapes[str(value.name)] for value in graph.inputs
    ):
        return False
    if any(node.op_type == "Slice" or any(v.shape is None for v in node.outputs) for node in graph.nodes):
        return False  # a slice may be padding (``absorb_crops``)
    return not has_rules(graph) and not has_scaffolding(graph)


def has_rules(graph: Graph) -> bool:
    """Return whether some node has a rule that becomes numbers only with the input's size."""
    for node in graph.nodes:
        padding = node.attributes.get("auto_pad")
        if node.domain == DOMAIN or "output_shape" in node.attributes:
            return True
        if padding is not None and padding.as_string() not in {"NOTSET", "VALID"}:
            return True
    return False


def draw(
    graph: Graph,
    sizes: Mapping[str, Sequence[int]],
    *,
    seed: int,
    domains: Mapping[str, Domain] | None = None,
    scale: float = 1.0,
) -> Probe:
    """Draw the inputs of a net.

    Args:
        graph: The net.
        sizes: Input sizes by name, the batch among them.
        seed: Seed of the draw.
        domains: Values that the inputs can take, by name; None for what this net alone says of them.
        scale: Factor on the usual size of floating-point inputs.
    """
    generator = np.random.default_rng(seed)
    inputs = {}
    for value in graph.inputs:
        name = str(value.name)
        domain = domain_of(value) if domains is None else domains[name]
        dtype = value.dtype.numpy() if value.dtype is not None else np.dtype(np.float32)
        inputs[name] = draw_array(domain, dtype, tuple(sizes[name]), generator, scale=scale)
    return given(inputs)


def given(inputs: Mapping[str, np.ndarray]) -> Probe:
    """Return a probe of the user's own inputs."""
    return Probe(inputs, ", ".join(f"{name} {'x'.join(map(str, x.shape))}" for name, x in inputs.items()))


def check_finite(inputs: Mapping[str, np.ndarray]) -> None:
    """Refuse inputs with values that are no numbers: on them all nets agree.

    Raises:
        UsageError: An input holds NaN or infinity.
    """
    for name, x in inputs.items():
        if x.dtype.kind == "f" and not np.isfinite(x).all():
            count = int(np.count_nonzero(~np.isfinite(x)))
            raise UsageError(
                f"the probe's {name!r} contains {count:,} values that are NaN or infinite, expected finite "
                "ones"
            )


def inputs_of(graph: Graph, probe: Probe) -> dict[str, np.ndarray]:
    """Return the inputs of a net from a probe.

    Raises:
        RunError: One is missing.
    """
    given = {name: np.asarray(x) for name, x in probe.inputs.items()}
    missing = [str(value.name) for value in graph.inputs if str(value.name) not in given]
    if missing:
        raise RunError(f"net {graph.name!r}: the probe has no arrays for its inputs {', '.join(missing)}")
    return given


def run_tapped(graph: Graph, probe: Probe, taps: Sequence[str]) -> dict[str, np.ndarray]:
    """Run a net and return its outputs and taps by name, the inputs among them.

    Raises:
        RunError: The net cannot be run.
    """
    given = inputs_of(graph, probe)
    computed = prepare(graph, taps=[name for name in taps if name not in given]).run(given)
    return {**given, **computed}
