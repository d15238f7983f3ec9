"""Small nets that several ranks train in tests, as Caffe's files, and their records."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from netweave import api

if TYPE_CHECKING:
    from pathlib import Path

    from netweave.job import Job

BATCH = 10
"""Not a multiple of 3 or 4, so that parts are uneven."""

RECORDS = 47

DIGITS_BATCH = 32

_FILLER = 'weight_filler { type: "xavier" } bias_filler { type: "constant" value: 0.1 }'
_LOSS = 'layer { name: "loss" type: "SoftmaxWithLoss" bottom: "out" bottom: "label" top: "loss" %s }\n'
_ACCURACY = 'layer { name: "accuracy" type: "Accuracy" bottom: "out" bottom: "label" top: "accuracy" }\n'


def _dense(name: str, bottom: str, count: int) -> str:
    return (
        f'layer {{ name: "{name}" type: "InnerProduct" bottom: "{bottom}" top: "{name}" '
        f"inner_product_param {{ num_output: {count} {_FILLER} }} }}\n"
    )


def _conv(name: str, bottom: str, count: int) -> str:
    return (
        f'layer {{ name: "{name}" type: "Convolution" bottom: "{bottom}" top: "{name}" '
        f"convolution_param {{ num_output: {count} kernel_size: 3 pad: 1 {_FILLER} }} }}\n"
    )


def _simple(kind: str, name: str, bottom: str, extra: str = "") -> str:
    return f'layer {{ name: "{name}" type: "{kind}" bottom: "{bottom}" top: "{name}" {extra} }}\n'


def _normalised(name: str, bottom: str) -> str:
    scale = f'layer {{ name: "{name}_scale" type: "Scale" bottom: "{name}" top: "{name}_scale" scale_param '
    return (
        _simple("BatchNorm", name, bottom)
        + scale
        + "{ bias_term: true } }\n"
        + _simple("ReLU", f"{name}_relu", f"{name}_scale")
    )


_BLOCK = (
    _conv("conv1", "data", 4)
    + _normalised("bn1", "conv1")
    + _conv("conv2", "bn1_relu", 4)
    + _normalised("bn2", "conv2")
    + 'layer { name: "sum" type: "Eltwise" bottom: "bn2_relu" bottom: "conv1" top: "sum" }\n'
    + _simple("Dropout", "drop", "sum", "dropout_param { dropout_ratio: 0.3 }")
    + _simple("Pooling", "pool", "drop", "pooling_param { pool: AVE global_pooling: true }")
)

NETS = {
    "mlp": _dense("ip1", "data", 30)
    + _simple("ReLU", "relu", "ip1")
    + _dense("out", "relu", 5)
    + _ACCURACY
    + _LOSS % "",
    "resnet": _BLOCK + _dense("out", "pool", 5) + _ACCURACY + _LOSS % "",
    "pooled": _conv("conv1", "data", 6)
    + _simple("Pooling", "pool", "conv1", "pooling_param { pool: MAX kernel_size: 2 stride: 2 }")
    + _dense("ip1", "pool", 40)
    + _simple("ReLU", "relu", "ip1")
    + _dense("out", "relu", 5)
    + _LOSS % "",
    "ignored": _dense("ip1", "data", 30)
    + _simple("ReLU", "relu", "ip1")
    + _dense("out", "relu", 5)
    + _LOSS % "loss_param { ignore_label: 4 normalization: VALID }",
}
"""Bodies of nets, from ``data`` and ``label`` to ``loss``."""


def _lenet(pool: str, activation: str) -> str:
    pooling = f"pooling_param {{ pool: {pool} kernel_size: 2 stride: 2 }}"
    return (
        _conv("conv1", "data", 8)
        + _simple("Pooling", "pool1", "conv1", pooling)
        + _conv("conv2", "pool1", 16)
        + _simple("Pooling", "pool2", "conv2", pooling)
        + _dense("ip1", "pool2", 64)
        + _simple(activation, "act", "ip1")
        + _dense("out", "act", 10)
        + _ACCURACY
        + _LOSS % ""
    )


DIGITS = {
    "lenet": _lenet("MAX", "ReLU"),
    "smooth": _lenet("AVE", "TanH"),
    "residual": _BLOCK + _dense("out", "pool", 10) + _ACCURACY + _LOSS % "",
    "skips": _conv("conv1", "data", 4)
    + _simple("ReLU", "relu1", "conv1")
    + _conv("conv2", "relu1", 4)
    + _simple("ReLU", "relu2", "conv2")
    + _conv("conv3", "relu2", 4)
    + 'layer { name: "sum" type: "Eltwise" bottom: "conv3" bottom: "conv1" bottom: "relu2" top: "sum" }\n'
    + _simple("Dropout", "drop", "sum", "dropout_param { dropout_ratio: 0.3 }")
    + _simple("Pooling", "pool", "drop", "pooling_param { pool: AVE global_pooling: true }")
    + _dense("out", "pool", 10)
    + _ACCURACY
    + _LOSS % "",
    "grouped": _conv("conv1", "data", 8)
    + _simple("ReLU", "relu1", "conv1")
    + _simple("LRN", "norm1", "relu1", "lrn_param { local_size: 3 alpha: 0.1 beta: 0.75 }")
    + _simple("Pooling", "pool1", "norm1", "pooling_param { pool: MAX kernel_size: 3 stride: 2 }")
    + _conv("conv2", "pool1", 8).replace("num_output: 8", "num_output: 8 group: 2")
    + _dense("out", "conv2", 10)
    + _LOSS % "",
}
"""LeNet for scikit-learn's digits, as Caffe has it, and without steps in its derivative; a net with batch
normalisation and dropout; one whose residual connections skip layers; AlexNet's layers with groups and
normalisation across channels."""

CLIPPED = 'clip_gradients: 0.5 type: "Adam" momentum2: 0.999 '
"""Settings of a solver that needs the norm of all gradients before it changes any."""


def write(
    folder: Path,
    net: str,
    *,
    steps: int,
    solver: str = "",
    snapshot: int = 0,
    base_lr: float = 0.05,
    momentum: float = 0.9,
    seed: int = 5,
    batches: int = 1,
) -> Path:
    """Write a net and its solver; return the solver."""
    folder.mkdir(parents=True, exist_ok=True)
    batch, channels, size = (BATCH, 2, 6) if net in NETS else (DIGITS_BATCH, 1, 8)
    batch //= batches
    (folder / "net.prototxt").write_text(
        f"""name: "{net}"
