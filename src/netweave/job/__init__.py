"""The noun Job: how to train, in words that belong to no framework."""

from netweave.job.data import DataSource
from netweave.job.job import Job, Phase
from netweave.job.settings import Checkpoints, Cluster, Policy, Schedule, Solver

__all__ = ["Checkpoints", "Cluster", "DataSource", "Job", "Phase", "Policy", "Schedule", "Solver"]
