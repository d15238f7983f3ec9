"""Writing a net and its weights as two files, the old ones whole until the new ones are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir

from netweave.files import OutputFiles
from netweave.files.node_writer import NotWritableNodes
from netweave.files.output_files import replacing_files, require_weights
from netweave.formats.mxnet.ndarray import encode_arrays
from netweave.formats.mxnet.symbol import Symbol, group, variable
from netweave.formats.mxnet.writer.operators import TABLE
from netweave.formats.mxnet.writer.table import MXNetNode, Net
from netweave.graph import Graph, known_shape
from netweave.graph.passes import (
    absorb_pads,
    absorb_scales,
    chain,
    early_transposes,
    prune,
    see_through,
    specialise,
    to_inference,
)

SUFFIX = "-symbol.json"


def write(graph: Graph, path: Path, *, random_weights: bool = False) -> OutputFiles:
    """Write ``NET-symbol.json``, and ``NET-0000.params`` beside it.

    The net is written as it predicts. Its inputs are as they are in the source, with the sizes known.
    """
    require_weights(graph, random_weights=random_weights)
    plain = chain(to_inference, see_through, absorb_scales, early_transposes, absorb_pads, prune)(graph)
    net = Net()
    symbol = _symbol(specialise(plain), net)
    weights = path.with_name(f"{path.name.removesuffix(SUFFIX)}-0000.params")
    with replacing_files(path) as folder:
        (folder / path.name).write_text(symbol.tojson())
        (folder / weights.name).write_bytes(encode_arrays(_read_arrays(symbol, net)))
    return OutputFiles(path, weights, one_size=True)


def _read_arrays(symbol: Symbol, net: Net) -> dict[str, np.ndarray]:
    """Return the stored arrays that the symbol reads: nodes that nothing reads are not part of it."""
    names = {*symbol.list_arguments(), *symbol.list_auxiliary_states()}
    return {key: array for key, array in net.arrays.items() if key.partition(":")[2] in names}


def _is_missing(value: ir.Value, net: Net) -> bool:
    return value.producer() is not None and value.const_value is None and value.name not in net.symbols


def _symbol(graph: Graph, net: Net) -> Symbol:
    """Return a net as a symbol.

    Raises:
        UnsupportedError: Some nodes cannot be written; each kind is named once, with the reason.
    """
    not_writable = NotWritableNodes(graph, "a net of MXNet's")
    for value in graph.inputs:
        name = value.name or ""
        shape = tuple(size or 0 for size in known_shape(value) or ())
        net.symbols[name] = variable(net.free(name), shape=shape or None)
    for node in graph.nodes:
        names = [value.name or "" for value in node.outputs]
        if all(name in net.symbols for name in names if name):
            continue  # an operator before it gives what it would
        if any(value is not None and _is_missing(value, net) for value in node.inputs):
            continue  # what it reads is refused already
        with not_writable.collecting(node):
            made = TABLE.find(node)(MXNetNode(node, graph, net))
            net.symbols.update(dict(zip(names, made if len(names) > 1 else [made], strict=False)))
    not_writable.check()
    return group([net.symbols[value.name or ""] for value in graph.outputs])
