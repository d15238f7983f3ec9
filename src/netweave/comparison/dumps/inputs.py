"""The inputs of a run, found among the tensors of its dump, and the sequences that one run computed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, pairwise, product
from math import prod

import numpy as np
import onnx_ir as ir

from netweave.comparison.layout.tensors import candidate_layouts
from netweave.comparison.result.comparison import Comparison
from netweave.comparison.result.verdicts import Verdict
from netweave.errors import UsageError
from netweave.graph import Graph, known_shape
from netweave.graph.summary import value_summary

MAX_TRIED = 12
"""Choices of inputs that are tried, the likeliest first."""

Inputs = dict[str, np.ndarray]


def choose_inputs(graph: Graph, arrays: Mapping[str, np.ndarray], *, file: str) -> list[Inputs]:
    """Return choices of the inputs of a net among the tensors of a dump, the likeliest first.

    An input is taken by its name; else any tensor of its type and sizes may be it, one with ``input`` in its
    name first, in any order of axes.

    Args:
        graph: The net.
        arrays: The tensors of the dump.
        file: The dump, for messages.

    Raises:
        UsageError: No tensor fits an input; the message names all such inputs and says how to capture them.
    """
    found = {str(value.name): list(_candidates(value, arrays)) for value in graph.inputs}
    missing = [value for value in graph.inputs if not found[str(value.name)]]
    if missing:
        named = ", ".join(f"{value.name} ({value_summary(value)})" for value in missing)
        raise UsageError(
            f"{file}: has no tensor for the inputs {named} of {graph.name}, which a run needs; capture them "
            "as well, as netweave.capture(module) does, or add them to the file under these names"
        )
    rows = product(*found.values())
    return [dict(zip(found, row, strict=True)) for row in islice(rows, MAX_TRIED)]


def _candidates(value: ir.Value, arrays: Mapping[str, np.ndarray]) -> Iterator[np.ndarray]:
    name = str(value.name)
    exact = [key for key in arrays if key == name or key.rpartition(".")[2] == name]
    others = sorted((key for key in arrays if key not in exact), key=lambda key: "input" not in key.lower())
    kind = "f" if value.dtype is None or value.dtype.is_floating_point() else "iub"
    for key in [*exact, *([] if exact else others)]:
        x = arrays[key]
        if x.dtype.kind in kind or (kind == "f" and str(x.dtype) == "bfloat16"):
            yield from _fitted(value, x)


def _fitted(value: ir.Value, x: np.ndarray) -> Iterator[np.ndarray]:
    """Yield an array in the layouts that have the sizes of an input, its own first."""
    dtype = value.dtype.numpy() if value.dtype is not None else x.dtype
    shape = known_shape(value)
    if shape is None or _fits(x.shape, shape):
        yield x.astype(dtype)
        return
    rest = prod(size for size in shape if size)
    is_packed = x.ndim < len(shape) and rest > 0 and x.size % rest == 0
    batch = x.size // rest if is_packed else x.shape[0] if x.ndim else 1
    wanted = tuple(size or batch for size in shape) if x.ndim else ()
    if prod(wanted) == x.size:
        for change in candidate_layouts(x.shape, wanted):
            yield np.ascontiguousarray(change.apply(x)).astype(dtype)
    elif len(shape) == x.ndim and value.dtype != ir.DataType.FLOAT:
        yield x.astype(dtype)  # ids of another length: the net is read again for it


def _fits(sizes: tuple[int, ...], shape: tuple[int | None, ...]) -> bool:
    return len(sizes) == len(shape) and all(
        wanted in {None, size} or axis == 0
        for axis, (size, wanted) in enumerate(zip(sizes, shape, strict=True))
    )


Span = tuple[int, int, int]
"""A sequence: the row of the batch, its first step, and the one behind its last."""


def compare_sequences(
    arrays: Mapping[str, np.ndarray], compare: Callable[[dict[str, np.ndarray]], Comparison]
) -> Comparison:
    """Compare the sequences of a dump that are padded or packed, those of one length at a time.

    Args:
        arrays: The dump. A mask of zeros and ones says where padding is; ``cu_seqlens`` or positions that
            start again say where packed sequences start. Without these it is compared as it is.
        compare: Compares a part of the dump.

    Padding is left out, since what is computed of it means nothing. Of more than two lengths the longest and
    the shortest are compared.

    Returns:
        The first result that is *different*, else one that is not *equal*.
    """
    lengths, parts = _by_length(arrays)
    if not parts:
        return compare(dict(arrays))
    results: list[Comparison] = []
    for part in parts:
        results.append(compare(part))
        if results[-1].verdict is Verdict.DIFFERENT:
            break
    first = min(results, key=lambda each: (each.verdict is not Verdict.DIFFERENT, each.equal))
    shown = " and ".join(str(length) for length in lengths[: len(results)])
    note = f"sequences of {shown} tokens were compared, each length by itself and without padding"
    return replace(first, notes=(*first.notes, note))


def _by_length(arrays: Mapping[str, np.ndarray]) -> tuple[list[int], list[dict[str, np.ndarray]]]:
    """Return the longest and the shortest length of a dump's sequences, and their tensors."""
    found = (given for name, x in arrays.items() if (given := _sequences_in(name, x)))
    sizes, spans = next((each for each in found if _has_tokens(arrays, each[0])), ((0, 0), []))
    if not spans:
        return [], []
    rows: dict[int, list[Span]] = defaultdict(list)
    for span in spans:
        rows[span[2] - span[1]].append(span)
    lengths = sorted(rows, reverse=True)
    lengths = [lengths[0], *lengths[1:][-1:]]
    return lengths, [_cut(arrays, sizes, rows[length]) for length in lengths]


