"""The page of a comparison or a net: its content as JSON, and as one HTML file."""

from netweave.viewer.comparison import comparison_document
from netweave.viewer.markdown import document_markdown
from netweave.viewer.net import net_document
from netweave.viewer.page import (
    check_front_end,
    comparison_page,
    document_page,
    document_rows,
    install,
    net_page,
    stored_document_page,
)
from netweave.viewer.sarif import comparison_sarif
from netweave.viewer.summary import summary_lines
from netweave.viewer.values import stored_array

__all__ = [
    "check_front_end",
    "comparison_document",
    "comparison_page",
    "comparison_sarif",
    "document_markdown",
    "document_page",
    "document_rows",
    "net_document",
    "net_page",
    "stored_array",
    "stored_document_page",
    "summary_lines",
]

install()
