"""A net or a comparison as it is drawn in a notebook: the same page in a frame, and the table beneath."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from netweave.comparison import Comparison
from netweave.errors import UsageError
from netweave.graph import Graph
from netweave.graph.html import set_drawing
from netweave.viewer.comparison import comparison_document
from netweave.viewer.net import net_document
from netweave.viewer.page import check_front_end, embedded_page

if TYPE_CHECKING:
    from typing import Any

MAX_LAYERS = 2000
"""A notebook keeps what it shows in its file; of a larger net it keeps the table only."""

HEIGHT_PX = 640

FRAME = (
    '<iframe title="{title}" srcdoc="{page}" sandbox="allow-scripts allow-downloads allow-modals" '
    'style="width: 100%; height: {height}px; border: 1px solid rgba(128, 128, 128, .4)"></iframe>'
    "<details><summary>As a table</summary>{table}</details>"
)
"""Without ``allow-same-origin``: what is in the frame reaches nothing of the notebook."""


def draw(shown: Any, table: str) -> str:
    """Return a net or a comparison as HTML for a notebook; the table alone where it cannot be drawn."""
    nets = [shown] if isinstance(shown, Graph) else [shown.a, shown.b]
    if sum(len(net.layers) for net in nets) > MAX_LAYERS:
        return table
    try:
        check_front_end()
    except UsageError:
        return table
    document = net_document(shown) if isinstance(shown, Graph) else comparison_document(shown)
    return FRAME.format(
        title=escape(f"Drawing of {document['title']}"),
        page=escape(embedded_page(document)),
        height=HEIGHT_PX,
        table=table,
    )


def install() -> None:
    """Have nets and comparisons draw themselves in notebooks."""
    for kind in (Graph, Comparison):
        set_drawing(kind, draw)
