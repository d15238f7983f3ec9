"""A net whose input sizes a file leaves open, from two readings of it with two guesses of them.

A size that is the same in both does not depend on the guess; one that differs is open. No reader needs
symbolic arithmetic for it, and weights whose sizes follow from an input's are treated as values are.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import onnx_ir as ir

from netweave.graph.shapes import symbol_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    from netweave.graph import Graph, Parameter

    Size = int | ir.SymbolicDim
    Letters = Mapping[tuple[int, Size, Size], str]

LETTERS = {2: "NC", 3: "NCW", 4: "NCHW", 5: "NCDHW"}
"""What the axes of an input are called, by their number."""


def with_open_sizes(graph: Graph, other: Graph) -> Graph:
    """Return a net with those sizes open that differ between two readings of it.

    Such a net can be looked at; to be run or written it must be read with all sizes.

    Args:
        graph: The net, read with one guess of the sizes that its file does not give.
        other: The same net, read with another guess.
    """
    merged, others = graph.clone(), other.values()
    letters = _letters(graph, other)
    for name, value in merged.values().items():
        sizes, other_sizes = _sizes(value), _sizes(others.get(name))
        if len(sizes) != len(other_sizes):
            value.shape = None
        elif sizes != other_sizes:
            pairs = enumerate(zip(sizes, other_sizes, strict=True))
            dims = (
                a if a == b else letters.get((axis, a, b)) or symbol_for(name, axis) for axis, (a, b) in pairs
            )
            value.shape = ir.Shape(dims)
    for key, parameter in graph.parameters.items():
        merged.parameters[key] = _with_open_axes(parameter, other.parameters.get(key))
    for name, declared in graph.declared.items():
        pairs_declared = zip(declared, other.declared.get(name, declared), strict=True)
        merged.declared[name] = tuple(a if a == b else None for a, b in pairs_declared)
    return merged


def _letters(graph: Graph, other: Graph) -> Letters:
    """Return the letters of the inputs' open sizes, by their axis and the two guesses."""
    others = {value.name: value for value in other.inputs}
    letters: dict[tuple[int, Size, Size], str] = {}
    for value in graph.inputs:
        sizes = _sizes(value)
        for axis, pair in enumerate(zip(sizes, _sizes(others.get(value.name)), strict=False)):
            if pair[0] != pair[1] and len(sizes) in LETTERS:
                letters[axis, *pair] = LETTERS[len(sizes)][axis]
    return letters


def _sizes(value: ir.Value | None) -> list[Size]:
    return [] if value is None or value.shape is None else list(value.shape)


def _with_open_axes(parameter: Parameter, other: Parameter | None) -> Parameter:
    if other is None or len(other.shape) != len(parameter.shape) or other.shape == parameter.shape:
        return parameter
    pairs = enumerate(zip(parameter.shape, other.shape, strict=True))
    open_axes = tuple(axis for axis, (a, b) in pairs if a != b)
    shape = tuple(1 if axis in open_axes else size for axis, size in enumerate(parameter.shape))
    return replace(parameter, shape=shape, open_axes=open_axes)
