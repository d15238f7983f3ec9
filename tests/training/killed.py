"""Runs that are killed: what a process of its own does, and the nets that it trains.

The checkpoints are large beside the nets' work, so that many a kill falls into the writing of one.
"""

from __future__ import annotations

import resource
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from netweave import api
from netweave.errors import NetweaveError
from netweave.training import Event, Updated
from netweave.training.checkpoint_file import kept

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

STEPS = 30
PREFIX = "kept/net"

DROPPED = """name: "dropped"
layer { name: "data" type: "HDF5Data" top: "data" top: "label"
  hdf5_data_param { source: "list.txt" batch_size: 5 shuffle: true } }
layer { name: "ip1" type: "InnerProduct" bottom: "data" top: "ip1"
  inner_product_param { num_output: 700 weight_filler { type: "xavier" } } }
layer { name: "relu" type: "ReLU" bottom: "ip1" top: "ip1" }
layer { name: "drop" type: "Dropout" bottom: "ip1" top: "ip1" }
layer { name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2"
  inner_product_param { num_output: 300 weight_filler { type: "xavier" } } }
layer { name: "ip3" type: "InnerProduct" bottom: "ip2" top: "ip3"
  inner_product_param { num_output: 4 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip3" bottom: "label" top: "loss" }
"""

RECURRENT = """name: "recurrent"
layer { name: "data" type: "HDF5Data" top: "data" top: "cont" top: "label"
  hdf5_data_param { source: "list.txt" batch_size: 4 } }
layer { name: "lstm" type: "LSTM" bottom: "data" bottom: "cont" top: "lstm"
  recurrent_param { num_output: 200 weight_filler { type: "xavier" } } }
layer { name: "ip" type: "InnerProduct" bottom: "lstm" top: "ip"
  inner_product_param { num_output: 4 axis: 2 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss"
  softmax_param { axis: 2 } }
"""

SOLVER = f"""net: "net.prototxt" base_lr: 0.01 lr_policy: "multistep" gamma: 0.5 stepvalue: 9 stepvalue: 20
type: "Adam" momentum: 0.9 momentum2: 0.99 weight_decay: 0.01 iter_size: 2 average_loss: 3
max_iter: {STEPS} snapshot: 1 random_seed: 3 snapshot_prefix: "{PREFIX}"
"""

NETS = {"dropped": DROPPED, "recurrent": RECURRENT}
SHAPES = {
    "dropped": {"data": (5, 6), "label": (5,)},
    "recurrent": {"data": (4, 3, 6), "cont": (4, 3), "label": (4, 3)},
}


def write(folder: Path, net: str) -> None:
    """Write net and solver into a folder."""
    (folder / "net.prototxt").write_text(NETS[net])
    (folder / "solver.prototxt").write_text(SOLVER)


def records(net: str) -> dict[str, np.ndarray]:
    """Return the records; a sequence goes on over the ends of batches."""
    draw = np.random.default_rng(0)
    if net == "dropped":
        return {"data": draw.normal(size=(23, 6)), "label": draw.integers(4, size=23)}
    return {
        "data": draw.normal(size=(22, 3, 6)),
        "cont": draw.random((22, 3)) > 0.1,
        "label": draw.integers(4, size=(22, 3)),
    }


def run(folder: str, net: str, told: Connection | None = None, most_bytes: int | None = None) -> None:
    """Train from the latest checkpoint that is there, or from the start; say when it begins and ends.

    Args:
        folder: Where ``write`` has been.
        net: Which.
        told: Told ``begins`` after the first update, and in the end ``ends`` or an error.
        most_bytes: The largest file that the process may write.
    """
    torch.set_num_threads(1)
    if most_bytes is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
    say = told.send if told else print

    begun = False

    def watch(event: Event) -> None:
        nonlocal begun
        if isinstance(event, Updated) and not begun:
            say("begins")
            begun = True

    job = api.load_job(Path(folder, "solver.prototxt"), input_shapes=SHAPES[net])
    data: Any = {"train": records(net)}
    try:
        api.train(job, data=data, resume=bool(kept(job.checkpoints.prefix)), watch=watch)
    except NetweaveError as error:
        say(str(error))
    else:
        say("ends")