def _sequences_in(name: str, x: np.ndarray) -> tuple[tuple[int, int], list[Span]] | None:
    """Return the sizes of a batch and the sequences in it, if a tensor says where they are."""
    own = name.lower()
    if x.dtype.kind not in "iub" or not x.size:
        return None
    if "mask" in own and x.ndim == 2 and x.max() <= 1 and x.min() >= 0 and not x.all():
        seen = x.astype(bool)
        spans = [(i, int(row.argmax()), len(row) - int(row[::-1].argmax())) for i, row in enumerate(seen)]
        is_whole = all(seen[i, first:last].all() and last > first for i, first, last in spans)
        return ((x.shape[0], x.shape[1]), spans) if is_whole and seen.any(1).all() else None
    flat = x.reshape(-1)
    if "position" in own and flat.size == x.shape[-1]:
        starts = np.flatnonzero(flat == 0)
        is_counted = np.isin(np.diff(flat.astype(np.int64)), (1, *(-flat[starts[1:] - 1])))
        bounds = [*starts.tolist(), flat.size] if is_counted.all() else []
    else:
        bounds = flat.tolist() if "seqlen" in own and x.ndim == 1 else []
    if len(bounds) < 3 or bounds[0] or any(b <= a for a, b in pairwise(bounds)):
        return None
    return (1, int(bounds[-1])), [(0, int(a), int(b)) for a, b in pairwise(bounds)]


def _has_tokens(arrays: Mapping[str, np.ndarray], sizes: tuple[int, int]) -> bool:
    """Return whether a dump holds ids or features of each step: a mask of scores is of no batch."""
    shapes = [x.shape for name, x in arrays.items() if "mask" not in name.lower() and x.ndim]
    return any(shape[:2] == sizes or shape[0] == sizes[0] * sizes[1] for shape in shapes)


def _cut(
    arrays: Mapping[str, np.ndarray], sizes: tuple[int, int], spans: Sequence[Span]
) -> dict[str, np.ndarray]:
    """Return the tensors of some sequences of one length, a row each; tensors without steps are left out."""
    batch, steps = sizes
    found = {}
    for name, x in arrays.items():
        whole = x
        if x.ndim and x.shape[0] == batch * steps and (batch > 1 or steps > 1):
            whole = x.reshape(batch, steps, *x.shape[1:])
        axis = next((i for i in range(1, min(whole.ndim, 4)) if whole.shape[i] == steps), 0)
        if not axis or whole.shape[0] != batch:
            continue
        both = whole.ndim > axis + 1 and whole.ndim == 4 and whole.shape[-1] == steps
        rows = []
        for row, first, last in spans:
            part = whole[row].take(range(first, last), axis - 1)
            rows.append(part[..., first:last] if both else part)
        found[name] = np.stack(rows)
    return found
