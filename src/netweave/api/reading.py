"""Reading of nets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, product
from pathlib import Path
from typing import Any, NoReturn, TypedDict, Unpack

import numpy as np

from netweave.api.arguments import (
    check_arrays,
    check_count,
    check_file,
    check_graph,
    check_names,
    check_net,
    check_nets,
    check_phase,
    check_shapes,
    check_text,
)
from netweave.comparison import Comparison
from netweave.comparison import compare as compare_graphs
from netweave.comparison.execution.sizes import sizes_to_run
from netweave.errors import SourceError, UnsupportedError, UsageError
from netweave.files import OutputFiles, Source
from netweave.files.python_code import NetName, check_root, find_module, parse_net_name
from netweave.files.settings_file import read_settings
from netweave.formats import find_written, read, source_formats
from netweave.graph import Graph, as_loaded, known_shape, with_arrays
from netweave.graph.passes import absorb, chain, fold, prune, remove_concats, specialise, sum_of_parts
from netweave.graph.passes import to_inference as without_training
from netweave.graph.summary import dims_text
from netweave.runtime.backends import Purpose, RunSettings, prepare
from netweave.runtime.memory_plan import parse_bytes, tile_to_fit
from netweave.training.checkpoint_file import SUFFIX, parameters_in


class ReadOptions(TypedDict, total=False):
    """Options of ``load`` that hold for several nets at once; see there."""

    phase: str
    stages: Sequence[str]
    level: int
    trust: bool
    code: bool
    around: bool
    root: str | Path | None
    config: str | Path | Mapping[str, Any] | None
    partial: bool


def load(
    net: Any,
    weights: str | Path | None = None,
    *,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    phase: str = "TEST",
    stages: Sequence[str] = (),
    level: int = 0,
    trust: bool = False,
    code: bool = True,
    around: bool = True,
    root: str | Path | None = None,
    config: str | Path | Mapping[str, Any] | None = None,
    examples: Sequence[Any] | None = None,
    likely_shapes: Sequence[Sequence[int]] = (),
    partial: bool = False,
) -> Graph:
    """Read a net from its files, or from a module in memory.

    Args:
        net: ``FILE`` or ``FILE,WEIGHTS``, for Python code also ``FILE:FACTORY``, ``FILE:FACTORY(ARGUMENTS)``
            with literals, and ``MODULE:FACTORY``; or a PyTorch ``nn.Module``.
        weights: The file of stored arrays; by default the file beside the net under the usual name.
        input_shapes: Input sizes by name, if the file does not give them or to override them.
        phase: ``TEST`` or ``TRAIN``, for formats with phases; SINGA also has ``VALIDATE``.
        stages: Stages, for formats that have them.
        level: Level, for formats that have it.
        trust: Run Python code in the files without the sandbox.
        code: Read files that contain code; False rejects them, even in the sandbox.
        around: Let code import modules from the folders around its own folder, besides its own folder.
        root: The folder from which the imports of code start, if the files do not show it.
        config: Settings for the factory: a mapping, or ``FILE`` or ``FILE:KEY`` of YAML, JSON or TOML.
            They are passed by name, or whole, with keys as attributes, to a factory with one argument for it.
        examples: Inputs to trace a module in memory with, in place of ``input_shapes``.
        likely_shapes: Sizes to try before the usual ones where nobody says those of the only input.
        partial: Leave out layers that cannot be read and all that need them, and say so in a note (Caffe,
            MXNet and ONNX).

    Raises:
        SourceError: The files cannot be read, contain something unknown, or do not match each other.
        UsageError: Weights are given twice.
    """
    shapes = check_shapes(input_shapes)
    likely = tuple(tuple(sizes) for sizes in likely_shapes)
    if isinstance(check_net(net, what="net"), Graph):
        raise UsageError(f"{net.name}: is a Graph, which has been read already; load reads files and modules")
    if not isinstance(net, str | Path):
        from netweave.formats.pytorch import read_module

        return read_module(net, input_shapes=shapes, examples=examples, likely_shapes=likely)
    if weights is not None:
        check_file(weights, what="weights")
    name = _name(str(net), weights)
    checkpoint = name.weights if name.weights and Path(name.weights).suffix == SUFFIX else None
    if checkpoint:
        name = replace(name, weights=None)
    top = check_root(root)
    module = find_module(name.file, [top or Path()]) if name.is_module else None
    graph = read(
        Source(
            net=module.path if module else Path(name.file),
            weights=Path(name.weights) if name.weights else None,
            input_shapes=shapes,
            phase=check_phase(phase),
            stages=tuple(check_names(stages, what="stages")),
            level=check_count(level, "level", least=0),
            entry=name.factory,
            trust=trust,
            code=code,
            around=around,
            arguments=name.arguments,
            config=read_settings(config) if isinstance(config, str | Path) else config,
            root=module.root if module else top,
            module=name.file if module else "",
            likely_shapes=likely,
            partial=partial,
        )
    )
    return _with_checkpoint(graph, Path(checkpoint)) if checkpoint else graph


def _name(text: str, weights: str | Path | None) -> NetName:
    """Return a net's name taken apart, with weights that are given beside it."""
    name = parse_net_name(text)
    if weights is None:
        return name
    if name.weights is not None:
        raise UsageError(f"weights are given twice: {name.weights!r} and {str(weights)!r}; give only one")
    return replace(name, weights=str(weights))


