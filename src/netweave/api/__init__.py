"""The public API: what ``import netweave`` provides; its names are in ``__init__.pyi``."""

from netweave.deferred import names_of_stub

__all__, __getattr__, __dir__ = names_of_stub(__name__, __file__)
