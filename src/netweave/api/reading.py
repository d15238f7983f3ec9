"""Reading of nets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from netweave.api.arguments import (
    check_arrays,
    check_count,
    check_file,
    check_names,
    check_net,
    check_phase,
    check_shapes,
)
from netweave.errors import SourceError, UsageError
from netweave.files import Source
from netweave.files.python_code import NetName, check_root, find_module, parse_net_name
from netweave.files.settings_file import read_settings
from netweave.formats import read
from netweave.graph import Graph, with_arrays
from netweave.graph.passes import absorb, chain, fold, prune, remove_concats, specialise, sum_of_parts
from netweave.graph.passes import to_inference as without_training
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
    needs_config: bool
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
    needs_config: bool = False,
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
        needs_config: Raise an error if the factory takes none of the settings.
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
            needs_config=needs_config,
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
