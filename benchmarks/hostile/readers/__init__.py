"""Every reader and every source of records, by name."""

from __future__ import annotations

from functools import cache

from benchmarks.hostile.readers import code, corpus, nets, parts, records
from benchmarks.hostile.readers.reader import Reader, Seed

__all__ = ["Reader", "Seed", "readers"]


@cache
def readers() -> dict[str, Reader]:
    """Return the readers; those of the corpus only where there is one."""
    return {
        reader.name: reader for module in (nets, parts, records, code, corpus) for reader in module.readers()
    }
