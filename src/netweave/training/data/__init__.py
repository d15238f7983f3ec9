"""The data pipeline: record sources, transforms, and loaders that prefetch on the engine.

Names (see ``__init__.pyi``) are loaded when first used: the order of records needs no reader of them.
"""

from netweave.deferred import names_of_stub

__all__, __getattr__, __dir__ = names_of_stub(__name__, __file__)
