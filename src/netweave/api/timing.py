"""How long the layers of a net take, as ``caffe time`` tells it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from netweave.api.arrays import draw_inputs
from netweave.api.nets import load
from netweave.api.testing import load_phases
from netweave.api.training import need_torch
from netweave.graph import Graph, layer_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import onnx_ir as ir

    from netweave.backends.torch.timing import Seconds


@dataclass(frozen=True, slots=True)
class LayerTime:
    """The mean times of one layer, or of several that one kernel computes.

    Attributes:
        name: Of the layer; several with `` + `` between.
        type: As the source has it.
        forward_s: Forward.
        backward_s: Backward; 0 where no gradient goes through.
    """

    name: str
    type: str
    forward_s: float
    backward_s: float


@dataclass(frozen=True, slots=True)
class NetTime:
    """The times of a net.

    Attributes:
        layers: One after the other, each by itself; in the order of the net.
        forward_s: Mean of going forward through the whole net.
        backward_s: Mean of going backward; 0 if only forward was asked for.
        inputs: Sizes of the inputs by name.
        iterations: Passes that the means are of.
    """

    layers: tuple[LayerTime, ...]
    forward_s: float
    backward_s: float
    inputs: Mapping[str, tuple[int, ...]]
    iterations: int


def load_for_timing(
    net: str | Path,
    phase: str = "TRAIN",
    *,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    stages: Sequence[str] = (),
    level: int = 0,
    trust: bool = False,
) -> Graph:
    """Read a net; the sizes of Caffe's data layers are found in the data, where these are at hand.

    Args:
        net: A solver, or files as for ``load``.
        phase: ``TRAIN`` or ``TEST``, for formats that know phases.
        input_shapes: Input sizes by name, where the file does not say or other ones are wanted.
        stages: Stages, for formats that know them.
        level: Level, for formats that know it.
        trust: Let code in the files run without a guard around it.

    Raises:
        SourceError: The files cannot be read, or do not say the sizes.
    """
    said = {"input_shapes": input_shapes, "stages": stages, "level": level}
    if str(net).endswith(".prototxt") and Path(net).is_file():
        phases = load_phases(net, phase, missing_data=True, **said)  # type: ignore[arg-type]
        return next(iter(phases.values())).graph
    return load(net, phase=phase, trust=trust, **said)  # type: ignore[arg-type]


def time_layers(
    net: Graph | str | Path,
    *,
    iterations: int = 10,
    backward: bool = True,
    device: str = "cpu",
    told: Callable[[int, int], None] = lambda done, of: None,
) -> NetTime:
    """Measure how long each layer of a net takes on drawn inputs, and the whole net.

    The net is in training mode if gradients are measured, in test mode otherwise. Data layers are not timed.

    Args:
        net: A net, or files as for ``load_for_timing``.
        iterations: Passes, besides a first one that does not count, >= 1.
        backward: Whether gradients are measured too.
        device: Where to compute, as torch names it.
        told: Told how many passes of how many are done.

    Raises:
        SourceError: The files cannot be read.
        UsageError: Torch is not installed, there is no such device, or a size is not known.
        RunError: A layer cannot be computed.
    """
    need_torch()
    from netweave.backends.torch.timing import measure

    graph = net if isinstance(net, Graph) else load_for_timing(net)
    labels = _labels(graph)
    arrays = {
        name: np.zeros_like(array) if name in labels else array
        for name, array in draw_inputs(graph, 0).items()
    }
    found = measure(graph, arrays, iterations=iterations, backward=backward, device=device, told=told)
    sizes = {name: array.shape for name, array in arrays.items()}
    return NetTime(_by_layer(graph, found.of_node), found.forward_s, found.backward_s, sizes, iterations)


def _labels(graph: Graph) -> set[str]:
    """Return the inputs that losses and metrics take beside predictions: class numbers, of which 0 is one."""
    return {
        value.name or ""
        for value in graph.inputs
        if value.uses() and all(node.domain == "netweave" and index for node, index in value.uses())
    }


def _by_layer(graph: Graph, seconds: Mapping[ir.Node, Seconds]) -> tuple[LayerTime, ...]:
    found: dict[tuple[str, ...], list[float]] = {}
    for node in graph.nodes:
        if node in seconds:
            keys = layer_keys(node) or (node.name or node.op_type,)
            sums = found.setdefault(keys, [0.0, 0.0])
            sums[0] += seconds[node].forward
            sums[1] += seconds[node].backward
    return tuple(
        LayerTime(
            " + ".join(graph.layers[key].name if key in graph.layers else key for key in keys),
            " + ".join(graph.layers[key].type for key in keys if key in graph.layers),
            forward,
            backward,
        )
        for keys, (forward, backward) in found.items()
    )
