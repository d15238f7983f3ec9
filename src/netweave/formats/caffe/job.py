"""Caffe's solvers as the table of formats has them."""

from __future__ import annotations

from pathlib import Path

from netweave.formats.caffe.solver import is_solver, read_solver
from netweave.job import Job, JobOptions

is_job = is_solver


def read_job(path: Path, options: JobOptions) -> Job:
    """Read a solver with its nets; see ``read_solver``."""
    return read_solver(
        path,
        probe=options.probe,
        input_shapes=options.input_shapes,
        data=options.data,
        stages=options.stages,
        level=options.level,
    )
