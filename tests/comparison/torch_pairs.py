"""Pairs of PyTorch modules that share their weights by name: an original, and a port of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import netweave
from netweave.comparison import Status

if TYPE_CHECKING:
    from netweave.comparison import Comparison, Finding
    from netweave.graph import Graph

Module = TypeVar("Module")


def drawn(module: Module, seed: int = 0) -> Module:
    """Give a module weights that let every layer vary, and statistics that are not those of no training."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    module_: Any = module
    for name, array in module_.state_dict().items():
        if not array.dtype.is_floating_point:
            continue
        if name.endswith("running_var"):
            array.copy_(torch.rand(array.shape, generator=generator) * 1.5 + 0.3)
        elif array.ndim > 1:
            array.copy_(torch.randn(array.shape, generator=generator) * 1.4 * array[0].numel() ** -0.5)
        else:
            array.copy_(torch.rand(array.shape, generator=generator) + 0.3)
    module_.eval()
    return module


def copied(source: Any, module: Module) -> Module:
    """Give a module the weights of another one."""
    module_: Any = module
    module_.load_state_dict(source.state_dict())
    module_.eval()
    return module


def load(module: Any, **shapes: tuple[int, ...]) -> Graph:
    """Read a module; its input is a small image unless sizes are given."""
    return netweave.load(module, input_shapes=shapes or {"x": (1, 3, 32, 32)})


def effective(comparison: Comparison) -> list[Finding | None]:
    """Return the findings of everything that is said to be wrong, or could not be compared."""
    wrong = {Status.DIFFERENT, Status.ONLY_A, Status.ONLY_B, Status.UNKNOWN}
    return [group.finding for group in comparison.groups if group.status in wrong]
