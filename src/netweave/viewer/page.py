"""Pages of the viewer."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from html import escape
from importlib import resources
from typing import Any

from netweave.comparison import Comparison
from netweave.errors import UsageError
from netweave.graph import Graph
from netweave.graph.html import set_drawing
from netweave.graph.printable import printable, printable_json
from netweave.viewer.comparison import comparison_document
from netweave.viewer.net import net_document
from netweave.viewer.tables import rows

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


# The viewer does the same when it opens a document (``frontend/src/viewer/model/tables.ts``).

Json = dict[str, Any]

FIRST_WITH_TABLES = 3
"""The version from which on a document has tables (decision 0213)."""


def document_rows(document: Mapping[str, Any]) -> Json:
    """Return a document of any version with its tables as lists of objects.

    Args:
        document: What ``comparison_document`` or ``net_document`` made, in this release or an earlier one.
    """
    if document.get("version", 1) < FIRST_WITH_TABLES:
        return dict(document)
    nets = [_net_rows(net) for net in document["nets"]]
    if document["kind"] == "net":
        return dict(document) | {"nets": nets}
    return {name: part for name, part in document.items() if name != "weights"} | {
        "nets": nets,
        "groups": _group_rows(document, nets),
    }


def _net_rows(net: Mapping[str, Any]) -> Json:
    values = [[row["name"], row["sizes"]] for row in rows(net["values"])]
    parameters = [row | {"statistics": None} for row in rows(net["parameters"])]
    for row in rows(net["statistics"]):
        number = row.pop("parameter")
        parameters[number]["statistics"] = {name: entry for name, entry in row.items() if entry is not None}
    layers = [
        row | {"name": row["key"] if row["name"] is None else row["name"]} for row in rows(net["layers"])
    ]
    nodes = [
        row | {"constants": [values[number] for number in row["constants"]]} for row in rows(net["nodes"])
    ]
    read = {"layers": layers, "nodes": nodes, "values": values, "parameters": parameters}
    return {name: part for name, part in net.items() if name != "statistics"} | read


def _group_rows(document: Mapping[str, Any], nets: list[Json]) -> list[Json]:
    groups = [row | {"weights": []} for row in rows(document["groups"])]
    for row in rows(document["weights"]):
        number = row.pop("group")
        keys = [net["parameters"][key]["key"] for net, key in zip(nets, row["keys"], strict=True)]
        groups[number]["weights"].append(row | {"keys": keys})
    return groups
