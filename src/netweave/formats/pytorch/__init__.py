"""PyTorch: modules in memory, ``model.py`` with a state dict, TorchScript, and exported programs (``.pt2``).

Files are code, and run only in a guarded child process (``netweave.files.sandbox``); weights are data, and
are read without PyTorch (``read_state``).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from netweave.files import Source
from netweave.formats.pytorch.file_types import kind_of_source
from netweave.formats.pytorch.state import read_state
from netweave.graph import Graph

__all__ = ["is_module", "match", "read_module", "read_state"]


def match(source: Source) -> bool:
    """Return whether a file or folder is PyTorch's: by its content, and a ``.py`` file by what it imports."""
    return kind_of_source(source) is not None


def is_module(value: object) -> bool:
    """Return whether a value is a module in memory; who has one has loaded PyTorch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.nn.Module)


def read_module(
    module: Any,
    *,
    input_shapes: Mapping[str, Sequence[int]],
    examples: Sequence[Any] | None = None,
    likely_shapes: Sequence[Sequence[int]] = (),
) -> Graph:
    """Read a module in memory; see ``netweave.formats.pytorch.reader``."""
    from netweave.formats.pytorch import reader

    return reader.read_module(
        module, input_shapes=input_shapes, examples=examples, likely_shapes=likely_shapes
    )
