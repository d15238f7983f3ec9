"""The table in which a reader finds the rule for a type of layer or an operator, by name."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

FunctionT = TypeVar("FunctionT")
EntryT = TypeVar("EntryT")


class RuleTable(dict[str, EntryT], Generic[FunctionT, EntryT]):
    """Rules of a reader by the framework's name of the type; ``register`` adds to it.

    Args:
        entry: Makes an entry from the decorated function and the options of the decorator.
    """

    def __init__(self, entry: Callable[..., EntryT]) -> None:
        super().__init__()
        self._entry = entry

    def register(self, *names: str, **options: Any) -> Callable[[FunctionT], FunctionT]:
        """Register the decorated function.

        Args:
            names: The framework's name of the type, and those that mean the same.
            options: Further arguments of the entry.
        """

        def decorate(function: FunctionT) -> FunctionT:
            entry = self._entry(function, **options)
            for name in names:
                # two files of one package that claim a name would depend on the order of imports
                assert name not in self, f"{name} has two rules"
                self[name] = entry
            return function

        return decorate


def import_families(package: str) -> None:
    """Import every module of a package for the rules that it registers.

    A package of rules calls it on itself, so that a new file of rules is named nowhere else.
    """
    for module in pkgutil.iter_modules(import_module(package).__path__):
        import_module(f"{package}.{module.name}")
