"""An image as the input of a net, prepared as the net was trained."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from netweave.errors import UsageError
from netweave.files import read_bytes
from netweave.graph import known_shape
from netweave.graph.passes.fitting import likely_size
from netweave.runtime.images.decode import decode

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import onnx_ir as ir

    from netweave.graph import Graph
    from netweave.runtime.images.preprocessing import Preprocessing


def image_input(graph: Graph, file: str | Path, preprocessing: Preprocessing) -> dict[str, np.ndarray]:
    """Return the input of a net that an image makes, by the input's name, as a batch of one.

    Args:
        graph: A net with one input, of shape (batch, channels, height, width).
        file: The image: any file that OpenCV decodes.
        preprocessing: How the net was trained to see images.

    Raises:
        ReadError: The file is no image, or is damaged or too large.
        UsageError: The net has no such input, its size is unknown, or it has other channels.
    """
    value = _image_value(graph)
    height, width = _size(graph, value, preprocessing.crop)
    pixels = decode(read_bytes(Path(file)), preprocessing.color, lambda: str(file))
    _check_channels(value, pixels.shape[2], preprocessing.color)
    return {str(value.name): preprocessing.apply(pixels, height, width)}


def _check_channels(value: ir.Value, channels: int, color: str) -> None:
    shape = known_shape(value) or ()
    if isinstance(shape[1], int) and shape[1] != channels:
        raise UsageError(
            f"the input {value.name!r} has {shape[1]} channels, and an image in {color!r} has {channels}; "
            "choose another colour order, or give an .npz"
        )


def _image_value(graph: Graph) -> ir.Value:
    images = [value for value in graph.inputs if value.shape is not None and len(value.shape) == 4]
    if len(images) != 1 or len(list(graph.inputs)) != 1:
        names = ", ".join(f"{value.name} {value.shape}" for value in graph.inputs)
        raise UsageError(
            f"an image is an input of nets with one input (batch, channels, height, width), and "
            f"{graph.name!r} has {names or 'none'}; give an .npz with arrays by name"
        )
    return images[0]


def _size(graph: Graph, value: ir.Value, crop: int) -> tuple[int, int]:
    declared: Sequence[int | None] = graph.declared.get(str(value.name)) or known_shape(value) or ()
    if crop and any(isinstance(size, int) and size != crop for size in declared[2:4]):
        raise UsageError(
            f"the input {value.name!r} is {declared[2]} x {declared[3]} pixels, and the preprocessing cuts "
            f"out {crop} x {crop}; set its sizes, such as {value.name}=1x3x{crop}x{crop}, or leave crop out"
        )
    open_size = crop or likely_size(graph)
    sizes = [size if isinstance(size, int) else open_size for size in declared[2:4]]
    if len(sizes) != 2 or not all(sizes):
        raise UsageError(
            f"the height and width of the input {value.name!r} are not known; set its sizes, such as "
            f"{value.name}=1x3x224x224"
        )
    return int(sizes[0] or 0), int(sizes[1] or 0)
