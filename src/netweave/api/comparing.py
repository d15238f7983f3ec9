"""Comparing nets by name: reading them so that their inputs fit one another, and comparing every pair."""

from __future__ import annotations

import warnings
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from netweave import comparison
from netweave.api.arguments import check_arrays, check_count, check_shapes, check_tolerance
from netweave.api.arrays import load_arrays
from netweave.api.nets import load
from netweave.comparison import LOCAL_TOLERANCE, NUM_SAMPLES, OUTPUT_TOLERANCE, Matrix
from netweave.errors import SourceError, UsageError
from netweave.graph import Graph, known_shape

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np

    from netweave.api.nets import ReadOptions
    from netweave.comparison import Comparison, Divergence

    Probe = Mapping[str, np.ndarray] | str | Path
    Progress = Callable[[str], None]
    Sizes = dict[str, tuple[int, ...]]


def load_all(
    nets: Sequence[Any],
    *,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    progress: Progress | None = None,
    **options: Unpack[ReadOptions],
) -> list[Graph]:
    """Read nets that are compared with one another, which may call their inputs differently.

    Sizes go to every net that has an input of the name; each must fit one net at least. A net whose only
    input has no sizes of its own takes those of the first net. A file is read again only if it turns out that
    sizes are for another net, or that this one needs some.

    Args:
        nets: Graphs, files or modules, as for ``load``; Graphs stay as they are.
        input_shapes: Input sizes by name, for all nets.
        progress: Called with what is being read.
        options: As for ``load``.

    Raises:
        SourceError: A net cannot be read.
        UsageError: Sizes are given for an input that no net has.
    """
    shapes = check_shapes(input_shapes)
    unknown: list[UsageError] = []
    taken: set[str] = set()
    graphs: list[Graph] = []
    for net in nets:
        if isinstance(net, Graph):
            graphs.append(net)
            continue
        if progress is not None:
            progress(f"reading {net}")
        graph, sizes = _load_like(net, shapes, graphs[0] if graphs else None, unknown, options)
        taken |= sizes.keys()
        graphs.append(graph)
    for error in unknown:
        if not taken.issuperset(error.unknown_inputs):
            raise error
    if not shapes.keys() <= taken:
        raise UsageError("input_shapes are for nets that are read from files; these have been read already")
    return graphs


def compare(
    a: Any,
    b: Any,
    *,
    first: str | None = None,
    last: str | None = None,
    probe: Probe | None = None,
    tolerance: float = OUTPUT_TOLERANCE,
    seed: int = 0,
    num_samples: int = NUM_SAMPLES,
    keep_values: bool = False,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    progress: Progress | None = None,
    **options: Unpack[ReadOptions],
) -> Comparison:
    """Compare two nets: where they agree, where they differ, why, and what to change.

    Args:
        a: The first net: a Graph, or files as for ``load``.
        b: The second net, the one that a fix would change.
        first: Layer, node or value of A that the compared part starts with; its counterpart in B is found.
        last: Layer, node or value of A that the compared part ends with.
        probe: Inputs of A to run on, by name, or a file of them as for ``load_arrays``; drawn otherwise.
        tolerance: Largest relative error of an output treated as equal, > 0.
        seed: What inputs are drawn by, >= 0; another seed draws others.
        num_samples: Samples that are drawn where the nets leave the batch open, >= 1. The first is noise, the
            second a smooth image, the third noise of the size of pixels, and further ones are noise.
        keep_values: Keep what each group of layers computes in both nets, for the page: see ``Group.values``.
        input_shapes: Input sizes by name, for both nets; see ``load_all``.
        progress: Called with each step as it starts, in words.
        options: As for ``load``.

    Raises:
        SourceError: The files cannot be read.
        UsageError: There is no such layer, or the probe or the sizes do not fit.
        RunError: A net cannot be run.
    """
    graphs = load_all([a, b], input_shapes=input_shapes, progress=progress, **options)
    return comparison.compare(
        *graphs,
        first=first,
        last=last,
        probe=_probe(probe, graphs[0]),
        tolerance=check_tolerance(tolerance),
        seed=check_count(seed, "seed", least=0),
        num_samples=check_count(num_samples, "num_samples", least=1),
        keep_values=keep_values,
        progress=progress,
    )


