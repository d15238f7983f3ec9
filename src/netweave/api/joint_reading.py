"""Reading of nets that are compared with one another: side by side, at sizes that all of them take."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from itertools import islice, product
from pathlib import Path
from typing import Any, NoReturn, Unpack

from netweave.api.arguments import check_nets, check_shapes
from netweave.api.reading import ReadOptions, load, to_inference
from netweave.comparison.execution.sizes import sizes_to_run
from netweave.errors import SourceError, UsageError
from netweave.files.persistent_child import LARGEST_WEIGHTS, kept_children
from netweave.files.python_code import parse_net_name
from netweave.graph import Graph, known_shape
from netweave.graph.summary import dims_text

Progress = Callable[[str], None]
Shape = tuple[int, ...]
Sizes = dict[str, Shape]

USUAL_SIDES = (224, 24, 28, 32, 48, 12, 64, 96, 112, 128, 227, 256, 299)
"""Heights and widths that a net of data is tried with whose weights do not take those of the other net."""

USUAL_TOGETHER: tuple[Shape, ...] = ((1, 16), (1, 3, 64, 64))
"""Sizes that code with several inputs is tried with: sequences of tokens, and pictures."""

MOST_TRIED = 40
"""So many sizes are tried for one net."""


def load_all(
    nets: Sequence[Any],
    *,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    progress: Progress | None = None,
    **options: Unpack[ReadOptions],
) -> list[Graph]:
    """Read nets that are compared with one another, which may call their inputs differently.

    Sizes go to every net that has an input of the name; each must fit one net at least. A net that does not
    say the sizes of its inputs takes those of another net that does, wherever that stands, if they fit its
    weights and its layers. Code is traced after files of data have been read, which mostly say their sizes.
    A file is read again only if it turns out that sizes are for another net, or that this one needs some.

    Args:
        nets: Graphs, files or modules, as for ``load``; Graphs stay as they are.
        input_shapes: Input sizes by name, for all nets.
        progress: Called with what is being read.
        options: As for ``load``.

    Raises:
        SourceError: A net cannot be read.
        UsageError: Something is no net, or sizes are given for an input that no net has.
    """
    shapes = check_shapes(input_shapes)
    reading = _Reading(check_nets(nets, least=0), shapes, options, progress)
    graphs = reading.graphs()
    if not shapes.keys() <= reading.taken:
        raise UsageError("input_shapes are for nets that are read from files; these have been read already")
    return graphs


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
    _tried: dict[int, list[Shape]] = field(default_factory=dict)

    def graphs(self) -> list[Graph]:
        """Read all nets.

        Raises:
            SourceError: One cannot be read.
            UsageError: Sizes are given for an input that no net has.
        """
        files = [index for index, net in enumerate(self.nets) if not isinstance(net, Graph)]
        self._graphs = {i: net for i, net in enumerate(self.nets) if isinstance(net, Graph)}
        apart = [index for index in files if _is_read_apart(self.nets[index])]
        children = kept_children()
        together = apart if len(apart) > 1 and children is not None else []
        others = [index for index in files if index not in together]
        for index in sorted(others, key=lambda index: _is_code(self.nets[index])):
            self._read(index, self.shapes)
        if children is not None:
            self._read_together(together, children.threads)
        self._refuse_names(files)
        for index in self._unknown:
            self._read(index, self._own(index))
        for index, failure in list(self._open.items()):
            self._adopt(index, failure)
        self._agree()
        if self._unknown and not self.shapes.keys() <= self.taken:
            self._raise_unknown([name for name in self.shapes if name not in self.taken])
        return [self._graphs[index] for index in range(len(self.nets))]

    def _own(self, index: int) -> Sizes:
        """Return the sizes that are given for a net."""
        lacking = self._unknown[index].unknown_inputs if index in self._unknown else ()
        return {name: sizes for name, sizes in self.shapes.items() if name not in lacking}

    def _read(self, index: int, own: Sizes) -> None:
        """Read a net with the sizes that may be for it; what it says against them is kept for later."""
        self._announce(index, own)
        self._load(index, own)

    def _read_together(self, indices: Sequence[int], threads: Executor) -> None:
        """Read nets side by side that child processes read, which is nearly all of the time it takes.

        None knows of the sizes of another. If one of them says some, the others are traced again with these
        (``_agree``), as if it had been read later. Of several errors, that of the first net is raised.
        """
        for index in indices:
            self._announce(index, self.shapes)
        started = [threads.submit(copy_context().run, self._load, index, self.shapes) for index in indices]
        for reading in started:
            reading.result()
        results: tuple[dict[int, Any], ...] = (self._graphs, self._unknown, self._open)
        for read in results:  # sizes are tried in the order of the nets, whichever was read first
            for index in indices:
                if index in read:
                    read[index] = read.pop(index)

    def _announce(self, index: int, own: Sizes) -> None:
        if self.progress is not None:
            self.progress(f"reading {self.nets[index]}")
        self._tried[index] = self._likely(own)

    def _load(self, index: int, own: Sizes) -> None:
        likely = self._tried[index]
        try:
            self._graphs[index] = load(
                self.nets[index], input_shapes=own, likely_shapes=likely, **self.options
            )
        except UsageError as error:
            if not own.keys() & set(error.unknown_inputs):
                raise
            self._unknown[index] = error
        except SourceError as error:
            if not error.open_inputs:
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

    def _likely(self, own: Sizes) -> list[Shape]:
        """Return sizes that a net without its own may have: those of another net, or meant for another."""
        known = [sizes for graph in self._graphs.values() if (sizes := _only_sizes(graph)) is not None]
        others = [sizes for name, sizes in self.shapes.items() if name not in own]
        return list(dict.fromkeys([*others, *known]))

    def _agree(self) -> None:
        """Trace code again that was traced with sizes that nobody gave, where another net says some.

        If no net says any, all are traced with the largest sizes that all of them take: what is compared
        depends on no order.
        """
        assuming = [index for index, graph in sorted(self._graphs.items()) if graph.assumed]
        for index in assuming:
            likely = self._likely(self._own(index))
            if likely != self._tried.get(index, likely) and _assumed(self._graphs[index]) not in likely:
                self._graphs[index] = self._traced(index, likely)
        said = [index for index, graph in self._graphs.items() if index not in assuming and graph.inputs]
        if not said and len(assuming) > 1:
            self._agree_on_assumed(assuming)

    def _agree_on_assumed(self, assuming: Sequence[int]) -> None:
        """Trace several nets with the largest sizes that one of them was traced with and all take."""
        candidates = {_assumed(self._graphs[index]) for index in assuming}
        if len(candidates) < 2:
            return
        for sizes in sorted(candidates, key=lambda sizes: (len(sizes), sizes), reverse=True):
            traced = {}
            for index in assuming:
                graph = self._graphs[index]
                if _assumed(graph) != sizes:
                    graph = self._traced(index, [sizes]) if self._may_take(index, sizes) else graph
                traced[index] = graph
                if _assumed(graph) != sizes:
                    break
            else:
                self._graphs |= traced
                return

    def _may_take(self, index: int, sizes: Shape) -> bool:
        """Return whether code may take the sizes of other code.

        Sizes of as many axes as its own are traced at once. Others mostly do not fit, which shows sooner if
        nothing else is tried.
        """
        ((name, own),) = self._graphs[index].assumed.items()
        if len(own) == len(sizes):
            return True
        try:
            load(self.nets[index], input_shapes={**self._own(index), name: sizes}, **self.options)
        except (SourceError, UsageError):
            return False
        return True

    def _traced(self, index: int, likely: list[Shape]) -> Graph:
        """Trace a net again; it took its inputs before, and takes those again that it took."""
        options = self.options
        return load(self.nets[index], input_shapes=self._own(index), likely_shapes=likely, **options)

    def _adopt(self, index: int, failure: SourceError) -> None:
        """Read a net that says no sizes of its inputs with those of another net, or with some that it takes.

        Raises:
            SourceError: No other net says any, or none that were tried fit.
        """
        names = failure.open_inputs
        refused: SourceError | None = None
        for whose, graph in sorted(self._graphs.items()):
            sizes = _for_inputs(graph, names)
            if sizes is None or set(names) & self._own(index).keys():
                continue
            try:
                read = self._read_with(index, sizes)
            except SourceError as error:
                refused = refused or error
                continue
            other = "the first net" if whose == 0 else str(self.nets[whose])
            self._take(index, read, sizes, f"takes its sizes from {other}")
            return
        likely = self._likely(self._own(index))
        if likely != self._tried[index]:  # as if the other net had been the first: with its axes in any order
            try:
                self._graphs[index] = self._traced(index, likely)
            except SourceError:
                pass
            else:
                return
        if refused is None:
            self._guess(index, failure)
            return
        for sizes in islice(self._others(index, names), MOST_TRIED):
            try:
                read = self._read_with(index, sizes)
            except SourceError:
                continue
            self._take(index, read, sizes, "does not take the sizes of the other net; its layers take")
            return
        raise type(refused)(
            f"{refused.message}; the sizes of {', '.join(map(repr, names))} are unknown, and those of the "
            f"other net do not fit: set them (--input-shape {names[0]}=1x3x224x224)",
            place=refused.place,
            open_inputs=names,
        )

    def _guess(self, index: int, failure: SourceError) -> None:
        """Read code with sizes that other code was traced with, or that several inputs usually have.

        Raises:
            SourceError: None fits; the usual ones of an only input the code's reader has tried before.
        """
        names = failure.open_inputs
        assumed = list(dict.fromkeys(_assumed(graph) for graph in self._graphs.values() if graph.assumed))
        if assumed and len(names) == 1:
            try:
                self._graphs[index] = self._traced(index, assumed)
            except SourceError:
                raise failure from None
            return
        for shape in USUAL_TOGETHER if len(names) > 1 and _is_code(self.nets[index]) else ():
            sizes: Sizes = dict.fromkeys(names, shape)
            try:
                read = self._read_with(index, sizes)
            except SourceError:
                continue
            self._take(index, read, sizes, "has no size (set one with --input-shape); its code takes")
            return
        raise failure

    def _take(self, index: int, graph: Graph, sizes: Sizes, how: str) -> None:
        """Keep a net that was read with sizes that are not its own, and say so."""
        net = self.nets[index]
        notes = (f"{net}: the input {name!r} {how}: {dims_text(shape)}" for name, shape in sizes.items())
        self._graphs[index] = replace(graph, notes=(*graph.notes, *notes))

    def _read_with(self, index: int, sizes: Sizes) -> Graph:
        """Return a net that is read with sizes for the inputs whose sizes nobody gave."""
        net = self.nets[index]
        try:
            graph = load(net, input_shapes={**self._own(index), **sizes}, **self.options)
        except UsageError as error:  # a reader may miss sizes before it looks at names
            if not error.unknown_inputs:
                raise
            self._unknown[index] = error
            graph = load(net, input_shapes={**self._own(index), **sizes}, **self.options)
        self.taken |= self._own(index).keys()
        return graph

    def _others(self, index: int, names: Sequence[str]) -> Iterator[Sizes]:
        """Yield sizes of an only input: with the channels that stored arrays take, at several sides."""
        shapes = {sizes for graph in self._graphs.values() if (sizes := _only_sizes(graph)) is not None}
        if len(names) != 1:
            return
        wanted = self._stored_channels(index)
        sides = [*(sizes[2:] for sizes in sorted(shapes) if len(sizes) == 4), *((n, n) for n in USUAL_SIDES)]
        for channels, side in product(wanted.get(4, [3, 1]), dict.fromkeys(sides)):
            yield {names[0]: (1, channels, *side)}
        for features in wanted.get(2, []):
            yield {names[0]: (1, features)}

    def _stored_channels(self, index: int) -> dict[int, list[int]]:
        """Return what the arrays in a net's own file of weights may take, by their number of axes."""
        weights = parse_net_name(str(self.nets[index])).weights
        if weights is None:
            return {}
        try:
            stored = load(weights, code=False)
        except SourceError:
            return {}
        channels_by_rank: dict[int, dict[int, None]] = {}
        for parameter in stored.parameters.values():
            if len(parameter.shape) in {2, 4}:
                channels_by_rank.setdefault(len(parameter.shape), {})[parameter.shape[1]] = None
        return {num_axes: list(channels)[:3] for num_axes, channels in channels_by_rank.items()}


