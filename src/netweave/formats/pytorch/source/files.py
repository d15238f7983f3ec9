"""Writing source and weights as two files, the old ones whole until the new ones are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.errors import UnsupportedError
from netweave.files import OutputFiles
from netweave.files.output_files import replacing_files, require_weights
from netweave.formats.pytorch.source.writer import write_source
from netweave.graph.passes import (
    absorb_scales,
    chain,
    fuse_attention,
    fuse_gelu,
    fuse_layer_norm,
    prune,
    see_through,
    to_inference,
)
from netweave.installation import install_command

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np

    from netweave.graph import Graph


def write(graph: Graph, path: Path, *, random_weights: bool = False) -> OutputFiles:
    """Write ``NAME.py``, and ``NAME.safetensors`` beside it.

    The net is written as it predicts: without dropout, losses and labels.
    """
    require_weights(graph, random_weights=random_weights)
    plain = chain(
        to_inference, see_through, absorb_scales, fuse_layer_norm, fuse_gelu, fuse_attention, prune
    )(graph)
    source = write_source(plain, title=path.stem)
    with replacing_files(path) as folder:
        (folder / path.name).write_text(source.text)
        _save(source.state, folder / f"{path.stem}.safetensors")
    return OutputFiles(path, path.with_suffix(".safetensors"), source.entry, source.arguments)


def _save(state: dict[str, np.ndarray], path: Path) -> None:
    try:
        from safetensors.numpy import save_file
    except ImportError as error:
        raise UnsupportedError(
            f"weights are written as safetensors, which is not installed: {install_command('torch')}"
        ) from error
    save_file(state, path)
