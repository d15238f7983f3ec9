"""In how many bits a source stores an array whose real numbers the Graph holds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StoredFormat:
    """The numbers of an array as its file has them: floats of 16 bits, or integers with a scale.

    ``real = (integer - zero_point) * scale``, as in ONNX DequantizeLinear.

    Attributes:
        dtype: NumPy's name of the type: ``float16``, ``bfloat16``, ``int4``, ``int8``, ``uint8``, ...
        scale: One number, or one for each index of ``axis``; none for floats.
        zero_point: As many integers, or one; none for floats.
        axis: The axis of the array, as the source lays it out, that several scales run along.
    """

    dtype: str
    scale: tuple[float, ...] = ()
    zero_point: tuple[int, ...] = ()
    axis: int = 0
