"""Inspection of nets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.api.arguments import check_arrays, draw_inputs
from netweave.api.reading import load, load_for_inputs, run_settings, to_inference
from netweave.errors import CodeError, NetweaveError, SourceError, UnsupportedError, UsageError
from netweave.files import Source
from netweave.files.output_files import write_file
from netweave.files.python_code import parse_net_name
from netweave.formats import read_structure
from netweave.graph import Graph
from netweave.graph.passes.views import LETTERS, with_open_sizes
from netweave.graph.summary import dims_text
from netweave.runtime.backends import AUTO, BACKENDS, Purpose, Runner, RunSettings
from netweave.runtime.backends import prepare as prepare_on
from netweave.runtime.backends.inputs import check_inputs
from netweave.runtime.backends.selection import BackendTrial, select
from netweave.runtime.engine.threaded import num_cores

if TYPE_CHECKING:
    from netweave.comparison import Comparison

Sizes = dict[str, tuple[int, ...]]

GUESSES = {"C": ((3, 6), (60, 120), (1, 2)), "D": ((16, 32),), "H": ((224, 256),), "W": ((224, 256),)}
"""Pairs of sizes that a net is read with where its file does not say one; the first pair that it takes.

Sixty channels can be divided into 2, 3, 4, 5 or 6 groups or slices.
"""

AXES_OF_UNKNOWN = (4, 2)
"""Numbers of axes of an input of which the file says none: images, or rows of numbers."""


WEIGHTS_OF_CODE = frozenset({".pt", ".pth", ".bin", ".ckpt"})
"""Ends of the names of files that may hold the weights of a model whose code is elsewhere."""


def load_for_inspection(
    net: str | Path, *, inference: bool = False, tiny: bool = False, **options: Any
) -> Graph:
    """Read a net to look at it: with letters for the sizes of its inputs that depend on data elsewhere.

    A Caffe net that is trained learns the channels of its images, often also their size, from its database.
    Of nets with operators that are not read, and of PyTorch's files of weights alone, what is known is
    returned, with a note.

    Args:
        net: ``FILE`` or ``FILE,WEIGHTS``, as for ``load``.
        inference: Return it in inference form.
        tiny: Construct a Hugging Face model folder from its configuration shrunk; see ``CompareOptions``.
        options: As for ``load``.

    Raises:
        SourceError: The files cannot be read, or the net takes none of the guesses: its weights or its layers
            ask for sizes of their own.
    """
    if tiny:
        from netweave.api.tiny import tiny_nets

        with tiny_nets([net], options) as shrunk:  # type: ignore[arg-type]  # names of a TypedDict
            return shrunk.named(load_for_inspection(shrunk.nets[0], inference=inference, **shrunk.options))
    form = to_inference if inference else _unchanged
    try:
        return form(load(net, **options))
    except (SourceError, UsageError) as error:
        if not isinstance(error, SourceError) or not error.open_shapes:
            return as_far_as_known(net, error)
        unknown = error
    given = dict(options.pop("input_shapes", None) or {})
    for first, second in _guesses(unknown.open_shapes):
        try:
            readings = [form(load(net, input_shapes=given | sizes, **options)) for sizes in (first, second)]
        except SourceError:
            continue
        graph = with_open_sizes(*readings)
        graph.notes += (_note(unknown.open_shapes, first),)
        return graph
    return as_far_as_known(net, unknown)


def as_far_as_known(net: str | Path, error: NetweaveError) -> Graph:
    """Return what is known of a net that cannot be read as a whole, with a note that says so.

    Args:
        net: ``FILE`` or ``FILE,WEIGHTS``, as for ``load``.
        error: Why it cannot be read; raised if nothing else is known of it, or if something else is wrong.
    """
    name = parse_net_name(str(net))
    source = Source(Path(name.file), weights=Path(name.weights) if name.weights else None)
    is_of_weights = isinstance(error, CodeError | UsageError) and source.net.suffix in WEIGHTS_OF_CODE
    has_open_sizes = isinstance(error, SourceError) and bool(error.open_shapes)
    if not isinstance(error, UnsupportedError) and not is_of_weights and not has_open_sizes:
        raise error
    try:
        graph = read_structure(source)
    except SourceError:
        raise error from None
    if graph is None:
        raise error
    why = "holds weights only, without the operators between them"
    if graph.nodes and isinstance(error, SourceError):
        why = f"{error.message}; the net is shown as far as it is known"
    note = f"{why}, and nothing can be computed with it"
    graph.notes = (note, *graph.notes)
    return graph


def _unchanged(graph: Graph) -> Graph:
    return graph


def _guesses(shapes: Mapping[str, tuple[int | None, ...] | None]) -> Iterator[tuple[Sizes, Sizes]]:
    """Yield pairs of sizes for all inputs that differ in every open size."""
    for num_axes in AXES_OF_UNKNOWN if None in shapes.values() else AXES_OF_UNKNOWN[:1]:
        whole = {name: shape or (None,) * num_axes for name, shape in shapes.items()}
        letters = {letter for shape in whole.values() for letter in _letters_of(shape) if letter}
        for chosen in product(*(GUESSES[letter] for letter in sorted(letters))):
            pairs = dict(zip(sorted(letters), chosen, strict=True))
            yield _filled(whole, pairs, 0), _filled(whole, pairs, 1)


def _letters_of(shape: tuple[int | None, ...]) -> list[str]:
    """Return the letter of each open size, empty for known ones and for the batch, which 1 stands for."""
    named = LETTERS.get(len(shape), "N" + "C" * (len(shape) - 1))
    return ["" if size is not None or axis == 0 else named[axis] for axis, size in enumerate(shape)]


def _filled(
    shapes: Mapping[str, tuple[int | None, ...]], pairs: Mapping[str, tuple[int, int]], which: int
) -> Sizes:
    return {
        name: tuple(
            pairs[letter][which] if letter else size or 1
            for size, letter in zip(shape, _letters_of(shape), strict=True)
        )
        for name, shape in shapes.items()
    }


def _note(shapes: Mapping[str, tuple[int | None, ...] | None], sizes: Sizes) -> str:
    names = ", ".join(map(repr, shapes))
    example = " ".join(f"--input-shape {name}={dims_text(sizes[name])}" for name in shapes)
    return (
        f"the file does not give all sizes of {names}, which depend on its data: those and what follows from "
        f"them are shown as letters and question marks; {example}, for one, sets them"
    )


class PreparedNet:
    """A net that is ready to run, any number of times; ``netweave.prepare`` returns it.

    Several threads may run it at once. Its weights are freed by ``close``, or at the end of a ``with`` block.

    Attributes:
        graph: The net in inference form; its inputs and outputs are those of ``run``.
        backend: Name of the backend that runs it.
        precision: What convolutions and matrix products are computed in.
        threads: Threads that one run computes with.
        trials: What came of trying each backend, the fastest first; empty if the caller chose the backend.
    """

    def __init__(
        self,
        graph: Graph,
        settings: RunSettings,
        backend: str,
        runner: Runner,
        trials: tuple[BackendTrial, ...] = (),
    ) -> None:
        self.graph = graph
        self.backend = backend
        self.precision = settings.precision
        self.threads = settings.threads
        self.trials = trials
        self._runner: Runner | None = runner

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the outputs by name.

        Args:
            inputs: One array for each input, by name; any batch size, in turn as they come.

        Raises:
            RunError: An input is missing, unknown or of the wrong shape, or the run fails.
            UsageError: The inputs are not arrays by name, or the net is closed.
        """
        runner = self._runner
        if runner is None:
            raise UsageError(f"{self.graph.name}: the prepared net is closed; prepare it again")
        check_arrays(inputs, what="inputs", names=[str(value.name) for value in self.graph.inputs])
        return runner.run(inputs)

    def close(self) -> None:
        """Free what the backend holds; runs that have begun in other threads still end."""
        self._runner = None

    def __enter__(self) -> PreparedNet:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        settings = f"{self.backend}, {self.precision}, {self.threads} threads"
        return f"PreparedNet({self.graph.name!r}, {settings}{'' if self._runner else ', closed'})"


