"""What the caller of a reader says about a training, besides the file that describes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from netweave.job.data import DataSource

Probe = Callable[[DataSource], Mapping[str, tuple[int, ...]]]
"""Gives the sizes of what a source of data holds, by name; batch size first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """The options of a reader of Jobs.

    Attributes:
        input_shapes: Sizes of inputs by name, over what is said or probed; batch size first.
        data: By phase, where its records are, instead of what its net names; under ``""`` what says so for
            all phases (Darknet's ``.data``).
        scale_l1: Weight of the sum of absolute scales of batch normalisation in the objective (Darknet).
        stages: Stages that all nets are in, besides those of the file (Caffe).
        level: Level that all nets are at, if not 0 (Caffe).
        allow_urls: URLs, or beginnings of them, that the files may name for records (``job.urls``).
        probe: Looks into the data for sizes; without it the nets must say them.
    """

    input_shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    data: Mapping[str, str] = field(default_factory=dict)
    stages: tuple[str, ...] = ()
    level: int = 0
    scale_l1: float = 0.0
    allow_urls: tuple[str, ...] = ()
    probe: Probe | None = None
