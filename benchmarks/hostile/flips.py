"""Single bits flipped in each kind of file that Netweave writes, and whether anybody notices.

Each file is read as it is used: records are packed and read again, weights and states are resumed from, ONNX
is loaded. A flip is *caught* if that is an error that names the file, or a note that it was changed;
*harmless* if what is read is the same to the bit; *silent* if it is not and nobody says so.
"""

from __future__ import annotations

import contextlib
import json
import random
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

import netweave
from benchmarks.record import Namespace, Record, option
from netweave import api
from netweave.errors import NetweaveError
from netweave.files import checksums
from netweave.files.checksums import CHANGED
from netweave.formats.caffe import parameters
from netweave.formats.mxnet.ndarray import encode_params
from netweave.job import DataSource
from netweave.training.checkpoint_file import read_checkpoint
from netweave.training.data import open_source
from netweave.training.data.pack import pack
from tests.hostile.nets import PROTOTXT
from tests.hostile.stores import stores


@dataclass(frozen=True, slots=True)
class Written:
    """A file that Netweave wrote.

    Attributes:
        kind: What it is.
        path: Where it is.
        read: Reads what uses it, and returns something that is equal for equal contents.
    """

    kind: str
    path: Path
    read: Callable[[], Any]


OPTIONS = (
    option("--flips", default=10000),
    option("--seed", default=1),
)


def main(options: Namespace, record: Record) -> None:
    """Flip bits, and write the result."""
    counts = flip_all(options.flips, options.seed)
    totals = sum(counts.values(), Counter())
    result = {
        "flips": sum(totals.values()),
        **totals,
        "silent": totals["silent"],
        "untyped": totals["untyped"],
    }
    result["seed"] = options.seed
    result["files"] = {kind: dict(row) for kind, row in counts.items()}
    record.save(result)
    print(json.dumps(result, indent=1))


def flip_all(num_flips: int, seed: int) -> dict[str, Counter[str]]:
    """Flip bits of all kinds of files in turn; return what became of them."""
    counts: dict[str, Counter[str]] = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        files = written(Path(folder))
        expected = [file.read() for file in files]
        for number in range(num_flips):
            file = files[number % len(files)]
            rng = random.Random(f"{file.kind}:{seed}:{number}")
            outcome = flip(file, expected[number % len(files)], rng)
            counts.setdefault(file.kind, Counter())[outcome] += 1
    return counts


def flip(file: Written, expected: Any, rng: random.Random) -> str:
    """Flip one bit, read, and put the bit back."""
    place = rng.randrange(file.path.stat().st_size)
    bit = 1 << rng.randrange(8)
    _xor(file.path, place, bit)
    try:
        found = file.read()
    except NetweaveError:
        return "caught"
    except Exception:  # noqa: BLE001 - what this counts
        return "untyped"
    finally:
        _xor(file.path, place, bit)
    return "harmless" if found == expected else "silent"


def _xor(path: Path, place: int, bit: int) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        (byte,) = file.read(1)
        file.seek(place)
        file.write(bytes([byte ^ bit]))


def written(folder: Path) -> list[Written]:
    """Write one file of each kind."""
    return [*_of_a_run(folder), *_of_a_net(folder), *_of_records(folder)]


def _of_a_net(folder: Path) -> list[Written]:
    (folder / "net.prototxt").write_text(PROTOTXT)
    graph = netweave.load(folder / "net.prototxt")
    return [
        _converted(graph, folder / name, kind)
        for name, kind in (
            ("net.onnx", "onnx"),
            ("converted.prototxt", "caffemodel of convert"),
            ("converted-symbol.json", "params of convert"),
        )
    ]


def _converted(graph: netweave.Graph, path: Path, kind: str) -> Written:
    """Write a net, and return the file of its weights."""
    files = api.save(graph, path, random_weights=True)

    def read() -> Any:
        graph = netweave.load(path, weights=files.weights)
        if any(CHANGED in note for note in graph.notes):
            raise NetweaveError("told")
        return ir.to_proto(graph.model).SerializeToString(deterministic=True), graph.layers, graph.parameters

    return Written(kind, files.weights or path, read)


