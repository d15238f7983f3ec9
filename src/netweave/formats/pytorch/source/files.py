"""Writing source and weights as two files, the old ones whole until the new ones are."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from netweave.errors import UnsupportedError, UsageError
from netweave.files import Written
from netweave.formats.pytorch.source.writer import write_source
from netweave.passes import absorb_scales, chain, prune, to_inference
from netweave.passes.scaffolding import see_through

if TYPE_CHECKING:
    import numpy as np

    from netweave.graph import Graph


def write(graph: Graph, path: Path, *, random_weights: bool = False) -> Written:
    """Write ``NAME.py``, and ``NAME.safetensors`` beside it.

    The net is written as it predicts: without dropout, losses and labels.

    Args:
        graph: The net; it is not changed.
        path: The file, in a folder that is there.
        random_weights: Write a net without weights with the drawn ones that stand in for them.

    Raises:
        UnsupportedError: It has operators for which no form in PyTorch is known.
        UsageError: The net has no weights, or a file cannot be written.
    """
    missing = [key for key, parameter in graph.parameters.items() if not parameter.loaded]
    if missing and not random_weights:
        named = ", ".join(map(repr, missing[:3])) + (", ..." if len(missing) > 3 else "")
        raise UsageError(
            f"net {graph.name!r} has no weights for {len(missing)} of {len(graph.parameters)} parameters "
            f"({named}): name its weights, or ask for random ones (--random-weights, random_weights=True)"
        )
    plain = chain(to_inference, see_through, absorb_scales, prune)(graph)
    source = write_source(plain, title=path.stem)
    try:
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as folder:
            code, weights = Path(folder) / path.name, Path(folder) / f"{path.stem}.safetensors"
            code.write_text(source.text)
            _save(source.state, weights)
            for file in (weights, code):
                os.replace(file, path.parent / file.name)  # noqa: PTH105
    except OSError as error:
        raise UsageError(f"cannot write {str(path)!r}: {error.strerror or error}") from error
    return Written(path, path.with_suffix(".safetensors"), source.entry, source.arguments)


def _save(state: dict[str, np.ndarray], path: Path) -> None:
    try:
        from safetensors.numpy import save_file
    except ImportError as error:
        raise UnsupportedError(
            "weights are written as safetensors, which is not installed: pip install 'netweave[torch]'"
        ) from error
    save_file(state, path)
