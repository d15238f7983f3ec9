"""A net on several devices of this process: a copy of its arrays on each, gradients summed in a store.

MXNet's ``DataParallelExecutorGroup``: the batch is split, each device computes its part with its own copy,
the gradients are summed by a key-value store, one update changes the first device's arrays, and the other
devices fetch what changed before they read it next (decision 0152).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import torch

from netweave.graph import unread_arrays
from netweave.runtime.backends.torch import ParameterStore, TorchNet
from netweave.runtime.backends.torch.device import compute_threads
from netweave.runtime.backends.torch.node_memory import to_array
from netweave.runtime.backends.torch.stages import cut
from netweave.training.loading import moving_states, trained
from netweave.training.parallel.device_batch import DeviceBatch, Meeting
from netweave.training.parallel.exchange import FlatRow, GradientRow, copy_slice
from netweave.training.passes import COMPUTE, NetPasses, Where

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from torch import Tensor

    from netweave.graph import Graph
    from netweave.runtime.backends.torch.parameters import Stored
    from netweave.runtime.engine import Engine
    from netweave.training.optim.rule import FlatLayout
    from netweave.training.parallel.kvstore import KVStore


@dataclass(frozen=True, slots=True, eq=False)
class SeveralDevices:
    """The devices of this process that compute a part of each batch each.

    Attributes:
        devices: The devices.
        nets: The training net on each, for its part of a batch.
        store: Sums their gradients; for one device, over several workers.
        sync_batch_norm: Whether batch normalisation takes the statistics of the whole batch of this process.
    """

    devices: tuple[torch.device, ...]
    nets: tuple[TorchNet, ...]
    store: KVStore
    sync_batch_norm: bool = False


def net_on(device: torch.device, graph: Graph, taps: Sequence[str], source: TorchNet) -> TorchNet:
    """Return a net with a copy of another one's arrays.

    Args:
        device: Where it computes.
        graph: The net; it has the same arrays.
        taps: Names of values to give besides the graph's outputs.
        source: Whose arrays it begins with.
    """
    dtype = next((row.tensor.dtype for row in _rows(source) if row.tensor.is_floating_point()), torch.float32)
    store = ParameterStore()
    net = TorchNet(graph, taps=taps, store=store)
    for key, array in unread_arrays(graph).items():
        store.add_constant(graph.parameters[key], array)
    net.to(device).to(dtype)
    trained(graph, net)
    copy_arrays(source, net)
    return net


def copy_arrays(source: TorchNet, target: TorchNet) -> None:
    """Copy all arrays of a net to another one that has the same."""
    with torch.no_grad():
        for key in target.store:
            target.store[key].tensor.copy_(source.store[key].tensor)


def lane_of(number: int) -> str:
    """Return the lane on which the device of a number computes."""
    return f"{COMPUTE} {number}" if number else COMPUTE


def open_lanes(engine: Engine, devices: Sequence[torch.device]) -> None:
    """Give each device a lane, and share the processors among those that compute on the CPU."""
    on_cpu = sum(device.type == "cpu" for device in devices)
    for number in range(len(devices)):
        engine.add_lane(lane_of(number))
    if on_cpu > 1:
        share = max(1, torch.get_num_threads() // on_cpu)
        for number, device in enumerate(devices):
            if device.type == "cpu":
                engine.push(partial(compute_threads, share), lane=lane_of(number)).result()


def passes_on(
    several: SeveralDevices, layout: FlatLayout, *, engine: Engine, where: Where, num_stages: int
) -> list[NetPasses]:
    """Return the passes of each device's net, on a lane of its own.

    Args:
        several: The devices.
        layout: The slices.
        engine: Where tasks run.
        where: How the first device computes.
        num_stages: Stages of each net.
    """
    open_lanes(engine, several.devices)
    meeting = Meeting(len(several.devices))
    passes = []
    for number, (net, device) in enumerate(zip(several.nets, several.devices, strict=True)):
        if meeting.size > 1:
            net.set_whole_batch(DeviceBatch(meeting, number, is_synchronised=several.sync_batch_norm))
        place = replace(where, device=device, lane=lane_of(number), number=number)
        stages = cut(net, num_stages)
        passes.append(
            NetPasses(
                net,
                stages,
                layout,
                engine=engine,
                where=place,
                timed=meeting.guard,
                skipped=meeting.fail,
            )
        )
    return passes


class StoreExchange:
    """Sums gradients over devices, and workers, in a key-value store; a key is a slice of the parameters.

    Args:
        store: The store; it works on the engine of the passes.
        passes: The passes of each device; the first one's parameters are those that are updated.
        layout: The slices.

    Attributes:
        store: The store.
    """

    def __init__(self, store: KVStore, passes: Sequence[NetPasses], layout: FlatLayout) -> None:
        self.store = store
        self._passes, self._layout = passes, layout
        self._tensors = [_tensors(one.net, layout) for one in passes]
        self._rows = [GradientRow(layout, tensors) for tensors in self._tensors]
        self._states_differ = False
        # what the next backward completes first is pushed first: workers begin in the order of pushing
        self._order = sorted(
            range(len(layout.slices)),
            key=lambda number: (-min(passes[0].stages_of(number), default=0), -number),
        )
        self._begin()

    def _begin(self) -> None:
        """Let all devices of all workers begin with the values of the first."""
        row = FlatRow(self._layout, self._tensors[0])
        for number in range(len(self._layout.slices)):
            row.load(number, self._tensors[0])
            self.store.init(number, row.slice(number))
            self.store.pull(number, row.slice(number))
            for tensors in self._tensors:
                row.store(number, tensors)

    def push_gradients(self, step: int) -> None:
        """Push the sums of all gradients; push it after the backward passes, before the updates."""
        for number in self._order:
            name = f"gradient {step}, slice {number}"
            self.store.push_when(
                number,
                partial(self._take, number),
                [one.gradients[number] for one in self._passes],
                priority=-number,
                name=name,
            )
            first = self._passes[0].gradients[number]
            self.store.pull_when(number, partial(self._give, number), [first], priority=-number, name=name)

    def push_parameters(self, step: int) -> None:
        """Push the copies of updated parameters to the other devices, which make them before they read."""
        first = self._passes[0]
        for device, passes in list(enumerate(self._passes))[1:]:
            for number in range(len(self._layout.slices)):
                passes.engine.push(
                    partial(copy_slice, self._layout, number, self._tensors[0], self._tensors[device]),
                    [first.parameters[number]],
                    [passes.parameters[number]],
                    lane=passes.where.lane,
                    priority=1,
                    name=f"fetch {step}, slice {number} on {passes.where}",
                )
        self._states_differ = True

    def copy_to_others(self) -> None:
        """Give all devices the arrays of the first; no task may be left."""
        for passes in self._passes[1:]:
            copy_arrays(self._passes[0].net, passes.net)

    def average_states(self) -> None:
        """Give moving statistics the mean over devices, as MXNet does where it reads them.

        They follow each device's batches, and linearly, so that it does not matter when that is done; but
        no task may be left.
        """
        if not self._states_differ:
            return
        self._states_differ = False
        with torch.no_grad():
            for tensors in zip(*(moving_states(one.net) for one in self._passes), strict=True):
                mean = torch.stack([one.double().cpu() for one in tensors]).mean(0)
                for tensor in tensors:
                    tensor.copy_(mean)

    def residuals(self) -> dict[str, np.ndarray]:
        """Return, on the first worker, what 2-bit codes have left out, by ``store:slice:device:worker``.

        All workers call it at the same update.
        """
        return {
            f"store:{key}:{device}:{worker}": to_array(row)
            for worker, residuals in enumerate(self.store.gather_residuals())
            for (key, device), row in residuals.items()
        }

    def restore_residuals(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Go on with what codes left out before, by ``slice:device:worker``.

        Where there were other workers, each takes an equal share of their sum.
        """
        of_workers: dict[int, dict[tuple[int | str, int], Tensor]] = {}
        for name, array in arrays.items():
            number, device, worker = map(int, name.split(":"))
            like = self._rows[device].slice(number)
            own = of_workers.setdefault(worker, {})
            own[number, device] = torch.from_numpy(array).to(like)
        count = self.store.num_workers
        if len(of_workers) == count:
            self.store.restore_residuals(of_workers[self.store.rank])
            return
        keys = dict.fromkeys(key for residuals in of_workers.values() for key in residuals)
        self.store.restore_residuals(
            {
                key: torch.stack([one[key] for one in of_workers.values() if key in one]).sum(0) / count
                for key in keys
            }
        )

    def _take(self, number: int) -> list[Tensor]:
        return [row.take(number) for row in self._rows]

    def _give(self, number: int, merged: Tensor) -> None:
        self._rows[0].slice(number).copy_(merged)


def _tensors(net: TorchNet, layout: FlatLayout) -> Mapping[str, Tensor]:
    return {key: net.store[key].tensor for key in layout.offsets}


def _rows(net: TorchNet) -> list[Stored]:
    return [net.store[key] for key in net.store]
