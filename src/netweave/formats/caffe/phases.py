"""Phases of a Job from nets of Caffe's: the graph, what feeds it, and what of it is the objective."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from netweave.files import Source
from netweave.files.protobuf import Message
from netweave.formats.caffe.inputs import GIVEN, NOT_TAKEN, Place, data_sources
from netweave.formats.caffe.net import build, included, net_state
from netweave.formats.caffe.reader import parse_net
from netweave.graph import Graph
from netweave.job import DataSource, Phase, Probe, root_of_names, with_mean, with_path

Sizes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class NetFile:
    """A net that is to be read: its message, its file's name, and the state that it is read in."""

    net: Message
    file: Path
    phase: str
    stages: tuple[str, ...] = ()
    level: int = 0
    num_batches: int | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """The settings with which all nets of a run are read.

    Attributes:
        root: The folder that names in the files are relative to.
        probe: Opens data for their sizes; None where the nets must say them.
        input_shapes: Sizes of inputs by name, over what is said or probed.
        stages: Stages that all nets are in, besides their own.
        level: Level that all nets are at, if not 0.
        kind_of: Tells what kind of records a path holds; without it the kind that the net names.
        mean: A mean file instead of those that the nets name; empty for those.
    """

    root: Path
    probe: Probe | None
    input_shapes: Mapping[str, tuple[int, ...]]
    stages: tuple[str, ...] = ()
    level: int = 0
    kind_of: Callable[[str], str] | None = None
    mean: str = ""

    def phase(self, found: NetFile, path: str | None = None, *, default: str | None = None) -> Phase:
        """Return a net with its data.

        Args:
            found: The net.
            path: Where its records are, instead of what it names.
            default: The same, if it reads any.

        Raises:
            SourceError: It cannot be read, or a size of its data is not known.
            UsageError: There is not one source that reads records from a path.
        """
        source = Source(
            net=found.file,
            phase=found.phase,
            stages=(*found.stages, *self.stages),
            level=self.level or found.level,
        )
        specs = included(found.net, net_state(found.net, source), place=str(found.file))
        data = data_sources(specs, Place(str(found.file), self.root, source.phase))
        if path is None and any("path" in one.settings for one in data):
            path = default
        if path is not None:
            kind = self.kind_of(path) if self.kind_of else ""
            data = with_path(data, path, phase=found.phase, place=str(found.file), kind=kind)
        data = with_mean(data, self.mean) if self.mean else data
        graph = build(found.net, replace(source, input_shapes=self._sizes(data)), None)
        metric = _metric(specs, data, graph)
        return Phase(graph, _batched(data, graph), losses(graph), found.num_batches, metric)

    def _sizes(self, data: tuple[DataSource, ...]) -> dict[str, tuple[int, ...]]:
        sizes: dict[str, tuple[int, ...]] = {}
        for source in data:
            given = {name: self.input_shapes[name] for name in source.outputs if name in self.input_shapes}
            if not given and self.probe is not None and source.kind != GIVEN:
                given = dict(self.probe(source))
            sizes |= given
        return {name: found for name, found in sizes.items() if not name.endswith(NOT_TAKEN)}


def data_root(path: Path) -> Path:
    """Return the folder that names in a net are relative to: the working one, or one above the net.

    It is the nearest in which some of its data are; the working folder where there are none.

    Raises:
        ReadError: The net cannot be read.
    """
    fields = ("data_param", "image_data_param", "hdf5_data_param", "window_data_param")
    layers = parse_net(path)["layer"]
    names = [layer[field]["source"] for layer in layers for field in fields if field in layer]
    return root_of_names(path, names)


def read_phase(path: Path, phase: str, reading: Reading) -> Phase:
    """Read one net for a phase, ``TRAIN`` or ``TEST``, with its data.

    Raises:
        SourceError: It cannot be read, or a size of its data is not known.
    """
    return reading.phase(NetFile(parse_net(path), path, phase))


def _batched(data: tuple[DataSource, ...], graph: Graph) -> tuple[DataSource, ...]:
    """Return the sources with the batch sizes of the graph, where their layers say no other."""
    return tuple(
        replace(source, batch_size=graph.declared[source.outputs[0]][0] or 1)
        if source.kind == GIVEN and graph.declared.get(source.outputs[0])
        else source
        for source in data
    )


def _metric(specs: Sequence[Message], data: Sequence[DataSource], graph: Graph) -> dict[str, Any]:
    """Return what SSD's DetectionEvaluate measures; nothing for a net without one."""
    spec = next((spec for spec in specs if spec["type"] == "DetectionEvaluate"), None)
    detections, truth = [*spec["bottom"], "", ""][:2] if spec is not None else ("", "")
    source = next((source for source in data if truth in source.outputs[1:]), None)
    if spec is None or source is None or detections not in {value.name for value in graph.outputs}:
        return {}
    parameter = spec["detection_evaluate_param"]
    names = [*source.settings.get("names", ())]
    classes = [*names, *map(str, range(len(names), parameter["num_classes"]))][: parameter["num_classes"]]
    return {
        "kind": "detections",
        "detections": detections,
        "truth": truth,
        "images": source.outputs[0],
        "classes": [name or str(number) for number, name in enumerate(classes)],
        "background": parameter["background_label_id"],
        "overlap": parameter["overlap_threshold"],
        "counts_difficult": parameter["evaluate_difficult_gt"],
    }


def losses(graph: Graph) -> dict[str, float]:
    """Return the values that make the objective of a net of Caffe's, with their weights.

    A loss counts once with its first top where the file says nothing; any top may be given a weight.
    """
    weights_of_losses: dict[str, float] = {}
    for layer in graph.layers.values():
        said = layer.settings.get("loss_weight", ())
        weights = said or ([1.0] if "Loss" in layer.type else [])
        weights_of_losses |= {
            name: weight for name, weight in zip(layer.outputs, weights, strict=False) if weight
        }
    return weights_of_losses
