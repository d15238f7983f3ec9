"""Dataclasses made from settings by name, with messages that say whose setting is wrong."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from netweave.errors import UsageError

T = TypeVar("T")


def from_settings(made: type[T], what: str, settings: Mapping[str, Any]) -> T:
    """Make a dataclass from settings by name.

    Raises:
        UsageError: A setting is missing, unknown or out of range; the message names ``what``.
    """
    fields = {field.name: field for field in dataclasses.fields(made) if field.init}  # type: ignore[arg-type]  # no type variable can ask for a dataclass
    unknown = [name for name in settings if name not in fields]
    if unknown:
        raise UsageError(f"{what} has no setting {', '.join(unknown)}; it has: {', '.join(fields) or 'none'}")
    missing = [name for name, field in fields.items() if name not in settings and _needed(field)]
    if missing:
        raise UsageError(f"{what} needs: {', '.join(missing)}")
    try:
        return made(**settings)
    except ValueError as error:
        raise UsageError(f"{what}: {error}") from error


def require(condition: bool, message: str) -> None:
    """Raise a ValueError unless a setting is in its range; ``from_settings`` says whose it is."""
    if not condition:
        raise ValueError(message)


def of_source(kind: str, table: Iterable[str]) -> list[str]:
    """Return the rows of a table that are of the source of ``kind`` (``mxnet`` of ``mxnet.sgd``), or all."""
    source = kind.partition(".")[0] + "."
    return sorted(row for row in table if row.startswith(source)) or sorted(table)


def _needed(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
