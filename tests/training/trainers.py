"""Trainers for tests: options by name, with the engine, devices and nets that a run is given besides."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from netweave.training.trainer import Trainer
from netweave.training.watchers import TrainOptions

OPTIONS = {field.name for field in fields(TrainOptions)} - {"device"}


def make_trainer(job: Any, **settings: Any) -> Trainer:
    """Return a trainer of a job; settings are options, or arguments of ``Trainer`` itself."""
    options = {name: settings.pop(name) for name in OPTIONS & settings.keys()}
    return Trainer(job, TrainOptions(**options), **settings)
