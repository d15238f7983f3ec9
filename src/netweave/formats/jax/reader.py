"""Reading functions of JAX: they are traced in a guarded child process, which leaves the graph."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from netweave.errors import UnsupportedError
from netweave.files.model_imports import imports_of_source
from netweave.files.onnx.model import read_saved
from netweave.files.python_code import run_reader
from netweave.graph.passes import chain, compose, see_through
from netweave.graph.passes.windows import join_counted_means

if TYPE_CHECKING:
    from netweave.files import Source
    from netweave.graph import Graph

CHILD = Path(__file__).with_name("child.py")

OWN_MODULES = ("jax", "jaxlib", "numpy")
"""Packages that are here, and never looked for beside a model's file."""


def read(source: Source) -> Graph:
    """Read a function of parameters and inputs, or a callable that holds its parameters.

    The sizes are those of the input, except the batch, which stays open where the code allows it.

    Raises:
        SourceError: The files cannot be read, or the code fails, may not run, or has unknown primitives.
        UnsupportedError: JAX is not installed.
        UsageError: Sizes are missing, or it is not clear which function the net is.
    """
    place = str(source.net)
    if find_spec("jax") is None:
        raise UnsupportedError(
            "is code for JAX, which is not installed: install it (pip install jax), or compare a dump of its "
            "tensors instead (docs/how-to/compare-with-a-dump.md)",
            place=place,
        )
    files = [source.net, *([source.weights] if source.weights else [])]
    imports = imports_of_source(source, known=OWN_MODULES)
    beside = imports.places(source.net.resolve(), place)
    with run_reader(
        source, CHILD, ["net.onnx"], readable=imports.files, beside=beside, **imports.request()
    ) as (net,):
        graph = read_saved(net, place=place, files=[str(path) for path in files])
    graph.is_fixed = True  # paddings that follow from a size, say, are numbers in a jaxpr
    chain(see_through, join_counted_means, compose).edit(graph)
    return graph
