"""Two frameworks' own nets of one name: the weights of one carried over to the other, and both compared."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import netweave
from netweave.errors import NetweaveError

if TYPE_CHECKING:
    from benchmarks.matrix.theirs import Their

OTHER_NETS: dict[tuple[str, str, str], str] = {}
"""Pairs that are other nets under one name, and how: their authors' decisions, not faults."""


def check(a: Their, b: Their) -> dict[str, Any]:
    """Carry weights over from one to the other, in the direction that works, and compare."""
    first, second = a.load(), b.load()
    found = None
    for net, port, direction in ((first, second, "carried over"), (second, first, "carried back")):
        try:
            filled = netweave.carry(net, port)
        except NetweaveError:
            continue
        found = netweave.compare(net, filled)
        return {"ok": found.equal, "said": found.sentence, "facts": {"weights": direction}}
    found = netweave.compare(first, second)
    known = next((why for (net, *formats), why in OTHER_NETS.items() if net == a.net and {a.format, b.format} == set(formats)), "")
    return {"ok": bool(known), "said": known or found.sentence, "facts": {"weights": "not carried", "differs": found.sentence}}
