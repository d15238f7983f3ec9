"""Probes: the inputs that both nets are run on, and running them with every signal tapped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from netweave.comparison.execution.draws import draw_array
from netweave.comparison.execution.input_domains import domain_of
from netweave.errors import RunError, ShapeError, UsageError
from netweave.graph import BATCH, DOMAIN, infer_shapes, known_shape
from netweave.graph.passes.crops import absorb_crops
from netweave.graph.passes.scaffolding import has_scaffolding, see_through
from netweave.graph.passes.specialise import explicit
from netweave.runtime.backends import prepare

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import onnx_ir as ir

    from netweave.comparison.execution.input_domains import Domain
    from netweave.graph import Graph

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
    return True


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
