"""Windows and inputs that formats share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import onnx_ir as ir

from netweave.errors import ReadError, ShapeError, UsageError
from netweave.graph.costs import MAX_ELEMENTS, num_elements

if TYPE_CHECKING:
    from netweave.formats.lowering.context import LayerContext


@dataclass(frozen=True, slots=True)
class Window:
    """A window that moves over the spatial axes of a value.

    Attributes:
        kernel: Its size before dilation.
        strides: Steps from one window to the next; 1 by default.
        pads: Padding at the begin of each axis; 0 by default.
        end_pads: Padding at the end of each axis; by default that at the begin.
        dilations: Steps between neighbouring elements of the window; 1 by default.
    """

    kernel: Sequence[int]
    strides: Sequence[int] = ()
    pads: Sequence[int] = ()
    end_pads: Sequence[int] = field(default=())
    dilations: Sequence[int] = ()

    def __post_init__(self) -> None:
        rank = len(self.kernel)
        for name, values in (
            ("strides", self.strides or [1] * rank),
            ("pads", self.pads or [0] * rank),
            ("end_pads", self.end_pads or self.pads or [0] * rank),
            ("dilations", self.dilations or [1] * rank),
        ):
            object.__setattr__(self, name, values)

    @property
    def extents(self) -> list[int]:
        """Number of elements that the dilated window spans on each axis."""
        return [d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilations, strict=True)]

    @property
    def onnx_pads(self) -> list[int]:
        """The padding as ONNX orders it: all begins, then all ends."""
        return [*self.pads, *self.end_pads]

    def attributes(self) -> dict[str, Any]:
        """Return the attributes of ONNX's Conv and ConvTranspose."""
        return {
            "kernel_shape": list(self.kernel),
            "strides": list(self.strides),
            "pads": self.onnx_pads,
            "dilations": list(self.dilations),
        }

    def check(self, context: LayerContext, line: int | None = None, *, is_pooling: bool = False) -> None:
        """Refuse a window that the frameworks refuse, whatever its input.

        Args:
            context: The layer, for messages.
            line: Where the settings stand in the source.
            is_pooling: Whether padding must be less than the kernel: no window may lie outside the input.

        Raises:
            ReadError: A number is out of range.
        """
        for name, values, least in (
            ("kernel", self.kernel, 1),
            ("stride", self.strides, 1),
            ("dilation", self.dilations, 1),
            ("padding", self.onnx_pads, 0),
        ):
            if min(values, default=least) < least:
                raise context.read_error(f"{name} is {list(values)}, expected {least} or more", line)
        pads = [max(pair) for pair in zip(self.pads, self.end_pads, strict=True)]
        if is_pooling and any(pad >= size for pad, size in zip(pads, self.kernel, strict=True)):
            raise context.read_error(f"padding {pads} must be less than the kernel {list(self.kernel)}", line)

    def check_fits(self, context: LayerContext, sizes: Sequence[int | None], line: int | None = None) -> None:
        """Refuse a window that is larger than its padded input.

        Args:
            context: The layer, for messages.
            sizes: Spatial sizes of the input; an open one is not checked.
            line: Where the settings stand in the source.

        Raises:
            ShapeError: The window does not fit.
        """
        if len(sizes) != len(self.kernel):
            raise context.shape_error(
                f"a window of {len(self.kernel)} axes does not fit in {len(sizes)} spatial axes", line
            )
        for size, extent, begin, end in zip(sizes, self.extents, self.pads, self.end_pads, strict=True):
            if size is not None and size + begin + end < extent:
                padding = str(begin) if begin == end else f"{begin} and {end}"
                raise context.shape_error(
                    f"a window of {extent} does not fit in {size} elements with padding {padding}", line
                )


def unknown_sizes(name: str, *, place: str, example: str = "1x224x224x3") -> ShapeError:
    """Return the error for an input of which a file does not even say how many axes it has."""
    return ShapeError(
        f"the file does not give the sizes of the input {name!r}; set them, as in "
        f"--input-shape {name}={example}",
        place=place,
        open_inputs=(name,),
    )


def open_sizes(
    known: Mapping[str, str],
    *,
    place: str,
    shapes: Mapping[str, tuple[int | None, ...] | None] | None = None,
) -> ReadError:
    """Return the error for inputs of which a file gives some sizes only.

    Args:
        known: By the input's name, the sizes that are known, with letters and dots for others: ``NxCx32x32``.
        place: Where the first of them stands.
        shapes: The same as numbers, as ``SourceError.open_shapes``.
    """
    return ReadError(
        f"the file does not give all sizes of {', '.join(map(repr, known))}, which depend on its data; "
        f"give them: {' '.join(f'--input-shape {name}={sizes}' for name, sizes in known.items())}, with "
        "numbers for letters and dots",
        place=place,
        open_inputs=tuple(known),
        open_shapes=shapes,
    )


def check_given_sizes(name: str, declared: Sequence[object], given: Sequence[int], *, place: str) -> None:
    """Refuse sizes of a caller's for another number of axes than the input has.

    Raises:
        UsageError: The numbers differ.
    """
    if len(declared) != len(given):
        raise UsageError(
            f"{place}: input {name!r} has {len(declared)} axes, but {len(given)} sizes are given: {given}"
        )


def check_input_size(name: str, shape: Sequence[int | None], *, place: str) -> None:
    """Refuse an input with a size below 1, or with too many elements.

    Raises:
        ShapeError: It has.
    """
    sizes = [1 if size is None else size for size in shape]
    if min(sizes, default=1) < 1 or num_elements(sizes) is None:
        raise ShapeError(
            f"input {name!r} would be {'x'.join(map(str, sizes))}; every size must be 1 or more, and all of "
            f"them together at most {MAX_ELEMENTS:,} elements",
            place=place,
        )


# Only with these two is the element at i // factor taken; ONNX's defaults round to the nearest centre.
REPEATED = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}


def repeat_elements(ctx: LayerContext, x: ir.Value, factor: int, *, name: str = "") -> ir.Value:
    """Return an image (N, C, H, W) with every element repeated in both directions."""
    return ctx.add("Resize", [x, None, ctx.constant([1, 1, factor, factor])], REPEATED, name=name)
