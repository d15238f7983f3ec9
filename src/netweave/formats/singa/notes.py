"""Notes on what a ``job.conf`` asks for and one device does otherwise, one sentence each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from netweave.formats.singa.unroll import kind_of
from netweave.graph.summary import names_text

if TYPE_CHECKING:
    from netweave.files.protobuf import Message


def notes_of(message: Message) -> Iterator[str]:
    """Yield the sentences for a file."""
    yield from _cluster_notes(message)
    yield from _schedule_notes(message)
    yield from _layer_notes(message)


def _cluster_notes(message: Message) -> Iterator[str]:
    cluster = message["cluster"]
    groups, workers = cluster["nworker_groups"], cluster["nworkers_per_group"]
    if groups > 1:
        yield (
            f"{groups} worker groups would train asynchronously in SINGA; here there is one, so that no "
            "gradient is computed from outdated parameters"
        )
    if workers > 1:
        yield (
            f"the {workers} workers of a group would share each batch; one device computes the whole batch, "
            "with the same mean gradient"
        )
    if "gpu" in message:
        yield "'gpu' is ignored; choose devices with --gpu or --devices"


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
        yield f"'location' of {names_text(placed)} is kept with the layer; one device computes all locations"
    parted = [layer["name"] for layer in layers if layer.get("partition_dim", net["partition_dim"]) == 1]
    if parted and message["cluster"]["nworkers_per_group"] > 1:
        named = names_text(parted)
        yield f"'partition_dim' 1 of {named} is kept with the layer; one device computes all of its units"
    if any(kind_of(layer) == "kGRU" for layer in layers):
        yield "SINGA adds the update gate to the gradient of a GRU's state; here it is multiplied"
