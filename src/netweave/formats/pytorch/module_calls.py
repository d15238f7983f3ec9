"""Calls of modules and functions that the nodes of an exported model belong to.

The exporter writes on each node: the scopes around its call, outermost first (``['', 'block',
'block.conv', 'conv2d']``), their classes and last the function (``aten.conv2d.default``), and the lines
of the source that it was called from.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import onnx_ir as ir

from netweave.formats.pytorch.error_text import is_machinery
from netweave.graph import Layer, LayerTable, Origin, set_layer_keys

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