def _of_a_run(folder: Path) -> list[Written]:
    """Train a little, and return what the run leaves."""
    out = folder / "out"
    out.mkdir()
    (folder / "x.h5").write_bytes(stores()["hdf5"].files["x.h5"])
    (folder / "list.txt").write_text("x.h5\n")
    (folder / "train.prototxt").write_text(
        'layer { name: "data" type: "HDF5Data" top: "data" top: "label" '
        'hdf5_data_param { source: "list.txt" batch_size: 2 } }\n'
        'layer { name: "fc" type: "InnerProduct" bottom: "data" top: "fc" '
        'inner_product_param { num_output: 4 weight_filler { type: "xavier" } } }\n'
        'layer { name: "loss" type: "SoftmaxWithLoss" bottom: "fc" bottom: "label" top: "loss" }\n'
    )
    (folder / "solver.prototxt").write_text(
        'net: "train.prototxt" base_lr: 0.05 lr_policy: "fixed" momentum: 0.9 max_iter: 3 '
        'snapshot: 3 snapshot_prefix: "out/net"\n'
    )
    api.train("solver.prototxt")
    weights, state = out / "net_iter_3.caffemodel", out / "net_iter_3.solverstate"
    checkpoint, listing = out / "net_iter_3.checkpoint", out / "net_iter_3.sha256"
    graph = api.load_job("solver.prototxt").phases["train"].graph
    params = out / "net-0003.params"
    params.write_bytes(encode_params(graph, {key: np.ones(p.shape) for key, p in graph.parameters.items()}))
    lines = listing.read_bytes() + checksums.checksum_lines({params.name: checksums.digest_of(params)})
    listing.write_bytes(lines)

    def read_weights() -> Any:
        checksums.require_as_written(weights)
        return _arrays(parameters.fitting_arrays(weights, graph))

    def read_state() -> Any:
        checksums.require_as_written(state)
        found = parameters.read_state(state)
        return found.iteration, found.learned_net, found.current_step, [a.tobytes() for a in found.history]

    def read_all() -> Any:
        return read_weights(), read_state(), read_params()

    def read_params() -> Any:
        checksums.require_as_written(params)
        return params.read_bytes()

    def read_run() -> Any:
        found = read_checkpoint(checkpoint)
        return json.dumps(found.state), _arrays(found.arrays), found.origin

    return [
        Written("caffemodel", weights, read_weights),
        Written("solverstate", state, read_state),
        Written("params", params, read_params),
        Written("manifest (.sha256)", listing, read_all),
        Written("checkpoint", checkpoint, read_run),
    ]


def _of_records(folder: Path) -> list[Written]:
    images = folder / "images"
    images.mkdir()
    stores()["image list"].write(images)
    base = str(images)
    kinds = {"lmdb": "packed_lmdb", "recordio": "packed.rec", "kvfile": "packed.bin"}
    found = []
    for kind, name in kinds.items():
        target = folder / name
        wanted = DataSource("images", ("data", "label"), 1, {"path": f"{base}/l.txt", "base": base})
        with open_source(wanted) as source:
            pack(source, target, kind)
        path = target / "data.mdb" if target.is_dir() else target

        def read(kind: str = kind, target: Path = target) -> Any:
            with open_source(DataSource(kind, ("data", "label"), 1, {"path": str(target)})) as source:
                return [[part.tobytes() for part in source.read(index)] for index in range(len(source))]

        found.append(Written(kind, path, read))
        if kind == "recordio":
            found.append(Written("recordio index", path.with_suffix(".idx"), read))
    return found


def _arrays(arrays: Any) -> dict[str, bytes]:
    return {name: np.asarray(array).tobytes() for name, array in arrays.items()}
