"""Comparing."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from netweave import comparison
from netweave.api.arguments import (
    check_arrays,
    check_count,
    check_net,
    check_nets,
    check_text,
    check_tolerance,
    load_arrays,
)
from netweave.api.dumps import compare_with_dump
from netweave.api.images import ImagePair
from netweave.api.joint_reading import load_all
from netweave.api.reading import ReadOptions
from netweave.api.tiny import tiny_nets
from netweave.comparison import (
    LOCAL_TOLERANCE,
    READING,
    CompareOptions,
    Comparison,
    Divergence,
    Matrix,
)
from netweave.errors import UsageError
from netweave.files.persistent_child import keep_children
from netweave.graph import Graph
from netweave.runtime.memory_plan import parse_bytes

Probe = Mapping[str, np.ndarray] | str | Path
Progress = Callable[[str], None]


def compare(
    a: Any,
    b: Any,
    options: CompareOptions | None = None,
    *,
    progress: Progress | None = None,
    on_verdict: Callable[[Comparison], None] | None = None,
    **settings: Any,
) -> Comparison:
    """Compare two nets: where they agree, where they differ, why, and what to change.

    Args:
        a: The first net: a Graph, or files as for ``load``.
        b: The second net, the one that a fix would change.
        options: How they are compared.
        progress: Called with each step as it starts, in words.
        on_verdict: Called at most once with the result, where verdict and sentence are certain before the
            values of its groups are kept: of large nets that takes seconds.
        settings: Attributes of ``CompareOptions``, which are set on top of ``options``, and options of
            ``load`` for both nets.

    Raises:
        SourceError: The files cannot be read.
        UsageError: There is no such option or layer, the probe or the sizes do not fit, or the memory is too
            little.
        RunError: A net cannot be run.
    """
    check_net(a, what="a")
    check_net(b, what="b")
    (compared,) = _compare_pairs([a, b], options, settings, progress, on_verdict).values()
    return compared


def compare_all(
    nets: Sequence[Any],
    options: CompareOptions | None = None,
    *,
    progress: Progress | None = None,
    **settings: Any,
) -> Matrix:
    """Compare every pair of several nets; each net is read once.

    Args:
        nets: Graphs or files, as for ``load``; or names with Graphs, ``("port", graph)``.
        options: How each pair is compared; an image is for two nets.
        progress: Called with each step as it starts.
        settings: As for ``compare``.

    Raises:
        SourceError: The files cannot be read.
        UsageError: There is no such option or layer, the probe or the sizes do not fit, or the memory is too
            little.
        RunError: A net cannot be run.
    """
    check_nets(nets, least=2, named=True)
    named = [net if isinstance(net, tuple) else (_name(net), net) for net in nets]
    pairs = _compare_pairs([net for _, net in named], options, settings, progress)
    return Matrix(tuple(name for name, _ in named), pairs)


def _compare_pairs(
    nets: Sequence[Any],
    options: CompareOptions | None,
    settings: Mapping[str, Any],
    progress: Progress | None,
    on_verdict: Callable[[Comparison], None] | None = None,
) -> dict[tuple[int, int], Comparison]:
    """Read nets and compare every pair of them."""
    reading: ReadOptions = {name: value for name, value in settings.items() if name in _READ_OPTIONS}  # type: ignore[assignment]  # names of a TypedDict, looked up
    wanted = {name: value for name, value in settings.items() if name not in reading}
    options = _checked(CompareOptions.of(options, wanted, others=sorted(_READ_OPTIONS)))
    if options.image is not None and len(nets) > 2:
        raise UsageError("an image with its preprocessing is for two nets; of more, compare two at a time")
    image = ImagePair.of(options.image, options.preprocess_a, options.preprocess_b, options.probe)
    reading.setdefault("partial", options.last is not None)
    with keep_children():
        if not options.tiny:
            return _compared(nets, options, reading, image, progress, on_verdict)
        if progress is not None:
            progress("shrinking")
        with tiny_nets(nets, reading) as tiny:
            plain = replace(options, strict=False)
            pairs = _compared(tiny.nets, plain, tiny.options, image, progress, None)
        told = {key: tiny.told(compared) for key, compared in pairs.items()}
        return {key: each.strictly() if options.strict else each for key, each in told.items()}


def _compared(
    nets: Sequence[Any],
    options: CompareOptions,
    reading: ReadOptions,
    image: ImagePair | None,
    progress: Progress | None,
    on_verdict: Callable[[Comparison], None] | None,
) -> dict[tuple[int, int], Comparison]:
    if len(nets) == 2:
        given = {**reading, "input_shapes": options.input_shapes}
        dumped = compare_with_dump(nets[0], nets[1], given, probe=options.probe)
        if dumped is not None:
            _refuse_with_dump(options)
            return {(0, 1): dumped.strictly() if options.strict else dumped}
    start = time.perf_counter()
    graphs = load_all(nets, input_shapes=options.input_shapes, progress=progress, **reading)
    seconds = time.perf_counter() - start
    pairs = {}
    for i, j in combinations(range(len(graphs)), 2):
        a, b = graphs[i], graphs[j]
        probe = _probe(options.probe, a) if image is None else image.input_of_a(a)
        is_final = image is None and not options.strict
        compared = comparison.compare(
            a,
            b,
            replace(options, probe=probe),
            progress=progress,
            on_verdict=on_verdict if is_final else None,
        )
        if (i, j) == (0, 1):
            compared = replace(compared, seconds={READING: seconds, **compared.seconds})
        compared = compared if image is None else image.added_to(compared, a, b, tolerance=options.tolerance)
        pairs[i, j] = compared.strictly() if options.strict else compared
    return pairs


def _refuse_with_dump(options: CompareOptions) -> None:
    """Refuse options that a dump leaves no choice of: it is of one run, on inputs of its own.

    Raises:
        UsageError: One is given.
    """
    for name in ("first", "last", "image"):
        if getattr(options, name) is not None:
            raise UsageError(
                f"a dump holds one run with its own inputs; it is compared without the option {name}"
            )


_READ_OPTIONS = frozenset(ReadOptions.__annotations__)


def _checked(options: CompareOptions) -> CompareOptions:
    """Return options whose values are known to be good, with the memory in bytes.

    Raises:
        UsageError: One is not; the message names it.
    """
    for name, layer in {"first": options.first, "last": options.last}.items():
        if layer is not None:
            check_text(layer, what=name, example="conv1")
    check_count(options.seed, "seed", least=0)
    if options.num_samples is not None:
        check_count(options.num_samples, "num_samples", least=1)
    return replace(options, tolerance=check_tolerance(options.tolerance), memory=_memory(options.memory))


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
