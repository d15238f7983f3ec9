"""One HTML file that holds the whole page: script, style and document, nothing from elsewhere."""

from __future__ import annotations

import base64
import hashlib
import json
from html import escape
from importlib import resources
from typing import TYPE_CHECKING, Any

from netweave.errors import UsageError
from netweave.graph.printable import printable, printable_json
from netweave.viewer.comparison import comparison_document
from netweave.viewer.net import net_document

if TYPE_CHECKING:
    from collections.abc import Mapping

    from netweave.comparison import Comparison
    from netweave.graph import Graph

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width">
<meta name="referrer" content="no-referrer">
<title>{title} - Netweave</title>
<style>{style}</style>
</head>
<body class="netweave-page">
<main id="viewer"><noscript>This page draws the nets with JavaScript, which is switched off.</noscript></main>
<script type="application/json" id="document">{document}</script>
<script>{script}</script>
<script>{start}</script>
</body>
</html>
"""

START = (
    "netweave.viewer.mountText(document.getElementById('viewer'),"
    "document.getElementById('document'),{wholePage:true});"
)

EMBEDDED_START = START.replace("{wholePage", "{address:{url:'',note:'',isEmbedded:true},wholePage")


def comparison_page(comparison: Comparison) -> str:
    """Return a comparison as one HTML file, which opens without network.

    Raises:
        UsageError: The front end is not built.
    """
    return document_page(comparison_document(comparison))


def net_page(graph: Graph) -> str:
    """Return a net as one HTML file, which opens without network.

    Raises:
        UsageError: The front end is not built.
    """
    return document_page(net_document(graph))


def document_page(document: Mapping[str, Any]) -> str:
    """Return a document as one HTML file.

    Nothing in the document can become markup or script: inside its element it is text without ``<``, and the
    page's policy allows no script, style, picture or address but its own.

    Args:
        document: What ``comparison_document`` or ``net_document`` made.

    Raises:
        UsageError: The front end is not built.
    """
    return _page(str(document["title"]), json_in_html(document), START)


def embedded_page(document: Mapping[str, Any]) -> str:
    """Return a document as a page for a frame in somebody else's page, such as a notebook.

    Raises:
        UsageError: The front end is not built.
    """
    return _page(str(document["title"]), json_in_html(document), EMBEDDED_START)


def stored_document_page(title: str, text: str) -> str:
    """Return a document that is stored as JSON as one HTML file, without parsing it.

    Args:
        title: What the page is called.
        text: The document.

    Raises:
        UsageError: The front end is not built.
    """
    return _page(title, _harmless(text), START)


def _page(title: str, document: str, start: str) -> str:
    script, style = built("viewer.js"), built("viewer.css")
    policy = "; ".join(
        [
            "default-src 'none'",
            f"script-src {_hash(script)} {_hash(start)}",
            "worker-src blob:",
            f"style-src {_hash(style)}",
            "img-src data: blob:",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )
    return PAGE.format(
        policy=escape(policy),
        title=escape(printable(title)),
        style=style,
        document=document,
        script=script,
        start=start,
    )


def json_in_html(value: Any) -> str:
    r"""Return JSON that can stand in a script element: nothing in it ends the element.

    >>> print(json_in_html({"name": "</script>"}))
    {"name":"\u003c/script>"}
    """
    return _harmless(json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False))


def _harmless(text: str) -> str:
    """Return JSON in which nothing can end the element that it stands in; ``<`` occurs in strings only."""
    return printable_json(text).replace("<", "\\u003c")


def check_front_end() -> None:
    """Find out whether pages can be made.

    Raises:
        UsageError: The front end is not built.
    """
    built("viewer.js")


def built(name: str) -> str:
    """Return a file of the built front end.

    Raises:
        UsageError: It is not built.
    """
    file = resources.files("netweave.viewer").joinpath("static", name)
    if not file.is_file():
        raise UsageError(
            f"netweave/viewer/static/{name} is missing: the front end is not built; run 'make frontend' in "
            "the clone of the repository (it needs Node 20) and, if you installed Netweave from it, install "
            "it again"
        )
    return file.read_text(encoding="utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
