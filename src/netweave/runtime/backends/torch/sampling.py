"""Sampling an image at given places: grids and regions of interest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch.nn import functional

from netweave.runtime.backends.torch.table import lowering

if TYPE_CHECKING:
    from torch import Tensor

    from netweave.runtime.backends.torch.table import Ints

_MODES = {"linear": "bilinear", "cubic": "bicubic", "nearest": "nearest"}


@lowering("GridSample", since=20)
def grid_sample(
    x: Tensor,
    grid: Tensor,
    *,
    align_corners: int = 0,
    mode: str = "linear",
    padding_mode: str = "zeros",
) -> Tensor:
    """Sample at the places of a grid, -1 and 1 being the borders."""
    return functional.grid_sample(
        x, grid, mode=_MODES[mode], padding_mode=padding_mode, align_corners=bool(align_corners)
    )


@lowering("AffineGrid", since=20)
def affine_grid(theta: Tensor, size: Ints, *, align_corners: int = 0) -> Tensor:
    """Return the grid that an affine map makes of the unit grid."""
    return functional.affine_grid(theta, list(size), align_corners=bool(align_corners))