def compare_all(
    nets: Sequence[Any],
    compare_two: Callable[[Graph, Graph], Comparison] | None = None,
    *,
    first: str | None = None,
    last: str | None = None,
    probe: Probe | None = None,
    tolerance: float = OUTPUT_TOLERANCE,
    keep_values: bool = False,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    progress: Progress | None = None,
    **options: Unpack[ReadOptions],
) -> Matrix:
    """Compare every pair of several nets; each net is read once.

    Args:
        nets: Graphs or files, as for ``load``; or names with Graphs, ``("port", graph)``.
        compare_two: Compares two nets; leave it out, it goes with the next release.
        first: As for ``compare``, like all that follow.
        last: The end of the compared part.
        probe: Inputs of the first net of each pair.
        tolerance: Largest relative error of an output treated as equal, > 0.
        keep_values: As for ``compare``.
        input_shapes: Input sizes by name, for all nets.
        progress: Called with each step as it starts.
        options: As for ``load``.

    Raises:
        SourceError: The files cannot be read.
        UsageError: There is no such layer, or the probe or the sizes do not fit.
        RunError: A net cannot be run.
    """
    named = [net if isinstance(net, tuple) else (_name(net), net) for net in nets]
    tolerance = check_tolerance(tolerance)
    graphs = load_all([net for _, net in named], input_shapes=input_shapes, progress=progress, **options)
    if compare_two is not None:
        warnings.warn(
            "compare_all compares by itself; give it the options of compare", DeprecationWarning, stacklevel=2
        )
    pairs = {}
    for i, j in combinations(range(len(graphs)), 2):
        a, b = graphs[i], graphs[j]
        pairs[i, j] = (
            comparison.compare(
                a,
                b,
                first=first,
                last=last,
                probe=_probe(probe, a),
                tolerance=tolerance,
                keep_values=keep_values,
                progress=progress,
            )
            if compare_two is None
            else compare_two(a, b)
        )
    return Matrix(tuple(name for name, _ in named), pairs)


def bisect(
    a: Any,
    b: Any,
    *,
    probe: Probe | None = None,
    tolerance: float = LOCAL_TOLERANCE,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    progress: Progress | None = None,
    **options: Unpack[ReadOptions],
) -> Divergence:
    """Find the first layer at which two nets diverge on one input, by binary search.

    Both nets are run several times with one tensor kept at a time, for nets whose tensors do not fit into
    memory together, as ``compare`` needs them.

    Args:
        a: The first net: a Graph, or files as for ``load``.
        b: The second net.
        probe: Inputs of A, as for ``compare``.
        tolerance: Largest relative error of a tensor treated as equal, > 0.
        input_shapes: Input sizes by name, for both nets; see ``load_all``.
        progress: Called with what is being run.
        options: As for ``load``.

    Raises:
        SourceError: The files cannot be read.
        UsageError: A net has no weights, the inputs cannot be paired, or the probe or the sizes do not fit.
        RunError: A net cannot be run.
    """
    graphs = load_all([a, b], input_shapes=input_shapes, progress=progress, **options)
    given = _probe(probe, graphs[0])
    return comparison.bisect(*graphs, probe=given, tolerance=check_tolerance(tolerance), progress=progress)


def _load_like(
    net: Any, shapes: Sizes, first: Graph | None, unknown: list[UsageError], options: ReadOptions
) -> tuple[Graph, Sizes]:
    """Read a net with the sizes that are for it, and return these as well.

    Args:
        net: The net.
        shapes: Sizes for all nets.
        first: The first net, whose sizes are taken if this one has none; None for the first itself.
        unknown: Errors about sizes that are for other nets; added to.
        options: As for ``load``.
    """
    own, adopted = dict(shapes), ""
    while True:
        try:
            graph = load(net, input_shapes=own, **options)
        except UsageError as error:
            elsewhere = own.keys() & set(error.unknown_inputs)
            if not elsewhere:
                raise
            unknown.append(error)
            own = {name: sizes for name, sizes in own.items() if name not in elsewhere}
        except SourceError as error:
            sizes = _only_sizes(first) if first is not None and not adopted else None
            if len(error.open_inputs) != 1 or sizes is None:
                raise
            adopted = error.open_inputs[0]
            own[adopted] = sizes
        else:
            if adopted:
                text = "x".join(map(str, own[adopted]))
                note = f"{net}: the input {adopted!r} takes its sizes from the first net: {text}"
                graph = replace(graph, notes=(*graph.notes, note))
            return graph, own


def _only_sizes(graph: Graph) -> tuple[int, ...] | None:
    """Return the sizes of a net's only input, the batch as 1; None if they are not all known."""
    if len(graph.inputs) != 1:
        return None
    value = graph.inputs[0]
    declared = graph.declared.get(str(value.name)) or known_shape(value) or ()
    sizes = (declared[0] or 1, *declared[1:]) if declared else ()
    return tuple(size for size in sizes if size) if sizes and all(sizes) else None


def _probe(probe: Probe | None, a: Graph) -> Mapping[str, np.ndarray] | None:
    names = [str(value.name) for value in a.inputs]
    if isinstance(probe, str | Path):
        return load_arrays(probe, names)
    return None if probe is None else check_arrays(probe, what="probe", names=names)


def _name(net: Any) -> str:
    if isinstance(net, Graph):
        return net.name
    return str(net) if isinstance(net, str | Path) else type(net).__name__
