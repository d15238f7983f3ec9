"""Differentiate the one-operator nets of tests/formats/mxnet/cases.txt by MXNet, in training mode.

    cd REPOSITORY; ORACLES/bin/python -m tests.oracles.mxnet_gradients

Writes ``tests/golden/mxnet_gradients.npz``: for each case the gradient of each input and of each array, for
gradients from above that ``above`` draws, and what training left in the auxiliary arrays. Cases that draw
random numbers, and operators whose gradient MXNet lacks, have none. MXNet's own kernels are asked, but for
recurrent layers, whose own kernels are broken in this build (see ``mxnet_ops.py``).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import mxnet as mx
import numpy as np

from tests.formats.mxnet.cases import CASES
from tests.oracles import recipe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.formats.mxnet.cases import Case

GOLDEN = Path(__file__).parent.parent / "golden" / "mxnet_gradients.npz"

RANDOM = {"Dropout"}
RANDOM_SETTINGS = {"rrelu"}


def main() -> None:
    """Write the golden file."""
    found: dict[str, np.ndarray] = {}
    for kernels, is_asked in (("0", False), ("1", True)):
        names = [
            name for name, case in CASES.items() if (case.op == "RNN") == is_asked and not is_random(case)
        ]
        found |= in_children(names, kernels)
    np.savez_compressed(GOLDEN, **found)


def is_random(case: Case) -> bool:
    """Whether training mode draws numbers."""
    return case.op in RANDOM or bool(RANDOM_SETTINGS & set(case.settings.values()))


def in_children(names: Sequence[str], kernels: str) -> dict[str, np.ndarray]:
    """Differentiate cases in processes of their own: where MXNet dies, the case is left out."""
    found: dict[str, np.ndarray] = {}
    todo = list(names)
    while todo:
        env = {**os.environ, "MXNET_MKLDNN_ENABLED": kernels, "MXNET_STORAGE_FALLBACK_LOG_VERBOSE": "0"}
        command = [sys.executable, "-m", __spec__.name, json.dumps(todo)]
        with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            for line in child.stdout:
                name, arrays = json.loads(line)
                found |= {f"{name}/{key}": np.asarray(a, np.float32) for key, a in arrays.items()}
                todo = todo[todo.index(name) + 1 :]
        if child.returncode and todo:
            sys.stderr.write(f"{todo.pop(0)}: MXNet died\n")
        elif not child.returncode:
            return found
    return found


def child(names: Sequence[str]) -> None:
    """Print one line for each case."""
    for name in names:
        try:
            arrays = run(name, CASES[name])
        except mx.MXNetError as error:
            sys.stderr.write(f"{name}: {str(error).splitlines()[-1]}\n")
            arrays = {}
        sys.stdout.write(json.dumps([name, {key: array.tolist() for key, array in arrays.items()}]) + "\n")
        sys.stdout.flush()


def above(name: str, number: int, shape: tuple[int, ...]) -> np.ndarray:
    """Return the gradient from above of an output."""
    return recipe.image(f"{name}/above {number}", shape, 1.0)


def run(name: str, case: Case) -> dict[str, np.ndarray]:
    """Return gradients by input, and auxiliary arrays by name."""
    symbol = mx.sym.load_json(case.symbol())
    arrays = {
        key: mx.nd.array(array, dtype=array.dtype)
        for stored in (True, False)
        for key, array in case.arrays(stored=stored).items()
    }
    states = {key: arrays[key] for key in symbol.list_auxiliary_states()}
    arguments = {key: arrays[key] for key in symbol.list_arguments()}
    real = [key for key, array in arguments.items() if array.dtype == np.float32]
    gradients = {key: mx.nd.zeros(arguments[key].shape) for key in real}
    requests = {key: "write" if key in real else "null" for key in arguments}
    bound = symbol.bind(mx.cpu(), arguments, args_grad=gradients, grad_req=requests, aux_states=states)
    outputs = bound.forward(is_train=True)
    if any(output.dtype != np.float32 for output in outputs):
        return {}
    bound.backward([mx.nd.array(above(name, n, output.shape)) for n, output in enumerate(outputs)])
    found = {f"gradient {key}": array.asnumpy() for key, array in gradients.items()}
    return found | {f"state {key}": array.asnumpy() for key, array in states.items()}


if __name__ == "__main__":
    child(json.loads(sys.argv[1])) if len(sys.argv) > 1 else main()
