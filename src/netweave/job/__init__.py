"""The type Job: a training configuration that is independent of any framework."""

from netweave.job.data import DataSource
from netweave.job.job import Job, Phase
from netweave.job.options import JobOptions
from netweave.job.settings import Checkpoints, Cluster, Policy, Schedule, Solver

__all__ = [
    "Checkpoints",
    "Cluster",
    "DataSource",
    "Job",
    "JobOptions",
    "Phase",
    "Policy",
    "Schedule",
    "Solver",
]
