"""A net on several devices of this process, for a loop of the user's own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netweave.api.running import need_torch
from netweave.api.training import load_job
from netweave.errors import UsageError
from netweave.graph import Graph
from netweave.job import Job, Phase, Policy, Schedule, Solver
from netweave.training.parallel.devices import as_contexts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.training.parallel.devices import Context
    from netweave.training.replicated import ReplicatedNet


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
    from netweave.training.begin import choose_seed
    from netweave.training.nets import make_nets
    from netweave.training.ranks import STAGES
    from netweave.training.replicated import ReplicatedNet

    contexts = as_contexts(devices)
    places = [find_device(context.torch_name) for context in contexts]
    job = _job(net, losses)
    drawn = choose_seed(job, seed, None)
    first = make_nets(
        {"train": job.phases["train"]},
        weights=job.checkpoints.weights,
        initializer=job.initializer,
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