def _is_code(net: Any) -> bool:
    """Return whether a net is code, which is traced at sizes that it mostly does not say itself."""
    if not isinstance(net, str | Path):
        return True
    name = parse_net_name(str(net))
    return name.is_module or name.file.endswith(".py")


def _is_read_apart(net: Any) -> bool:
    """Return whether a child process reads a net, and stays: code or a folder, without large weights."""
    if not isinstance(net, str | Path):
        return False
    name = parse_net_name(str(net))
    folder = Path(name.file)
    if not (_is_code(net) or Path(folder, "config.json").is_file()):
        return False
    weights = [Path(name.weights)] if name.weights else folder.glob("*") if folder.is_dir() else []
    return sum(file.stat().st_size for file in weights if file.is_file()) <= LARGEST_WEIGHTS


def _only_sizes(graph: Graph) -> Shape | None:
    """Return the sizes of a net's only input, the batch as 1; None if it has none of its own.

    Sizes that are open beyond the batch are those that the net would be run at.
    """
    sizes = _sizes_of(graph)
    return next(iter(sizes.values())) if len(sizes) == 1 else None


def _sizes_of(graph: Graph) -> Sizes:
    """Return the sizes of all inputs of a net, the batch as 1; none if it was traced with assumed ones."""
    if graph.assumed:
        return {}
    sizes: dict[str, tuple[int | None, ...]] = {}
    for value in graph.inputs:
        declared = graph.declared.get(str(value.name)) or known_shape(value) or ()
        sizes[str(value.name)] = (declared[0] or 1, *declared[1:]) if declared else ()
    if not all(sizes.values()):
        return {}
    if any(None in shape for shape in sizes.values()):
        run = sizes_to_run(to_inference(graph))
        sizes = {name: run.get(name, shape) for name, shape in sizes.items()}
    known_sizes = {name: tuple(size for size in shape if size) for name, shape in sizes.items()}
    return known_sizes if all(len(known_sizes[name]) == len(shape) for name, shape in sizes.items()) else {}


def _for_inputs(graph: Graph, names: Sequence[str]) -> Sizes | None:
    """Return the sizes that a net says for the inputs of another: by their names, else by their order."""
    sizes = _sizes_of(graph)
    if len(sizes) > 1 and set(names) <= sizes.keys():
        return {name: sizes[name] for name in names}
    return dict(zip(names, sizes.values(), strict=True)) if names and len(sizes) == len(names) else None


def _assumed(graph: Graph) -> Shape:
    """Return the sizes of the only input that code was traced with, the batch as 1."""
    sizes = next(iter(graph.assumed.values()), ())
    return (1, *sizes[1:])
