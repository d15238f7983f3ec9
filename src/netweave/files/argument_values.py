"""Arguments of a model's constructor: literals in the net's name, and settings from a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netweave.files.array_arguments import ArrayArgument
from netweave.files.net_names import literal_arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np


class Settings(dict[str, Any]):
    """Settings from a file: a dict whose keys are attributes too, as constructors read them either way."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__({name: as_settings(value) for name, value in values.items()})

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(
                f"the settings have no {name!r}; there is: {', '.join(map(str, self))}"
            ) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value


def as_settings(value: Any) -> Any:
    """Return a value with settings for the dicts in it."""
    if isinstance(value, dict):
        return Settings(value)
    return [as_settings(item) for item in value] if isinstance(value, list) else value


def argument_values(
    text: str, files: Mapping[str, str], as_tensor: Callable[[np.ndarray], Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the positional and the named arguments of a call that is written as literals.

    Args:
        text: The arguments, as in a net's name.
        files: Full paths of the files that they name, by the texts that name them: the code runs in another
            folder than its caller.
        as_tensor: Makes an array what the framework of the code takes.

    Raises:
        UsageError: They are not literals.
    """
    positional, named = literal_arguments(text)

    def value_of(literal: Any) -> Any:
        if isinstance(literal, ArrayArgument):
            return as_tensor(literal.array())
        return as_settings(_with_files(literal, files))

    return tuple(map(value_of, positional)), {key: value_of(value) for key, value in named.items()}


def _with_files(value: Any, files: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return files.get(value, value)
    if isinstance(value, dict):
        return {key: _with_files(item, files) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_with_files(item, files) for item in value)
    return value
