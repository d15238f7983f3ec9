"""Symbol JSON of every age, and .params of every version, with what MXNet 1.9.1 reads in them.

    cd REPOSITORY; ORACLES/bin/python -m tests.oracles.mxnet_ages

Writes ``tests/golden/mxnet_ages.json`` (one net in the spelling of each age, and its outputs) and
``tests/golden/mxnet_params`` (files as MXNet writes them). The older spellings and versions are made from
their description; MXNet must read them and compute the same.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mxnet as mx
import numpy as np

from tests.oracles import golden, mxnet_params, recipe
from tests.oracles.mxnet_ops import agree, run

if TYPE_CHECKING:
    from collections.abc import Callable

GOLDEN = Path(__file__).parent.parent / "golden"

INPUT = {"data": ((2, 3, 12, 11), "normal")}

AUX = ("_moving_mean", "_moving_var")


def main() -> None:
    """Write the golden files."""
    new = json.loads(net().tojson())
    inputs = {name: recipe.draw(name, shape, kind) for name, (shape, kind) in INPUT.items()}
    record = run(net(), inputs)
    ages = {"from 1.0": new, "0.9 to 0.12": spelled(new, in_0_9), "before 0.9": spelled(new, before_0_9)}
    for age, text in ages.items():
        if not agree(run(mx.sym.load_json(json.dumps(text)), inputs), record):
            raise ValueError(f"MXNet computes something else from the spelling {age}")
    golden.write_json(GOLDEN / "mxnet_ages.json", {"inputs": INPUT, **record, "symbols": ages})
    write_params()


def net() -> mx.sym.Symbol:
    """Return a net with arrays, states, defaults, attributes of the user and two readers of a value."""
    data = mx.sym.Variable("data")
    with mx.AttrScope(ctx_group="stage1"):
        conv = mx.sym.Convolution(data, kernel=(3, 3), num_filter=6, name="conv", attr={"lr_mult": "0.5"})
        norm = mx.sym.BatchNorm(conv, fix_gamma=False, eps=0.01, name="bn")
        act = mx.sym.Activation(norm, act_type="relu", name="relu")
    pool = mx.sym.Pooling(
        act, kernel=(2, 2), stride=(2, 2), pool_type="max", pooling_convention="full", name="pool"
    )
    side = mx.sym.LeakyReLU(pool, act_type="prelu", name="prelu")
    both = mx.sym.Concat(pool, side, dim=1, name="both")
    with mx.AttrScope(ctx_group="stage2"):
        dense = mx.sym.FullyConnected(mx.sym.Flatten(both, name="flat"), num_hidden=5, name="fc")
    return mx.sym.SoftmaxOutput(mx.sym.Dropout(dense, p=0.4, name="drop"), name="softmax")


def spelled(new: dict[str, Any], node_of: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    """Return a symbol in an older spelling."""
    old = copy.deepcopy(new)
    old["nodes"] = [node_of(node) for node in old["nodes"]]
    if node_of is before_0_9:
        old = without_states(old)
    else:
        old["attrs"] = {"mxnet_version": ["int", 905]}
    return old


def in_0_9(node: dict[str, Any]) -> dict[str, Any]:
    """Settings and attributes of the user stand together under ``attr``."""
    attrs = node.pop("attrs", {})
    return {**node, "attr": attrs} if attrs else node


def before_0_9(node: dict[str, Any]) -> dict[str, Any]:
    """Settings stand under ``param``, attributes of the user, not yet hidden, under ``attr``."""
    attrs = node.pop("attrs", {})
    user = {key.strip("_"): value for key, value in attrs.items() if key.startswith("__")}
    own = {key: value for key, value in attrs.items() if not key.startswith("__")}
    param = {} if node["op"] == "null" else own
    inputs = [entry[:2] for entry in node["inputs"]]
    old = {"op": node["op"], "param": param, "name": node["name"], "inputs": inputs}
    return {**old, **({"attr": user} if user else {}), "backward_source_id": -1}


def without_states(symbol: dict[str, Any]) -> dict[str, Any]:
    """Leave out the nodes of states, of which files before 0.9 know nothing."""
    kept = [i for i, node in enumerate(symbol["nodes"]) if not node["name"].endswith(AUX)]
    number = {old: new for new, old in enumerate(kept)}
    nodes = [symbol["nodes"][i] for i in kept]
    for node in nodes:
        node["inputs"] = [[number[i], output] for i, output in node["inputs"] if i in number]
    return {
        "nodes": nodes,
        "arg_nodes": [i for i, node in enumerate(nodes) if node["op"] == "null"],
        "heads": [[number[i], output] for i, output, _ in symbol["heads"]],
    }


def write_params() -> None:
    """Write .params files by MXNet, and hold the writer of ``mxnet_params`` against them and against it."""
    folder = GOLDEN / "mxnet_params"
    folder.mkdir(parents=True, exist_ok=True)
    dense = {name: recipe_array(name) for name in DTYPES}
    for version in range(4):
        check(dense if version else {n: a for n, a in dense.items() if n in OLD}, version, folder)
    mx.nd.save(str(folder / "v2.params"), {n: mx.nd.array(a, dtype=a.dtype) for n, a in dense.items()})
    same(folder / "v2.params", mxnet_params.params(dense, version=2))
    with mx.util.np_shape(True):
        scalars = {**dense, "arg:scalar": np.float32(1.5), "arg:none": np.zeros((0, 2), np.float32)}
        mx.nd.save(
            str(folder / "v3.params"),
            {n: mx.nd.array(a, dtype=a.dtype) for n, a in scalars.items()},
        )
        same(folder / "v3.params", mxnet_params.params(scalars, version=3))
    write_sparse(folder / "sparse.params")


DTYPES = ("float32", "float64", "float16", "uint8", "int32", "int8", "int64")
OLD = ("float32", "float64", "float16", "uint8", "int32")


def recipe_array(dtype: str) -> np.ndarray:
    """Return the array called by the name of its type, of whole numbers."""
    return recipe.draw(f"arg:{dtype}", (2, 3), "integers 100").astype(dtype)


def check(arrays: dict[str, np.ndarray], version: int, folder: Path) -> None:
    """Raise ValueError where MXNet does not read what was written by hand."""
    path = folder / "check.params"
    path.write_bytes(mxnet_params.params(arrays, version=version))
    with mx.util.np_shape(version == 3):
        found = mx.nd.load(str(path))
    path.unlink()
    for name, array in arrays.items():
        if found[name].dtype != array.dtype or not np.array_equal(found[name].asnumpy(), array):
            raise ValueError(f"MXNet does not read {name} of version {version}")


def same(path: Path, written: bytes) -> None:
    """Raise ValueError where MXNet's file is not byte for byte the one written by hand."""
    if path.read_bytes() != written:
        raise ValueError(f"{path.name} is not as it was written by hand")


def write_sparse(path: Path) -> None:
    """Write arrays of which only some rows or elements are kept."""
    values = recipe.draw("rows", (2, 3))
    rows = mx.nd.sparse.row_sparse_array((values, [1, 3]), shape=(5, 3))
    csr = mx.nd.sparse.csr_matrix((values.ravel()[:4], [0, 2, 1, 0], [0, 2, 3, 4]), shape=(3, 3))
    mx.nd.save(str(path), {"arg:rows": rows, "arg:csr": csr})
    starts, columns = csr.indptr.asnumpy(), csr.indices.asnumpy()
    records = {
        "arg:rows": mxnet_params.row_sparse(values, np.array([1, 3]), (5, 3)),
        "arg:csr": mxnet_params.csr(values.ravel()[:4], starts, columns, (3, 3)),
    }
    same(path, mxnet_params.params(records))


if __name__ == "__main__":
    main()
