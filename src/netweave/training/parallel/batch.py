"""The meaning of a Job's batch size for several ranks, about which frameworks differ.

Caffe's ``-gpu 0,1`` gives every device the batch of the file, so that the whole batch is multiplied; Minerva,
MXNet and SINGA split the batch of the file. Either way an update is that of the whole batch: losses that are
means are means over all its samples (or valid labels), losses that are sums are sums over all of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from netweave.errors import UsageError
from netweave.training.data.order import share_bounds

if TYPE_CHECKING:
    from netweave.job import Job
    from netweave.training.parallel.world import World

BATCHES = ("split", "multiply")
"""What may happen to the batch of the file."""


def batch_meaning(job: Job, asked: str | None) -> str:
    """Return what happens to the batch of a Job: what is asked for, or what its source does.

    Raises:
        UsageError: There is no such meaning.
    """
    if asked is not None and asked not in BATCHES:
        raise UsageError(f"the batch is to be {asked!r}, expected {' or '.join(BATCHES)}")
    return asked or ("multiply" if job.solver.kind.startswith("caffe.") else "split")


def with_batch(job: Job, meaning: str, num_ranks: int) -> Job:
    """Return the Job with the size of the whole batch in training."""
    if meaning == "split" or num_ranks == 1:
        return job
    train = job.phases["train"]
    data = tuple(replace(source, batch_size=source.batch_size * num_ranks) for source in train.data)
    return replace(job, phases={**job.phases, "train": replace(train, data=data)})


def describe_shards(job: Job, num_shards: int, world: World) -> str:
    """Return one line that says what the shards of a batch are, in numbers."""
    whole = job.phases["train"].data[0].batch_size if job.phases["train"].data else 0
    ranks = "1 rank" if world.size == 1 else f"{world.size} ranks"
    return (
        f"{ranks}: the batch of {whole} is {num_shards} shards of {whole // num_shards} samples; each update "
        "has the same bits on any number of ranks that divides the shards"
    )


def describe_micro_batches(job: Job, count: int, order: str, world: World) -> str:
    """Return one line that says what the micro-batches of a pipeline are, in numbers."""
    whole = job.phases["train"].data[0].batch_size if job.phases["train"].data else 0
    return (
        f"a pipeline of {world.size} stages: the batch of {whole} passes through them in {count} "
        f"micro-batches of {whole // count} samples ({order}); each update uses the gradients of all {whole} "
        "samples"
    )


def describe_batch(job: Job, meaning: str, world: World) -> str:
    """Return one line that says what the batch is, in numbers.

    Args:
        job: The Job with the size of the whole batch.
        meaning: What happened to the batch of the file.
        world: The ranks.
    """
    size = world.size
    machines = "" if len(world.machines) == 1 else f" on {len(world.machines)} machines"
    if not job.phases["train"].data:
        return f"{size} ranks{machines}"
    whole = job.phases["train"].data[0].batch_size
    bounds = [share_bounds(whole, rank, size) for rank in range(size)]
    shares = [stop - start for start, stop in bounds]
    if meaning == "multiply":
        return (
            f"{size} ranks{machines}: each takes the file's batch of {shares[0]}; each update uses the "
            f"gradients of all {whole} samples (like Caffe's -gpu; --batch split splits the file's batch "
            "instead)"
        )
    are_equal = len(set(shares)) == 1
    parts = f"{shares[0]} samples each" if are_equal else f"{' + '.join(map(str, shares))} samples"
    return (
        f"{size} ranks{machines}: the file's batch of {whole} is split into {parts}; each update uses the "
        f"gradients of all {whole} samples"
    )
