"""Arrays in the arguments of a net's name: ``Net(torch.zeros(1, 3, 224, 224))``.

Some constructors take an example of their input and find the sizes of later layers by running it.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_ELEMENTS = 1 << 26
"""An example of an input is not larger."""

_MAKERS: dict[str, Callable[[tuple[int, ...]], np.ndarray]] = {
    "ones": np.ones,
    "rand": lambda shape: np.random.default_rng(0).random(shape),
    "randn": lambda shape: np.random.default_rng(0).standard_normal(shape),
    "zeros": np.zeros,
}
"""What makes an array of some sizes, by the name of the function in NumPy and PyTorch."""


@dataclass(frozen=True, slots=True)
class ArrayArgument:
    """An array that is said by how it is made, of float32.

    Attributes:
        function: ``zeros``, ``ones``, ``rand`` or ``randn``; the last two draw the same numbers each time.
        shape: Its sizes.
    """

    function: str
    shape: tuple[int, ...]

    def array(self) -> np.ndarray:
        """Return the array."""
        return np.asarray(_MAKERS[self.function](self.shape), np.float32)


def array_argument(node: ast.expr) -> ArrayArgument | None:
    """Return the array that an expression says; None for another expression.

    >>> array_argument(ast.parse("torch.zeros(1, 3)", mode="eval").body)
    ArrayArgument(function='zeros', shape=(1, 3))
    """
    if not isinstance(node, ast.Call) or node.keywords:
        return None
    module, _, name = ast.unparse(node.func).rpartition(".")
    if name not in _MAKERS or module not in {"", "np", "numpy", "torch"}:
        return None
    sizes = ast.literal_eval(node.args[0]) if len(node.args) == 1 else [*map(ast.literal_eval, node.args)]
    shape = tuple(sizes) if isinstance(sizes, list | tuple) else (sizes,)
    if not all(type(size) is int and 0 < size <= MAX_ELEMENTS for size in shape):
        return None
    return ArrayArgument(name, shape) if np.prod(shape, dtype=object) <= MAX_ELEMENTS else None
