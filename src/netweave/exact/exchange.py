"""Exchange of the gradients of a module: a batch in shards, whoever computes them."""

from __future__ import annotations

import contextlib
import hashlib
import random
from itertools import chain
from time import perf_counter
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
import torch
from torch import Tensor, distributed, nn

from netweave.api.jobs import announcing_early_failure, joined
from netweave.errors import UnsupportedError, UsageError
from netweave.exact.overlap import ShardGradients
from netweave.runtime.engine import ThreadedEngine
from netweave.training.parallel.environment import asked, told_by
from netweave.training.parallel.shards import SHARDS, THREADS, kernels, shards_of, tree_sum
from netweave.training.watchers import TrainOptions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType

    from netweave.training.parallel.world import World

T = TypeVar("T")

DATA, PASS = range(2)
"""Streams of random numbers of a shard: one for its records, one for its pass."""

_MISSING = object()


class Exchange:
    """Ranks that make each update together; its bits do not depend on their number.

    The loss of a shard is a mean over its samples, as in any loop; after the last shard of a batch the
    gradients of the parameters are the means over all shards. Buffers that a pass changes, such as the
    statistics of batch normalisation, begin each shard as the last update left them, and end an update as
    the mean over its shards. What a shard draws depends on the seed, the update and the shard alone.

    Torch computes with one thread from here on, until ``close``: sums are rounded by how they are shared out.

    Args:
        parameters: The module that is trained; or its parameters, if no pass changes a buffer. Those that
            need no gradient are left alone.
        shards: Number of shards of a batch, >= 1, which the number of ranks divides.
        seed: Of what a shard draws.
        timeout_s: Seconds to wait for another rank, > 0; 60 by default.
        overlap: Whether gradients may be sent while backward of the last shard goes on: from the second
            update on, if no gradient of the one before has changed between backward and the end of its shard.

    Attributes:
        iteration: Updates done.
        seed: Of what is drawn.
        shards: The shards of each batch that this rank computes.
        means: What the shards of the last update have recorded: the mean of each value by name.
        asked_stop: The exit status that this rank was asked to stop with; 0 if it was not.
        asks_save: Whether this rank, the first, asks all for a checkpoint.
        stop: The exit status that any rank was asked to stop with before the last update.
        saves: Whether a checkpoint was asked for then.

    Raises:
        UsageError: The shards cannot be shared out evenly, or ranks have other parameters, processors or
            versions.
        UnsupportedError: The module normalises over ranks by itself, or has gradients that are sparse.
        PeerError: Another rank does not come.
    """

    @announcing_early_failure
    def __init__(
        self,
        parameters: nn.Module | Iterable[nn.Parameter],
        shards: int,
        *,
        seed: int = 0,
        timeout_s: float | None = None,
        overlap: bool = True,
    ) -> None:
        module = parameters if isinstance(parameters, nn.Module) else None
        self._parameters = _trained(parameters)
        self._buffers = {} if module is None else _buffers(module)
        if module is not None:
            _check_modules(module)
        device = next(iter(self._parameters.values())).device
        options = TrainOptions(same_bits=shards, device=str(device), timeout_s=timeout_s)
        self.iteration, self.seed = 0, seed
        self.means: dict[str, float] = {}
        self.asked_stop, self.asks_save = 0, False
        self.stop, self.saves = 0, False
        self._done = 0
        self._begun_s: float | None = None
        self._compute_s = 0.0
        self._before: list[Tensor] = []
        self._after: list[dict[int, Tensor]] = []
        self._num_gradients = torch.zeros(len(self._parameters), dtype=torch.float64)
        self._recorded: list[dict[str, float]] = []
        self._draws = contextlib.ExitStack()
        with contextlib.ExitStack() as stack:
            world = stack.enter_context(joined(options))
            assert world is not None
            self._world: World = world
            self.shards = shards_of(world, shards)
            self.require_equal({SHARDS: shards, "the seed": seed, **kernels()})
            self.require_equal_values()
            engine = stack.enter_context(ThreadedEngine())
            stack.callback(torch.set_num_threads, torch.get_num_threads())
            torch.set_num_threads(THREADS)
            self.engine = engine
            self._gradients = ShardGradients(
                self.shards, self._parameters, world, engine=engine, overlaps=overlap and world.size > 1
            )
            stack.callback(self._gradients.close)
            self._stack = stack.pop_all()

    @property
    def rank(self) -> int:
        """Number of this rank, from 0."""
        return self._world.rank

    @property
    def size(self) -> int:
        """Number of ranks."""
        return self._world.size

    @property
    def is_first(self) -> bool:
        """True if this is the rank that writes and shows."""
        return self._world.is_first

    @property
    def run(self) -> str:
        """Name of the run, the same for all ranks and restarts."""
        return self._world.run

    def require_buffers(self, module: nn.Module) -> None:
        """Refuse a module with the parameters of this exchange, and with buffers that it does not know.

        Raises:
            UsageError: It is such a module.
        """
        known = {id(tensor) for tensor in (*self._parameters.values(), *self._buffer_tensors())}
        unknown = [name for name, tensor in module.named_buffers() if id(tensor) not in known]
        if unknown and any(id(one) in known for one in module.parameters()):
            raise UsageError(
                f"the exchange knows the parameters of the module and not its buffer {unknown[0]!r}, which "
                "each rank would change in its own way; give the module itself to Exchange"
            )

    def batches(self, loader: Iterable[T]) -> Iterator[Iterator[T]]:
        """Give the batches of a loader that gives shards, each as the shards of this rank.

        Args:
            loader: Gives this rank's shards of one batch after another, as with ``sampler``.

        Raises:
            UsageError: A batch is left before its last shard, or the loader ends within one.
            PeerError: Another rank failed.
        """
        items = iter(loader)
        while (first := self._fetch(items, 0)) is not _MISSING:
            before = self.iteration
            yield self._shards_of(first, items)
            if self.iteration != before + 1 or self._done:
                raise UsageError(
                    "a batch was left before its last shard; an update needs all of them: iterate over each "
                    "batch to its end"
                )

    def _shards_of(self, first: Any, items: Iterator[T]) -> Iterator[T]:
        for number in range(self.shards.count):
            item = first if not number else self._fetch(items, number)
            if item is _MISSING:
                raise UsageError(
                    f"the loader ended after {number} of the {self.shards.count} shards that this rank "
                    "computes of a batch; give it netweave.exact.sampler as its batch_sampler"
                )
            self.begin_shard()
            yield item
            self.end_shard()

    def _fetch(self, items: Iterator[T], number: int) -> Any:
        with self._seeded(DATA, number):
            return next(items, _MISSING)

    def begin_shard(self) -> None:
        """Begin the pass of the next shard; ``batches`` calls it by itself.

        Raises:
            UsageError: The last one has not ended.
        """
        if self._begun_s is not None:
            raise UsageError("a shard begins before the last one has ended; call end_shard after backward")
        if not self._done:
            self._before = [tensor.detach().clone() for tensor in self._buffer_tensors()]
        self._gradients.begin_shard(self.iteration, self._done)
        self._recorded.append({})
        self._draws.enter_context(self._seeded(PASS, self._done))
        self._begun_s = perf_counter()

    def record(self, **values: Tensor | float) -> None:
        """Record numbers of this shard, such as its loss: ``means`` has their means over all shards."""
        if self._begun_s is None:
            raise UsageError("record is for the pass of a shard; call it between its begin and its end")
        self._recorded[-1] |= {name: float(torch.as_tensor(value).detach()) for name, value in values.items()}

    def end_shard(self) -> bool:
        """End the pass of a shard after its backward; ``batches`` calls it by itself.

        Returns:
            True if it was the last one of a batch: the gradients are the means over all shards.

        Raises:
            UsageError: None has begun, or the shards have recorded different values.
            UnsupportedError: A gradient is sparse, or has changed after it was sent; or a buffer counts
                differently in each shard.
            PeerError: Another rank failed.
        """
        if self._begun_s is None:
            raise UsageError("a shard ends that has not begun; call begin_shard before its forward")
        self._draws.close()
        self._compute_s += perf_counter() - self._begun_s
        self._begun_s = None
        self._num_gradients += self._gradients.end_shard()
        self._take_buffers()
        self._done += 1
        if self._done < self.shards.count:
            return False
        self._finish_update()
        return True

    def require_equal(self, values: dict[str, Any]) -> None:
        """Refuse to go on unless all ranks have the same values, by what they are called in messages.

        Raises:
            UsageError: One has others.
        """
        self._world.require_all_equal(values, "start all ranks with the same program, files and seed")

    def require_equal_values(self) -> None:
        """Refuse to go on unless all ranks have the same parameters and buffers.

        Raises:
            UsageError: One has others.
        """
        content = hashlib.sha256()
        for key, tensor in chain(
            self._parameters.items(), zip(self._buffers, self._buffer_tensors(), strict=True)
        ):
            content.update(f"{key} {tuple(tensor.shape)} {tensor.dtype}".encode())
            content.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
        self._world.require_all_equal(
            {"parameters with the fingerprint": content.hexdigest()[:12]},
            "make the module with the same seed on all ranks (torch.manual_seed), or load the same weights",
        )

    def choose(self, value: Any, what: str) -> Any:
        """Return what the first rank has chosen: a small JSON value."""
        return self._world.share(value, what)

    def enter(self, context: contextlib.AbstractContextManager[T]) -> T:
        """Enter a context that ends with this exchange."""
        return self._stack.enter_context(context)

    def close(self) -> None:
        """End the threads, and wait for the other ranks."""
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._draws.close()
        self._stack.__exit__(kind, error, trace)

    # In an update.

    def _buffer_tensors(self) -> list[Tensor]:
        return [owner._buffers[name] for owner, name in self._buffers.values()]

    def _take_buffers(self) -> None:
        """Keep what the pass has changed, and put back what was there before the update."""
        changed = {}
        with torch.no_grad():
            for number, (tensor, before) in enumerate(zip(self._buffer_tensors(), self._before, strict=True)):
                if not torch.equal(tensor, before):
                    changed[number] = tensor.detach().clone()
                    tensor.copy_(before)
        self._after.append(changed)

    def _finish_update(self) -> None:
        changes = torch.zeros(len(self._before), dtype=torch.float64)
        for number in {number for one in self._after for number in one}:
            changes[number] = 1
        num_values = [len(one) for one in self._recorded]
        head = torch.tensor(
            [asked(self.asked_stop, self.asks_save), min(num_values), max(num_values)]
        ).double()
        heads = self._gather(torch.cat([head, self._num_gradients, changes]))
        totals = heads.sum(0)
        if heads[:, 1].min() != heads[:, 2].max():
            raise UsageError(
                f"the shards of a batch have recorded {int(heads[:, 1].min())} to {int(heads[:, 2].max())} "
                "values; record the same ones in each"
            )
        num_gradients, changes = totals[len(head) :].split([len(self._parameters), len(self._before)])
        self._mean_of_rows([number for number, count in enumerate(changes) if count])
        self.engine.wait_all()
        for (key, parameter), count in zip(self._parameters.items(), num_gradients, strict=True):
            # as in any loop: what took no part has no gradient, and an optimizer skips it
            parameter.grad = self._gradients.mean(key) if count else None
        told = told_by(float(totals[0]))
        self.stop, self.saves = told["stop"], told["saves"]
        self._num_gradients.zero_()
        self._recorded, self._after, self._before, self._done = [], [], [], 0
        self.iteration += 1
        progress = self._world.progress
        progress.iteration = self.iteration
        progress.updates += 1
        progress.compute_s = self._compute_s

    def _mean_of_rows(self, changed: list[int]) -> None:
        """Give recorded values, and buffers that any shard has changed, the mean over the shards."""
        names = sorted(self._recorded[0])
        rows = []
        for values, after in zip(self._recorded, self._after, strict=True):
            numbers = torch.tensor([values.get(name, float("nan")) for name in names], dtype=torch.float64)
            ends = [after.get(number, self._before[number]) for number in changed]
            rows.append(torch.cat([numbers, *(tensor.reshape(-1).double().cpu() for tensor in ends)]))
        if not len(rows[0]):
            return
        of_shards = self._gather(torch.cat(rows)).reshape(self.shards.size, -1)
        mean = tree_sum(of_shards.clone().unbind()) / self.shards.size
        self.means = dict(zip(names, mean[: len(names)].tolist(), strict=True))
        at = len(names)
        tensors, keys = self._buffer_tensors(), list(self._buffers)
        with torch.no_grad():
            for number in changed:
                tensor = tensors[number]
                place = slice(at, at + tensor.numel())
                at += tensor.numel()
                value = mean[place]
                if not tensor.is_floating_point():
                    value = of_shards[0, place]
                    if (of_shards[:, place] != value).any() or tensor.is_complex():
                        raise UnsupportedError(
                            f"the buffer {keys[number]!r} holds {tensor.dtype} and differs from shard to "
                            "shard, so it has no mean; keep it outside of the module"
                        )
                tensor.copy_(value.reshape(tensor.shape))

    def _gather(self, row: Tensor) -> Tensor:
        """Return the rows of all ranks."""
        gathered = row.new_empty(self._world.size * len(row))
        group = self._world.group("means of shards")
        with self._world.watched("the means of shards"):
            distributed.all_gather_single(gathered, row, group=group)
        return gathered.reshape(self._world.size, -1)

    @contextlib.contextmanager
    def _seeded(self, stream: int, number: int) -> Iterator[None]:
        """Let what is drawn depend on the update and the shard alone; other draws go on as if it were not."""
        shard = self.shards.numbers[number]
        words = np.random.SeedSequence([self.seed, self.iteration, shard, stream]).generate_state(4)
        of_python, of_numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 - the user's draws
        with torch.random.fork_rng(
            devices=range(torch.cuda.device_count() if torch.cuda.is_initialized() else 0)
        ):
            torch.manual_seed(int(words[0]) << 32 | int(words[1]))
            random.seed(int(words[2]))
            np.random.seed(words[3])  # noqa: NPY002
            try:
                yield
            finally:
                random.setstate(of_python)
                np.random.set_state(of_numpy)  # noqa: NPY002


