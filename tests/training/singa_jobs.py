"""Small jobs of SINGA's as text, and running them on arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

import netweave
from netweave.runtime.engine import ThreadedEngine
from netweave.training import Ended, Updated
from tests.formats.singa.nets import conf, layer
from tests.training.trainers import make_trainer

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from netweave.job import Job
    from netweave.training.trainer import Trainer

RATE = "learning_rate { type: kFixed base_lr: 0.1 }"
BATCH, WIDTH = 4, 6

DATA = (
    'layer { name: "data" type: kRecordInput store_conf { backend: "kvfile" path: "x" '
    "batchsize: %d shape: %d has_label: %s } }\n"
)


def data(*, label: bool = True) -> str:
    """The input layer: records of ``WIDTH`` numbers, ``BATCH`` at a time."""
    return DATA % (BATCH, WIDTH, str(label).lower())


def params(**inits: str) -> str:
    """Parameters by name, each with the text behind its name."""
    return " ".join(f'param {{ name: "{name}" {text} }}' for name, text in inits.items())


def product(name: str, num_output: int, arrays: str, *, source: str, settings: str = "") -> str:
    """A layer of type kInnerProduct."""
    text = f"{arrays} innerproduct_conf {{ num_output: {num_output} {settings} }}"
    return layer("kInnerProduct", text, sources=source, name=name)


GAUSSIAN = "init { type: kGaussian std: 0.5 }"
ZERO = "init { type: kConstant value: 0 }"

CLASSIFIER = (
    data()
    + product("ip", 3, params(w=GAUSSIAN, b=f"lr_scale: 2 wd_scale: 0 {ZERO}"), source="data")
    + layer("kSoftmaxLoss", sources="ip data", name="loss")
)

TIED = (
    data(label=False)
    + product("up", 3, params(w=GAUSSIAN, b=ZERO), source="data")
    + layer("kSigmoid", sources="up", name="code")
    + product("down", WIDTH, params(v='share_from: "w"', c=ZERO), source="code", settings="transpose: true")
    + layer("kEuclideanLoss", sources="down data", name="loss")
)
"""An autoencoder that reads one matrix both ways."""


def job(
    folder: Path,
    net: str = CLASSIFIER,
    *,
    updater: str = f"type: kSGD {RATE}",
    alg: str = "kBP",
    more: str = "train_steps: 8",
) -> Job:
    """Write a job.conf into a folder and read it."""
    (folder / "job.conf").write_text(
        job_text(net, updater=updater, alg=alg, more=more, workspace=str(folder))
    )
    return netweave.load_job(folder / "job.conf")


def job_text(net: str, *, updater: str, alg: str, more: str, workspace: str) -> str:
    """Return a job.conf."""
    head = f"train_one_batch {{ alg: {alg} }} updater {{ {updater} }} {more}"
    return conf(net, job=f'{head} cluster {{ workspace: "{workspace}" }}')


def records(count: int = 23, seed: int = 0) -> dict[str, np.ndarray]:
    """Return records and labels."""
    generator = np.random.default_rng(seed)
    return {
        "data": generator.normal(size=(count, WIDTH)),
        "label": generator.integers(3, size=count).astype(float),
    }


def run(job: Job, arrays: Mapping[str, np.ndarray] | None = None, **options: object):
    """Train a job on arrays; return the trainer and what it told, but for single updates."""
    events = []
    given = records() if arrays is None else dict(arrays)
    names = {
        name: {value.name for value in phase.graph.inputs} for name, phase in job.phases.items() if phase.data
    }
    feeds = {phase: {key: given[key] for key in inputs} for phase, inputs in names.items()}
    with ThreadedEngine() as engine:
        options.setdefault("dtype", torch.float64)
        options.setdefault("seed", 5)
        trainer = make_trainer(job, engine=engine, data=feeds, watch=events.append, **options)
        trainer.run()
        trainer.close()
    return trainer, [event for event in events if not isinstance(event, Updated | Ended)]


def arrays_of(trainer: Trainer) -> dict[str, np.ndarray]:
    """Return copies of all parameters."""
    return {
        key: tensor.detach().numpy().copy()
        for net in trainer.nets.values()
        for key, tensor in net.params.items()
    }
