"""Arguments of ``forward`` that are lists or dicts of tensors: one input of the net for each tensor.

PyTorch's exporter names them after the argument: ``x_0``, ``x_1`` for a list, ``x_image`` for a dict. The
same names give their sizes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from netweave.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import ArrayLike


def members_of(arguments: Iterable[str], names: Iterable[str]) -> dict[str, list[str]]:
    """Return the names that stand for tensors in an argument, by the argument.

    Args:
        arguments: The names of ``forward``'s arguments.
        names: Names that a caller gives sizes for.

    >>> members_of(["x", "mask"], ["x_0", "x_1", "mask"])
    {'x': ['x_0', 'x_1']}
    """
    arguments = list(arguments)
    members: dict[str, list[str]] = {}
    for name in names:
        owners = [each for each in arguments if name.startswith(f"{each}_")]
        if name not in arguments and owners:
            members.setdefault(max(owners, key=len), []).append(name)
    return members


def joined(argument: str, tensors: Mapping[str, torch.Tensor]) -> Any:
    """Return an argument made of its tensors: a list if they are numbered, else a dict.

    Args:
        argument: The name of the argument.
        tensors: Its tensors, by their names as inputs.

    Raises:
        UsageError: Numbers are missing.
    """
    keyed = {name[len(argument) + 1 :]: tensor for name, tensor in tensors.items()}
    if not all(key.isdecimal() for key in keyed):
        return keyed
    numbered = {int(key): tensor for key, tensor in keyed.items()}
    if sorted(numbered) != list(range(len(numbered))):
        given = ", ".join(tensors)
        raise UsageError(
            f"the tensors of the list {argument!r} are counted from {argument}_0 on without gaps, and sizes "
            f"are given for {given}"
        )
    return [numbered[index] for index in range(len(numbered))]


def mapped(change: Callable[[torch.Tensor], Any], value: Any) -> Any:
    """Return an argument with each of its tensors changed."""
    return torch.utils._pytree.tree_map(change, value)


def as_tensors(value: ArrayLike | Mapping[str, ArrayLike] | Sequence[ArrayLike]) -> Any:
    """Return an example of an argument as a tensor, or as a list or dict of tensors."""
    if isinstance(value, dict):
        return {key: torch.as_tensor(item) for key, item in value.items()}
    if isinstance(value, list | tuple) and any(hasattr(item, "shape") for item in value):
        return [torch.as_tensor(item) for item in value]
    return torch.as_tensor(value)
