"""What a detector does with its heads, in MXNet's own operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netweave.files.writing import Refused
from netweave.formats.mxnet.writer.table import Call, written
from netweave.graph import DOMAIN, known_shape

if TYPE_CHECKING:
    from netweave.symbol import Symbol

_FLAGS = frozenset({"clip", "force_suppress", "iou_loss"})


def _settings(call: Call) -> dict[str, Any]:
    """Return the attributes, which have MXNet's names, as MXNet takes them."""
    found = {}
    for name, value in call.attributes.items():
        found[name] = bool(value) if name in _FLAGS else tuple(value) if isinstance(value, list) else value
    return found


@written("MultiBoxDetection", domain=DOMAIN)
def multibox_detection(call: Call) -> Symbol:
    """Rows of class, score and corners from an SSD's heads."""
    symbols = [call.symbol(index) for index in range(3)]
    return call.make("_contrib_MultiBoxDetection", *symbols, **_settings(call))


@written("BoxNMS", domain=DOMAIN)
def box_nms(call: Call) -> Symbol:
    """Rows of boxes that stay, best first."""
    return call.make("_contrib_box_nms", call.symbol(0), **_settings(call))


@written("Proposal", domain=DOMAIN)
def proposal(call: Call) -> Symbol:
    """Regions of interest; Proposal is for one image, MultiProposal for any number."""
    symbols = [call.symbol(index) for index in range(3)]
    settings = _settings(call) | {"output_score": len(call.node.outputs) > 1}
    op = "_contrib_Proposal" if call.shape(0)[0] == 1 else "_contrib_MultiProposal"
    return call.make(op, *symbols, **settings)


@written("ROIPooling", domain=DOMAIN)
def roi_pooling(call: Call) -> Symbol:
    """The largest of each bin of each region."""
    settings = {"pooled_size": tuple(call.get("pooled_shape")), "spatial_scale": call.get("spatial_scale")}
    return call.make("ROIPooling", call.symbol(0), call.symbol(1), **settings)


@written("Expand")
def expand(call: Call) -> Symbol:
    """Sizes of 1 made larger; the batch stays as it is."""
    old, new = call.shape(0), known_shape(call.node.outputs[0])
    if new is None or len(old) != len(new):
        raise Refused("its sizes are computed, or have another number of axes")
    sizes = [0 if size == before else size for before, size in zip(old, new, strict=True)]
    if None in sizes:
        raise Refused("its sizes are not known; give the input's sizes")
    return call.make("broadcast_to", call.symbol(0), shape=tuple(sizes))
