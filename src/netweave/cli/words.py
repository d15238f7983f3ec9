"""Settings as coloured text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text

from netweave.graph.wording import settings_texts

if TYPE_CHECKING:
    from collections.abc import Mapping


def settings_text(settings: Mapping[str, Any]) -> Text:
    """Return the settings that matter as ``name=value``, as written."""
    pairs = (Text.assemble((f"{name}=", "dim"), value) for name, value in settings_texts(settings))
    return Text(" ").join(pairs)
