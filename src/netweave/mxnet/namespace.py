"""Namespaces of operators: ``mx.sym.contrib``, ``mx.nd.linalg``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netweave.mxnet.base import missing
from netweave.mxnet.operators import find_operator, names_in

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Namespace:
    """The operators whose names begin with a prefix, without it.

    Args:
        path: Its name for messages.
        prefix: Which of ``operators.PREFIXES``.
        function: Returns the function of an operator.
        own: Further functions by name.
    """

    def __init__(
        self,
        path: str,
        prefix: str,
        function: Callable[[str], Callable[..., Any]],
        own: Mapping[str, Callable[..., Any]] | None = None,
    ) -> None:
        self._path, self._prefix, self._function = path, prefix, function
        self._own = dict(own or {})

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name in self._own:
            return self._own[name]
        op = find_operator(name, namespace=self._prefix)
        if op is None:
            raise missing(self._path, name, [*self._own, *names_in(self._prefix)])
        return self._function(op)

    def __dir__(self) -> list[str]:
        return sorted([*self._own, *names_in(self._prefix)])
