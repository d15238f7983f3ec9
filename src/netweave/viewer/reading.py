"""A document with an object for each layer, node and group, as version 2 had it, to be read in Python.

The viewer does the same when it opens a document (``frontend/src/viewer/model/tables.ts``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netweave.viewer.tables import rows

if TYPE_CHECKING:
    from collections.abc import Mapping

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
