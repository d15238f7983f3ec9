"""A net with all that makes cutting hard, and training it in stages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from netweave.formats.caffe.job import read_solver
from netweave.runtime.engine import ThreadedEngine
from tests.training.trainers import make_trainer

if TYPE_CHECKING:
    from pathlib import Path

    from netweave.job import Job
    from netweave.training.trainer import Trainer

RECORDS = 96

HEAD = """name: "staged"
layer { name: "data" type: "HDF5Data" top: "data" top: "label"
  hdf5_data_param { source: "list.txt" batch_size: BATCH } }
"""

DROPPED = (
    HEAD
    + """
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1" param { name: "first" }
  convolution_param { num_output: 8 kernel_size: 3 pad: 1 weight_filler { type: "xavier" } } }
layer { name: "relu1" type: "ReLU" bottom: "conv1" top: "conv1" }
layer { name: "drop1" type: "Dropout" bottom: "conv1" top: "drop1" dropout_param { dropout_ratio: 0.3 } }
layer { name: "ip1" type: "InnerProduct" bottom: "drop1" top: "ip1"
  inner_product_param { num_output: 16 weight_filler { type: "xavier" } } }
layer { name: "relu2" type: "ReLU" bottom: "ip1" top: "ip1" }
layer { name: "drop2" type: "Dropout" bottom: "ip1" top: "ip1" }
layer { name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2"
  inner_product_param { num_output: 4 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip2" bottom: "label" top: "loss" }
"""
)
"""Dropout on images and on rows, and no batch statistics."""

HARD = (
    HEAD
    + """
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
  convolution_param { num_output: 8 kernel_size: 3 pad: 1 weight_filler { type: "xavier" } } }
layer { name: "bn1" type: "BatchNorm" bottom: "conv1" top: "bn1" }
layer { name: "scale1" type: "Scale" bottom: "bn1" top: "bn1" scale_param { bias_term: true } }
layer { name: "relu1" type: "ReLU" bottom: "bn1" top: "bn1" }
layer { name: "conv2" type: "Convolution" bottom: "bn1" top: "conv2"
  param { name: "shared" } param { name: "shared bias" }
  convolution_param { num_output: 8 kernel_size: 3 pad: 1 weight_filler { type: "xavier" } } }
layer { name: "sum1" type: "Eltwise" bottom: "conv2" bottom: "bn1" top: "sum1" }
layer { name: "relu2" type: "ReLU" bottom: "sum1" top: "sum1" }
layer { name: "side" type: "InnerProduct" bottom: "sum1" top: "side"
  inner_product_param { num_output: 4 weight_filler { type: "xavier" } } }
layer { name: "loss1" type: "SoftmaxWithLoss" bottom: "side" bottom: "label" top: "loss1" loss_weight: 0.3 }
layer { name: "conv3" type: "Convolution" bottom: "sum1" top: "conv3"
  param { name: "shared" } param { name: "shared bias" }
  convolution_param { num_output: 8 kernel_size: 3 pad: 1 weight_filler { type: "xavier" } } }
layer { name: "bn2" type: "BatchNorm" bottom: "conv3" top: "bn2" }
layer { name: "join" type: "Concat" bottom: "bn2" bottom: "bn1" bottom: "sum1" top: "join" }
layer { name: "drop" type: "Dropout" bottom: "join" top: "drop" }
layer { name: "conv4" type: "Convolution" bottom: "bn2" top: "conv4"
  param { name: "shared" } param { name: "shared bias" }
  convolution_param { num_output: 8 kernel_size: 3 pad: 1 weight_filler { type: "xavier" } } }
layer { name: "ip" type: "InnerProduct" bottom: "drop" top: "ip"
  inner_product_param { num_output: 4 weight_filler { type: "xavier" } } }
layer { name: "ip2" type: "InnerProduct" bottom: "conv4" top: "ip2"
  inner_product_param { num_output: 4 weight_filler { type: "xavier" } } }
layer { name: "total" type: "Eltwise" bottom: "ip" bottom: "ip2" top: "total" }
layer { name: "loss2" type: "SoftmaxWithLoss" bottom: "total" bottom: "label" top: "loss2" }
layer { name: "accuracy" type: "Accuracy" bottom: "total" bottom: "label" top: "accuracy" }
"""
)
"""Shared parameters, batch statistics, values with many readers, and a loss in the middle."""


def job_of(
    folder: Path, net: str, *, batch: int = 8, accumulate: int = 1, steps: int = 20, solver: str = ""
) -> Job:
    """Return the job that trains a net."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "net.prototxt").write_text(net.replace("BATCH", str(batch)))
    (folder / "solver.prototxt").write_text(
        f'net: "net.prototxt" base_lr: 0.02 lr_policy: "inv" gamma: 0.1 power: 0.75 max_iter: {steps} '
        f"momentum: 0.9 weight_decay: 0.01 iter_size: {accumulate} random_seed: 5 "
        f'snapshot_after_train: false snapshot_prefix: "kept/staged" {solver}'
    )
    return read_solver(folder / "solver.prototxt", input_shapes={"data": (batch, 3, 6, 6), "label": (batch,)})


def records() -> dict[str, np.ndarray]:
    """Return images and labels."""
    draw = np.random.default_rng(1)
    return {"data": draw.normal(size=(RECORDS, 3, 6, 6)), "label": draw.integers(4, size=RECORDS)}


def train(
    job: Job, *, trace: Any = None, update_threads: int = 1, **options: Any
) -> tuple[Trainer, dict[str, Any]]:
    """Train; return the trainer, closed, and copies of all arrays."""
    options.setdefault("dtype", torch.float64)
    with ThreadedEngine(trace=trace) as engine:
        trainer = make_trainer(job, engine=engine, data={"train": records()}, threads=1, **options)
        if update_threads > 1:
            engine.add_lane(options["update_lane"], update_threads)
        trainer.run()
        trainer.close()
    return trainer, {key: tensor.detach().clone() for key, tensor in trainer.nets["train"].params.items()}
