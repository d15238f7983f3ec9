"""Other forms of a symbol of MXNet that compute the same: normalisation folded, renamed, in another order."""

from __future__ import annotations

import copy
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.oracles import recipe

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.oracles.resnet50 import Arrays

Node = dict[str, Any]


def folded(symbol: dict[str, Any], arrays: Arrays) -> tuple[dict[str, Any], Arrays]:
    """Return a symbol whose convolutions hold the normalisation behind them, and its arrays."""
    nodes = _linked(symbol)
    kept, made = [], {key: array for key, array in arrays.items() if key.startswith("arg:")}
    stand_in: dict[str, Node] = {}
    for node in nodes:
        node["inputs"] = [(stand_in.get(source["name"], source), output) for source, output in node["inputs"]]
        if node["op"] != "BatchNorm":
            kept.append(node)
            continue
        conv = node["inputs"][0][0]
        stand_in[node["name"]] = conv
        bias = _fold(conv, node, made, arrays)
        if bias is not None:
            kept.insert(kept.index(conv), bias)
    used = {id(source) for node in kept for source, _ in node["inputs"]}
    kept = [node for node in kept if node["op"] != "null" or id(node) in used]
    names = {node["name"] for node in kept}
    heads = [(stand_in.get(head["name"], head), output) for head, output in _heads(symbol, nodes)]
    return _written(kept, heads, symbol), {key: a for key, a in made.items() if key[4:] in names}


def _fold(conv: Node, norm: Node, made: Arrays, arrays: Arrays) -> Node | None:
    """Change a convolution's arrays; return the variable of a bias that it did not have."""
    gamma, beta = (made[f"arg:{source['name']}"] for source, _ in norm["inputs"][1:3])
    mean, variance = (arrays[f"aux:{source['name']}"] for source, _ in norm["inputs"][3:5])
    factor = gamma / np.sqrt(variance + np.float32(norm["attrs"]["eps"]))
    weight = f"arg:{conv['inputs'][1][0]['name']}"
    made[weight] = (made[weight] * factor.reshape(-1, 1, 1, 1)).astype(np.float32)
    new = None
    if len(conv["inputs"]) == 2:
        new = {"op": "null", "name": conv["name"].removesuffix("_fwd") + "_bias", "inputs": []}
        conv["inputs"].append((new, 0))
        conv["attrs"]["no_bias"] = "False"
    bias = f"arg:{conv['inputs'][2][0]['name']}"
    made[bias] = ((made.get(bias, 0) - mean) * factor + beta).astype(np.float32)
    return new


def renamed(symbol: dict[str, Any], arrays: Arrays) -> tuple[dict[str, Any], Arrays]:
    """Return a symbol whose names say nothing; only the net's input keeps its own."""
    names = {node["name"]: f"n{number * 7919 % 9973}" for number, node in enumerate(symbol["nodes"])}
    names["data"] = "data"
    nodes = [{**node, "name": names[node["name"]]} for node in symbol["nodes"]]
    return {**symbol, "nodes": nodes}, {key[:4] + names[key[4:]]: array for key, array in arrays.items()}


def shuffled(symbol: dict[str, Any], arrays: Arrays) -> tuple[dict[str, Any], Arrays]:
    """Return a symbol whose nodes stand in another order in which they can run."""
    nodes = _linked(symbol)
    rank = {
        node["name"]: value for node, value in zip(nodes, recipe.uniform("order", (len(nodes),)), strict=True)
    }
    order: list[Node] = []
    done: set[int] = set()
    waiting = list(nodes)
    while waiting:
        ready = [node for node in waiting if all(id(source) in done for source, _ in node["inputs"])]
        node = min(ready, key=lambda node: rank[node["name"]])
        waiting.remove(node)
        order.append(node)
        done.add(id(node))
    return _written(order, _heads(symbol, nodes), symbol), arrays


FORMS: dict[str, Callable[[dict[str, Any], Arrays], tuple[dict[str, Any], Arrays]]] = {
    "folded": folded,
    "renamed": renamed,
    "shuffled": shuffled,
}


def _linked(symbol: dict[str, Any]) -> list[Node]:
    """Return copies of the nodes whose inputs are nodes instead of numbers."""
    nodes: list[Node] = copy.deepcopy(symbol["nodes"])
    for node in nodes:
        node["inputs"] = [(nodes[number], output) for number, output, _ in node["inputs"]]
    return nodes


def _heads(symbol: dict[str, Any], nodes: list[Node]) -> list[tuple[Node, int]]:
    return [(nodes[number], output) for number, output, _ in symbol["heads"]]


def _written(nodes: list[Node], heads: list[tuple[Node, int]], symbol: dict[str, Any]) -> dict[str, Any]:
    """Return linked nodes as a symbol again."""
    number = {id(node): place for place, node in enumerate(nodes)}
    written = [
        {**node, "inputs": [[number[id(source)], output, 0] for source, output in node["inputs"]]}
        for node in nodes
    ]
    counts = (3 if node["op"] == "BatchNorm" else 1 for node in nodes)
    return {
        "nodes": written,
        "arg_nodes": [place for place, node in enumerate(nodes) if node["op"] == "null"],
        "node_row_ptr": [0, *accumulate(counts)],
        "heads": [[number[id(head)], output, 0] for head, output in heads],
        "attrs": symbol["attrs"],
    }
