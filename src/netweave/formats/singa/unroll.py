"""Layers unrolled through time, and joined to their sources: ``neuralnet.cc`` (Unrolling).

A layer with ``unroll_len`` n becomes n copies ``0#name``, ``1#name``, ... that share their parameters; one
that is not unrolled keeps its name, though SINGA calls it ``0#name`` since 0.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from netweave.errors import ReadError
from netweave.graph.ordering import CycleError, inputs_first

if TYPE_CHECKING:
    from netweave.files.protobuf import Message

MAX_COPIES = 10_000
MAX_EDGES = 100_000
"""Nets with more copies of layers, or more edges between them, are refused: each costs some kilobytes."""


@dataclass(frozen=True, slots=True)
class Unit:
    """One layer of the net that runs: a copy of one of the file's.

    Attributes:
        spec: The layer as the file has it.
        name: Its name in the net.
        index: Which copy it is, from 0.
        sources: Names of the layers that it reads, in order.
    """

    spec: Message
    name: str
    index: int
    sources: tuple[str, ...] = ()

    def place(self, file: str, line: int | None = None) -> str:
        """Return where the layer stands, for errors."""
        return f"{file}:{line or self.spec.line}: layer {self.name!r} ({kind_of(self.spec)})"


def kind_of(spec: Message) -> str:
    """Return the type of a layer; that of a user's own layer is in another field."""
    kind: str = spec["type"]
    return spec["user_type"] or kind if kind == "kUserLayer" else kind


def unroll(layers: Sequence[Message], *, default: int, of: Sequence[Message], place: str) -> list[Unit]:
    """Return the layers of the net that runs, in the order in which they can run.

    Args:
        layers: The layers of a phase.
        default: How often layers are unrolled that do not say it.
        of: Those and the layers of other phases, to say so where one is missed.
        place: Name of the file, for errors.

    Raises:
        ReadError: A source is not there, the layers form a circle, or there are too many copies.
    """
    counts = {layer["name"]: layer.get("unroll_len", default) for layer in layers}
    for layer in layers:
        if counts[layer["name"]] < 1 or sum(counts.values()) > MAX_COPIES:
            raise ReadError(
                f"'unroll_len' is {counts[layer['name']]}, expected 1 or more, and at most {MAX_COPIES:,} "
                "copies of all layers together",
                place=f"{place}:{layer.line_of('unroll_len')}",
            )
    copies = {
        layer["name"]: [
            Unit(layer, f"{index}#{layer['name']}" if counts[layer["name"]] > 1 else layer["name"], index)
            for index in range(counts[layer["name"]])
        ]
        for layer in layers
    }
    joined: list[Unit] = []
    num_edges = 0
    for unit in (unit for units in copies.values() for unit in units):
        joined.append(replace(unit, sources=tuple(_sources(unit, copies, of, place))))
        num_edges += len(joined[-1].sources)
        if num_edges > MAX_EDGES:
            raise ReadError(f"the layers have more than {MAX_EDGES:,} sources", place=unit.place(place))
    return _in_order(joined, place)


def _sources(unit: Unit, copies: dict[str, list[Unit]], of: Sequence[Message], place: str) -> list[str]:
    spec, names = unit.spec, list[str]()
    for number, name in enumerate(spec["srclayers"]):
        line = spec.line_of("srclayers", number)
        if name not in copies:
            raise ReadError(_why_missing(name, of), place=unit.place(place, line))
        names += [source.name for source in _reached(unit, copies[name], number, place)]
    own = copies[spec["name"]]
    if spec["type"] == "kGRU" and unit.index:
        names.append(own[unit.index - 1].name)
    return names


def _reached(unit: Unit, sources: Sequence[Unit], number: int, place: str) -> Sequence[Unit]:
    """Return the copies of a source that a copy of a layer reads."""
    spec = unit.spec
    kinds, shifts = spec["unroll_conn_type"], spec["shift"]
    kind = kinds[number] if number < len(kinds) else "kUnrollOneToOne"
    if kind == "kUnrollOneToAll":
        return sources
    if kind == "kUnrollFirstToLast":
        return sources[-1:] if unit.index == 0 else ()
    if kind == "kUnrollCustomized":
        return ()
    step = unit.index - (shifts[number] if number < len(shifts) else 0)
    if step < 0:
        return ()
    if step >= len(sources):
        raise ReadError(
            f"is copy {unit.index} and reads {spec['srclayers'][number]!r}, which has {len(sources)} "
            f"{'copy' if len(sources) == 1 else 'copies'}; give both the same 'unroll_len', or this source "
            "'unroll_conn_type: kUnrollOneToAll'",
            place=unit.place(place, spec.line_of("srclayers", number)),
        )
    return sources[step : step + 1]


def _why_missing(name: str, of: Sequence[Message]) -> str:
    elsewhere = next((layer for layer in of if layer["name"] == name), None)
    if elsewhere is None:
        return f"reads {name!r}, but there is no layer of that name"
    rules = [f"{sort}: {phase}" for sort in ("include", "exclude") for phase in elsewhere[sort]]
    return (
        f"reads {name!r}, which is left out here (line {elsewhere.line}; {' '.join(rules)}); "
        "choose another phase, or leave this layer out too"
    )


def _in_order(units: Sequence[Unit], place: str) -> list[Unit]:
    """Sort layers so that sources come first, else as in the file.

    A hidden layer of an RBM reads its visible one and is read by it: there the latter's way back is no edge.
    """
    by_name = {unit.name: unit for unit in units}
    try:
        names = inputs_first(by_name, lambda name: forward_sources(by_name[name], by_name))
    except CycleError as cycle:
        circle = cycle.path
        raise ReadError(
            f"{len(circle)} layers form a cycle: {', '.join(circle[:5])}; only a kRBMVis and its kRBMHid may",
            place=by_name[circle[0]].place(place),
        ) from cycle
    return [by_name[name] for name in names]


def forward_sources(unit: Unit, by_name: dict[str, Unit]) -> list[str]:
    """Return the sources of a layer without the way back of an RBM."""
    if unit.spec["type"] != "kRBMVis":
        return list(unit.sources)
    return [name for name in unit.sources if by_name[name].spec["type"] != "kRBMHid"]
