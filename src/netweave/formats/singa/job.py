"""From a ``job.conf`` to a Job: ``driver.cc``, ``worker.cc``.

Of a net with an RBM the phases ``up`` and ``down`` are its two directions, with tied parameters; ``train`` is
what contrastive divergence computes from both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from netweave.errors import ReadError, SourceError, UnsupportedError, UsageError
from netweave.files import Source
from netweave.files.protobuf import Message
from netweave.formats.singa.cluster import cluster_notes, cluster_of, layer_cuts
from netweave.formats.singa.energy import build_contrastive, build_downwards
from netweave.formats.singa.files import CHECKPOINT, HEAD_BYTES, below, find_kind, parse_job, root_of
from netweave.formats.singa.inputs import InputLayer, SizesOfRecords, data_sources, source_of
from netweave.formats.singa.net import (
    PHASES,
    Net,
    build,
    checkpoints_of,
    place_of,
    schedule_of,
    solver_of,
)
from netweave.formats.singa.unroll import kind_of
from netweave.graph.summary import names_text
from netweave.job import Cluster, Job, JobOptions, Phase, with_path

ALGORITHMS = {"kBP": "bp", "kBPTT": "bptt", "kCD": "cd"}


def is_job(path: Path) -> bool:
    """Return whether a file is a ``job.conf``, or another text of SINGA's, by its first bytes."""
    with path.open("rb") as file:
        return find_kind(file.read(HEAD_BYTES)) not in {None, CHECKPOINT}


def read_job(path: Path, options: JobOptions | None = None) -> Job:
    """Read how to train: the nets of all phases, and how parameters change.

    Args:
        path: The ``job.conf``.
        options: Sizes of inputs, and where the records of its phases are, instead of what the file says.

    Raises:
        SourceError: The file cannot be read, holds something unknown, or says no training.
        UsageError: ``data`` names a phase that there is not, or one that does not read records; or stages or
            a level are given, which only Caffe's nets have.
    """
    options = options or JobOptions()
    if options.stages or options.level:
        raise UsageError(f"{path}: a job.conf has no stages and no level; leave them out")
    message, place = parse_job(path), str(path)
    if "updater" not in message:
        raise ReadError("has no 'updater', so it cannot be trained; use it with inspect or run", place=place)
    algorithm = message["train_one_batch"]["alg"]
    if algorithm not in ALGORITHMS:
        own = message["train_one_batch"]["user_alg"] or algorithm
        raise UnsupportedError(
            f"the algorithm {own!r} is user-defined, expected one of {', '.join(ALGORITHMS)}",
            place=place_of(path, message, "train_one_batch"),
        )
    _check_partitions(message["neuralnet"], path)
    nets = _Nets(message, path, root_of(message, path), options)
    phases, shares = nets.read()
    settings = message["train_one_batch"]["cd_conf"]
    cluster = cluster_of(message["cluster"], path)
    if cluster is not None:
        cuts = layer_cuts(message["neuralnet"]["layer"], path, message["neuralnet"]["partition_dim"])
        cluster = replace(cluster, layers=(*cuts, *cluster.layers))
    return Job(
        name=message["name"] or path.stem,
        phases=_moved(phases, options.data, place),
        solver=solver_of(message, path, shares),
        schedule=schedule_of(message),
        checkpoints=checkpoints_of(message, nets.root),
        algorithm=ALGORITHMS[algorithm],
        algorithm_settings={"cd_k": settings["cd_k"]} if algorithm == "kCD" else {},
        cluster=cluster,
        files=(place,),
        notes=tuple(notes_of(message, cluster)),
    )


def _check_partitions(net: Message, path: Path) -> None:
    """Refuse a dimension of partition that is none; SINGA itself aborts with 2 and 3 (``neuralnet.cc``)."""
    for message in (net, *net["layer"]):
        if "partition_dim" in message and message["partition_dim"] not in range(-1, 4):
            raise ReadError(
                f"'partition_dim' is {message['partition_dim']}, expected -1, 0 (the batch), 1 (the units), "
                "2 (the rows of the image) or 3 (its columns)",
                place=place_of(path, message, "partition_dim"),
            )


