"""Writing source and weights as two files, the old ones whole until the new ones are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.files import OutputFiles
from netweave.files.output_files import replacing_files, require_weights
from netweave.formats.keras.source.writer import write_source
from netweave.graph.passes import (
    absorb_biases,
    absorb_scales,
    attention_fusion,
    chain,
    channels_first,
    fuse_gelu,
    fuse_layer_norm,
    prune,
    see_through,
    specialise,
    to_inference,
)

if TYPE_CHECKING:
    from pathlib import Path

    from netweave.graph import Graph


def write(graph: Graph, path: Path, *, random_weights: bool = False) -> OutputFiles:
    """Write ``NAME.py``, and ``NAME.npz`` beside it.

    The net is written as it predicts, and images have channels last.
    """
    require_weights(graph, random_weights=random_weights)
    plain = chain(to_inference, see_through, absorb_scales, absorb_biases, prune)(graph)
    settled = channels_first(specialise(plain))
    source = write_source(
        chain(fuse_layer_norm, fuse_gelu, attention_fusion(projected_only=True))(settled), title=path.stem
    )
    with replacing_files(path) as folder:
        (folder / path.name).write_text(source.text)
        np.savez(folder / f"{path.stem}.npz", allow_pickle=False, **source.arrays)
    return OutputFiles(path, None, entry="load", inputs=None, one_size=True)
