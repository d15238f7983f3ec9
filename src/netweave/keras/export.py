"""A model as a Graph, to be compared, converted and looked at."""

from __future__ import annotations

from netweave.graph import Graph
from netweave.keras.layer import Network
from netweave.keras.objective import lower_model


def to_graph(network: Network) -> Graph:
    """Return a model as a Graph, with its arrays."""
    arrays = {key: variable.numpy() for key, (_, variable) in network.variables_by_key().items()}
    return lower_model(network.call_graph.config(network.name), arrays=arrays)
