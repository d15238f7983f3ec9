"""Files beside a net: weights alone, states of a run, jobs, saved comparisons, uploaded archives."""

from __future__ import annotations

import io
import json
import shutil
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import netweave
from benchmarks.hostile.mutations import (
    mutate_bytes,
    mutate_hdf5,
    mutate_json,
    mutate_npy,
    mutate_pickle,
    mutate_safetensors,
    mutate_text,
    mutate_wire,
    mutate_zip,
)
from benchmarks.hostile.mutations.archives import read_members, write_members
from benchmarks.hostile.readers.reader import Reader, Seed, one_file
from netweave import api
from netweave.files.zipped import unpack
from netweave.formats.caffe import parameters
from netweave.formats.chainer.child import read_weights
from netweave.formats.pytorch import read_state
from netweave.training.checkpoint_file import MAGIC, Checkpoint, Origin, _digest, encode, read_checkpoint
from tests.formats.pytorch import test_state
from tests.hostile.nets import PROTOTXT
from tests.hostile.stores import stores

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

EXAMPLES = Path(__file__).parents[3] / "examples"

_SOLVER = (
    b'net: "net.prototxt" base_lr: 0.05 lr_policy: "multistep" stepvalue: 2 stepvalue: 4 gamma: 0.1 '
    b'momentum: 0.9 weight_decay: 0.001 max_iter: 9 display: 5 snapshot: 3 snapshot_prefix: "out/net" '
    b'type: "Adam" test_iter: 2 test_interval: 4 iter_size: 2 random_seed: 1 solver_mode: CPU\n'
)
_DATA = (
    b'layer { name: "data" type: "HDF5Data" top: "data" top: "label" '
    b'hdf5_data_param { source: "list.txt" batch_size: 2 } }\n'
    b'layer { name: "fc" type: "InnerProduct" bottom: "data" top: "fc" '
    b"inner_product_param { num_output: 3 } }\n"
    b'layer { name: "loss" type: "SoftmaxWithLoss" bottom: "fc" bottom: "label" top: "loss" }\n'
)
_JOB = (
    b'name: "small" train_steps: 10 disp_freq: 2 test_freq: 5 test_steps: 2 checkpoint_freq: 5\n'
    b"train_one_batch { alg: kBP }\n"
    b"updater { type: kSGD momentum: 0.9 weight_decay: 0.001\n"
    b"  learning_rate { type: kStep base_lr: 0.1 step_conf { gamma: 0.5 change_freq: 4 } } }\n"
    b'cluster { workspace: "run" nworkers_per_group: 2 }\n'
    b"neuralnet {\n"
    b'  layer { name: "data" type: kRecordInput store_conf { backend: "kvfile" path: "x" batchsize: 2\n'
    b"    shape: 3 shape: 5 shape: 6 std_value: 255 random_skip: 1 } }\n"
    b'  layer { name: "conv" type: kCConvolution srclayers: "data"\n'
    b"    convolution_conf { num_filters: 4 kernel: 3 pad: 1 stride: 1 }\n"
    b'    param { name: "w" init { type: kGaussian std: 0.1 } } param { name: "b" wd_scale: 0 } }\n'
    b'  layer { name: "act" type: kReLU srclayers: "conv" exclude: kTest }\n'
    b'  layer { name: "ip" type: kInnerProduct srclayers: "conv" innerproduct_conf { num_output: 4 }\n'
    b'    param { name: "w1" init { type: kUniform low: -1 high: 1 } } param { name: "b1" } }\n'
    b'  layer { name: "loss" type: kSoftmaxLoss srclayers: "ip" srclayers: "data"\n'
    b"    softmaxloss_conf { topk: 2 } }\n"
    b"}\n"
)


def readers() -> list[Reader]:
    """Return a reader for each kind of file."""
    return [
        Reader("pytorch.state", _states),
        Reader("pytorch.safetensors", partial(_safetensors, read_state)),
        Reader("arrays.safetensors", partial(_safetensors, netweave.load)),
        Reader("arrays.npy", _objects),
        Reader("arrays.npz", partial(_npz, netweave.load)),
        Reader("arrays.inputs", _inputs),
        Reader("chainer.npz", partial(_npz, partial(read_weights, place="x.npz"))),
        Reader("caffe.solver", _solvers),
        Reader("caffe.solverstate", _solver_states),
        Reader("caffe.solverstate.h5", _solver_states_hdf5),
        Reader("singa.job", _jobs),
        Reader("netweave.checkpoint", _checkpoints),
        Reader("netweave.comparison", _comparisons),
        Reader("zip", _archives),
    ]


def pytorch_archive() -> bytes:
    """Return a state dict as ``torch.save`` writes it."""
    return write_members(
        [
            ("net/data.pkl", test_state.pickled((2, 3), (3, 1))),
            ("net/byteorder", b"little"),
            ("net/data/0", np.arange(6, dtype=np.float32).tobytes()),
        ]
    )


def _legacy() -> bytes:
    """Return a state dict as ``torch.save`` wrote it before archives."""
    magic, number = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.", b"\x80\x02K\x01."
    keys = b"\x80\x02]X\x01\x00\x00\x000a."
    content = test_state.pickled((2, 3), (3, 1))
    return magic + number + number + content + keys + (6).to_bytes(8, "little") + bytes(24)


def _states() -> list[Seed]:
    return [
        one_file("x.pt", pytorch_archive(), mutate_zip, read_state),
        one_file("x.pt", pytorch_archive(), _mutate_pickled, read_state),
        one_file("x.pt", _legacy(), mutate_pickle, read_state),
    ]


