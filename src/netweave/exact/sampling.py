"""The records of each shard, in an order that does not depend on the ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.errors import UsageError
from netweave.training.data.order import BatchShards, Order

if TYPE_CHECKING:
    from collections.abc import Iterator, Sized

    from netweave.exact.exchange import Exchange


class ShardSampler:
    """Indices of the records of one shard after another; see ``sampler``.

    Args:
        order: The order of the whole batches.
        exchange: Which shards this rank computes, and how many updates are done.
    """

    def __init__(self, order: Order, exchange: Exchange) -> None:
        self._order = BatchShards(order, exchange.shards, "the data")
        self._exchange = exchange

    def __len__(self) -> int:
        """Return the number of shards of this rank in a whole epoch."""
        return self._exchange.shards.own_number(int(self._order.batches_per_epoch or 0))

    def __iter__(self) -> Iterator[list[int]]:
        """Give the shards from the next update to the end of its epoch."""
        shards = self._exchange.shards
        epoch = self._exchange.iteration // (len(self) // shards.count)
        for number in range(shards.own_number(self._exchange.iteration), (epoch + 1) * len(self)):
            yield self._order.plan(number).records.tolist()


def sampler(
    data: Sized, exchange: Exchange, *, batch_size: int, shuffle: bool = True, drop_last: bool = False
) -> ShardSampler:
    """Return what gives a ``DataLoader`` this rank's shards, as its ``batch_sampler``.

    Each epoch goes through all records, in an order of its own that the exchange's seed decides. Nothing
    needs to be restored: an epoch begins with the batch of the exchange's next update, in the middle of an
    epoch too.

    Args:
        data: Records; only their number is asked for.
        exchange: The exchange.
        batch_size: Records of a whole batch, which the number of shards divides.
        shuffle: Whether an epoch has an order of its own.
        drop_last: Whether to leave out the records at the end of an epoch that make no whole batch.

    Raises:
        UsageError: The records have no number, are fewer than a batch, or a batch cannot be divided into
            shards of one size.
    """
    try:
        count = len(data)
    except TypeError as error:
        raise UsageError(
            f"the number of records is not known ({type(data).__name__} has no length), so no order can be "
            "drawn; give the loader shards of your own, the same whoever computes them"
        ) from error
    try:
        order = Order(
            num_records=count,
            batch_size=batch_size,
            shuffle=shuffle,
            seed=exchange.seed,
            last="discard" if drop_last else "short",
        )
    except ValueError as error:
        raise UsageError(str(error)) from error
    if order.last == "short" and count % batch_size % exchange.shards.size:
        raise UsageError(
            f"the last batch of an epoch has {count % batch_size} records, which are not "
            f"{exchange.shards.size} shards of equal size; leave them out with drop_last=True, or take "
            "another batch size"
        )
    return ShardSampler(order, exchange)