class _Nets:
    """The nets of the phases of a file.

    Args:
        message: The whole file.
        path: Its name.
        root: The folder that names in it are relative to.
        options: Sizes of inputs, where the file does not say them; without one, they are looked up in its
            records, as SINGA 0.1 does.
    """

    def __init__(self, message: Message, path: Path, root: Path, options: JobOptions) -> None:
        self.root = root
        self._message, self._path, self._options = message, path, options

    def read(self) -> tuple[dict[str, Phase], dict[str, int]]:
        """Return the phases by name, and how many layers share each parameter of the training net."""
        message = self._message
        net = self._build("TRAIN")
        phases = {"train": self._phase(net, training=True)}
        if net.machines:
            phases |= self._directions()
        for phase, name in (("VALIDATE", "validate"), ("TEST", "test")):
            steps = message[f"{name}_steps"]
            if message[f"{name}_freq"] <= 0 or steps <= 0:  # worker.h, TestNow and ValidateNow
                continue
            try:
                tested = self._build(phase)
            except SourceError as error:
                raise type(error)(f"{error.message} (phase {PHASES[phase]})", place=error.place) from error
            phases[name] = self._phase(tested, training=False, num_batches=steps)
        return phases, net.shares

    def _build(self, phase: str) -> Net:
        """Return the net of a phase that runs."""
        algorithm, source, look_up = (
            self._message["train_one_batch"],
            self._source(phase),
            self._look_up(phase),
        )
        if algorithm["alg"] != "kCD":
            return build(self._message, source, None, look_up)
        steps, training = algorithm["cd_conf"]["cd_k"], phase == "TRAIN"
        if steps < 1:
            place = place_of(self._path, algorithm, "cd_conf")
            raise ReadError(f"'cd_k' is {steps}, expected 1 or more", place=place)
        steps = steps if training else 1
        return build_contrastive(self._message, source, steps=steps, objective=training, look_up=look_up)

    def _directions(self) -> dict[str, Phase]:
        """Return the two directions of the training net's topmost RBM, which share their parameters."""
        source = self._source("TRAIN")
        net = build(self._message, source, None, self._look_up("TRAIN"))
        return {"up": Phase(net.graph), "down": Phase(build_downwards(self._message, source, None, net))}

    def _source(self, phase: str) -> Source:
        return Source(self._path, phase=phase, input_shapes=self._options.input_shapes)

    def _look_up(self, phase: str) -> SizesOfRecords | None:
        """Return what finds the sizes of an input that the file does not give in its first record."""
        probe, path = self._options.probe, self._options.data.get(phase.lower())
        if probe is None:
            return None

        def look_up(feed: InputLayer, name: str, error: ReadError) -> tuple[int | None, ...]:
            source = below(source_of(feed, name), self.root)
            if path is not None:
                source = replace(source, settings={**source.settings, "path": path})
            try:
                parts = probe(source)
            except ReadError as failure:
                raise ReadError(
                    f"{error.message}. Without that, sizes come from the records, and {failure.message}",
                    place=error.place,
                    open_inputs=error.open_inputs,
                ) from failure
            if name not in parts:  # where missing data are no error
                raise error
            return parts[name]

        return look_up

    def _phase(self, net: Net, *, training: bool, num_batches: int | None = None) -> Phase:
        sources = data_sources(net.feeds, training=training)
        return Phase(net.graph, tuple(below(row, self.root) for row in sources), net.losses, num_batches)


def _moved(phases: Mapping[str, Phase], data: Mapping[str, str], place: str) -> dict[str, Phase]:
    """Return the phases with other paths in the sources that have any."""
    unknown = [name for name in data if name not in phases]
    if unknown:
        what = f"for phase {unknown[0]!r}" if unknown[0] else f"as {data['']!r} and for no phase"
        raise UsageError(f"{place}: data is given {what}; there are: {', '.join(phases)}")
    return {
        name: replace(phase, data=with_path(phase.data, data[name], phase=repr(name), place=place))
        if name in data
        else phase
        for name, phase in phases.items()
    }


def notes_of(message: Message, cluster: Cluster | None) -> Iterator[str]:
    """Yield the sentences for a file, and for the cluster that it asks for."""
    if cluster is not None and not cluster.is_alone:
        yield (
            f"{cluster.roles_text} are started with --devices cpu:{cluster.num_processes}; one device "
            "computes whole batches, each from the parameters that the last one left"
        )
    yield from cluster_notes(message["cluster"], cluster)
    if "gpu" in message:
        yield "'gpu' is ignored; choose devices with --gpu or --devices"
    yield from _schedule_notes(message)
    yield from _layer_notes(message)


def _schedule_notes(message: Message) -> Iterator[str]:
    for name in ("test", "validate"):
        if message[f"{name}_freq"] > 0 and message[f"{name}_steps"] <= 0:
            yield f"'{name}_freq' is set and '{name}_steps' is 0, so there is no such phase"
    if message["resume"]:
        yield "'resume' is ignored; --resume goes on from the latest checkpoint"
    if not message["reset_param_version"]:
        yield (
            "'reset_param_version' changes nothing: one device has no server that waits for a version of a "
            "parameter"
        )
    if message["debug"]:
        yield (
            "'debug': the norms of layers and parameters are written to this log, as SINGA 0.1 does, not to "
            "the JSON files of 0.2 and 0.3"
        )
    if message["warmup_steps"]:
        yield "'warmup_steps' changes nothing: there is no server that parameters are put to after them"


def _layer_notes(message: Message) -> Iterator[str]:
    net = message["neuralnet"]
    layers = net["layer"]
    placed = [layer["name"] for layer in layers if "location" in layer]
    if placed:
        yield (
            f"'location' of {names_text(placed)}: each worker computes its own layers; one device computes "
            "all of them"
        )
    parted = [layer["name"] for layer in layers if layer.get("partition_dim", net["partition_dim"]) == 1]
    if parted and message["cluster"]["nworkers_per_group"] > 1:
        named = names_text(parted)
        yield f"'partition_dim' 1 of {named}: each worker computes some of the units; one device computes all"
    if any(kind_of(layer) == "kGRU" for layer in layers):
        yield "SINGA adds the update gate to the gradient of a GRU's state; here it is multiplied"
