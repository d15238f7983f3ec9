"""From what PyTorch's exporter wrote to a Graph: one layer per call of a module or function.

The exporter writes on each node: the scopes around its call, outermost first (``['', 'block',
'block.conv', 'conv2d']``), their classes and last the function (``aten.conv2d.default``), and the lines
of the source that it was called from.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from netweave.errors import ReadError
from netweave.files.library_errors import is_machinery
from netweave.files.onnx import Rows, read_model
from netweave.files.onnx.layers import role_of
from netweave.files.onnx.model import parse
from netweave.files.python_code import naming
from netweave.formats.pytorch.traced_sizes import drop_volume_biases, settle_reshapes, settle_splits
from netweave.graph import (
    CachedSteps,
    Graph,
    Layer,
    LayerTable,
    Origin,
    Parameter,
    Trace,
    parameter_key,
    set_layer_keys,
)
from netweave.graph.parameters import tag_parameter
from netweave.graph.passes import chain, compose, see_through

_PROP = "pkg.torch.onnx."

MAX_PROP = 20_000
"""Longer metadata are not looked at."""

_NO_SCOPE = "_empty_nn_module_stack"
"""What the exporter writes on sizes that it asks for itself."""

_FRAME = re.compile(r'File "([^"\n]+)", line (\d+)')


@dataclass(frozen=True, slots=True)
class _Step:
    """One function call in a trace, with its nodes.

    Attributes:
        scopes: Names of the modules around it, outermost first.
        types: Their classes.
        name: Its name in the trace (``conv2d_1``).
        function: What is called (``aten.conv2d``).
        nodes: Its nodes.
    """

    scopes: tuple[str, ...]
    types: tuple[str, ...]
    name: str
    function: str
    nodes: tuple[ir.Node, ...]


def mark_calls(
    model: ir.Model,
    types: Mapping[str, str],
    settings: Mapping[str, dict[str, Any]],
    files: Mapping[str, str],
    lines: Mapping[str, tuple[tuple[str, int], ...]],
) -> LayerTable:
    """Return one layer per call of a module without parts, and of a function outside of these.

    Args:
        model: The model as exported; its nodes are marked.
        types: Class of each module, by name.
        settings: Settings of each module, by name.
        files: Files as given, by their full paths, for origins.
        lines: Files and lines that construct each module, the innermost first, by name, where known.
    """
    steps = _steps(model)
    parents = {scope for step in steps for scope in step.scopes[:-1]}
    table, calls = LayerTable(), dict[str, int]()
    for name, run in groupby(steps, key=lambda step: _owner(step, parents)):
        for call in _split(list(run)):
            first = call[0]
            is_module = name == first.scopes[-1]
            kind = types.get(name) or first.types[-1] if is_module else first.function
            key = table.free_key(name)
            places = [origin_of(line, files) for line in lines.get(name, ())] if is_module else []
            known = [place for place in places if place is not None]
            table.add(
                Layer(
                    key=key,
                    name=name,
                    type=kind,
                    settings=settings.get(name, {}) if is_module else {},
                    origin=_origin(first.nodes, files),
                    call=calls.get(name, 0),
                    definition=known[0] if known else None,
                    callers=tuple(known[1:]),
                )
            )
            calls[name] = calls.get(name, 0) + 1
            for node in (node for step in call for node in step.nodes):
                set_layer_keys(node, [key])
    return table


def _owner(step: _Step, parents: set[str]) -> str:
    """Return the name of the layer: the module's if it has no parts that are called, else the function's."""
    scope = step.scopes[-1]
    if scope and scope not in parents:
        return scope
    return f"{scope}.{step.name}" if scope else step.name


def _split(run: Sequence[_Step]) -> Iterable[Sequence[_Step]]:
    """Divide neighbouring steps of one module into its calls: the same functions come again."""
    functions = [step.function for step in run]
    for size in range(1, len(run) + 1):
        if len(run) % size == 0 and functions == functions[:size] * (len(run) // size):
            return [run[start : start + size] for start in range(0, len(run), size)]
    return [run]


def _steps(model: ir.Model) -> list[_Step]:
    steps = []
    marked = ((*_scopes(node), node) for node in model.graph)
    for (scopes, types), group in groupby(marked, key=lambda row: row[:2]):
        if len(scopes) > 1 and not scopes[0].startswith(_NO_SCOPE):
            nodes = tuple(row[2] for row in group)
            function = re.sub(r"(^aten\..*)\.\w+$", r"\1", types[-1])
            kinds = tuple(kind.rpartition(".")[2] for kind in types[:-1])
            steps.append(_Step(scopes[:-1], kinds, scopes[-1], function, nodes))
    return steps


def _scopes(node: ir.Node) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the scopes of a node and their classes, the function last; two empty ones if it has none."""
    scopes, types = (
        _texts(node.metadata_props.get(_PROP + key)) for key in ("name_scopes", "class_hierarchy")
    )
    if len(scopes) == len(types) > 1:
        return scopes, types
    path, _, function = (node.name or "").rpartition("/")  # TorchScript: /block/block.0/conv/Conv
    if not path.startswith("/"):
        return (), ()
    paths = [""]
    for part in path.split("/")[1:]:
        paths.append(part if not paths[-1] or part.startswith(paths[-1] + ".") else f"{paths[-1]}.{part}")
    return (*paths, function), (*paths, function)


