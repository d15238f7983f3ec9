"""Weights by themselves: written for the framework of their net, carried to a port, read from checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from netweave.api.nets import load
from netweave.comparison import carry_weights
from netweave.errors import UsageError
from netweave.graph import Graph, complete_arrays
from netweave.training.checkpoint import write_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def writes_weights(path: str | Path) -> bool:
    """Whether ``save_weights`` writes files of this name."""
    return _ending(Path(path)) is not None


def save_weights(graph: Graph, path: str | Path, *, random_weights: bool = False) -> None:
    """Write the weights of a net for the framework that it is of.

    Args:
        graph: The net.
        path: The file. Its name ends in ``.caffemodel`` or ``.caffemodel.h5`` for nets of Caffe's, in
            ``.params`` for nets of MXNet's.
        random_weights: Write drawn weights where the net has none.

    Raises:
        UsageError: The name ends otherwise, the file cannot be written, weights are missing, or the net is
            of another framework.
        RunError: The file cannot be written.
    """
    file = Path(path)
    ending = _ending(file)
    if ending is None:
        raise UsageError(f"cannot write {str(path)!r}: weights are written as {', '.join(_WEIGHTS)}")
    framework, encode = _WEIGHTS[ending]
    if graph.format != framework:
        raise UsageError(
            f"{file}: {ending} holds weights for nets of {framework}, and {graph.name} is one of "
            f"{graph.format}; name the port that they are for (netweave convert --into)"
        )
    if not graph.loaded and not random_weights:
        raise UsageError(f"{graph.name}: has no weights to write; name their file, or draw them")
    write_whole(file, encode(graph))


def carry(net: Any, port: Any) -> Graph:
    """Return a port with the weights of the net that it is a port of, proved to compute the same.

    Args:
        net: The net with weights: a Graph, or files as for ``load``.
        port: Its port, likewise, whose weights are not looked at.

    Raises:
        SourceError: The files cannot be read.
        UsageError: The net has no weights, or the port would compute something else with them.
    """
    graphs = [given if isinstance(given, Graph) else load(given) for given in (net, port)]
    return carry_weights(*graphs)


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
"""How weights are written, by the end of the file's name: for nets of which format."""
