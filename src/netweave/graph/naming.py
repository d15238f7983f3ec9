"""Names that nothing has yet: the wanted one, or it with a number behind."""

from __future__ import annotations

from collections.abc import Container


def free_name(wanted: str, taken: Container[str | None], *, separator: str = "_", first: int = 2) -> str:
    """Return the wanted name, or it with the first number from ``first`` on with which it is free.

    >>> free_name("conv", {"pool"}), free_name("conv", {"conv", "conv_2"})
    ('conv', 'conv_3')
    >>> free_name("conv", {"conv"}, separator="#", first=1)
    'conv#1'
    """
    name, number = wanted, first
    while name in taken:
        name = f"{wanted}{separator}{number}"
        number += 1
    return name


def take_name(wanted: str, taken: set[str] | set[str | None], *, separator: str = "_", first: int = 2) -> str:
    """Return a free name like the wanted one, and add it to those that are taken."""
    name = free_name(wanted, taken, separator=separator, first=first)
    taken.add(name)
    return name
