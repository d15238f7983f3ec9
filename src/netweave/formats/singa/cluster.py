"""Workers and servers: ``ClusterProto`` of a ``job.conf``, or in a file of its own.

The rules are those of ``cluster.cc`` at 0.3. Settings that SINGA does not have stand beside its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from netweave.errors import ReadError, UsageError
from netweave.files.protobuf import Message
from netweave.files.prototext import field_names, parse_text
from netweave.files.source import read_bytes
from netweave.formats.singa.schema import singa_schema
from netweave.graph.passes.partition import LayerCut
from netweave.job import Cluster

WORDS = {
    "worker_groups": "nworker_groups",
    "workers_per_group": "nworkers_per_group",
    "server_groups": "nserver_groups",
    "servers_per_group": "nservers_per_group",
    "separate": "server_worker_separate",
    "sync_every": "sync_freq",
    "staleness": "staleness",
    "placement": "placement",
    "outer": "outer",
    "outer_rate": "outer_rate",
    "outer_momentum": "outer_momentum",
}
"""The attributes of a Cluster, and SINGA's words for them."""

_LEAST = ("nworkers_per_procs", "nservers_per_procs")

_OF_PROCESSES = {
    "start_port": "processes find each other through a store",
    "share_memory": "worker groups share no memory",
    "poll_time": "nothing is polled for",
}


def cluster_of(message: Message, path: Path) -> Cluster | None:
    """Return the cluster that a message says; None where it says no more than a folder.

    Args:
        message: A ``ClusterProto``.
        path: Its file.

    Raises:
        UsageError: A number is out of its range, or the groups cannot be divided; the message has the line.
    """
    names = {name: word for name, word in WORDS.items() if word in message}
    for word in _LEAST:
        if message[word] < 1:
            raise ReadError(
                f"{word!r} is {message[word]}, expected 1 or more", place=f"{path}:{message.line_of(word)}"
            )
    layers = layer_cuts(message["layer"], path)
    if not names and not layers:
        return None
    lines = {name: message.line_of(word) or 0 for name, word in names.items()}
    settings: dict[str, Any] = {name: message[word] for name, word in names.items()}
    settings["layers"] = layers
    try:
        return Cluster(**settings, file=str(path), lines=lines)
    except UsageError as error:
        place, _, text = str(error).partition(": ")
        for name, word in WORDS.items():  # as the file has it
            text = re.sub(rf"^{name}\b", f"'{word}'", text)
        raise UsageError(f"{place}: {text}") from error


def layer_cuts(layers: Sequence[Message], path: Path, default: int = 0) -> tuple[LayerCut, ...]:
    """Return the layers that are not cut by batch.

    Args:
        layers: Messages with ``partition_dim`` and ``location``, and in files of clusters ``image_grid``.
        path: Their file.
        default: The dimension of layers that say none.
    """
    cuts = []
    for layer in layers:
        dim, location = layer.get("partition_dim", default), layer.get("location", None)
        grid = layer.get("image_grid", "")
        if dim not in {0, -1} or location is not None or grid:
            word = "image_grid" if grid else "partition_dim"
            line = layer.line_of("location" if location is not None else word)
            cuts.append(LayerCut(layer["name"], dim, location, f"{path}:{line}" if line else str(path), grid))
    return tuple(cuts)


def read_cluster(path: Path) -> Cluster:
    """Return the cluster of a file: the fields of ``ClusterProto``, alone or in ``cluster { }``.

    Raises:
        SourceError: The file cannot be read, or holds an unknown field.
        UsageError: A number is out of its range, or the groups cannot be divided.
    """
    content = read_bytes(path)
    whole = "cluster" in field_names(content.decode("utf-8", "replace"))
    message = parse_text(content, singa_schema(), "JobProto" if whole else "ClusterProto", place=str(path))
    found = cluster_of(message["cluster"] if whole else message, path)
    if found is None:
        raise ReadError(
            f"has no setting of a cluster, expected any of {', '.join(WORDS.values())}", place=str(path)
        )
    return found


def cluster_notes(message: Message, cluster: Cluster | None) -> Iterator[str]:
    """Yield the sentences for what a ``ClusterProto`` sets without effect, or another way.

    Args:
        message: A ``ClusterProto``.
        cluster: What was read from it.
    """
    for word in _LEAST:
        if message[word] > 1:
            yield f"{word!r} is ignored: each worker and each server has a process"
    for word, why in _OF_PROCESSES.items():
        if word in message:
            yield f"{word!r} changes nothing: {why}"
    if cluster is None:
        return
    for text in cluster.without_effect():
        name = text.split("'")[1]
        yield text.replace(f"'{name}'", f"'{WORDS[name]}'", 1)
