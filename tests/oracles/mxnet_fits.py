"""Fit the nets of tests/mxnet/fits.py by MXNet's Module, and write what it measures.

    cd REPOSITORY; ORACLES/bin/python -m tests.oracles.mxnet_fits

Writes ``tests/golden/mxnet_fits.json``: the metric of every batch, its score in test mode at the end, and
the sum and the sum of squares of every array that training leaves; and ``tests/golden/mxnet_contexts.json``,
the same on several contexts, whose gradients a key-value store sums.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mxnet as mx
import numpy as np

from tests.mxnet.fits import BATCH, CONTEXTS, EPOCHS, FITS, Fit, first_values, records

GOLDEN = Path(__file__).parent.parent / "golden" / "mxnet_fits.json"
SEVERAL = GOLDEN.with_name("mxnet_contexts.json")


def main() -> None:
    """Write the golden files."""
    GOLDEN.write_text(json.dumps({name: fitted(fit) for name, fit in FITS.items()}, indent=1) + "\n")
    several = {
        f"{name}, {count} contexts, {kind}": fitted(FITS[name], count, kind) for name, count, kind in CONTEXTS
    }
    SEVERAL.write_text(json.dumps(several, indent=1) + "\n")


def fitted(fit: Fit, num_contexts: int = 1, kvstore: str = "local") -> dict[str, Any]:
    """Fit one net."""
    data, labels = records(fit)
    batches = mx.io.NDArrayIter(data, labels, batch_size=BATCH, label_name="softmax_label")
    symbol = fit.make(mx.sym)
    args, _, states = symbol.infer_shape(data=(BATCH, *fit.shape))
    shapes = dict(zip(symbol.list_arguments(), args, strict=True))
    aux = dict(zip(symbol.list_auxiliary_states(), states, strict=True))
    learnt = {name: shape for name, shape in shapes.items() if name not in {"data", "softmax_label"}}
    start = first_values({**learnt, **aux})
    module = mx.mod.Module(symbol, context=[mx.cpu(number) for number in range(num_contexts)])
    seen: list[float] = []

    def note(param: Any) -> None:
        seen.append(float(param.eval_metric.get()[1]))
        param.eval_metric.reset()

    module.fit(
        batches,
        eval_metric=fit.metric,
        optimizer=fit.optimizer,
        optimizer_params=fit.settings,
        arg_params={name: mx.nd.array(start[name]) for name in learnt},
        aux_params={name: mx.nd.array(start[name]) for name in aux},
        num_epoch=EPOCHS,
        kvstore=kvstore,
        batch_end_callback=note,
    )
    arg_params, aux_params = module.get_params()
    left = {**arg_params, **aux_params}
    arrays = {name: array.asnumpy().astype(np.float64) for name, array in left.items()}
    return {
        "metric": seen,
        "score": float(module.score(batches, fit.metric)[0][1]),
        "arrays": {name: [array.sum(), (array**2).sum()] for name, array in sorted(arrays.items())},
    }


if __name__ == "__main__":
    main()
