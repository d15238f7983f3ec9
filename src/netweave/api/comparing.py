"""Comparing nets by name: two of them, every pair of several, or by binary search."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from netweave import comparison
from netweave.api.arguments import (
    check_arrays,
    check_count,
    check_net,
    check_nets,
    check_text,
    check_tolerance,
)
from netweave.api.arrays import load_arrays
from netweave.api.image_pair import ImagePair
from netweave.api.reading import load_all
from netweave.comparison import LOCAL_TOLERANCE, OUTPUT_TOLERANCE, READING, Matrix
from netweave.errors import UsageError
from netweave.graph import Graph
from netweave.runtime.memory_plan import parse_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np

    from netweave.api.nets import ReadOptions
    from netweave.comparison import Comparison, Divergence
    from netweave.runtime.images.preprocessing import Preprocessing

    Probe = Mapping[str, np.ndarray] | str | Path
    Progress = Callable[[str], None]


def compare(
    a: Any,
    b: Any,
    *,
    first: str | None = None,
    last: str | None = None,
    probe: Probe | None = None,
    image: str | Path | None = None,
    preprocess_a: Preprocessing | str | None = None,
    preprocess_b: Preprocessing | str | None = None,
    tolerance: float = OUTPUT_TOLERANCE,
    strict: bool = False,
    seed: int = 0,
    num_samples: int | None = None,
    keep_values: bool = False,
    memory: int | str | None = None,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    progress: Progress | None = None,
    on_verdict: Callable[[Comparison], None] | None = None,
    **options: Unpack[ReadOptions],
) -> Comparison:
    """Compare two nets: where they agree, where they differ, why, and what to change.

    Args:
        a: The first net: a Graph, or files as for ``load``.
        b: The second net, the one that a fix would change.
        first: Layer, node or value of A that the compared part starts with; its counterpart in B is found.
        last: Layer, node or value of A that the compared part ends with. What cannot be read, and all that
            needs it, is then left out of both nets.
        probe: Inputs of A to run on, by name, or a file of them as for ``load_arrays``; drawn otherwise.
        image: An image to run on, instead of a probe; what each net is given of it is compared as well.
        preprocess_a: How A is given the image: a ``Preprocessing``, the name of a preset (``caffe``,
            ``torchvision``, ``gluon``, ``keras-caffe``, ``keras-tf``, ``keras-torch``, ``darknet``), or
            settings such as ``resize=256,crop=224,order=bgr,mean=104;117;123,scale=1``.
        preprocess_b: The same for B.
        tolerance: Largest relative error of an output treated as equal, > 0.
        strict: Say *not decidable* instead of *equal* where a setting differs without effect on the inputs
            tried, or something was not exercised: see ``Comparison.is_strictly_equal``.
        seed: What inputs are drawn by, >= 0; another seed draws others.
        num_samples: Samples that are drawn where the nets leave the batch open, >= 1. The first is noise, the
            second a smooth image, the third noise of the size of pixels, and further ones are noise. By
            default three, and two of nets that take long for each.
        keep_values: Keep what each group of layers computes in both nets, for the page: see ``Group.values``.
        memory: What the process may take of the memory, with both nets: bytes, or a size such as ``1GB``. Of
            what the nets compute, a part is held, and the rest computed again where it is needed. By default
            half of what is free, and no more than makes a comparison faster.
        input_shapes: Input sizes by name, for both nets; see ``load_all``.
        progress: Called with each step as it starts, in words.
        on_verdict: Called at most once with the result, where verdict and sentence are certain before the
            values of its groups are kept: of large nets that takes seconds.
        options: As for ``load``.

    Raises:
        SourceError: The files cannot be read.
        UsageError: There is no such layer, the probe or the sizes do not fit, or the memory is too little.
        RunError: A net cannot be run.
    """
    check_net(a, what="a")
    check_net(b, what="b")
    for name, layer in {"first": first, "last": last}.items():
        if layer is not None:
            check_text(layer, what=name, example="conv1")
    memory = _memory(memory)
    shown = ImagePair.of(image, preprocess_a, preprocess_b, probe)
    options.setdefault("partial", last is not None)
    start = time.perf_counter()
    graphs = load_all([a, b], input_shapes=input_shapes, progress=progress, **options)
    reading = time.perf_counter() - start
    tolerance = check_tolerance(tolerance)
    compared = comparison.compare(
        *graphs,
        first=first,
        last=last,
        probe=_probe(probe, graphs[0]) if shown is None else shown.input_of_a(graphs[0]),
        tolerance=tolerance,
        seed=check_count(seed, "seed", least=0),
        num_samples=None if num_samples is None else check_count(num_samples, "num_samples", least=1),
        keep_values=keep_values,
        memory=memory,
        progress=progress,
        on_verdict=on_verdict if shown is None and not strict else None,
    )
    compared = replace(compared, seconds={READING: reading, **compared.seconds})
    compared = compared if shown is None else shown.added_to(compared, *graphs, tolerance=tolerance)
    return compared.strictly() if strict else compared


def compare_all(
    nets: Sequence[Any],
    *,
    first: str | None = None,
    last: str | None = None,
    probe: Probe | None = None,
    image: str | Path | None = None,
    preprocess_a: Preprocessing | str | None = None,
    preprocess_b: Preprocessing | str | None = None,
    tolerance: float = OUTPUT_TOLERANCE,
    strict: bool = False,
    keep_values: bool = False,
    memory: int | str | None = None,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    progress: Progress | None = None,
    **options: Unpack[ReadOptions],
) -> Matrix:
    """Compare every pair of several nets; each net is read once.

    Args:
        nets: Graphs or files, as for ``load``; or names with Graphs, ``("port", graph)``.
        first: As for ``compare``, like all that follow.
        last: The end of the compared part.
        probe: Inputs of the first net of each pair.
        image: An image to run on, for two nets.
        preprocess_a: How the first net is given it.
        preprocess_b: How the second one is.
        tolerance: Largest relative error of an output treated as equal, > 0.
        strict: As for ``compare``.
        keep_values: As for ``compare``.
        memory: As for ``compare``.
        input_shapes: Input sizes by name, for all nets.
        progress: Called with each step as it starts.
        options: As for ``load``.

    Raises:
        SourceError: The files cannot be read.
        UsageError: There is no such layer, the probe or the sizes do not fit, or the memory is too little.
        RunError: A net cannot be run.
    """
    memory = _memory(memory)
    check_nets(nets, least=2, named=True)
    named = [net if isinstance(net, tuple) else (_name(net), net) for net in nets]
    tolerance = check_tolerance(tolerance)
    if image is not None and len(named) > 2:
        raise UsageError("an image with its preprocessing is for two nets; of more, compare two at a time")
    shown = ImagePair.of(image, preprocess_a, preprocess_b, probe)
    options.setdefault("partial", last is not None)
    start = time.perf_counter()
    graphs = load_all([net for _, net in named], input_shapes=input_shapes, progress=progress, **options)
    reading = time.perf_counter() - start
    pairs = {}
    for i, j in combinations(range(len(graphs)), 2):
        a, b = graphs[i], graphs[j]
        compared = comparison.compare(
            a,
            b,
            first=first,
            last=last,
            probe=_probe(probe, a) if shown is None else shown.input_of_a(a),
            tolerance=tolerance,
            keep_values=keep_values,
            memory=memory,
            progress=progress,
        )
        if (i, j) == (0, 1):
            compared = replace(compared, seconds={READING: reading, **compared.seconds})
        compared = compared if shown is None else shown.added_to(compared, a, b, tolerance=tolerance)
        pairs[i, j] = compared.strictly() if strict else compared
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

    Both nets are run several times, with one tensor kept at a time.

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
    check_net(a, what="a")
    check_net(b, what="b")
    graphs = load_all([a, b], input_shapes=input_shapes, progress=progress, **options)
    given = _probe(probe, graphs[0])
    return comparison.bisect(*graphs, probe=given, tolerance=check_tolerance(tolerance), progress=progress)


def _memory(memory: int | str | None) -> int | None:
    """Return a limit in bytes.

    Raises:
        UsageError: It is no size.
    """
    num_bytes = None if memory is None else parse_bytes(memory)
    if num_bytes is not None and num_bytes <= 0:
        raise UsageError(f"memory is {memory!r}, expected a size such as 1GB or 512MB")
    return num_bytes


def _probe(probe: Probe | None, a: Graph) -> Mapping[str, np.ndarray] | None:
    names = [str(value.name) for value in a.inputs]
    if isinstance(probe, str | Path):
        return load_arrays(probe, names)
    return None if probe is None else check_arrays(probe, what="probe", names=names)


def _name(net: Any) -> str:
    if isinstance(net, Graph):
        return net.name
    return str(net) if isinstance(net, str | Path) else type(net).__name__
