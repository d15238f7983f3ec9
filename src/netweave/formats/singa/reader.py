"""The reader of SINGA's files."""

from __future__ import annotations

from pathlib import Path

from netweave.errors import UsageError
from netweave.files import Source
from netweave.formats.singa.checkpoint import Weights, read_checkpoints
from netweave.formats.singa.energy import build_downwards
from netweave.formats.singa.files import CHECKPOINT, HEAD_BYTES, find_kind, parse_job
from netweave.formats.singa.net import build
from netweave.graph import Graph, graph_of_weights

DOWN = "down"
"""The stage in which an RBM is read from its hidden layer to its visible one."""


def read(source: Source) -> Graph:
    """Read the net of a ``job.conf`` for a phase, or the arrays of a checkpoint alone.

    Raises:
        SourceError: The files cannot be read, hold something unknown, or do not fit together.
        UsageError: The caller asks for a stage or sizes that the net does not have.
    """
    if find_kind(source.head(HEAD_BYTES)) == CHECKPOINT:
        return _weights_alone(source.net)
    job = parse_job(source.net)
    weights = read_checkpoints(source.weights) if source.weights else None
    net = build(job, source, None if DOWN in source.stages else weights)
    unknown = [stage for stage in source.stages if stage != DOWN or not net.machines]
    if unknown:
        there = f"{DOWN!r} is the only one" if net.machines else "only nets with an RBM have one: 'down'"
        raise UsageError(f"{source.net}: no stage {unknown[0]!r}; {there}")
    return build_downwards(job, source, weights, net) if DOWN in source.stages else net.graph


def _weights_alone(path: Path) -> Graph:
    weights: Weights = read_checkpoints(path)
    arrays = {name: parts[-1] for name, parts in weights.parts.items()}
    return graph_of_weights(arrays, format_name="singa", file=str(path))
