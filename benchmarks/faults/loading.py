"""Nets as Netweave reads them, with their weights and without."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import onnx
import torch

import netweave
from benchmarks.faults import torch_nets
from benchmarks.faults.bare import bare, weights_of
from benchmarks.source_module import source_module
from netweave.graph import with_arrays
from netweave.graph.parameters import drawn

if TYPE_CHECKING:
    from benchmarks.faults.model import Net

KEEP_SIZES = frozenset({"onnx", "darknet"})
"""Formats whose files say how large the input is."""


def load(place: Path, net: Net) -> netweave.Graph:
    """Load a net by its files; a PyTorch one as a module in memory, since that starts no process."""
    if net.format == "pytorch":
        return netweave.load(torch_nets.module(place), input_shapes=_sizes(net, batch=2))
    return _read(place, net)


def load_bare(place: Path, net: Net, whole: netweave.Graph, *, seed: int = 0) -> netweave.Graph:
    """Load a net without its weights.

    Args:
        place: The folder of the net; what is written goes to ``bare`` below it.
        net: The net with its weights.
        whole: The same, loaded: tracing a PyTorch module takes longer than all else, and is done once.
        seed: For the first values of a PyTorch module and of an ONNX net: whoever made the other net drew
            others.
    """
    left, folder = bare(net), place / "bare"
    left.write(folder)
    if left.format == "pytorch":
        return _constructed(folder, whole, seed)
    return _drawn(folder, seed) if left.format == "onnx" else _read(folder, left)


def _read(place: Path, net: Net) -> netweave.Graph:
    files = list(net.files)
    shapes = {} if net.format in KEEP_SIZES else _sizes(net, batch=1)
    weights = place / files[1] if len(files) > 1 else None
    return netweave.load(place / files[0], weights, input_shapes=shapes)


def _sizes(net: Net, *, batch: int) -> dict[str, tuple[int, ...]]:
    return {name: (batch, *shape) for name, shape in net.inputs.items()}


def _constructed(folder: Path, whole: netweave.Graph, seed: int) -> netweave.Graph:
    """Return a module as it is before weights are loaded, marked as the reader of a file marks it."""
    torch.manual_seed(seed)
    first = source_module(folder / "model.py").Net().state_dict()
    graph = with_arrays(whole, {key: first[key].numpy() for key in whole.parameters})
    graph.parameters = {key: replace(entry, initial=True) for key, entry in graph.parameters.items()}
    return graph


def _drawn(folder: Path, seed: int) -> netweave.Graph:
    """Load an ONNX net as ``netweave convert --random-weights`` writes one that came without weights."""
    graph = netweave.load(folder / "net.onnx")
    names = weights_of(onnx.load(folder / "net.onnx"))
    stored = {key: entry for key, entry in graph.parameters.items() if key in names}
    arrays = {key: drawn(f"{seed}/{key}", x.shape, x.role).numpy() for key, x in stored.items()}
    graph = with_arrays(graph, arrays)
    graph.parameters |= {key: replace(entry, loaded=False) for key, entry in stored.items()}
    written = folder / "drawn.onnx"
    netweave.save(graph, written, random_weights=True)
    return netweave.load(written)