def _mutate_pickled(rng: random.Random, content: bytes) -> bytes:
    (name, pickled), *rest = read_members(content)
    return write_members([(name, mutate_pickle(rng, pickled)), *rest])


def _safetensors(read: Callable[[Path], object]) -> list[Seed]:
    rows = {
        "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
        "b": {"dtype": "BF16", "shape": [4], "data_offsets": [24, 32]},
        "c": {"dtype": "I64", "shape": [], "data_offsets": [32, 40]},
        "__metadata__": {"format": "pt"},
    }
    header = json.dumps(rows).encode()
    content = len(header).to_bytes(8, "little") + header + bytes(40)
    return [one_file("x.safetensors", content, mutate_safetensors, read)]


def _objects() -> list[Seed]:
    content = io.BytesIO()
    values = {"conv": {"w": np.ones((2, 3), np.float32), "b": np.float64(2)}, "fc": [np.arange(3), 2.5]}
    np.save(content, np.array(values, dtype=object), allow_pickle=True)
    whole = content.getvalue()
    start = whole.index(b"\n") + 1

    def mutate(rng: random.Random, content: bytes) -> bytes:
        if rng.random() < 0.1:
            return mutate_npy(rng, content)
        return content[:start] + mutate_pickle(rng, content[start:])

    return [one_file("x.npy", whole, mutate, netweave.load)]


def _npz(read: Callable[[Path], object]) -> list[Seed]:
    content = io.BytesIO()
    np.savez(
        content, **{"conv/W": np.ones((2, 3, 1, 1), np.float32), "fc/b": np.arange(3), "n": np.float64(2)}
    )
    packed = io.BytesIO()
    np.savez_compressed(packed, **{"conv/W": np.zeros((64, 64), np.float32), "b": np.arange(3)})
    return [one_file("x.npz", whole.getvalue(), mutate_zip, read) for whole in (content, packed)]


def _inputs() -> list[Seed]:
    """Return arrays that are the inputs of a net."""
    npz, npy = stores()["npz"].files["x.npz"], stores()["numpy"].files["x.npy"]
    return [
        one_file("x.npz", npz, mutate_zip, lambda path: api.load_arrays(path, ["data", "label"])),
        one_file("x.npy", npy, mutate_npy, lambda path: api.load_arrays(path, ["data"])),
    ]


def _solvers() -> list[Seed]:
    files = {
        "solver.prototxt": _SOLVER,
        "net.prototxt": _DATA,
        "list.txt": b"x.h5\n",
        "x.h5": stores()["hdf5"].files["x.h5"],
    }

    def read(folder: Path) -> object:
        return api.load_job(folder / "solver.prototxt")

    return [Seed(files, name, mutate_text, read) for name in ("solver.prototxt", "net.prototxt", "list.txt")]


def _state() -> parameters.SolverState:
    return parameters.SolverState(7, "net_iter_7.caffemodel", (np.ones((4, 3)), np.zeros(4)), 2)


def _solver_states() -> list[Seed]:
    content = parameters.encode_state(_state())
    return [one_file("x.solverstate", content, mutate_wire, parameters.read_state)]


def _solver_states_hdf5() -> list[Seed]:
    content = parameters.encode_state_hdf5(_state())
    return [one_file("x.solverstate.h5", content, mutate_hdf5, parameters.read_state)]


def _jobs() -> list[Seed]:
    store = stores()["kvfile"].files["x"]

    def read(folder: Path) -> object:
        return api.load_job(folder / "job.conf")

    return [Seed({"job.conf": _JOB, "x": store}, "job.conf", mutate_text, read)]


@cache
def _checkpoint() -> bytes:
    state = {"iteration": 3, "seed": 1, "policy": {"current_step": 1}, "history": [[1, 0.5], [2, 0.25]]}
    arrays = {"param:fc/0": np.ones((3, 4), np.float32), "kept:momentum:fc/0": np.zeros((3, 4), np.float32)}
    return encode(Checkpoint(state, arrays, Origin("run", 1)))


def _checkpoints() -> list[Seed]:
    """Return a checkpoint that is damaged under its right checksum, and one that is damaged anyhow."""

    def mutate(rng: random.Random, content: bytes) -> bytes:
        if rng.random() < 0.2:
            return mutate_bytes(rng, content)
        _, origin, _, body = content.split(b"\n", 3)
        origin, body = origin + b"\n", mutate_zip(rng, body)
        return MAGIC + origin + _digest(origin, body) + body

    return [one_file("net_iter_3.checkpoint", _checkpoint(), mutate, read_checkpoint)]


def _comparisons() -> list[Seed]:
    nets = [EXAMPLES / "padding" / name for name in ("leaves.prototxt", "leaves-symbol.json")]
    content = json.dumps(netweave.compare(*nets).to_json()).encode()

    return [one_file("x.json", content, mutate_json, lambda path: api.open_comparison(path).to_json())]


def _archives() -> list[Seed]:
    content = write_members(
        [("net/a.prototxt", PROTOTXT.encode()), ("net/b.npy", bytes(300))], compressed=True
    )

    def read(folder: Path) -> object:
        out = folder / "out"
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        paths = unpack(folder / "x.zip", out, max_bytes=1 << 16)
        if not all(path.resolve().is_relative_to(out.resolve()) for path in paths):
            raise AssertionError(f"written outside: {paths}")
        if sum(path.stat().st_size for path in paths) > 1 << 16:
            raise AssertionError("more bytes than allowed")
        return paths

    return [Seed({"x.zip": content}, "x.zip", mutate_zip, read)]
