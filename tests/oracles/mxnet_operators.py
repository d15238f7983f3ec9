"""Run the one-operator nets of tests/formats/mxnet/cases.txt by MXNet, and write what comes out.

    cd REPOSITORY; ORACLES/bin/python -m tests.oracles.mxnet_operators

Writes ``tests/golden/mxnet_operators.npz``: for each case its outputs, and the gradient of its first input
for outputs with a loss, where the gradient from above is the output itself.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import mxnet as mx
import numpy as np

from tests.formats.mxnet.cases import CASES

if TYPE_CHECKING:
    from tests.formats.mxnet.cases import Case

GOLDEN = Path(__file__).parent.parent / "golden" / "mxnet_operators.npz"
STATISTICS = ("moving_mean", "moving_var")


def main() -> None:
    """Write the golden file."""
    found: dict[str, np.ndarray] = {}
    for name, case in CASES.items():
        try:
            found |= {f"{name}/{key}": array for key, array in run(case).items()}
        except mx.MXNetError as error:
            sys.stderr.write(f"{name}: {str(error).splitlines()[-1]}\n")
    np.savez_compressed(GOLDEN, **found)


def run(case: Case) -> dict[str, np.ndarray]:
    """Return the outputs of a case by number, and its gradient."""
    symbol = mx.sym.load_json(case.symbol())
    arrays = {
        name: mx.nd.array(array, dtype=array.dtype)
        for stored in (True, False)
        for name, array in case.arrays(stored=stored).items()
    }
    states = symbol.list_auxiliary_states()
    arguments = {name: arrays[name] for name in symbol.list_arguments()}
    gradients = (
        {name: mx.nd.zeros(array.shape) for name, array in arguments.items()} if case.gradient else None
    )
    bound = symbol.bind(
        mx.cpu(), arguments, args_grad=gradients, aux_states={name: arrays[name] for name in states}
    )
    outputs = [output.copy() for output in bound.forward(is_train=case.gradient)]
    found = {str(number): output.asnumpy() for number, output in enumerate(outputs)}
    if case.gradient:
        bound.backward(outputs)
        found["gradient"] = gradients[next(iter(case.inputs))].asnumpy()
    return found


if __name__ == "__main__":
    main()
