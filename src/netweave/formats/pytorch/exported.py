"""From what PyTorch's exporter wrote to a Graph: one layer per call of a module or function."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from netweave.errors import ReadError, SourceError
from netweave.files.onnx import Rows, read_model
from netweave.files.onnx.layers import role_of
from netweave.files.onnx.model import parse
from netweave.formats.pytorch.module_calls import mark_calls, origin_of
from netweave.formats.pytorch.traced_sizes import drop_volume_biases, settle_reshapes, settle_splits
from netweave.graph import Graph, Parameter, Trace, parameter_key
from netweave.graph.parameters import tag_parameter
from netweave.graph.passes import chain, compose, see_through

_STATISTICS = {"running_mean": "mean", "running_var": "variance"}


@dataclass(frozen=True, slots=True)
class Tables:
    """Checked information from the module; it comes from a process that ran foreign code.

    Attributes:
        types: Class of each part, by its name.
        settings: Settings of each part, by its name; JSON values.
        state: Names of the stored arrays, in the module's order.
        trainable: Those that are parameters, not statistics.
        notes: What to tell the user.
        lines: Files and lines that construct each part, the innermost first, by its name, where they are
            known.
        returned: File and line that return the outputs, where that is known.
        assumed: Sizes of inputs that the module was traced with because nobody gave any.
        lengths: As in ``Trace``.
        left_out: As in ``Trace``.
    """

    types: Mapping[str, str]
    settings: Mapping[str, dict[str, Any]]
    state: tuple[str, ...]
    trainable: frozenset[str]
    notes: tuple[str, ...]
    lines: Mapping[str, tuple[tuple[str, int], ...]] = field(default_factory=dict)
    returned: tuple[str, int] | None = None
    assumed: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    lengths: Mapping[int, str] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()

    @classmethod
    def parse(cls, value: Any, *, place: str) -> Tables:
        """Return the tables in a JSON value.

        Raises:
            ReadError: They are not as ``module.export`` makes them.
        """
        try:
            modules = {
                str(name): (str(row["type"]), dict(row["settings"])) for name, row in value["modules"].items()
            }
            returned = value.get("returned")
            return cls(
                types={name: kind for name, (kind, _) in modules.items()},
                settings={name: settings for name, (_, settings) in modules.items()},
                state=tuple(map(str, value["state"])),
                trainable=frozenset(map(str, value["trainable"])),
                notes=tuple(str(note)[:500] for note in value["notes"]),
                lines={
                    str(name): tuple((str(file), int(line)) for file, line in places)
                    for name, places in value.get("lines", {}).items()
                },
                returned=(str(returned[0]), int(returned[1])) if returned else None,
                assumed={
                    str(name): tuple(map(int, sizes)) for name, sizes in value.get("assumed", {}).items()
                },
                lengths={int(number): str(name) for number, name in value.get("lengths", {}).items()},
                left_out=tuple(str(name)[:100] for name in value.get("left_out", ())),
            )
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise ReadError(f"the child process wrote invalid tables ({error!r})", place=place) from error

    def trace(
        self,
        run: Callable[[Sequence[Mapping[str, np.ndarray]]], list[list[np.ndarray] | None]],
        again: Callable[[Mapping[str, tuple[int, ...]]], Graph],
    ) -> Trace:
        """Return how the module was traced, with what runs it and what traces it once more."""
        return Trace(self.lengths, self.left_out, run, again)


def read_exported(
    path: Path,
    tables: Tables,
    *,
    place: str,
    files: Mapping[str, str],
    beside: Mapping[str, str] | None = None,
) -> Graph:
    """Read what PyTorch's exporter wrote.

    Args:
        path: The ONNX file.
        tables: What the module says beside it.
        place: The model's own file or class, for messages.
        files: The files as given, the net first, by their full paths.
        beside: Names of the files of code that the net's file imports, by their full paths.

    Raises:
        SourceError: It holds something unknown, or does not fit together.
    """
    places = {**files, **(beside or {})}

    def rows(model: ir.Model) -> Rows:
        settle_reshapes(model)
        settle_splits(model)
        drop_volume_biases(model)
        return Rows(mark_calls(model, tables.types, tables.settings, places, tables.lines))

    with _naming(place, instead_of=str(path)):
        content = read_model(parse(path), path, rows)
    names = tuple(files.values())
    parameters = _parameters(content.model, tables)
    graph = Graph(content.model, content.layers, parameters, content.declared, "pytorch", names, tables.notes)
    graph.notes += tuple(note.replace(str(path), place) for note in content.notes)
    graph.returned = origin_of(tables.returned, places)
    graph.assumed = dict(tables.assumed)
    graph.model.graph.name = re.sub(r".*[/\\]", "", names[0]) if names else "module"
    chain(see_through, compose).edit(graph)
    _say_edges(graph)
    return graph


@contextmanager
def _naming(place: str, *, instead_of: str) -> Iterator[None]:
    """Let errors name the model and not the file that it was exported to, which is gone afterwards."""
    try:
        yield
    except SourceError as error:
        where = (error.place or instead_of).replace(instead_of, place)
        message = error.message.replace(instead_of, place)
        raise type(error)(message, place=where, open_inputs=error.open_inputs) from error


def _parameters(model: ir.Model, tables: Tables) -> dict[str, Parameter]:
    """Return the stored arrays by their names in the state dict, in its order."""
    initializers, found = model.graph.initializers, {}
    for name in tables.state:
        value = initializers.get(name)
        if value is None or value.const_value is None:
            continue
        role = _STATISTICS.get(name.rpartition(".")[2]) or role_of(value) or "weight"
        shape = tuple(value.const_value.shape.numpy())
        found[name] = Parameter(name, shape, role=role, trainable=name in tables.trainable)
        tag_parameter(value, name)
    return found


def _say_edges(graph: Graph) -> None:
    """Write into the layer table what each layer reads and makes."""
    for key, nodes in graph.nodes_of().items():
        own = set(nodes)
        reads = [value for node in nodes for value in node.inputs if value is not None]
        makes = [value for node in nodes for value in node.outputs if _leaves(value, own)]
        inputs = [v.name or "" for v in reads if not v.is_initializer() and v.producer() not in own]
        stored = [name for v in reads if v.is_initializer() and (name := parameter_key(v)) is not None]
        layer = replace(
            graph.layers[key],
            inputs=tuple(dict.fromkeys(inputs)),
            outputs=tuple(value.name or "" for value in makes),
            parameters=tuple(dict.fromkeys(stored)),
        )
        graph.layers.add(layer)


def _leaves(value: ir.Value, own: AbstractSet[ir.Node]) -> bool:
    """Return whether something outside of a layer's own nodes reads a value."""
    return value.is_graph_output() or any(use.node not in own for use in value.uses())
