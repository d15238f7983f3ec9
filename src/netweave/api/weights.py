"""Weights without their net: written for its framework, or transferred to a port."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from netweave import comparison
from netweave.api.nets import load
from netweave.errors import UsageError
from netweave.files.atomic import write_file
from netweave.formats.table import FORMATS
from netweave.graph import Graph

if TYPE_CHECKING:
    from netweave.formats.table import Format


def writes_weights(path: str | Path) -> bool:
    """Return whether ``save_weights`` can write a file of this name."""
    return _format_of(Path(path)) is not None


def save_weights(graph: Graph, path: str | Path, *, random_weights: bool = False) -> None:
    """Write only the weights of a net, for its own framework.

    Args:
        graph: The net.
        path: The file: ``.caffemodel`` or ``.caffemodel.h5`` for Caffe nets, ``.params`` for MXNet nets.
        random_weights: Write random weights if the net has none.

    Raises:
        UsageError: The suffix is unknown, weights are missing, or the net belongs to another framework.
        WriteError: The file cannot be written; the old one is untouched.
    """
    file = Path(path)
    found = _format_of(file)
    if found is None:
        known = ", ".join(f".{suffix}" for row in FORMATS if row.runs.ports for suffix in row.runs.weights)
        raise UsageError(f"cannot write {str(path)!r}: unknown suffix for weights, expected {known}")
    row, suffix = found
    if graph.format != row.name:
        raise UsageError(
            f"{file}: .{suffix} holds weights of {row.name} nets, but {graph.name} is a {graph.format} net; "
            f"name the port that the weights are for (netweave convert --into)"
        )
    if not graph.loaded and not random_weights:
        raise UsageError(
            f"{graph.name}: has no weights to write; give their file, or write random ones (--random-weights)"
        )
    write_file(file, row.load_training().encode_weights(graph, suffix))


def transfer_weights(net: Any, port: Any) -> Graph:
    """Transfer the weights of a net to its port, and check that the port computes the same.

    Args:
        net: The net with weights: a Graph, or files as for ``load``.
        port: Its port, likewise; its own weights are ignored.

    Raises:
        SourceError: The files cannot be read.
        UsageError: The net has no weights, or the port computes something else with them.
    """
    graphs = [given if isinstance(given, Graph) else load(given) for given in (net, port)]
    return comparison.transfer_weights(*graphs)


def _format_of(file: Path) -> tuple[Format, str] | None:
    """Return the format whose weights have such a name, and the suffix."""
    for row in FORMATS:
        for suffix in row.runs.weights if row.runs.ports else ():
            if file.name.endswith(f".{suffix}"):
                return row, suffix
    return None
