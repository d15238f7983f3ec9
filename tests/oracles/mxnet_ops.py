"""Run every operator of MXNet in small, and write the symbol and what comes out.

    cd REPOSITORY; ORACLES/bin/python -m tests.oracles.mxnet_ops

Writes ``tests/golden/mxnet_ops.json``. Arguments that are not inputs are drawn as parameters (``recipe``).
Each case runs on MXNet's own kernels and on oneDNN's, in a process each. Where both run they agree, but for
the cases in ``RIGHT``; where one kind lacks a case (oneDNN's some deconvolutions) the other's is taken.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mxnet as mx
import numpy as np

from tests.oracles import golden, recipe
from tests.oracles.mxnet_cases import ALIASES, cases

if TYPE_CHECKING:
    from tests.oracles.mxnet_cases import Case

GOLDEN = Path(__file__).parent.parent / "golden" / "mxnet_ops.json"

ROLES = {"gamma": "scale", "var": "variance", "weight": "filter", "parameters": "matrix"}
"""Role of a parameter by the last word of its name."""

VALUES = 48
"""Number of elements kept of an output."""

Record = dict[str, Any]

OWN, ONEDNN = "0", "1"

RIGHT = {"RNN": ONEDNN, "SoftmaxOutput: 4-D": OWN}
"""Whose kernels are right where they differ. MXNet's own RNN is broken in this build: LSTM fails, and the
other modes miss the formulas by the size of the values, where oneDNN's agree with them to 3e-7. oneDNN's
SoftmaxOutput goes over the last axis, where the operator is defined to go over all but the batch."""


def main() -> None:
    """Write the golden file."""
    found = {kernels: in_child(kernels) for kernels in (OWN, ONEDNN)}
    records = {case.name: settled(case, found) for case in cases()}
    for alias, name in ALIASES.items():
        records[f"{alias} = {name}"] = run_alias(alias, records[name])
    golden.write_json(GOLDEN, records)


def in_child(kernels: str) -> dict[str, Record]:
    """Run all cases on one kind of kernels, and return those that run."""
    env = {**os.environ, "MXNET_MKLDNN_ENABLED": kernels, "MXNET_STORAGE_FALLBACK_LOG_VERBOSE": "0"}
    done = subprocess.run([sys.executable, "-m", __spec__.name, "child"], env=env, stdout=-1, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def child() -> None:
    """Run what can be run, and print the records as one line."""
    records = {}
    for case in cases():
        try:
            records[case.name] = run_case(case)
        except mx.MXNetError as error:
            sys.stderr.write(f"{case.name}: {str(error).splitlines()[-1]}\n")
    sys.stdout.write(json.dumps(records) + "\n")


def settled(case: Case, found: dict[str, dict[str, Record]]) -> Record:
    """Return the record of the kernels that are right; others must agree with them."""
    right = RIGHT.get(case.name) or RIGHT.get(case.op)
    if right:
        return found[right][case.name]
    one, *others = (records[case.name] for records in found.values() if case.name in records)
    if not all(agree(other, one) for other in others):
        raise ValueError(f"{case.name}: MXNet's own kernels and oneDNN's differ")
    return one


def agree(one: Record, other: Record) -> bool:
    """Whether two records hold the same outputs."""
    return all(
        np.abs(np.subtract(mine["values"], theirs["values"])).max() <= golden.TOLERANCE * (mine["rms"] or 1)
        for (_, mine), (_, theirs) in zip(one["outputs"], other["outputs"], strict=True)
    )


def run_case(case: Case) -> dict[str, Any]:
    """Run one operator on drawn inputs and parameters."""
    drawn = {
        name: (tuple(spec[0]), spec[1]) if isinstance(spec[0], tuple) else (spec, "normal")
        for name, spec in case.inputs.items()
    }
    make = getattr(mx.sym, case.op, None) or getattr(mx.sym._internal, case.op)
    variables = [
        mx.sym.Variable(name, shape=shape if name.endswith("_weight") else None)
        for name, (shape, _) in drawn.items()
    ]
    symbol = make(*variables, name="op", **case.settings)
    inputs = {name: spec for name, spec in drawn.items() if not name.endswith("_weight")}
    return {"symbol": json.loads(symbol.tojson()), "inputs": inputs, **run(symbol, draws(inputs))}


def run_alias(alias: str, record: dict[str, Any]) -> dict[str, Any]:
    """Run a case's symbol with the operator called otherwise; MXNet must compute the same."""
    text = json.loads(json.dumps(record["symbol"]))
    for node in text["nodes"]:
        node["op"] = node["op"] if node["op"] == "null" else alias
    again = run(mx.sym.load_json(json.dumps(text)), draws(record["inputs"]))
    if not agree(again, record):
        raise ValueError(f"{alias} computes something else")
    return {"symbol": text, "inputs": record["inputs"], **again}


def draws(inputs: dict[str, tuple[tuple[int, ...], str]]) -> dict[str, np.ndarray]:
    """Draw the inputs."""
    return {name: recipe.draw(name, shape, kind) for name, (shape, kind) in inputs.items()}


def run(symbol: mx.sym.Symbol, inputs: dict[str, np.ndarray]) -> dict[str, Any]:
    """Run a symbol as in a test, labels zero; return its parameters by file key, and its outputs."""
    given = {name: array.shape for name, array in inputs.items()}
    arg_shapes, _, aux_shapes = symbol.infer_shape(**given)
    stored: dict[str, tuple[tuple[int, ...], str]] = {}
    shapes = {
        "arg": dict(zip(symbol.list_arguments(), arg_shapes, strict=True)),
        "aux": dict(zip(symbol.list_auxiliary_states(), aux_shapes, strict=True)),
    }
    values: dict[str, dict[str, mx.nd.NDArray]] = {"arg": {}, "aux": {}}
    for kind, names in shapes.items():
        for name, shape in names.items():
            if name in inputs:
                values[kind][name] = mx.nd.array(inputs[name])
            elif name.endswith("label"):
                values[kind][name] = mx.nd.zeros(shape)
            else:
                role = ROLES.get(name.rsplit("_", 1)[-1], "bias")
                stored[f"{kind}:{name}"] = (shape, role)
                values[kind][name] = mx.nd.array(recipe.weight(f"{kind}:{name}", shape, role))
    executor = symbol.bind(mx.cpu(), values["arg"], aux_states=values["aux"])
    results = executor.forward(is_train=False)
    outputs = [
        (name, golden.describe(result.asnumpy(), VALUES))
        for name, result in zip(symbol.list_outputs(), results, strict=True)
    ]
    return {"stored": stored, "outputs": outputs}


if __name__ == "__main__":
    child() if sys.argv[1:] == ["child"] else main()
