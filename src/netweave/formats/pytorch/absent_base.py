"""Stand-ins for classes of packages that are not installed, as bases of a net's own classes.

``class Net(pl.LightningModule)`` is an ``nn.Module`` with more around it for training; so is ``BaseModule``
of mmcv. What such a base does for training, nothing here asks for.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch

from netweave.files.argument_values import Settings


class AbsentBase(torch.nn.Module):  # type: ignore[misc]  # torch is not looked into
    """An ``nn.Module`` that takes whatever a base of another package takes."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def save_hyperparameters(self, *args: Any, **kwargs: Any) -> None:
        """Keep the arguments of the constructor that calls it as ``hparams``, as Lightning does."""
        frame = inspect.currentframe()
        caller = frame.f_back if frame is not None else None
        values = dict(caller.f_locals) if caller is not None else {}
        self.hparams = Settings({k: v for k, v in values.items() if k not in {"self", "__class__"}})

    def init_weights(self) -> None:
        """Do nothing: weights are drawn already."""


def base_for(name: str) -> type:
    """Return the class that stands for an absent one: ``nn.Module`` for a module by its name."""
    last = name.rpartition(".")[2]
    return AbsentBase if last.endswith("Module") and not last.endswith("DataModule") else object
