"""Tools for coding agents that port nets: a server of the Model Context Protocol."""

from netweave.agents.server import serve

__all__ = ["serve"]
