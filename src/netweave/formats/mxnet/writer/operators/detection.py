"""Detection operators, written as MXNet's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.files.node_writer import NotWritable
from netweave.formats.lowering.nodes.names import plain_settings
from netweave.formats.mxnet.writer.table import MXNetNode, writes
from netweave.graph import DOMAIN, known_shape

if TYPE_CHECKING:
    from netweave.formats.mxnet.symbol import Symbol


@writes("MultiBoxDetection", domain=DOMAIN)
def multibox_detection(node: MXNetNode) -> Symbol:
    """Rows of class, score and corners from an SSD's heads."""
    symbols = [node.symbol(index) for index in range(3)]
    return node.make("_contrib_MultiBoxDetection", *symbols, **plain_settings(node))


@writes("BoxNMS", domain=DOMAIN)
def box_nms(node: MXNetNode) -> Symbol:
    """Rows of boxes that stay, best first."""
    return node.make("_contrib_box_nms", node.symbol(0), **plain_settings(node))


@writes("Proposal", domain=DOMAIN)
def proposal(node: MXNetNode) -> Symbol:
    """Regions of interest; Proposal is for one image, MultiProposal for any number."""
    symbols = [node.symbol(index) for index in range(3)]
    settings = plain_settings(node) | {"output_score": len(node.outputs) > 1}
    op = "_contrib_Proposal" if node.shape(0)[0] == 1 else "_contrib_MultiProposal"
    return node.make(op, *symbols, **settings)


@writes("ROIPooling", domain=DOMAIN)
def roi_pooling(node: MXNetNode) -> Symbol:
    """The largest of each bin of each region."""
    settings = {"pooled_size": tuple(node.get("pooled_shape")), "spatial_scale": node.get("spatial_scale")}
    return node.make("ROIPooling", node.symbol(0), node.symbol(1), **settings)


@writes("Expand")
def expand(node: MXNetNode) -> Symbol:
    """Sizes of 1 made larger; the batch stays as it is."""
    old, new = node.shape(0), known_shape(node.outputs[0])
    if new is None or len(old) != len(new):
        raise NotWritable("its sizes are computed, or have another number of axes")
    sizes = [0 if size == before else size for before, size in zip(old, new, strict=True)]
    if None in sizes:
        raise NotWritable("its sizes are not known; give the input's sizes")
    return node.make("broadcast_to", node.symbol(0), shape=tuple(sizes))
