"""Numbers, sizes and settings in words."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from netweave.graph.opset import BATCH

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

Dims = Sequence[int | str | None]
"""Sizes; a symbolic one by its name, None where nothing is known of it."""

OPEN_LETTERS = "CDHW"
"""Names of sizes of an image that a file leaves open: channels, depth, height, width."""

PREFIXES = ("", "k", "M", "G", "T")

HOW_TO_TRAIN = (
    *("param", "blobs_lr", "weight_decay", "blob_share_mode", "propagate_down", "weight_filler"),
    *("bias_filler", "filler", "lr_mult", "wd_mult", "__lr_mult__", "__wd_mult__", "__init__"),
)
HOW_TO_COMPUTE = (
    *("engine", "workspace", "cudnn_tune", "cudnn_off"),
    *("ctx_group", "__ctx_group__", "force_mirroring"),
)
WHERE_AND_WHEN = ("include", "exclude", "phase")

WITHOUT_EFFECT = frozenset((*HOW_TO_TRAIN, *HOW_TO_COMPUTE, *WHERE_AND_WHEN))
"""Settings that the short form leaves out: they say nothing about what a trained layer computes."""


def amount_text(amount: int) -> str:
    """Return a large number with three digits and a prefix.

    >>> [amount_text(n) for n in (950, 27_000, 1_814_073_344)]
    ['950', '27.0 k', '1.81 G']
    """
    value, power = float(amount), 0
    while value >= 999.5 and power + 1 < len(PREFIXES):
        value, power = value / 1000, power + 1
    if not power:
        return str(amount)
    digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{digits}f} {PREFIXES[power]}"


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


def dims_text(dims: Dims | None) -> str:
    """Return sizes, ``?`` for those that are not known; a formula of unknown sizes is not known either.

    >>> dims_text(("N", "C", 24, None, "floor(w/2)")), dims_text(()), dims_text(None)
    ('NxCx24x?x?', 'scalar', '?')
    """
    if dims is None:
        return "?"
    named = {BATCH, *OPEN_LETTERS}
    return "x".join(str(dim) if isinstance(dim, int) or dim in named else "?" for dim in dims) or "scalar"


def names_text(names: Iterable[str], most: int = 5) -> str:
    """Return the first few of some names, for a message.

    >>> names_text(["conv1", "fc", "conv1"], most=1)
    "'conv1' and 1 more"
    """
    unique = list(dict.fromkeys(names))
    more = f" and {len(unique) - most} more" if len(unique) > most else ""
    return ", ".join(map(repr, unique[:most])) + more


def joined_text(texts: Iterable[str]) -> str:
    """Return phrases as one, each once, without empty ones.

    >>> joined_text(["pad=0", "stride=2", "pad=0"]), joined_text(["pad=0", "stride=2", "kernel=3"])
    ('pad=0 and stride=2', 'pad=0, stride=2 and kernel=3')
    """
    phrases = [text for text in dict.fromkeys(texts) if text]
    return " and ".join(filter(None, [", ".join(phrases[:-1]), *phrases[-1:]]))


def settings_texts(settings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the settings that matter by name, values as written, groups of settings taken apart.

    >>> dict(settings_texts({"pooling_param": {"pool": "MAX", "pad": [1, 2]}, "engine": "CAFFE"}))
    {'pool': 'MAX', 'pad': '1,2'}
    """
    for name, value in settings.items():
        groups = value if isinstance(value, list) else [value]
        if name in WITHOUT_EFFECT:
            continue
        if groups and all(isinstance(group, dict) for group in groups):
            for group in groups:
                yield from settings_texts(group)
        else:
            yield name, _value_text(value)


def _value_text(value: Any) -> str:
    if isinstance(value, str):
        return value.replace(" ", "") if value[:1] in {"(", "["} else value
    if isinstance(value, Sequence):
        return ",".join([str(item) if type(item) is int else _value_text(item) for item in value])
    if type(value) is int:  # most are; the rest as JSON has it
        return str(value)
    if isinstance(value, (bool, int, float)) or value is None:
        return json.dumps(value)
    return repr(value)
