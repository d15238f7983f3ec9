"""Graph -> Graph."""

from netweave.passes.extract import Extractor, extract

__all__ = ["Extractor", "extract"]