def _texts(value: str | None) -> tuple[str, ...]:
    """Return a list of texts that was written as Python."""
    if value is None or len(value) > MAX_PROP:
        return ()
    try:
        return tuple(map(str, ast.literal_eval(value)))
    except (MemoryError, RecursionError, SyntaxError, TypeError, ValueError):
        return ()


def _origin(nodes: Sequence[ir.Node], files: Mapping[str, str]) -> Origin | None:
    """Return the innermost line of the caller's own code, or else of the package that the model is from.

    Lines of PyTorch itself do not count, nor do those of Netweave, which calls the model.
    """
    for node in nodes:
        trace = node.metadata_props.get(_PROP + "stack_trace", "")[:MAX_PROP]
        frames = [(file, int(line)) for file, line in _FRAME.findall(trace)]
        of_models = [frame for frame in frames if not is_machinery(frame[0])]
        own = [frame for frame in frames if frame[0] in files] or [
            frame for frame in of_models if "/site-packages/" not in frame[0]
        ]
        if own or of_models:
            file, line = (own or of_models)[-1]
            return Origin(files.get(file, _in_package(file)), line)
    return None


def origin_of(line: tuple[str, int] | None, files: Mapping[str, str]) -> Origin | None:
    """Return a recorded file and line as a place in a file as it was given; None in any other file."""
    return Origin(files[line[0]], line[1]) if line is not None and line[0] in files else None


def _in_package(file: str) -> str:
    """Return the name of a file of an installed package as it is imported, and of any other as it is."""
    return file.rpartition("/site-packages/")[2]


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
        is_fixed: As in ``Graph``.
        lengths: As in ``Trace``.
        left_out: As in ``Trace``.
        has_cache: The module may be called step by step, through a cache.
        caches: Places of what it takes back in its next call, among its outputs.
    """

    types: Mapping[str, str]
    settings: Mapping[str, dict[str, Any]]
    state: tuple[str, ...]
    trainable: frozenset[str]
    notes: tuple[str, ...]
    lines: Mapping[str, tuple[tuple[str, int], ...]] = field(default_factory=dict)
    returned: tuple[str, int] | None = None
    assumed: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    is_fixed: bool = False
    lengths: Mapping[int, str] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    has_cache: bool = False
    caches: tuple[int, ...] = ()

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
                is_fixed=bool(value.get("is_fixed", False)),
                lengths={int(number): str(name) for number, name in value.get("lengths", {}).items()},
                left_out=tuple(str(name)[:100] for name in value.get("left_out", ())),
                has_cache=bool(value.get("has_cache", False)),
                caches=tuple(map(int, value.get("caches", ()))),
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


def cached_steps(value: Any, *, place: str) -> CachedSteps:
    """Return what was found out of a decoder's steps through its cache, in a JSON value.

    Raises:
        ReadError: It is not as ``cached_steps.compare_steps`` makes it.
    """
    try:
        words = {name: str(value.get(name, ""))[:300] for name in ("how", "reason", "place", "cause", "line")}
        step = value.get("step")
        return CachedSteps(
            **words,
            error=float(value.get("error", 0.0)),
            at_once=float(value.get("at_once", 0.0)),
            num_steps=int(value.get("num_steps", 0)),
            step=None if step is None else int(step),
        )
    except (AttributeError, TypeError, ValueError) as error:
        raise ReadError(f"the child process wrote invalid steps ({error!r})", place=place) from error


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

    with naming(place, instead_of=str(path)):
        content = read_model(parse(path), path, rows)
    names = tuple(files.values())
    outputs = [str(value.name) for value in content.model.graph.outputs]
    parameters = _parameters(content.model, tables)
    graph = Graph(content.model, content.layers, parameters, content.declared, "pytorch", names, tables.notes)
    graph.notes += tuple(note.replace(str(path), place) for note in content.notes)
    graph.returned = origin_of(tables.returned, places)
    graph.assumed = dict(tables.assumed)
    graph.is_fixed = tables.is_fixed
    graph.caches = tuple(outputs[at] for at in tables.caches if 0 <= at < len(outputs))
    graph.model.graph.name = re.sub(r".*[/\\]", "", names[0]) if names else "module"
    chain(see_through, compose).edit(graph)
    _say_edges(graph)
    return graph


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