def run(
    net: Any,
    inputs: Mapping[str, np.ndarray],
    *,
    taps: Sequence[str] = (),
    backend: str = "onnxruntime",
    precision: str = "f32",
    threads: int | None = None,
    memory: str | int | None = None,
) -> dict[str, np.ndarray]:
    """Run a net once and return its outputs and taps by name.

    To run it many times, see ``prepare``.

    Args:
        net: A Graph, or files as for ``load``.
        inputs: One array for each input, by name; any batch size.
        taps: Names of intermediate values to return as well.
        backend: Name of the backend: ``onnxruntime``, ``openvino``, ``opencv`` or ``torch``.
        precision: What convolutions and matrix products are computed in: ``f32``, ``bf16`` or ``f16``.
        threads: Threads to compute with; by default the backend decides, mostly one for each core.
        memory: What values and kernels may take at once, besides parameters and inputs: bytes, or a size such
            as ``16MB``. Large layers are then computed over bands of the image (see ``tiled``), as planned
            for the backend ``torch``.

    Raises:
        SourceError: The files cannot be read.
        RunError: The net cannot be run on these inputs.
        UsageError: No tiling fits in ``memory``, a tap lies inside layers that are tiled, or the backend is
            not installed or does not have the precision on this processor.
    """
    settings = run_settings(Purpose.TAPPING, precision, threads)
    graph = net if isinstance(net, Graph) else load_for_inputs(net, inputs)
    check_arrays(inputs, what="inputs", names=[str(value.name) for value in graph.inputs])
    if memory is not None:
        graph = _tiled(graph, inputs, parse_bytes(memory), taps)
    names = check_names(taps, what="taps")
    return prepare(graph, taps=names, backend=backend, settings=settings).run(inputs)


def run_settings(purpose: Purpose, precision: str, threads: int | None) -> RunSettings:
    """Return the settings of a backend.

    Args:
        purpose: What a net is made ready for.
        precision: What products are computed in.
        threads: Threads that one run computes with; None leaves it to the backend.

    Raises:
        UsageError: There is no such precision, or ``threads`` is not a whole number above 0.
    """
    return RunSettings(purpose, precision, 0 if threads is None else check_count(threads, "threads", least=1))


def _tiled(graph: Graph, inputs: Mapping[str, np.ndarray], limit: int, taps: Sequence[str]) -> Graph:
    """Return a net for arrays of these sizes whose large layers are computed over bands of the image."""
    sized = specialise(graph, {name: array.shape for name, array in inputs.items()})
    batch = max((array.shape[0] for array in inputs.values() if array.ndim), default=1)
    graph = tile_to_fit(sized, limit, batch=batch)
    hidden = sorted(set(taps) & (_value_names(sized) - _value_names(graph)))
    if hidden:
        raise UsageError(
            f"{graph.name}: taps {', '.join(hidden)} lie inside layers that are computed over bands of the "
            "image; leave them out, or give more memory"
        )
    return graph


def _value_names(graph: Graph) -> set[str]:
    return {value.name or "" for node in graph.nodes for value in node.outputs}


def to_inference(graph: Graph, *, folded: bool = False) -> Graph:
    """Return a net in inference form: without dropout, losses, metrics and labels.

    Args:
        graph: The net; it is not changed.
        folded: Also fold constants and BatchNorm, and remove concatenations that are redundant or that only a
            convolution reads.
    """
    if not folded:
        return without_training(graph)
    return chain(without_training, fold, absorb, remove_concats, sum_of_parts, prune)(graph)


