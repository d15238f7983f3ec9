"""The attributes of TensorFlow's operators, by its own definitions.

ENVIRONMENT/bin/python -m tests.oracles.tensorflow_attributes [OPERATOR ...]

writes ``tests/golden/tensorflow_attributes.json`` anew, with the operators named here as well. By its rules
of compatibility, TensorFlow removes no attribute from an operator, so that the definitions of its newest
version cover files of all versions. An operator that it has removed is null.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

GOLDEN = Path(__file__).parents[1] / "golden" / "tensorflow_attributes.json"


def main(names: list[str]) -> None:
    """Write the file."""
    import tensorflow  # noqa: F401  (registers the operators)
    from tensorflow.python.framework import op_def_registry

    known = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
    rows = []
    for name in sorted({*known, *names}):
        definition = op_def_registry.get(name)
        attributes = None if definition is None else sorted(item.name for item in definition.attr)
        rows.append(f"{json.dumps(name)}: {json.dumps(attributes)}")
    GOLDEN.write_text("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
