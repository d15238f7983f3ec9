"""Options of a comparison that a user chose, as they are kept, and in words.

Kept as JSON in ``Comparison.settings``; what is not chosen is left out. The file of own inputs is kept apart
(``Comparison.own_input``), since it takes of the quota.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from netweave.web.models import Comparison

COMPARED = ("first", "last", "tolerance", "seed", "num_samples")
"""Options of ``api.compare``."""

READ = ("phase", "stages")
"""Options of ``api.load_parts`` for both nets."""

SIZES = ("input_shapes_a", "input_shapes_b")
"""Options of ``api.load_parts`` for one of the nets."""

COLORS = ("rgb", "bgr", "gray")
"""Orders of the channels of an image."""

LABELS = {
    "first": "from layer",
    "last": "to layer",
    "tolerance": "tolerance",
    "seed": "seed",
    "num_samples": "probes",
    "phase": "phase",
    "stages": "stages",
    "input_shapes_a": "sizes of A's inputs",
    "input_shapes_b": "sizes of B's inputs",
    "preprocessing": "image prepared by",
    "times": "times measured",
}


def kept(chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was chosen, without what was left empty."""
    return {key: value for key, value in chosen.items() if value not in (None, "", [], {}, False)}


def swapped(chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was chosen for the two nets the other way round; layers keep their names.

    >>> swapped({"seed": 1, "input_shapes_a": {"data": [1, 2]}})
    {'seed': 1, 'input_shapes_b': {'data': [1, 2]}}
    """
    other = {"input_shapes_a": "input_shapes_b", "input_shapes_b": "input_shapes_a"}
    return {other.get(key, key): value for key, value in chosen.items()}


def rows(comparison: Comparison) -> list[tuple[str, str]]:
    """Return what was chosen, as labels and texts; empty for a comparison with the usual settings."""
    rows = [
        (label, text(comparison.settings[key])) for key, label in LABELS.items() if key in comparison.settings
    ]
    if comparison.own_input is not None:
        rows.append(("own input", comparison.own_input.name))
    return rows


def form_values(comparison: Comparison) -> dict[str, Any]:
    """Return what the fields of the form begin with."""
    values = {key: text(value) for key, value in comparison.settings.items() if key != "preprocessing"}
    prepared = comparison.settings.get("preprocessing", {})
    own = comparison.own_input
    return values | {
        **{key: text(value) for key, value in prepared.items()},
        "own_input": str(own.pk) if own is not None else "",
        "own_name": own.name if own is not None else "",
    }


def text(value: Any) -> str:
    """Return a chosen value for people, as the fields of the form take it.

    >>> text({"data": [1, 3, 224, 224]}), text(["deploy", "no-mean"]), text(0.001), text(True)
    ('data=1x3x224x224', 'deploy, no-mean', '0.001', 'yes')
    """
    if value is True:
        return "yes"
    if isinstance(value, dict):
        parts = [f"{name}={_sizes(item)}" for name, item in value.items()]
        return ", ".join(parts)
    if isinstance(value, list):
        return ", ".join(text(item) for item in value)
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _sizes(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(size, int) for size in value):
        return "x".join(map(str, value))
    return text(value)