layer {{ name: "data" type: "MemoryData" top: "data" top: "label"
  memory_data_param {{ batch_size: {batch} channels: {channels} height: {size} width: {size} }} }}
{NETS.get(net) or DIGITS[net]}"""
    )
    stepsize = 12 if net in NETS else 1000
    path = folder / "solver.prototxt"
    path.write_text(
        f"""net: "net.prototxt" base_lr: {base_lr} lr_policy: "step" gamma: 0.5 stepsize: {stepsize}
momentum: {momentum} weight_decay: 0.001 max_iter: {steps} random_seed: {seed} iter_size: {batches}
snapshot: {snapshot} snapshot_prefix: "{folder}/kept"
{solver}
"""
    )
    return path


def records(net: str = "mlp") -> dict[str, np.ndarray]:
    """Return the records of a net: digits, or drawn from a fixed seed."""
    if net in DIGITS:
        from sklearn.datasets import load_digits

        images, labels = load_digits(return_X_y=True)
        return {"data": images.reshape(-1, 1, 8, 8) / 16, "label": labels}
    draw = np.random.default_rng(1)
    return {"data": draw.normal(size=(RECORDS, 2, 6, 6)), "label": draw.integers(5, size=RECORDS)}


def job(solver: Path) -> Job:
    """Return a Job, shuffled and without the last display, which takes a batch."""
    found = api.load_job(solver)
    train = found.phases["train"]
    data = tuple(replace(source, order={**source.order, "shuffle": True}) for source in train.data)
    schedule = replace(found.schedule, display_at_end=False)
    return replace(found, schedule=schedule, phases={"train": replace(train, data=data)})
