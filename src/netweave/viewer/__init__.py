"""A comparison or a net as a page: what it shows as JSON values, and as one HTML file."""

from netweave.viewer.comparison import comparison_document
from netweave.viewer.net import net_document
from netweave.viewer.page import check_front_end, comparison_page, document_page, net_page

__all__ = [
    "check_front_end",
    "comparison_document",
    "comparison_page",
    "document_page",
    "net_document",
    "net_page",
]
