"""Arrays of layers: values of their own until a net holds them, then those of the net."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from netweave.keras.operation import WeightSpec


class Variable:
    """One array of a layer; every model that has the layer shares it.

    Args:
        spec: What the reader's rule says of it.
        layer: Name of the layer.
        first: Draws its first values.

    Attributes:
        spec: What the reader's rule says of it.
        stored: The tensor of a net that holds it; None until there is one.
        wait: Called before each access: waits for updates that are still computed.
    """

    def __init__(self, spec: WeightSpec, layer: str, first: Callable[[], np.ndarray]) -> None:
        self.spec = spec
        self.path = f"{layer}/{spec.key}"
        self.stored: Any = None
        self.wait: Callable[[], None] | None = None
        self._first: Callable[[], np.ndarray] | None = first
        self._value: np.ndarray | None = None

    @property
    def name(self) -> str:
        """Keras' name for it."""
        return self.spec.name

    @property
    def shape(self) -> tuple[int, ...]:
        """Its sizes."""
        return self.spec.shape

    @property
    def is_statistic(self) -> bool:
        """True if no gradient changes it: a moving mean or variance."""
        return self.spec.role in {"mean", "variance"}

    def numpy(self) -> np.ndarray:
        """Return its values."""
        if self.stored is not None:
            if self.wait is not None:
                self.wait()
            tensor = self.stored.as_source(self.stored.tensor.detach())
            return np.array(tensor.cpu().numpy())
        if self._value is None:
            assert self._first is not None
            self._value = self._first()
        return self._value.copy()

    def assign(self, value: Any) -> None:
        """Replace its values.

        Raises:
            UsageError: They have other sizes.
        """
        array = np.asarray(value, np.float32)
        if array.shape != self.shape:
            raise UsageError(f"array {self.path!r} has the shape {array.shape}, expected {self.shape}")
        if self.stored is None:
            self._value = array.copy()
            return
        if self.wait is not None:
            self.wait()
        own = self.stored.as_source(self.stored.tensor.detach())
        own.copy_(own.new_tensor(array))

    def hold(self, stored: Any) -> None:
        """Take the tensor of a net, with the values that it has by now."""
        value = self.numpy()
        self.stored = stored
        self.assign(value)
        self._value = None

    def __repr__(self) -> str:
        return f"<Variable path={self.path}, shape={self.shape}>"