def prepare(
    net: Any,
    *,
    backend: str = AUTO,
    precision: str = "f32",
    threads: int | None = None,
    batch: int | None = None,
    example: Mapping[str, np.ndarray] | None = None,
    again: bool = False,
) -> PreparedNet:
    """Make a net ready to run many times, for its outputs alone.

    The net is brought into inference form: without dropout, losses, metrics and labels, with BatchNorm
    folded. Everything that can be done ahead is done now; ``run`` is for one run, and to read values inside.

        with netweave.prepare("net.onnx", precision="bf16") as net:
            for images in batches:
                scores = net.run({"data": images})["prob"]

    Args:
        net: A Graph, or files as for ``load``.
        backend: ``onnxruntime``, ``openvino``, ``opencv``, ``torch``, or ``auto``: those that are installed
            are tried, and the fastest one is taken whose outputs are right.
        precision: What convolutions and matrix products are computed in: ``f32``, ``bf16`` or ``f16``. Inputs
            and outputs keep their types.
        threads: Threads that one run computes with; by default one for each core.
        batch: Batch size of most runs, at which the backends are tried; by default the one that the net's
            files declare, or 1. Any other runs as well.
        example: Inputs such as most runs have, to try the backends on; by default random ones.
        again: Try the backends even if it is remembered which was the fastest for this net on this processor,
            at these sizes and settings.

    Raises:
        SourceError: The files cannot be read.
        RunError: No backend can run the net; the message says why for each.
        UsageError: There is no such backend or precision, the backend is not installed or does not have the
            precision on this processor, or the size of an input is unknown and no example is given.
    """
    if backend not in (AUTO, *BACKENDS):
        raise UsageError(f"unknown backend {backend!r}; expected one of {', '.join([AUTO, *BACKENDS])}")
    settings = run_settings(Purpose.INFERENCE, precision, num_cores() if threads is None else threads)
    graph = net if isinstance(net, Graph) else load_for_inputs(net, example or {})
    form = to_inference(graph, folded=True)
    inputs = _usual_inputs(form, batch, example, needed=backend == AUTO)
    settings = replace(settings, usual_sizes={name: np.shape(array) for name, array in inputs.items()})
    if backend != AUTO:
        runner = prepare_on(form, backend=backend, settings=settings)
        return PreparedNet(form, settings, backend=backend, runner=runner)
    selection = select(form, settings, inputs, again=again)
    return PreparedNet(
        form, settings, backend=selection.backend, runner=selection.runner, trials=selection.trials
    )


def _usual_inputs(
    graph: Graph, batch: int | None, example: Mapping[str, np.ndarray] | None, *, needed: bool
) -> Mapping[str, np.ndarray]:
    """Return inputs such as most runs have; none where their sizes are unknown and not needed."""
    if example is not None:
        return check_inputs(graph.inputs, check_arrays(example, what="example", names=list(graph.declared)))
    try:
        return draw_inputs(graph, seed=0, batch=batch)
    except UsageError:
        if needed:
            raise
        return {}


def save_page(shown: Graph | Comparison, file: str | Path) -> None:
    """Write a net or a comparison as a single HTML file that a browser opens offline.

    Args:
        shown: The net or comparison.
        file: The file.

    Raises:
        UsageError: This is a source checkout whose front end is not built.
        WriteError: The file cannot be written; the old one is untouched.
    """
    from netweave.viewer import comparison_page, net_page

    write_file(file, net_page(shown) if isinstance(shown, Graph) else comparison_page(shown))
