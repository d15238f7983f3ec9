"""Weights without their net: written for its framework, or transferred to a port."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from netweave import comparison
from netweave.api.nets import load
from netweave.errors import UsageError
from netweave.files.atomic import write_file
from netweave.graph import Graph, complete_arrays

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def writes_weights(path: str | Path) -> bool:
    """Return whether ``save_weights`` can write a file of this name."""
    return _ending(Path(path)) is not None


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
    ending = _ending(file)
    if ending is None:
        raise UsageError(
            f"cannot write {str(path)!r}: unknown suffix for weights, expected {', '.join(_WEIGHTS)}"
        )
    framework, encode = _WEIGHTS[ending]
    if graph.format != framework:
        raise UsageError(
            f"{file}: {ending} holds weights of {framework} nets, but {graph.name} is a {graph.format} net; "
            f"name the port that the weights are for (netweave convert --into)"
        )
    if not graph.loaded and not random_weights:
        raise UsageError(
            f"{graph.name}: has no weights to write; give their file, or write random ones (--random-weights)"
        )
    write_file(file, encode(graph))


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


def _ending(file: Path) -> str | None:
    return next((ending for ending in _WEIGHTS if file.name.endswith(ending)), None)


def _caffemodel(graph: Graph, *, hdf5: bool = False) -> bytes:
    from netweave.formats.caffe.snapshot import encode_net, encode_net_hdf5

    return (encode_net_hdf5 if hdf5 else encode_net)(graph, complete_arrays(graph))


def _params(graph: Graph) -> bytes:
    from netweave.formats.mxnet.params import encode_params

    return encode_params(graph, complete_arrays(graph))


_WEIGHTS: Mapping[str, tuple[str, Callable[[Graph], bytes]]] = {
    ".caffemodel": ("caffe", _caffemodel),
    ".caffemodel.h5": ("caffe", lambda graph: _caffemodel(graph, hdf5=True)),
    ".params": ("mxnet", _params),
}
"""The framework and encoder of each suffix."""
