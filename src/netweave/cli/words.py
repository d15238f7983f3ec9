"""How numbers, files and settings are written for people."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

WITHOUT_EFFECT = frozenset(
    {
        # how to draw and train the parameters
        *("param", "blobs_lr", "weight_decay", "blob_share_mode", "propagate_down", "lr_mult", "wd_mult"),
        *("weight_filler", "bias_filler", "filler", "__lr_mult__", "__wd_mult__", "__init__"),
        # how to compute, not what
        *("engine", "workspace", "cudnn_tune", "cudnn_off", "ctx_group", "__ctx_group__", "force_mirroring"),
        # where and when the layer stands
        *("include", "exclude", "phase"),
    }
)
"""Settings that the short form leaves out: they say nothing about what a trained layer computes."""


def count_text(count: int) -> str:
    """Return a number of things.

    >>> count_text(6632), count_text(0)
    ('6,632', '0')
    """
    return f"{count:,}"


def amount_text(amount: int) -> str:
    """Return a large number with three digits and a prefix.

    >>> [amount_text(n) for n in (950, 27_000, 1_814_073_344)]
    ['950', '27.0 k', '1.81 G']
    """
    value = float(amount)
    for prefix in ("", "k", "M", "G", "T"):
        if value < 999.5 or prefix == "T":
            break
        value /= 1000
    else:
        raise AssertionError
    if not prefix:
        return str(amount)
    digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{digits}f} {prefix}"


def bytes_text(num_bytes: int) -> str:
    """Return a number of bytes.

    >>> bytes_text(26_528)
    '26.5 kB'
    """
    amount = amount_text(num_bytes)
    return f"{amount}B" if " " in amount else f"{amount} B"


def ratio_text(value: float) -> str:
    """Return an error relative to the rms, to one digit: that many say nothing.

    >>> ratio_text(2.13e-7), ratio_text(0.534), ratio_text(0.0)
    ('2e-07', '0.5', '0')
    """
    return f"{value:.1g}"


def settings_text(settings: Mapping[str, Any]) -> Text:
    """Return the settings that matter as ``name=value``, as written."""
    text = Text()
    for name, value in _flat(settings):
        if text:
            text.append(" ")
        text.append(f"{name}=", style="dim")
        text.append(value)
    return text


def _flat(settings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in settings.items():
        if name in WITHOUT_EFFECT:
            continue
        if isinstance(value, dict):
            yield from _flat(value)
        else:
            yield name, _value_text(value)


def _value_text(value: Any) -> str:
    if isinstance(value, str):
        return value.replace(" ", "") if value[:1] in {"(", "["} else value
    if isinstance(value, Sequence):
        return ",".join(_value_text(item) for item in value)
    if isinstance(value, (bool, int, float)) or value is None:
        return json.dumps(value)
    return repr(value)
