"""MXNet's key-value store: values that several devices and workers push to and pull from.

Semantics are those of ``src/kvstore`` at 1.9.1. What is pushed is summed over the devices of a worker and, in
``dist_sync``, over all workers; nothing is averaged. Then the updater changes the stored value, or, where
there is none, the sum replaces it. Here every worker holds all values and makes the same update from the same
sum, which ends with the same bits on all of them as a server's update would.

A push is done later, in order with all that touches its key; ``pull`` waits for what its keys depend on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor, distributed

from netweave.errors import UsageError
from netweave.formats.mxnet.symbol.training import mxnet_solver
from netweave.runtime.engine import ThreadedEngine, Variable
from netweave.training.optim import Trained, Updater
from netweave.training.parallel.exchange import num_code_bytes, quantize_2bit, sum_2bit
from netweave.training.parallel.link import Channel

if TYPE_CHECKING:
    from types import TracebackType

    from netweave.runtime.engine import Engine
    from netweave.training.parallel.world import World

Key = int | str
Values = Tensor | Sequence[Tensor]
UpdateFunction = Callable[[Key, Tensor, Tensor], None]

TYPES = ("local", "device", "dist_sync", "dist_async")

LANE = "store"
"""Where sums and updates are computed."""


class KVStore:
    """Values by key; made by ``create``.

    Args:
        kind: ``local``, ``device`` or ``dist_sync``; ``dist_async`` is ``cluster.async_store``.
        world: The workers; None for this one alone.
        engine: Where it works, so that its tasks may name the variables of others; one of its own by default.

    Attributes:
        type: Its kind.
    """

    def __init__(self, kind: str, world: World | None = None, *, engine: Engine | None = None) -> None:
        if kind not in TYPES:
            raise UsageError(f"unknown key-value store {kind!r}; expected one of {', '.join(TYPES)}")
        self.type = kind
        self._whole_world = world
        self._world = world if world is not None and world.size > 1 else None
        self._owns_engine = engine is None
        self._engine = ThreadedEngine({LANE: 1}) if engine is None else engine
        self._engine.add_lane(LANE)
        self._lane = LANE
        self._stored: dict[Key, Tensor] = {}
        self._variables: dict[Key, Variable] = {}
        self._residuals: dict[tuple[Key, int], Tensor] = {}
        self._updater: UpdateFunction | None = None
        self._threshold: float | None = None
        self._channel = None
        if self._world is not None:
            self._channel = Channel(self._world, self._engine, "pushes")
            self._group = self._world.group("pushes")

    @property
    def rank(self) -> int:
        """Number of this worker, from 0."""
        return 0 if self._world is None else self._world.rank

    @property
    def num_workers(self) -> int:
        """Number of workers."""
        return 1 if self._world is None else self._world.size

    def init(self, key: Key | Sequence[Key], value: Tensor | Sequence[Tensor]) -> None:
        """Give keys their first values; with several workers those of the first count.

        Raises:
            UsageError: A key has a value already.
        """
        for one, values in _pairs(key, value):
            if one in self._stored:
                raise UsageError(f"key {one!r} of the store has a value already; push changes it")
            first = values[0].detach().clone()
            if self._world is not None:
                with self._world.watched("the first value of a key"):
                    distributed.broadcast(first, 0, group=self._group)
            self._stored[one] = first
            self._variables[one] = Variable(f"key {one}")

    def push(self, key: Key | Sequence[Key], value: Any, priority: int = 0) -> None:
        """Add up values, and change what is stored by the sum; later.

        Args:
            key: A key, or several.
            value: For each key a tensor, or one from each device; they may be changed after the call.
            priority: Among pushes that could be done, the highest goes first on one worker.

        Raises:
            UsageError: A key has no value yet, or values have another shape.
        """
        for one, values in _pairs(key, value):
            self._check(one, values)
            own = [values.detach().clone() for values in values]
            self.push_when(one, partial(list, own), priority=priority)

    def push_when(
        self,
        key: Key,
        values: Callable[[], Sequence[Tensor]],
        reads: Sequence[Variable] = (),
        *,
        priority: int = 0,
        name: str = "",
    ) -> None:
        """Push values that are not there yet, by variables of the engine that the store works on.

        Args:
            key: The key.
            values: Returns one tensor from each device; they are the store's until they are summed.
            reads: What must be done before ``values`` is called, and what it reads.
            priority: Among pushes that could be done, the highest goes first on one worker.
            name: Of the tasks; the key's by default.
        """
        variable, named = self._variables[key], name or f"key {key}"
        merged: list[Tensor] = []
        self._engine.push(
            lambda: merged.append(self._merge(key, values())),
            reads,
            [variable],
            lane=LANE,
            priority=priority,
            name=f"sum of {named}",
        )
        if self._channel is not None:
            self._push_to_workers(self._channel, key, merged, named)
        self._engine.push(
            partial(self._update, key, merged),
            (),
            [variable],
            lane=self._lane,
            priority=priority,
            name=f"store {named}",
        )

    def pull(self, key: Key | Sequence[Key], out: Any, priority: int = 0) -> None:
        """Copy what is stored to tensors, after all that was pushed to the keys.

        Args:
            key: A key, or several.
            out: For each key a tensor, or one for each device.
            priority: Of no effect here; as MXNet spells it.
        """
        for one, outs in _pairs(key, out):
            self._check(one, outs)
            self._engine.wait_for(self._variables[one])
            with torch.no_grad():
                for tensor in outs:
                    tensor.copy_(self._stored[one])

    def pushpull(self, key: Key | Sequence[Key], value: Any, out: Any = None, priority: int = 0) -> None:
        """Push, and pull into ``out``, or into the values where there is none."""
        self.push(key, value, priority)
        self.pull(key, value if out is None else out, priority)

    def row_sparse_pull(self, key: Key, out: Tensor, row_ids: Tensor) -> None:
        """Copy some rows of what is stored; the other rows of ``out`` become zero.

        Args:
            key: The key.
            out: A tensor of the stored shape.
            row_ids: Numbers of rows, in any order; repeated ones count once.

        Raises:
            UsageError: A row is not there.
        """
        self._check(key, [out])
        rows = torch.unique(row_ids.to(torch.int64))
        count = len(self._stored[key])
        if len(rows) and not 0 <= int(rows[0]) <= int(rows[-1]) < count:
            raise UsageError(
                f"rows of key {key!r} are 0 to {count - 1}, found {int(rows[0])} to {int(rows[-1])}"
            )
        self._engine.wait_for(self._variables[key])
        with torch.no_grad():
            out.zero_()
            out[rows] = self._stored[key][rows]

    def set_updater(self, updater: UpdateFunction) -> None:
        """Let a function change stored values: called with key, sum, and the stored value to change."""
        self._engine.wait_all()
        self._updater = updater

    def set_optimizer(self, optimizer: str, **settings: Any) -> None:
        """Let one of MXNet's optimizers change stored values; each key counts its own updates.

        Args:
            optimizer: Its name (``sgd``, ``adam``, ...).
            settings: Its settings by MXNet's names (``learning_rate``, ``momentum``, ``wd``, ...).
        """
        solver = mxnet_solver(optimizer, settings, rescale_grad=1.0)
        updaters: dict[Key, Updater] = {}

        def update(key: Key, merged: Tensor, stored: Tensor) -> None:
            if key not in updaters:
                # weight decay is for all keys: an optimizer of a store is told no names (``idx2name``)
                updaters[key] = Updater(solver, [Trained(str(key), stored, 1.0, 1.0)])
            stored.grad = merged
            updaters[key].step()

        self.set_updater(update)

    def set_gradient_compression(self, settings: Mapping[str, Any]) -> None:
        """Push values as 2-bit codes: ``{"type": "2bit", "threshold": 0.5}``; what is left out is kept.

        Raises:
            UsageError: The store is local, or the type is another one.
        """
        if self.type == "local":
            raise UsageError("a local store has nothing to compress; make a 'device' or 'dist_sync' store")
        if settings.get("type") != "2bit":
            raise UsageError(f"gradient compression {settings.get('type')!r}, expected '2bit'")
        threshold = float(settings.get("threshold", 0.5))
        if not threshold > 0:
            raise UsageError(f"the threshold of 2-bit compression is {threshold}, expected more than 0")
        self._engine.wait_all()
        self._threshold = threshold

    def barrier(self) -> None:
        """Wait for what this worker pushed, and for all workers to come here."""
        self._engine.wait_all()
        if self._world is not None:
            self._world.barrier()

    @property
    def keys(self) -> list[Key]:
        """The keys that have values, in the order in which they were given."""
        return list(self._stored)

    def variable(self, key: Key) -> Variable:
        """Return the variable of a key, for tasks that read or change its value."""
        return self._variables[key]

    def value(self, key: Key) -> Tensor:
        """Return the stored tensor itself, which tasks change that name ``variable(key)``."""
        return self._stored[key]

    def gather(self, value: Any, what: str) -> list[Any]:
        """Return the value of each worker: JSON values, small ones."""
        return [value] if self._world is None else self._world.gather(value, what)

    @property
    def residuals(self) -> dict[tuple[Key, int], Tensor]:
        """Residuals of the 2-bit codes so far, by key and device."""
        return dict(self._residuals)

    def restore_residuals(self, residuals: Mapping[tuple[Key, int], Tensor]) -> None:
        """Go on with what codes left out before."""
        self._residuals = dict(residuals)

    def close(self) -> None:
        """Wait for all pushes of all workers, and end."""
        if self._owns_engine:
            self._engine.close()
        if self._whole_world is not None:
            self._whole_world.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._owns_engine:
            self._engine.close(cancel=error is not None)
        if self._whole_world is not None:
            self._whole_world.close(failed=error is not None)

    # What pushes do.

    def _check(self, key: Key, tensors: Sequence[Tensor]) -> None:
        if key not in self._stored:
            known = ", ".join(map(repr, self._stored)) or "none"
            raise UsageError(
                f"unknown key {key!r} of the store; expected one of {known}, or call init to give it a value"
            )
        shape = tuple(self._stored[key].shape)
        for tensor in tensors:
            if tuple(tensor.shape) != shape:
                raise UsageError(f"key {key!r} of the store has shape {shape}, found {tuple(tensor.shape)}")

    def _merge(self, key: Key, values: Sequence[Tensor]) -> Tensor:
        """Return the sum over devices, in their order."""
        if self._threshold is not None and self.type == "device":
            values = [self._coded(key, device, value) for device, value in enumerate(values)]
        place = self._stored[key].device
        total = values[0].to(place, copy=True)
        for value in values[1:]:
            total += value.to(place)
        return total

    def _coded(self, key: Key, device: int, value: Tensor) -> Tensor:
        """Return what a device's codes stand for."""
        assert self._threshold is not None
        codes = self._quantize(key, device, value)
        decoded = sum_2bit([codes], value.numel(), self._threshold, value.dtype)
        return decoded.reshape(value.shape)

    def _quantize(self, key: Key, device: int, value: Tensor) -> Tensor:
        assert self._threshold is not None
        residual = self._residuals.setdefault((key, device), torch.zeros_like(value).reshape(-1))
        return quantize_2bit(value.reshape(-1), residual, self._threshold)

    def _push_to_workers(self, channel: Channel, key: Key, merged: list[Tensor], name: str) -> None:
        gathered: list[Tensor] = []

        def begin() -> distributed.Work:
            if self._threshold is None:
                return distributed.all_reduce(merged[0], group=self._group, async_op=True)
            codes = self._quantize(key, 0, merged[0])
            gathered.append(codes.new_empty(self.num_workers * len(codes)))
            return distributed.all_gather_single(gathered[0], codes, group=self._group, async_op=True)

        def end() -> None:
            if not gathered:
                return
            assert self._threshold is not None
            total, size = merged[0], merged[0].numel()
            rows = gathered[0].reshape(self.num_workers, num_code_bytes(size))
            total.copy_(sum_2bit(rows.unbind(), size, self._threshold, total.dtype).reshape(total.shape))

        channel.push(begin, self._variables[key], end=end, name=f"push of {name}")

    def _update(self, key: Key, merged: list[Tensor]) -> None:
        stored = self._stored[key]
        with torch.no_grad():
            if self._updater is None:
                stored.copy_(merged[0])
            else:
                self._updater(key, merged[0], stored)


def _pairs(key: Key | Sequence[Key], values: Any) -> list[tuple[Key, list[Tensor]]]:
    """Return keys, each with its tensors."""
    if isinstance(key, int | str):
        return [(key, [values] if isinstance(values, Tensor) else list(values))]
    keys = list(key)
    if len(values) != len(keys):
        raise UsageError(f"{len(keys)} keys and {len(values)} values were given, expected as many of both")
    return [
        (one, [value] if isinstance(value, Tensor) else list(value))
        for one, value in zip(keys, values, strict=True)
    ]
