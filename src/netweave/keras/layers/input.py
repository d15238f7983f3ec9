"""Inputs of a net."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netweave.errors import UsageError
from netweave.keras.layer import LAYERS, Layer
from netweave.keras.state import unique_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from netweave.keras.operation import KerasTensor, Shape


class InputLayer(Layer):
    """An input of a net.

    Args:
        shape: Sizes of one record.
        batch_size: Records in a batch, if a net is for one number of them alone.
        dtype: Type of the elements.
        batch_shape: The sizes with the batch.
        name: Its name.

    Raises:
        UsageError: The sizes are not given.
    """

    makes_own = True

    def __init__(
        self,
        shape: Sequence[int | None] | None = None,
        batch_size: int | None = None,
        dtype: str | None = None,
        *,
        batch_shape: Sequence[int | None] | None = None,
        name: str | None = None,
        **ignored: Any,
    ) -> None:
        unknown = [key for key in ignored if key not in {"sparse", "ragged", "optional", "trainable"}]
        if unknown:
            raise UsageError(f"Input has no argument {unknown[0]!r}; expected shape, batch_size, dtype, name")
        if isinstance(shape, int):
            raise UsageError(f"shape is {shape}, expected the sizes of a record, as in ({shape},)")
        if batch_shape is None:
            if shape is None:
                raise UsageError("Input needs a shape: the sizes of one record, without the batch")
            batch_shape = (batch_size, *shape)
        super().__init__(name=name or unique_name("input_layer" if name is None else name), dtype=dtype)
        self.class_name = "InputLayer"
        self.built = True
        self.config = {
            "batch_shape": list(batch_shape),
            "dtype": dtype or "float32",
            "sparse": False,
            "name": self.name,
        }
        super().__call__()

    def results(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[tuple[Shape, str], ...]:
        """Return the sizes and the element type."""
        return ((tuple(self.config["batch_shape"]), str(self.config["dtype"])),)

    @property
    def output(self) -> KerasTensor:
        """The tensor."""
        return self.nodes[0].outputs[0]

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> InputLayer:
        """Return an input with settings that ``get_config`` returned."""
        shape = config.get("batch_shape") or config.get("batch_input_shape")
        dtype = config.get("dtype")
        return cls(
            batch_shape=shape, dtype=dtype if isinstance(dtype, str) else None, name=config.get("name")
        )


LAYERS["InputLayer"] = InputLayer


def Input(  # noqa: N802 - Keras' name
    shape: Sequence[int | None] | None = None,
    batch_size: int | None = None,
    dtype: str | None = None,
    name: str | None = None,
    **more: Any,
) -> KerasTensor:
    """Return a symbolic tensor that a net is given.

    >>> Input((28, 28, 1)).shape
    (None, 28, 28, 1)

    Args:
        shape: Sizes of one record.
        batch_size: Records in a batch, if a net is for one number of them alone.
        dtype: Type of the elements.
        name: Its name.
        more: ``batch_shape``, the sizes with the batch.
    """
    return InputLayer(shape, batch_size, dtype, name=name, **more).output
