"""Comparing nets by name: reading them so that their inputs fit one another, and comparing every pair."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Unpack

from netweave import comparison
from netweave.api.arguments import check_arrays, check_count, check_shapes, check_tolerance
from netweave.api.arrays import load_arrays
from netweave.api.image_pair import ImagePair
from netweave.api.nets import load
from netweave.comparison import LOCAL_TOLERANCE, OUTPUT_TOLERANCE, READING, Matrix
from netweave.errors import SourceError, UsageError
from netweave.graph import Graph, known_shape
from netweave.memory_plan import parse_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np

    from netweave.api.nets import ReadOptions
    from netweave.comparison import Comparison, Divergence
    from netweave.data.preprocessing import Preprocessing

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
    input has no sizes of its own takes those of another net: of the first one that has some. A file is read
    again only if it turns out that sizes are for another net, or that this one needs some.

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
    reading = _Reading(list(nets), shapes, options, progress)
    graphs = reading.graphs()
    if not shapes.keys() <= reading.taken:
        raise UsageError("input_shapes are for nets that are read from files; these have been read already")
    return graphs


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
    compare_two: Callable[[Graph, Graph], Comparison] | None = None,
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
        compare_two: Compares two nets; leave it out, it goes with the next release.
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
    named = [net if isinstance(net, tuple) else (_name(net), net) for net in nets]
    tolerance = check_tolerance(tolerance)
    if image is not None and len(named) > 2:
        raise UsageError("an image with its preprocessing is for two nets; of more, compare two at a time")
    shown = ImagePair.of(image, preprocess_a, preprocess_b, probe)
    options.setdefault("partial", last is not None)
    start = time.perf_counter()
    graphs = load_all([net for _, net in named], input_shapes=input_shapes, progress=progress, **options)
    reading = time.perf_counter() - start
    if compare_two is not None:
        warnings.warn(
            "compare_all compares by itself; give it the options of compare", DeprecationWarning, stacklevel=2
        )
    pairs = {}
    for i, j in combinations(range(len(graphs)), 2):
        a, b = graphs[i], graphs[j]
        if compare_two is not None:
            pairs[i, j] = compare_two(a, b)
            continue
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
    graphs = load_all([a, b], input_shapes=input_shapes, progress=progress, **options)
    given = _probe(probe, graphs[0])
    return comparison.bisect(*graphs, probe=given, tolerance=check_tolerance(tolerance), progress=progress)


@dataclass(slots=True)
class _Reading:
    """Reads nets that share the sizes of their inputs.

    Attributes:
        nets: The nets, as for ``load_all``.
        shapes: Sizes for all of them.
        options: As for ``load``.
        progress: Called with what is being read.
        taken: Names of the sizes that some net has an input for.
    """

    nets: list[Any]
    shapes: Sizes
    options: ReadOptions
    progress: Progress | None
    taken: set[str] = field(default_factory=set)
    _graphs: dict[int, Graph] = field(default_factory=dict)
    _unknown: dict[int, UsageError] = field(default_factory=dict)
    _open: dict[int, SourceError] = field(default_factory=dict)

    def graphs(self) -> list[Graph]:
        """Read all nets.

        Raises:
            SourceError: One cannot be read.
            UsageError: Sizes are given for an input that no net has.
        """
        files = [index for index, net in enumerate(self.nets) if not isinstance(net, Graph)]
        self._graphs = {i: net for i, net in enumerate(self.nets) if isinstance(net, Graph)}
        for index in files:
            self._read(index, self.shapes)
        self._refuse_names(files)
        for index, error in self._unknown.items():
            names = self.shapes.keys() - set(error.unknown_inputs)
            self._read(index, {name: self.shapes[name] for name in names})
        for index, failure in list(self._open.items()):
            self._adopt(index, failure)
        if self._unknown and not self.shapes.keys() <= self.taken:
            self._raise_unknown([name for name in self.shapes if name not in self.taken])
        return [self._graphs[index] for index in range(len(self.nets))]

    def _read(self, index: int, own: Sizes) -> None:
        """Read a net with the sizes that may be for it; what it says against them is kept for later."""
        net = self.nets[index]
        if self.progress is not None:
            self.progress(f"reading {net}")
        try:
            self._graphs[index] = load(net, input_shapes=own, likely_shapes=self._likely(own), **self.options)
        except UsageError as error:
            if not own.keys() & set(error.unknown_inputs):
                raise
            self._unknown[index] = error
        except SourceError as error:
            if len(error.open_inputs) != 1:
                raise
            self._open[index] = error
        else:
            self.taken |= own.keys()

    def _refuse_names(self, files: Sequence[int]) -> None:
        """Refuse names that no net has an input of, before any net is read with the others."""
        lacking = [self._unknown[index] for index in files if index in self._unknown]
        if not files or len(lacking) < len(files):
            return
        nowhere = set.intersection(*(set(error.unknown_inputs) for error in lacking))
        names = [name for name in self.shapes if name in nowhere]
        if names:
            self._raise_unknown(names)

    def _raise_unknown(self, names: Sequence[str]) -> NoReturn:
        errors = [self._unknown[index] for index in sorted(self._unknown)]
        raise UsageError("; ".join(map(str, errors)), unknown_inputs=tuple(names))

    def _likely(self, own: Sizes) -> list[tuple[int, ...]]:
        """Return sizes that a net without its own may have: those of another net, or meant for another."""
        known = [sizes for graph in self._graphs.values() if (sizes := _only_sizes(graph)) is not None]
        others = [sizes for name, sizes in self.shapes.items() if name not in own]
        return list(dict.fromkeys([*others, *known]))

    def _adopt(self, index: int, failure: SourceError) -> None:
        """Read a net whose only input has no sizes with those of another net."""
        net, (name,) = self.nets[index], failure.open_inputs
        lacking = self._unknown[index].unknown_inputs if index in self._unknown else ()
        own = {key: sizes for key, sizes in self.shapes.items() if key not in lacking}
        whose = next((i for i in sorted(self._graphs) if _only_sizes(self._graphs[i]) is not None), None)
        if whose is None or name in own:
            raise failure
        sizes = _only_sizes(self._graphs[whose]) or ()
        try:
            graph = load(net, input_shapes={**own, name: sizes}, **self.options)
        except UsageError as error:  # a reader may miss sizes before it looks at names
            self._unknown[index] = error
            own = {key: value for key, value in own.items() if key not in error.unknown_inputs}
            graph = load(net, input_shapes={**own, name: sizes}, **self.options)
        self.taken |= own.keys()
        other = "the first net" if whose == 0 else str(self.nets[whose])
        note = f"{net}: the input {name!r} takes its sizes from {other}: {'x'.join(map(str, sizes))}"
        self._graphs[index] = replace(graph, notes=(*graph.notes, note))


def _only_sizes(graph: Graph) -> tuple[int, ...] | None:
    """Return the sizes of a net's only input, the batch as 1; None if they are not all known."""
    if len(graph.inputs) != 1:
        return None
    value = graph.inputs[0]
    declared = graph.declared.get(str(value.name)) or known_shape(value) or ()
    sizes = (declared[0] or 1, *declared[1:]) if declared else ()
    return tuple(size for size in sizes if size) if sizes and all(sizes) else None


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
