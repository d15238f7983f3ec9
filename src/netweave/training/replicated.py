"""A net on several devices that a loop of the user's own drives: Minerva's way of data parallelism.

    for device, part in zip(devices, parts):
        with netweave.device(device):
            net.forward(**part)
            net.backward()

Each call pushes tasks and returns at once. What reads and writes what is known to the engine, so that the
devices compute side by side, each gradient is added to the sum on its owner as soon as it is there, and a
device fetches an array that its owner has changed before it reads it next (``set_device`` of owl; Minerva's
``NetTrainer`` updates layer i of L on device floor(i * n / L)).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch
from torch import Tensor

from netweave.errors import UnsupportedError, UsageError
from netweave.graph import Graph, unread_arrays
from netweave.job import Phase, Solver
from netweave.runtime.backends.torch import ParameterStore, TorchNet
from netweave.runtime.backends.torch.device import compute_threads
from netweave.runtime.backends.torch.node_memory import memories
from netweave.runtime.backends.torch.parameters import Stored, Views
from netweave.runtime.backends.torch.stages import StagePass, cut
from netweave.runtime.engine import Completion, Engine, ThreadedEngine, Trace
from netweave.training.loading import layer_numbers, trained
from netweave.training.net_passes import COMPUTE, NetPasses, Part, Where, objective_of
from netweave.training.optim import Trained, Updater
from netweave.training.optim.rule import ALIGNED_ELEMENTS, flat_layout
from netweave.training.parallel.devices import Context, current_context
from netweave.training.parallel.exchange import copy_slice
from netweave.training.parallel.kvstore import LANE, KVStore
from netweave.training.parallel.plan import owners_by_layer


class ReplicatedNet:
    """A net with a copy of its arrays on each of several devices of this process.

    Args:
        phase: The net and its losses.
        first: A net with the arrays to begin with, on the first device.
        contexts: The devices.
        solver: How ``update`` changes arrays; None for a net whose arrays the user changes.
        num_stages: Stages of the net: what is there after backward of one is summed while backward goes on.
        seed: Of what is drawn.
        trace: File for a timeline of all tasks.

    Attributes:
        contexts: The devices.
        engine: Where tasks run.

    Raises:
        UnsupportedError: The net keeps something from batch to batch for each sample.
    """

    def __init__(
        self,
        phase: Phase,
        first: TorchNet,
        contexts: Sequence[Context],
        *,
        solver: Solver | None = None,
        num_stages: int,
        seed: int = 0,
        trace: Path | None = None,
    ) -> None:
        keeping = ", ".join(memories(first.module))
        if keeping:
            raise UnsupportedError(
                f"{phase.graph.name}: {keeping} keep their state from batch to batch, so several devices "
                "cannot train them"
            )
        self.contexts = tuple(contexts)
        self.engine = ThreadedEngine({LANE: 1}, trace=None if trace is None else Trace(trace))
        self._phase, self._solver = phase, solver
        devices = [torch.device(context.torch_name) for context in contexts]
        open_lanes(self.engine, devices)
        taps = [name for name in phase.losses if name not in {value.name for value in phase.graph.outputs}]
        self._nets = [
            net_on(device, phase.graph, taps, first) if number else first
            for number, device in enumerate(devices)
        ]
        parameters = {one.key: one for one in trained(phase.graph, first) if one.lr_mult}
        self._keys = list(parameters)
        # a slice for each array, which has one owner
        layout = flat_layout(
            {key: one.tensor.numel() for key, one in parameters.items()},
            slice_elements=ALIGNED_ELEMENTS,
            whole_parameters=True,
        )
        self._layout = layout
        self._passes = [
            NetPasses(
                net,
                cut(net, num_stages),
                layout,
                engine=self.engine,
                where=Where(device, mixed=False, seed=seed, lane=lane_of(number), number=number),
            )
            for number, (net, device) in enumerate(zip(self._nets, devices, strict=True))
        ]
        layers = layer_numbers(phase.graph)
        self._owners = owners_by_layer([layers[key] for key in self._keys], len(devices))
        self._store = KVStore("device", engine=self.engine)
        self._store.set_updater(_add)
        for number, key in enumerate(self._keys):
            self._store.init(number, torch.zeros_like(self._owned(number).store[key].tensor))
        self._updaters = [
            None if solver is None else self._updater(number, parameters[key], solver)
            for number, key in enumerate(self._keys)
        ]
        self._stale: list[set[int]] = [set() for _ in devices]
        self._pending: dict[int, Part] = {}
        self._step = self._samples = 0

    @property
    def params(self) -> Views:
        """The arrays on their owners, by the source's names; access waits, and devices fetch what changes."""
        owner = {key: self._owned(number) for number, key in enumerate(self._keys)}
        rows = {
            key: owner.get(key, self._nets[0]).store[key]
            for key in self._phase.graph.parameters
            if key in self._nets[0].store
        }
        return Views(rows, lambda tensor: tensor, self._wait_for_access)

    @property
    def grads(self) -> Views:
        """The gradients, summed on their owners since the last ``update`` or ``zero_grad``; access waits."""
        rows = {key: self._owned(number).store[key] for number, key in enumerate(self._keys)}
        sums = {id(rows[key].tensor): self._store.value(number) for number, key in enumerate(self._keys)}
        return Views(rows, lambda tensor: sums[id(tensor)], self.wait)

    def owner(self, key: str) -> Context:
        """Return the device that holds an array, and the sum of its gradients."""
        return self.contexts[self._owners[self._keys.index(key)]]

    def forward(self, **inputs: Any) -> Completion[dict[str, Tensor]]:
        """Compute the net for a part of a batch, on the device of the innermost ``netweave.device`` block.

        Args:
            inputs: Arrays or tensors by input; they may be changed after the call.

        Returns:
            Its outputs and losses, as tensors, when they are there: ``net.forward(...).result()["loss"]``.

        Raises:
            UsageError: The net is not on that device.
        """
        device = self._device()
        passes = self._passes[device]
        tensors = {name: torch.as_tensor(value).detach().clone() for name, value in inputs.items()}
        samples = len(next(iter(tensors.values()))) if tensors else 0
        part = Part(0, tensors, (), self._samples, samples)
        self._samples += samples
        self._fetch(device)
        self._pending[device] = part
        return passes.push_forward(self._step, part, partial(self._finish, device))

    def backward(self) -> None:
        """Differentiate the last ``forward`` on this device, and add the gradients to the sums.

        Raises:
            UsageError: There was none.
        """
        device = self._device()
        part = self._pending.pop(device, None)
        if part is None:
            raise UsageError(
                f"backward on {self.contexts[device]} without a forward before it on the same device"
            )
        passes = self._passes[device]
        passes.push_backward(self._step, {"": part})
        for number in sorted(range(len(self._keys)), key=lambda one: -min(passes.stages_of(one), default=0)):
            self._store.push_when(
                number,
                partial(self._gradient, device, number),
                [passes.gradients[number]],
                priority=-number,
                name=f"gradient {self._step} of {self._keys[number]} from {self.contexts[device]}",
            )

    def update(self) -> None:
        """Let each owner change its arrays by the sums of gradients, and begin new sums.

        Raises:
            UsageError: The net was made without an optimizer.
        """
        if self._solver is None:
            raise UsageError(
                "the net has no optimizer; give one to replicate(), or change net.params by net.grads"
            )
        for number, key in enumerate(self._keys):
            owner = self._owners[number]
            self.engine.push(
                partial(self._apply, number),
                (),
                [self._store.variable(number), self._passes[owner].parameters[number]],
                lane=LANE,
                priority=-number,
                name=f"update {self._step} of {key} on {self.contexts[owner]}",
            )
            self._changed(number)
        self._begin_batch()

    def zero_grad(self) -> None:
        """Begin new sums."""
        for number in range(len(self._keys)):
            total = self._store.value(number)
            self.engine.push(total.zero_, (), [self._store.variable(number)], lane=LANE, name="zero")
        self._begin_batch()

    def wait(self) -> None:
        """Wait for all that was pushed.

        Raises:
            RunError: A layer cannot be computed.
        """
        self.engine.wait_all()

    def close(self) -> None:
        """Wait for all that was pushed, and end the threads."""
        self.engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.engine.close(cancel=error is not None)

    def _begin_batch(self) -> None:
        self._step += 1
        self._samples = 0

    def _device(self) -> int:
        context = current_context()
        if context is None:
            return 0
        if context not in self.contexts:
            raise UsageError(f"the net is on {', '.join(map(str, self.contexts))}, not on {context}")
        return self.contexts.index(context)

    def _owned(self, number: int) -> TorchNet:
        return self._nets[self._owners[number]]

    def _updater(self, number: int, parameter: Trained, solver: Solver) -> Updater:
        tensor = self._owned(number).store[parameter.key].tensor
        return Updater(solver, [Trained(parameter.key, tensor, parameter.lr_mult, parameter.decay_mult)])

    def _wait_for_access(self) -> None:
        self.wait()
        for number in range(len(self._keys)):
            self._changed(number)

    def _changed(self, number: int) -> None:
        for device, stale in enumerate(self._stale):
            if device != self._owners[number]:
                stale.add(number)

    def _fetch(self, device: int) -> None:
        """Push copies of what owners have changed since the device has read it."""
        passes = self._passes[device]
        for number in sorted(self._stale[device]):
            owner = self._passes[self._owners[number]]
            key = self._keys[number]
            source, target = owner.net.store[key].tensor, passes.net.store[key].tensor
            self.engine.push(
                partial(copy_slice, self._layout, number, {key: source}, {key: target}),
                [owner.parameters[number]],
                [passes.parameters[number]],
                lane=passes.where.lane,
                name=f"fetch {self._step} of {key} from {owner.where} to {passes.where}",
            )
        self._stale[device].clear()

    # What the tasks do.

    def _finish(self, device: int, done: StagePass) -> dict[str, Tensor]:
        outputs = dict(zip(self._nets[device].names, done.outputs, strict=True))
        done.outputs = [objective_of(outputs, self._phase.losses)]
        return {name: tensor.detach() for name, tensor in outputs.items()}

    def _gradient(self, device: int, number: int) -> list[Tensor]:
        tensor = self._nets[device].store[self._keys[number]].tensor
        return [torch.zeros_like(tensor) if tensor.grad is None else tensor.grad]

    def _apply(self, number: int) -> None:
        updater, total = self._updaters[number], self._store.value(number)
        assert updater is not None
        tensor = self._owned(number).store[self._keys[number]].tensor
        own, tensor.grad = tensor.grad, total
        updater.step()
        tensor.grad = own
        total.zero_()


def _add(key: Any, merged: Tensor, stored: Tensor) -> None:
    stored += merged


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


def _rows(net: TorchNet) -> list[Stored]:
    return [net.store[key] for key in net.store]
