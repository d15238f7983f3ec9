"""Writing of nets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from netweave.api.arguments import check_file, check_graph, check_text
from netweave.api.reading import to_inference
from netweave.comparison import Comparison
from netweave.comparison import compare as compare_graphs
from netweave.comparison.execution.sizes import sizes_to_run
from netweave.errors import UnsupportedError, UsageError
from netweave.files import OutputFiles, Source
from netweave.formats import find_written, read, source_formats
from netweave.graph import Graph, as_loaded


def save(
    graph: Graph, path: str | Path, *, to: str | None = None, random_weights: bool = False
) -> OutputFiles:
    """Write a net in the format that the file's name asks for.

    ``.onnx`` keeps the source's layers as metadata. The other formats hold the net in inference form, with
    the weights in a second file: ``.prototxt`` with ``.caffemodel``; ``-symbol.json`` with ``-0000.params``;
    ``.py`` (PyTorch source) with ``.safetensors``, or with ``to="keras"`` (Keras 3 source) with ``.npz``.

    Args:
        graph: The net.
        path: The file.
        to: Name of the format, if several formats use this file name: ``keras``.
        random_weights: Write random weights if the net has none.

    Returns:
        The files, and how to read them back.

    Raises:
        UnsupportedError: The net has operators that cannot be written in the format.
        UsageError: No format has such a file name, a file cannot be written, or weights are missing.
    """
    file = check_file(path, what="path")
    if to is not None:
        check_text(to, what="to", example=source_formats()[-1])
    if check_graph(graph).only_weights:
        raise UsageError(f"{graph.name}: holds only weights; there is no net to write")
    return find_written(file, to).write(graph, file, random_weights=random_weights)


def convert_and_verify(
    graph: Graph,
    path: str | Path,
    *,
    to: str | None = None,
    random_weights: bool = False,
    against: Graph | None = None,
    progress: Callable[[str], None] | None = None,
) -> Comparison:
    """Write a net as ``save`` does, read the result back, and compare it with the net.

    All values are compared, also random ones: the file must hold exactly the same values.

    Args:
        graph: The net.
        path: The file.
        to: Name of the format, if several formats use this file name: ``keras``.
        random_weights: Write random weights if the net has none.
        against: The net to compare with, if it is another form of the written net.
        progress: Called with a description of each step.

    Returns:
        The comparison of the net with the written one.

    Raises:
        SourceError: The net has operators that cannot be written, or the written files cannot be read.
        UsageError: No format has such a file name, a file cannot be written, or weights are missing.
    """
    files = save(graph, path, to=to, random_weights=random_weights)
    names = files.inputs
    source = Source(
        net=files.net,
        weights=files.weights,
        input_shapes={}
        if names is None
        else {names.get(name, name): sizes for name, sizes in sizes_to_run(to_inference(graph)).items()},
        entry=files.entry,
        trust=True,  # our writer made the code; only identifiers and comments come from the source
    )
    net = graph if against is None else against
    try:
        written = read(source)
    except UnsupportedError as error:  # of a framework that is not installed
        raise UnsupportedError(
            f"is written, but could not be read back and compared: {error.message}", place=error.place
        ) from error
    return compare_graphs(as_loaded(net), as_loaded(written), one_size=files.one_size, progress=progress)
