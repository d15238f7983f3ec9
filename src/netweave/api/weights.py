"""Weights: writing them, transferring them, and copies of a net on several devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netweave import comparison
from netweave.api.reading import load
from netweave.api.runs import need_torch
from netweave.api.training import load_job
from netweave.errors import UsageError
from netweave.files.output_files import write_file
from netweave.formats.registry import FORMATS, Format
from netweave.graph import Graph
from netweave.job import Job, Phase, Policy, Schedule, Solver
from netweave.training.parallel.devices import Context, as_contexts

if TYPE_CHECKING:
    from netweave.training.replicated import ReplicatedNet


def writes_weights(path: str | Path) -> bool:
    """Return whether ``save_weights`` can write a file of this name."""
    return _format_of(Path(path)) is not None


def save_weights(graph: Graph, path: str | Path, *, random_weights: bool = False) -> None:
    """Write only the weights of a net, for its own framework.

    Args:
        graph: The net.
        path: The file: ``.caffemodel`` or ``.caffemodel.h5`` for Caffe nets, ``.params`` for MXNet nets.
        random_weights: Write random weights if the net has none.

    Raises:
        UsageError: The suffix is unknown, weights are missing, or the net belongs to another framework.
        WriteError: The file cannot be written; the old one is untouched.
    """
    file = Path(path)
    matching_format = _format_of(file)
    if matching_format is None:
        known = ", ".join(f".{suffix}" for row in FORMATS if row.runs.ports for suffix in row.runs.weights)
        raise UsageError(f"cannot write {str(path)!r}: unknown suffix for weights, expected {known}")
    row, suffix = matching_format
    if graph.format != row.name:
        raise UsageError(
            f"{file}: .{suffix} holds weights of {row.name} nets, but {graph.name} is a {graph.format} net; "
            f"name the port that the weights are for (netweave convert --into)"
        )
    if not graph.loaded and not random_weights:
        raise UsageError(
            f"{graph.name}: has no weights to write; give their file, or write random ones (--random-weights)"
        )
    write_file(file, row.load_training().encode_weights(graph, suffix))


def transfer_weights(net: Any, port: Any) -> Graph:
    """Transfer the weights of a net to its port, and check that the port computes the same.

    Args:
        net: The net with weights: a Graph, or files as for ``load``.
        port: Its port, likewise; its own weights are ignored.

    Raises:
        SourceError: The files cannot be read.
        UsageError: The net has no weights, or the port computes something else with them.
    """
    graphs = [given if isinstance(given, Graph) else load(given) for given in (net, port)]
    return comparison.transfer_weights(*graphs)


def _format_of(file: Path) -> tuple[Format, str] | None:
    """Return the format whose weights have such a name, and the suffix."""
    for row in FORMATS:
        for suffix in row.runs.weights if row.runs.ports else ():
            if file.name.endswith(f".{suffix}"):
                return row, suffix
    return None


def replicate(
    net: Graph | Job | str | Path,
    devices: Sequence[Context | str],
    *,
    losses: Mapping[str, float] | Sequence[str] = (),
    optimizer: str | None = None,
    optimizer_params: Mapping[str, Any] | None = None,
    num_stages: int | None = None,
    seed: int | None = None,
    trace: str | Path | None = None,
) -> ReplicatedNet:
    """Return a net with a copy on each of several devices of this process, for a loop of your own.

    >>> devices = [netweave.cpu(0), netweave.cpu(1)]                                # doctest: +SKIP
    >>> with netweave.replicate("solver.prototxt", devices, optimizer="sgd") as net:  # doctest: +SKIP
    ...     for parts in batches:
    ...         for device, part in zip(devices, parts):
    ...             with netweave.device(device):
    ...                 net.forward(**part)
    ...                 net.backward()
    ...         net.update()

    Calls return at once; the devices compute side by side, and gradients are *summed*, each on the device
    that owns its layer. Each part's loss is that of a batch of its own.

    Args:
        net: A Job or a solver, for its training net; or a Graph, with ``losses``.
        devices: The devices, such as ``[netweave.cpu(0), netweave.cpu(1)]``.
        losses: Of a Graph, the values whose sum is to be made small, by name, with weights if not 1.
        optimizer: What ``update`` does: MXNet's name, ``sgd``, ``adam``, ...; None for a loop that changes
            ``net.params`` by ``net.grads`` itself.
        optimizer_params: Its settings by MXNet's names (``learning_rate``, ``rescale_grad``, ...).
        num_stages: Stages that the net is split into; gradients of one are summed while backward of the
            earlier ones is computed. 16 by default.
        seed: Random seed, instead of the Job's; a fresh one if there is neither.
        trace: File for a timeline in Chrome's trace format.

    Raises:
        SourceError: A file cannot be read.
        UsageError: There is no such device, loss or optimizer, or torch is not installed.
    """
    need_torch()
    from netweave.formats.mxnet.symbol.training import mxnet_solver
    from netweave.runtime.backends.torch.device import find_device
    from netweave.training.loading import make_nets
    from netweave.training.net_passes import choose_seed
    from netweave.training.rank_exchange import STAGES
    from netweave.training.replicated import ReplicatedNet

    contexts = as_contexts(devices)
    places = [find_device(context.torch_name) for context in contexts]
    job = _job(net, losses)
    drawn = choose_seed(job, seed, None)
    first = make_nets(
        {"train": job.phases["train"]},
        weights=job.checkpoints.weights,
        seed=drawn,
        device=places[0],
    )["train"]
    solver = None
    if optimizer is not None:
        solver = mxnet_solver(optimizer, optimizer_params or {}, rescale_grad=1.0)
    return ReplicatedNet(
        job.phases["train"],
        first,
        contexts,
        solver=solver,
        num_stages=num_stages or STAGES,
        seed=drawn,
        trace=Path(trace) if trace else None,
    )


def _job(net: Graph | Job | str | Path, losses: Mapping[str, float] | Sequence[str]) -> Job:
    """Return a Job with the net and its losses.

    Raises:
        UsageError: The net has no losses, or there is no such value.
    """
    if isinstance(net, Job):
        return net
    if not isinstance(net, Graph):
        return load_job(net)
    weights = dict(losses) if isinstance(losses, Mapping) else dict.fromkeys(losses, 1.0)
    if not weights:
        outputs = ", ".join(value.name or "" for value in net.outputs)
        raise UsageError(f"{net.name}: name the losses of the net; its outputs are: {outputs}")
    net.find(weights)
    phases = {"train": Phase(net, losses=weights)}
    return Job(net.name, phases, Solver("mxnet.sgd", Policy("mxnet.fixed", 0.0)), Schedule(0))
