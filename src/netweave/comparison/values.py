"""The tensors that a net computed on a probe, by signal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

    Shape = tuple[int, ...]


class SignalValues(Protocol):
    """Tensors by signal; whether they are held or computed when they are asked for, nobody needs to know."""

    def __getitem__(self, name: str) -> np.ndarray: ...

    def __contains__(self, name: object) -> bool: ...

    def __len__(self) -> int: ...

    def get(self, name: str) -> np.ndarray | None:
        """Return a tensor; None if there is none of the name."""
        ...

    def ahead(self, name: str) -> np.ndarray:
        """Return a tensor that is looked at ahead of others, which are looked at again before it is."""
        ...

    def shape_of(self, name: str) -> Shape | None:
        """Return the shape of a tensor, which costs less than the tensor; None if there is none."""
        ...

    @property
    def is_held(self) -> bool:
        """True if a tensor is as near the second time as the first, and none is computed again."""
        ...

    @property
    def working_bytes(self) -> int | None:
        """Bytes that a caller may hold besides, for tensors made of these; None for any number."""
        ...


class HeldValues(Mapping[str, "np.ndarray"]):
    """Tensors that are held, all of them.

    Args:
        arrays: The tensors, by signal.
        behind: Where those that are not among them are looked up.
    """

    def __init__(self, arrays: Mapping[str, np.ndarray], behind: SignalValues | None = None) -> None:
        self._arrays = dict(arrays)
        self._behind = behind

    def __getitem__(self, name: str) -> np.ndarray:
        if name in self._arrays or self._behind is None:
            return self._arrays[name]
        return self._behind[name]

    def __contains__(self, name: object) -> bool:
        return name in self._arrays or (self._behind is not None and name in self._behind)

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def ahead(self, name: str) -> np.ndarray:
        """Return a tensor."""
        return self[name]

    def shape_of(self, name: str) -> Shape | None:
        """Return the shape of a tensor; None if there is none of the name."""
        if name in self._arrays:
            return self._arrays[name].shape
        return None if self._behind is None else self._behind.shape_of(name)

    @property
    def is_held(self) -> bool:
        """True if no tensor is computed again."""
        return self._behind is None or self._behind.is_held

    @property
    def working_bytes(self) -> int | None:
        """Bytes that a caller may hold besides; None for any number."""
        return None if self._behind is None else self._behind.working_bytes