def save(
    graph: Graph, path: str | Path, *, to: str | None = None, random_weights: bool = False
) -> OutputFiles:
    """Write a net in the format that the file's name asks for.

    ``.onnx`` keeps the source's layers as metadata. The other formats hold the net in inference form, with
    the weights in a second file: ``.prototxt`` with ``.caffemodel``; ``-symbol.json`` with ``-0000.params``;
    ``.py`` (PyTorch source) with ``.safetensors``, or with ``to="keras"`` (Keras 3 source) with ``.npz``.

    Args:
        graph: The net.
        path: The file.
        to: Name of the format, if several formats use this file name: ``keras``.
        random_weights: Write random weights if the net has none.

    Returns:
        The files, and how to read them back.

    Raises:
        UnsupportedError: The net has operators that cannot be written in the format.
        UsageError: No format has such a file name, a file cannot be written, or weights are missing.
    """
    file = check_file(path, what="path")
    if to is not None:
        check_text(to, what="to", example=source_formats()[-1])
    if check_graph(graph).only_weights:
        raise UsageError(f"{graph.name}: holds only weights; there is no net to write")
    return find_written(file, to).write(graph, file, random_weights=random_weights)


def convert_and_verify(
    graph: Graph,
    path: str | Path,
    *,
    to: str | None = None,
    random_weights: bool = False,
    against: Graph | None = None,
    progress: Callable[[str], None] | None = None,
) -> Comparison:
    """Write a net as ``save`` does, read the result back, and compare it with the net.

    All values are compared, also random ones: the file must hold exactly the same values.

    Args:
        graph: The net.
        path: The file.
        to: Name of the format, if several formats use this file name: ``keras``.
        random_weights: Write random weights if the net has none.
        against: The net to compare with, if it is another form of the written net.
        progress: Called with a description of each step.

    Returns:
        The comparison of the net with the written one.

    Raises:
        SourceError: The net has operators that cannot be written, or the written files cannot be read.
        UsageError: No format has such a file name, a file cannot be written, or weights are missing.
    """
    files = save(graph, path, to=to, random_weights=random_weights)
    names = files.inputs
    source = Source(
        net=files.net,
        weights=files.weights,
        input_shapes={}
        if names is None
        else {names.get(name, name): sizes for name, sizes in sizes_to_run(to_inference(graph)).items()},
        entry=files.entry,
        trust=True,  # our writer made the code; only identifiers and comments come from the source
    )
    net = graph if against is None else against
    try:
        written = read(source)
    except UnsupportedError as error:  # of a framework that is not installed
        raise UnsupportedError(
            f"is written, but could not be read back and compared: {error.message}", place=error.place
        ) from error
    return compare_graphs(as_loaded(net), as_loaded(written), one_size=files.one_size, progress=progress)


def _with_checkpoint(graph: Graph, file: Path) -> Graph:
    arrays = parameters_in(file, graph)
    if not arrays:
        raise UsageError(f"{file}: contains no weights for any layer of {graph.name}")
    return with_arrays(graph, arrays)


def load_for_inputs(net: Any, inputs: Mapping[str, np.ndarray]) -> Graph:
    """Read a net that is run on arrays; if it leaves the sizes of inputs open, with those of the arrays."""
    try:
        return load(net)
    except SourceError as error:
        if not error.open_inputs or not all(hasattr(inputs.get(name), "shape") for name in error.open_inputs):
            raise
        return load(net, input_shapes={name: inputs[name].shape for name in error.open_inputs})


Progress = Callable[[str], None]
Shape = tuple[int, ...]
Sizes = dict[str, Shape]

USUAL_SIDES = (224, 24, 28, 32, 48, 12, 64, 96, 112, 128, 227, 256, 299)
"""Heights and widths that a net of data is tried with whose weights do not take those of the other net."""

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
        for index in sorted(files, key=lambda index: _is_code(self.nets[index])):
            self._read(index, self.shapes)
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
        net = self.nets[index]
        if self.progress is not None:
            self.progress(f"reading {net}")
        self._tried[index] = self._likely(own)
        try:
            self._graphs[index] = load(
                net, input_shapes=own, likely_shapes=self._tried[index], **self.options
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
        if refused is None:
            raise failure
        likely = self._likely(self._own(index))
        if likely != self._tried[index]:  # as if the other net had been the first: with its axes in any order
            try:
                self._graphs[index] = self._traced(index, likely)
            except SourceError:
                pass
            else:
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
