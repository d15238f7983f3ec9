"""Findings, and the edits that they propose."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from netweave.comparison.result.comparison import INPUT_ORDER, OPERATOR, Edit, Finding

if TYPE_CHECKING:
    from collections.abc import Iterable

    import onnx_ir as ir

    from netweave.comparison.metric import Signals


def where(signals: Signals, node: ir.Node, *, is_setting: bool = False) -> tuple[str, str]:
    """Return the name of a node's layer and its place in the source, both as text.

    Args:
        signals: The net.
        node: The node.
        is_setting: Whether the place is that of the layer's settings: where a module is constructed, and not
            where it is called.
    """
    layers = signals.graph.layers_of(node)
    if not layers:
        return str(node.name), signals.graph.files[0] if signals.graph.files else signals.graph.name
    place = (is_setting and layers[0].definition) or layers[0].origin
    return layers[0].name, str(place) if place else ""


def finding_at(
    a: tuple[Signals, ir.Node | None],
    b: tuple[Signals, ir.Node | None],
    *,
    mismatch: str | None,
    cause: str,
    fix: str = "",
    error: float | None = None,
    error_fixed: float | None = None,
    latent: bool = False,
    edits: tuple[Edit, ...] = (),
    functions: tuple[str, str] = ("", ""),
) -> Finding:
    """Return a finding about a node of A and one of B.

    Args:
        a: The first net, and its node; None if the finding is about B alone.
        b: The second net, likewise.
        mismatch: As in ``Finding``, like all that follow.
        cause: What differs.
        fix: What to change.
        error: Error before the fix.
        error_fixed: Error with it.
        latent: Whether it has no effect here.
        edits: The settings that the fix changes.
        functions: Names of what the nodes compute.
    """
    layer_a, place_a = ("", "") if a[1] is None else where(a[0], a[1], is_setting=bool(edits))
    layer_b, place_b = ("", "") if b[1] is None else where(b[0], b[1], is_setting=bool(edits))
    return Finding(
        mismatch=mismatch,
        cause=cause,
        fix=fix,
        place_a=place_a,
        place_b=place_b,
        layer_a=layer_a,
        layer_b=layer_b,
        error=error,
        error_fixed=error_fixed,
        latent=latent,
        edits=edits,
        functions=functions,
    )


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
