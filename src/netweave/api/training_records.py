"""Records of the first updates of a training, and their comparison."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from netweave import comparison
from netweave.api.arguments import check_count, draw_inputs, save_arrays
from netweave.api.joint_reading import load_all
from netweave.api.reading import ReadOptions
from netweave.comparison import CompareOptions
from netweave.comparison.execution.input_domains import pair_domains
from netweave.comparison.execution.inputs import InputMapping
from netweave.comparison.execution.memory_budget import draw
from netweave.comparison.source_runs import inputs_of_b
from netweave.comparison.training_step import TrainingComparison, TrainingRecord
from netweave.comparison.training_step import compare_training as compare_records
from netweave.comparison.training_step.record import MARK
from netweave.errors import ReadError, UsageError
from netweave.files.npy import read_npz
from netweave.files.persistent_child import keep_children
from netweave.formats.pytorch import is_module
from netweave.graph import Graph

if TYPE_CHECKING:
    import numpy as np
    import torch

    from netweave.graph.graph import Learned

SUFFIX = ".npz"

SAMPLES = 4
"""Samples of the batch that code is trained on."""


def record_training(
    module: torch.nn.Module,
    inputs: Any,
    *,
    loss: Callable[[Any], torch.Tensor] | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    before_update: Callable[[], Any] | None = None,
    num_updates: int = 3,
) -> TrainingRecord:
    """Train a PyTorch module for a few updates on one batch, and record what it does; then put all back.

    Gradients and moving statistics are recorded, dropout is left out, and what cuts a gradient is noted with
    its line. A module in double precision (``module.double()``) shows differences that rounding hides.

    Args:
        module: The module.
        inputs: What ``forward`` is given: a tensor, several in order, or by name.
        loss: Returns the loss of what the module returns; by default a function of all outputs.
        optimizer: Updates the module's parameters; without one, the backward pass alone is recorded.
        before_update: Called between the backward pass and each update, as to clip gradients.
        num_updates: How often the weights are updated.

    Raises:
        UsageError: It is no module, or the inputs do not fit it.
        CodeError: The loss is not finite.
    """
    if not is_module(module):
        raise UsageError(f"record_training takes a PyTorch nn.Module, not {type(module).__name__}")
    check_count(num_updates, "num_updates", least=1)
    from netweave.formats.pytorch import training_record

    arrays, rest = training_record.record_training(
        module,
        training_record.bound_inputs(module, inputs),
        loss=loss,
        optimizer=optimizer,
        before_update=before_update,
        num_updates=num_updates,
    )
    return TrainingRecord.of_parts(type(module).__name__, arrays, rest)


def save_training(record: TrainingRecord, file: str | Path) -> None:
    """Write a record to an ``.npz``.

    Raises:
        UsageError: The file has another suffix.
        WriteError: It cannot be written.
    """
    if Path(file).suffix != SUFFIX:
        raise UsageError(f"{file}: a record of a training is saved as {SUFFIX}")
    save_arrays(file, record.to_arrays())


def load_training(file: str | Path) -> TrainingRecord:
    """Read a record that ``save_training`` wrote.

    Raises:
        ReadError: The file cannot be read, or is no such record.
    """
    arrays = read_npz(Path(file), place=str(file))
    if MARK not in arrays:
        raise ReadError("is no record of a training, as netweave.save_training writes it", place=str(file))
    return TrainingRecord.of_arrays(arrays, place=str(file))


def compare_training(
    a: TrainingRecord | str | Path,
    b: TrainingRecord | str | Path,
    *,
    loss: str | None = None,
    optimizer: str | None = None,
    num_updates: int = 3,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    progress: Callable[[str], None] | None = None,
    **options: Unpack[ReadOptions],
) -> TrainingComparison:
    """Compare the first updates of two trainings: gradients, moving statistics and the optimizer.

    Both start from the same weights, in any layout and under any names, and are given the same batch.

    Args:
        a: The record of the original, or the file of one; or a net in PyTorch's code with its weights, as for
            ``load``.
        b: That of the port.
        loss: Name of a function in the code of both nets, which is given what the net returns; by default a
            function of all outputs.
        optimizer: Name of a function in the code of both nets that is given the module and returns an
            optimizer; by default the module's own ``configure_optimizers``, if it has one.
        num_updates: How often the weights of code are updated.
        input_shapes: Input sizes of code by name, as for ``load_all``.
        progress: Called with each step as it starts.
        options: As for ``load``, for code.

    Raises:
        UsageError: They do not start from the same weights, or one is neither a record nor code with weights.
        SourceError: A file cannot be read, or its code fails.
    """
    check_count(num_updates, "num_updates", least=1)
    if isinstance(a, TrainingRecord) or isinstance(b, TrainingRecord) or _is_record(a) or _is_record(b):
        records = [each if isinstance(each, TrainingRecord) else load_training(each) for each in (a, b)]
        return compare_records(*records)
    settings = {"loss": loss, "optimizer": optimizer, "num_updates": num_updates}
    with keep_children():
        graphs = load_all([a, b], input_shapes=input_shapes, progress=progress, **options)
        learning = [_learning(graph, str(name)) for graph, name in zip(graphs, (a, b), strict=True)]
        forward = comparison.compare(graphs[0], graphs[1], CompareOptions(), progress=progress)
        tell = progress or (lambda step: None)
        tell("training both")
        mappings = [InputMapping.from_mapping(mapping) for mapping in forward.inputs]
        batch = _batch(graphs[0], graphs[1], mappings, forward.sentence)
        given = batch, inputs_of_b(batch, mappings)
        records = [
            TrainingRecord.of_parts(str(name), *learn(inputs, settings))
            for name, learn, inputs in zip((a, b), learning, given, strict=True)
        ]
    return replace(compare_records(*records), forward=forward)


def _is_record(name: str | Path) -> bool:
    return Path(name).suffix == SUFFIX


def _learning(graph: Graph, name: str) -> Callable[[Mapping[str, np.ndarray], Mapping[str, Any]], Learned]:
    """Return what trains a net that was read.

    Raises:
        UsageError: It is no code with weights.
    """
    if graph.trace is None or graph.trace.learn is None:
        raise UsageError(
            f"{name}: a training is compared of PyTorch code with its weights (net.py,weights.pt); for "
            "others, record it where it runs: netweave.record_training and netweave.save_training"
        )
    return graph.trace.learn


def _batch(a: Graph, b: Graph, mappings: Sequence[InputMapping], sentence: str) -> dict[str, np.ndarray]:
    """Draw a batch for A, of values that both nets take.

    Raises:
        UsageError: The inputs of the nets are not alike.
    """
    if len(mappings) < max(len(a.inputs), len(b.inputs)):
        raise UsageError(
            f"the nets do not take the same inputs, so no batch can be given to both: {sentence}"
        )
    domains = pair_domains(a, b, mappings)
    sizes = {name: (SAMPLES, *x.shape[1:]) for name, x in draw_inputs(a, 0, batch=SAMPLES).items()}
    return dict(draw(a, sizes, seed=0, domains=domains).inputs)
