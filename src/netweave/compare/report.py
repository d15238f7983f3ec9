"""A Comparison as JSON values."""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from netweave.compare.comparison import Comparison


def comparison_to_json(comparison: Comparison) -> dict[str, Any]:
    """Return everything but the nets themselves as JSON values."""
    found: dict[str, Any] = {}
    for field in dataclasses.fields(comparison):
        value = getattr(comparison, field.name)
        if field.name in {"a", "b"}:
            found[field.name] = {"name": value.name, "format": value.format, "files": list(value.files)}
        else:
            found[field.name] = _plain(value)
    return found | {"exit_status": comparison.exit_status}


def _plain(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    return value
