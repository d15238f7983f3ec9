"""Let MXNet's initializer FusedRNN fill vectors of recurrent layers, and write where it puts what.

    cd REPOSITORY; ORACLES/bin/python -m tests.oracles.mxnet_fused_rnn

Writes ``tests/golden/mxnet_fused_rnn.json``: runs of equal elements, as pairs of a number and how often.
"""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any

import mxnet as mx

from tests.oracles import golden

GOLDEN = Path(__file__).parent.parent / "golden" / "mxnet_fused_rnn.json"
INPUT = 3
CASES: list[dict[str, Any]] = [
    {"num_hidden": 2, "num_layers": 1, "mode": "rnn_tanh"},
    {"num_hidden": 4, "num_layers": 2, "mode": "lstm"},
    {"num_hidden": 3, "num_layers": 2, "mode": "lstm", "bidirectional": True, "forget_bias": 2.0},
    {"num_hidden": 2, "num_layers": 3, "mode": "gru", "bidirectional": True},
]


def main() -> None:
    """Write the golden file."""
    rows = []
    for case in CASES:
        symbol = mx.sym.RNN(
            mx.sym.Variable("data"),
            state_size=case["num_hidden"],
            num_layers=case["num_layers"],
            mode=case["mode"],
            bidirectional=case.get("bidirectional", False),
            name="rnn",
        )
        shapes, _, _ = symbol.infer_shape(data=(5, 1, INPUT))
        shape = dict(zip(symbol.list_arguments(), shapes, strict=True))["rnn_parameters"]
        vector = mx.nd.zeros(shape)
        made = mx.init.FusedRNN(mx.init.Constant(0.25), **case)
        made._init_weight(mx.init.InitDesc("rnn_parameters"), vector)
        runs = [[value, len(list(group))] for value, group in groupby(vector.asnumpy().tolist())]
        rows.append({"settings": case, "runs": runs})
    golden.write_json(GOLDEN, rows)


if __name__ == "__main__":
    main()
