"""From the files of a net in MXNet to its Graph."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from netweave.errors import ReadError, WeightError
from netweave.files import Source
from netweave.files.json_text import read_json
from netweave.formats.mxnet.ndarray import is_arrays, read_arrays
from netweave.formats.mxnet.symbol.build import build
from netweave.formats.mxnet.symbol.shapes import readable_part
from netweave.formats.mxnet.symbol.vertex import parse_document, upgraded
from netweave.graph import Graph

_SYMBOL_HEAD = re.compile(rb'^\s*\{.*"(nodes|arg_nodes|node_row_ptr|heads)"\s*:\s*\[', re.DOTALL)


def match(source: Source) -> bool:
    """Return whether the file is a symbol, or a list of arrays, of MXNet."""
    head = source.head()
    return is_arrays(head) or _SYMBOL_HEAD.match(head.removeprefix(b"\xef\xbb\xbf")) is not None


def read(source: Source) -> Graph:
    """Read a net of MXNet: ``NET-symbol.json`` and, if there is one, ``NET-%04d.params``."""
    if is_arrays(source.head()):
        raise ReadError(
            "holds arrays and no net; name the net's file (NAME-symbol.json) first, as in "
            f"NAME-symbol.json,{source.net.name}",
            place=str(source.net),
        )
    document = upgraded(parse_document(read_json(source.net), file=str(source.net)))
    notes: tuple[str, ...] = ()
    if source.partial:
        document, notes = readable_part(document)
    weights = source.weights or find_weights(source.net)
    arrays = _by_bare_name(read_arrays(weights), str(weights)) if weights else None
    graph = build(
        document,
        name=source.net.name.removesuffix(".json").removesuffix("-symbol"),
        input_shapes=source.input_shapes,
        arrays=arrays,
        file=str(weights or ""),
    )
    graph.notes += notes
    return graph


def find_weights(net: Path) -> Path | None:
    """Return the arrays that lie beside a net: those of the last epoch, or None."""
    prefix = net.name.removesuffix(".json").removesuffix("-symbol")
    name = re.compile(re.escape(prefix) + r"-(\d{4,})\.params")
    epochs = {int(m[1]): path for path in net.parent.iterdir() if (m := name.fullmatch(path.name))}
    if epochs:
        return epochs[max(epochs)]
    alone = net.with_name(f"{prefix}.params")
    return alone if alone.exists() else None


def _by_bare_name(arrays: Mapping[str, np.ndarray], file: str) -> dict[str, np.ndarray]:
    bare_names: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        bare = name.removeprefix("arg:").removeprefix("aux:")
        if bare in bare_names:
            raise WeightError(f"holds {bare!r} twice, as arg: and as aux:", place=file)
        bare_names[bare] = array
    return bare_names