def _trained(parameters: nn.Module | Iterable[nn.Parameter]) -> dict[str, Tensor]:
    """Return the parameters that are trained, by name."""
    if isinstance(parameters, nn.Module):
        named = dict(parameters.named_parameters())
    else:
        rows = list(parameters)
        wrong = next((row for row in rows if not isinstance(row, nn.Parameter)), None)
        if wrong is not None:
            raise UsageError(
                f"an exchange takes a module or its parameters, not {type(wrong).__name__}; give the module"
            )
        named = {str(number): row for number, row in enumerate(rows)}
    trained = {key: tensor for key, tensor in named.items() if tensor.requires_grad}
    if not trained:
        raise UsageError("there is no parameter that needs a gradient")
    return trained


def _buffers(module: nn.Module) -> dict[str, tuple[nn.Module, str]]:
    """Return where the buffers of a module are, by name: a pass may put another tensor there."""
    return {
        f"{path}.{name}" if path else name: (owner, name)
        for path, owner in module.named_modules()
        for name, tensor in owner._buffers.items()
        if tensor is not None
    }


def _check_modules(module: nn.Module) -> None:
    """Refuse what sums over ranks by itself, or has gradients that cannot be summed, before the first update.

    Raises:
        UnsupportedError: A part of the module does.
    """
    for path, part in module.named_modules():
        place = repr(path or type(part).__name__)
        if isinstance(part, nn.SyncBatchNorm):
            raise UnsupportedError(
                f"{place} is a SyncBatchNorm, which sums over the ranks and not over shards; use BatchNorm, "
                "which takes the statistics of each shard"
            )
        if isinstance(part, nn.parallel.DistributedDataParallel | nn.DataParallel):
            raise UnsupportedError(
                f"{place} is a {type(part).__name__}, which exchanges gradients by itself; give the module "
                "in it"
            )
        if getattr(part, "sparse", False) and isinstance(part, nn.Embedding | nn.EmbeddingBag):
            raise UnsupportedError(
                f"{place} has sparse gradients, and only dense ones are summed; make it with sparse=False"
            )
