"""``keras.backend`` of every version: settings for all models, and functions by their older names."""

from typing import Any

import numpy as np

from netweave.errors import UsageError
from netweave.keras import ops
from netweave.keras.config import (
    clear_session,
    epsilon,
    floatx,
    image_data_format,
    set_image_data_format,
)
from netweave.keras.objects import missing
from netweave.keras.operation import KerasTensor

__all__ = ["clear_session", "epsilon", "floatx", "image_data_format", "set_image_data_format"]

DATA_FORMATS = {"tf": "channels_last", "th": "channels_first"}

OTHER_NAMES = {"pow": "power", "permute_dimensions": "transpose", "dot": "matmul", "invert": "logical_not"}
"""Functions of ``keras.ops`` under the names that the backend has for them."""


def backend() -> str:
    """Return the name of what computes; scripts ask it for the order of channels."""
    return "tensorflow"


def image_dim_ordering() -> str:
    """Return ``tf`` or ``th``, as Keras 1 calls the two orders of channels."""
    return next(name for name, now in DATA_FORMATS.items() if now == image_data_format())


def set_image_dim_ordering(dim_ordering: str) -> None:
    """Set the order of channels by its name in Keras 1."""
    set_image_data_format(DATA_FORMATS.get(dim_ordering, dim_ordering))


def cast_to_floatx(x: Any) -> Any:
    """Return an array with the element type of models."""
    return np.asarray(x, floatx())


def int_shape(x: Any) -> tuple[int | None, ...]:
    """Return the sizes of a tensor or an array; None for the number of records."""
    return tuple(x.shape)


def get_value(x: Any) -> Any:
    """Return a variable's array, or a number as it is."""
    return x.numpy() if hasattr(x, "numpy") else x


def set_value(x: Any, value: Any) -> None:
    """Set a variable; a rate is set on its optimizer."""
    if not hasattr(x, "assign"):
        raise UsageError(
            "set_value is given a number, which holds nothing; for a rate write "
            "optimizer.learning_rate = value"
        )
    x.assign(value)


def batch_flatten(x: Any) -> Any:
    """Return a tensor with one axis for each record."""
    return ops.reshape(x, (-1, int(np.prod(x.shape[1:]))))


def flatten(x: Any) -> Any:
    """Return a tensor with one axis."""
    return ops.reshape(x, (-1,))


def is_keras_tensor(x: Any) -> bool:
    """Return whether something is a symbolic tensor."""
    return isinstance(x, KerasTensor)


def set_session(session: Any) -> None:
    """Do nothing: there are no sessions here."""


def __getattr__(name: str) -> Any:
    try:
        return getattr(ops, OTHER_NAMES.get(name, name))
    except AttributeError:
        raise missing("keras.backend", name, [*globals(), *dir(ops), *OTHER_NAMES]) from None
