"""Images of another size, by TensorFlow's three conventions.

An output pixel ``i`` takes its value from the input at ``i * scale`` (the old way), at
``i * (in - 1) / (out - 1)`` (``align_corners``), or at ``(i + 0.5) * scale - 0.5`` (``half_pixel_centers``,
all that TensorFlow 2 and Keras know). Rules: tensorflow/core/kernels/image/image_resizer_state.h,
resize_nearest_neighbor_op.cc, resize_bicubic_op.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netweave.formats.lowering.channels_last.tensor import Operand, Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir

    from netweave.formats.lowering.channels_last.layer import ChannelsLastLayer

CONVENTIONS = {"asymmetric": "asymmetric", "corners": "align_corners", "half": "half_pixel"}
"""ONNX's name of each convention."""


def resize(
    ctx: ChannelsLastLayer,
    x: Operand,
    *,
    method: str,
    convention: str,
    sizes: Sequence[int] | None = None,
    factors: Sequence[int] | None = None,
    last: bool = True,
) -> Tensor:
    """Write a Resize of the spatial axes.

    Args:
        ctx: The layer.
        x: The tensor.
        method: ``nearest``, ``linear`` or ``cubic``.
        convention: A key of ``CONVENTIONS``.
        sizes: The new sizes, or
        factors: how many times the old ones they are.
        last: Whether the source has the channels on the last axis.
    """
    value = ctx.first(x) if last else ctx.source(x)
    axes = list(range(2, ctx.rank(x)))
    attributes: dict[str, Any] = {
        "axes": axes,
        "mode": method,
        "coordinate_transformation_mode": CONVENTIONS[convention],
    }
    if method == "nearest":
        attributes["nearest_mode"] = "floor" if convention == "asymmetric" else "round_prefer_ceil"
    if method == "cubic":
        attributes |= {"cubic_coeff_a": -0.5 if convention == "half" else -0.75}
        attributes |= {"exclude_outside": int(convention == "half")}
    inputs: list[ir.Value | None] = [value, None]
    if sizes is not None:
        inputs += [None, ctx.integers(sizes)]
    else:
        inputs.append(ctx.constant([float(f) for f in factors or ()]))
    return Tensor(ctx.add("Resize", inputs, attributes), last)
