"""Findings with the places in both sources that they are about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.comparison.result.comparison import Finding

if TYPE_CHECKING:
    import onnx_ir as ir

    from netweave.comparison.metric import Signals
    from netweave.comparison.result.comparison import Edit


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
    )
