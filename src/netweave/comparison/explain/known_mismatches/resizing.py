"""Mismatches of resized images: what is taken between pixels, and where their centres are taken to be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netweave.comparison.explain.known_mismatches.attributes import differences, mismatch_key, set_attribute
from netweave.comparison.explain.known_mismatches.mismatch import Case, Proposal, together
from netweave.comparison.explain.wording import resize_setting

if TYPE_CHECKING:
    from collections.abc import Iterator

    import onnx_ir as ir

MODES = {"nearest": "the nearest pixel", "linear": "linearly between pixels", "cubic": "cubically"}


def resize_mismatches(case: Case) -> Iterator[Proposal]:
    """Propose how A's node takes values between pixels: all settings of it at once.

    Taken apart they say nothing: what rounds to the nearest pixel has no meaning between pixels.
    """
    for node_a, node_b in case.pairs():
        if node_a.op_type != "Resize" or node_b.op_type != "Resize":
            continue
        settings = differences(node_a, node_b)
        if not settings:
            continue
        names = ["mode"] if "mode" in settings else list(settings)
        yield Proposal(
            mismatch=mismatch_key("Resize", names[0]),
            cause="; ".join(_cause(name, *settings[name]) for name in names),
            fix=resize_setting(case.b.graph.format, node_a, set(settings)),
            node_a=node_a,
            node_b=node_b,
            change=together(*(set_attribute(node_b.name, name, a) for name, (a, _) in settings.items())),
        )


def same_size(node_a: ir.Node, node_b: ir.Node) -> bool:
    """Return whether two nodes resize images to the same sizes, each by a factor or by a size."""
    sizes = [list(node.outputs[0].shape or ())[1:] for node in (node_a, node_b)]
    return sizes[0] == sizes[1] and all(isinstance(size, int) for size in sizes[0])


def _cause(name: str, a: Any, b: Any) -> str:
    if name == "mode":
        return f"A takes {MODES.get(a, a)} where it resizes, B {MODES.get(b, b)}"
    return f"{name} is {a} in A and {b} in B"
