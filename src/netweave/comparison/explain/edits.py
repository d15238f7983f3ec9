"""The settings that a fix changes, out of the words in which B's files spell them (``wording``)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from netweave.comparison.result.comparison import INPUT_ORDER, OPERATOR, Edit

if TYPE_CHECKING:
    from collections.abc import Iterable

_VALUE = r"""(?:"[^"]*"|'[^']*'|\((?:[^()]|\([^()]*\))*\)|\[[^\[\]]*\]|[-+]?\w[\w.+-]*)"""
_PAIR = re.compile(rf"(\w+)(?::\ |=)({_VALUE})", re.VERBOSE)
_ORDER = re.compile(r"put the inputs in the order (\d+(?:, \d+)+)")
_CALL = re.compile(r"use ([A-Za-z_][\w.]*(?:\((?:[^()]|\([^()]*\))*\))?)")
_SIGN = re.compile(r"use the operator ([-+*])")
_PHRASE = re.compile(rf"{_PAIR.pattern}(?:\ {_PAIR.pattern})*", re.VERBOSE)


def edits_of(phrases: Iterable[str]) -> tuple[Edit, ...]:
    """Return the settings that phrases give; nothing if one of them says more than settings.

    >>> edits_of(["pad_h: 1 pad_w: 2", 'type: "ReLU"'])
    (Edit(name='pad_h', value='1'), Edit(name='pad_w', value='2'), Edit(name='type', value='"ReLU"'))
    >>> edits_of(["use F.leaky_relu(slope=0.1)"])
    (Edit(name='operator', value='F.leaky_relu(slope=0.1)'),)
    >>> edits_of(["ceil_mode=True", "put its inputs in A's order"])
    ()
    """
    edits: list[Edit] = []
    for phrase in phrases:
        if order := _ORDER.fullmatch(phrase):
            edits.append(Edit(INPUT_ORDER, order[1]))
            continue
        if call := _CALL.fullmatch(phrase) or _SIGN.fullmatch(phrase):
            edits.append(Edit(OPERATOR, call[1]))
            continue
        if not _PHRASE.fullmatch(phrase):
            return ()
        edits += [Edit(name, value) for name, value in _PAIR.findall(phrase)]
    return tuple(dict.fromkeys(edits))
