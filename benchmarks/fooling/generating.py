"""Random nets of NNSmith's generator as ONNX files, in an environment of its own.

PYTHON generating.py FOLDER FIRST_SEED COUNT    writes SEED.onnx; PYTHON has nnsmith and a torch that it knows
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

from nnsmith.abstract.extension import activate_ext
from nnsmith.graph_gen import model_gen
from nnsmith.materialize import Model
from nnsmith.narrow_spec import auto_opset


def main() -> None:
    """Write the nets; seeds for which the generator finds none are left out."""
    folder, first, count = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    folder.mkdir(parents=True, exist_ok=True)
    kind = Model.init("onnx", backend_target="cpu")
    kind.add_seed_setter()
    operators = auto_opset(kind, None)
    activate_ext(opset=operators, factory=None)
    for seed in range(first, first + count):
        size = random.Random(seed).randint(2, 10)
        try:
            made = model_gen(opset=operators, seed=seed, max_nodes=size, max_elem_per_tensor=4096)
            net = kind.from_gir(made.make_concrete())
            net.refine_weights()
            net.dump(str(folder / f"{seed}.onnx"))
        except Exception as error:  # noqa: BLE001  # the generator's own faults are not measured here
            print(f"{seed}: {type(error).__name__}: {error}", file=sys.stderr)


if __name__ == "__main__":
    main()
