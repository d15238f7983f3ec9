"""One rank of all candidates: makes steps of the one that it is told, when it is told.

    python -m benchmarks.parallel.rank NET BATCH        (in the environment of a rank, see ``run.py``)

Commands come as lines of JSON on standard input and are the same for all ranks; each is answered by a line.
All candidates live in one process, so that they share its processor, memory and link in turn.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from benchmarks.parallel import nets
from benchmarks.parallel.exact_loop import ExactLoop
from benchmarks.parallel.torch_exchanges import TorchLoop, seconds_of_link
from benchmarks.training.protocol import say
from netweave.runtime.engine import ThreadedEngine, Trace
from netweave.training import Event, Updated
from netweave.training.parallel.network import slice_elements_for
from netweave.training.parallel.plan import ExchangeSettings
from netweave.training.parallel.world import World, join
from netweave.training.process import keep_memory
from netweave.training.rank_exchange import stages_for
from netweave.training.trainer import Trainer
from netweave.training.watchers import TrainOptions

THRESHOLDS = {"2bit": 0.5}
"""What one code stands for: it changes what is sent, not how much."""
TIMEOUT_S = 120.0
FIRST_STEPS = {"prioritised": 7}
"""Steps before the first that counts, 3 for the others: an order by priority is made from the first six."""


class NetweaveLoop:
    """Training by Netweave, as ``netweave.train`` does it.

    Args:
        job: What to train.
        data: Arrays of all records by input.
        settings: How ranks exchange.
        options: ``stages``, and as wanted ``slice``: elements of one, by default chosen by the link, and
            ``shards``: those of a batch whose updates have the same bits on any ranks.
    """

    def __init__(
        self, job: Any, data: Any, settings: ExchangeSettings, *, world: World | None, options: dict[str, int]
    ) -> None:
        self._known_s: list[float] = []
        self.engine = ThreadedEngine()
        elements = options.get("slice")
        if elements is None and world is not None and "shards" not in options:  # as in ``netweave train``
            elements = slice_elements_for(world, has_owners=settings.has_owners)
        self.trainer = Trainer(
            job,
            TrainOptions(
                data={"train": data},
                num_stages=options["stages"],
                slice_elements=elements,
                exchange=settings.kind,
                compression=settings.compression,
                threshold=settings.threshold,
                sync_batch_norm=job.cluster is not None,  # without a cut by layer as DDP's
                same_bits=options.get("shards"),
            ),
            engine=self.engine,
            world=world,
            watch=self._watch,
        )

    def run(self, count: int) -> list[float]:
        """Make steps; return when the loss of each was known."""
        trainer = self.trainer
        self._known_s = []
        schedule = replace(trainer.job.schedule, max_iterations=trainer.iteration + count)
        trainer.job = replace(trainer.job, schedule=schedule)
        trainer.run()
        return self._known_s

    def close(self) -> None:
        """Let go of data, threads and tensors."""
        self.trainer.close()
        self.engine.close()
        self.__dict__.clear()

    def _watch(self, event: Event) -> None:
        if isinstance(event, Updated):
            self._known_s.append(perf_counter())


class Rank:
    """The candidates of one rank.

    Args:
        world: The ranks.
        net: Of ``nets.NETS``.
        batch: Images in the whole batch.
    """

    def __init__(self, world: World, net: str, batch: int) -> None:
        self._world = world
        self._size = world.size
        self._net, self._batch = net, batch
        self._job = nets.job(net, batch)
        self._data = nets.records(self._job)
        self._loops: dict[str, TorchLoop | NetweaveLoop | ExactLoop] = {}

    def load(self, name: str) -> dict[str, Any]:
        """Build a candidate and make its first steps.

        Args:
            name: ``torch:KIND`` (see ``TorchLoop``), or ``netweave:EXCHANGE``, behind it as wanted
                ``:COMPRESSION``, ``:stages=N`` and ``:slice=ELEMENTS``; ``netweave:alone`` is one process on
                this rank's part of the batch, ``netweave:same-bits:shards=N`` the exchange of shards,
                ``netweave:hybrid`` cuts dense layers by feature; ``exact:SHARDS`` is a loop of
                PyTorch's with ``netweave.exact``, ``exact:SHARDS:later`` one that sends after backward.
        """
        maker, kind, *rest = name.split(":")
        momentum = nets.NETS[self._net].momentum
        if maker == "exact":
            self._loops[name] = ExactLoop(
                self._job, self._data, shards=int(kind), overlaps="later" not in rest, momentum=momentum
            )
        elif maker == "torch":
            self._loops[name] = TorchLoop(
                self._job, self._data, kind, rank=self._world.rank, ranks=self._size, momentum=momentum
            )
        else:
            options = {key: int(value) for key, value in (one.split("=") for one in rest if "=" in one)}
            stages = stages_for(self._world)  # also for the one that exchanges nothing
            options = {"stages": stages, **options}
            compression = next((one for one in rest if "=" not in one), "none")
            alone = kind == "alone"
            own = nets.job(self._net, self._batch // self._size) if alone else self._job
            if kind == "hybrid":
                own, kind = nets.hybrid(self._net, self._batch, self._size), "overlapped"
            threshold = THRESHOLDS.get(compression)
            is_plain = alone or "shards" in options
            settings = ExchangeSettings() if is_plain else ExchangeSettings(kind, compression, threshold)
            world = None if alone else self._world
            self._loops[name] = NetweaveLoop(own, self._data, settings, world=world, options=options)
        self._loops[name].run(FIRST_STEPS.get(kind, 3))
        return {}

    def steps(self, name: str, count: int) -> dict[str, Any]:
        """Make steps.

        Returns:
            When the loss of each was known, the processor's seconds for each, and the seconds in which there
            was an exchange and no computation; 0 for what Netweave does not measure.
        """
        self._world.barrier()
        self._world.occupancy.restart()
        before = _processor_s()
        known_s = self._loops[name].run(count)
        processor_s = (_processor_s() - before) / count
        exposed_s = self._world.occupancy.exposed_s / count if name.startswith("netweave:") else 0.0
        return {"known_s": known_s, "processor_s": processor_s, "exposed_s": exposed_s}

    def link(self, megabytes: float, repeats: int) -> dict[str, Any]:
        """Return the seconds of an all-reduce by itself, and the processor's."""
        before = _processor_s()
        seconds = seconds_of_link(int(megabytes * 1e6 / 4), repeats=repeats)
        return {"seconds": seconds, "processor_s": (_processor_s() - before) / (repeats + 1)}

    def trace(self, name: str, count: int, path: str) -> dict[str, Any]:
        """Make steps of one of Netweave's candidates, write a timeline of them, and let go of the candidate.

        Returns:
            The bytes of the gradients that the backward of each stage completes.
        """
        loop = self._loops[name]
        assert isinstance(loop, NetweaveLoop)
        trainer = loop.trainer
        found = trainer.updater.parameters
        sizes = [
            sum(found[key].nbytes for key in stage.completes if key in found)
            for stage in trainer.program.stages
        ]
        loop.engine.trace_to(Trace(Path(f"{path}.{self._world.rank}.json")))
        loop.run(count)
        self.close(name)  # the engine closes its timeline
        return {"bytes": sizes}

    def close(self, name: str) -> dict[str, Any]:
        """Let go of a candidate."""
        self._loops.pop(name).close()
        return {}

    def about(self) -> dict[str, Any]:
        """Return the size of the net."""
        parameters = self._job.phases["train"].graph.parameters.values()
        trained = sum(one.size for one in parameters if one.trainable)
        return {"parameters": trained, "torch": torch.__version__}


def _processor_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Do what standard input says, to its end."""
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    keep_memory()
    world = join(timeout_s=TIMEOUT_S)
    assert world is not None
    rank = Rank(world, sys.argv[1], int(sys.argv[2]))
    say(rank.about())
    for line in sys.stdin:
        command = json.loads(line)
        say(getattr(rank, command.pop("do"))(**command))


if __name__ == "__main__":
    main()
