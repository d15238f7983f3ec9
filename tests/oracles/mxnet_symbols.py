"""Build the nets of tests/formats/mxnet/symbol/programs.py by MXNet, and write what it says about them.

    cd REPOSITORY; ORACLES/bin/python -m tests.oracles.mxnet_symbols

Writes ``tests/golden/mxnet_symbols.json``: names, sizes, element types and attributes. With ``--read`` it
reads symbol files instead, one JSON object of texts by name on its standard input, and writes what it finds
in them: whether MXNet reads what Netweave wrote.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mxnet as mx
import numpy as np

from tests.formats.mxnet.symbol.programs import PROGRAMS

GOLDEN = Path(__file__).parent.parent / "golden" / "mxnet_symbols.json"


def main() -> None:
    """Write the golden file, or read symbol files."""
    if sys.argv[1:] == ["--read"]:
        texts = json.load(sys.stdin)
        json.dump({name: described(mx.sym.load_json(text), name) for name, text in texts.items()}, sys.stdout)
        return
    scopes = SimpleNamespace(AttrScope=mx.AttrScope, Prefix=mx.name.Prefix)
    found = {}
    for name, program in PROGRAMS.items():
        with mx.name.NameManager():
            found[name] = described(program.make(mx.sym, scopes), name)
    GOLDEN.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


def described(symbol: Any, name: str) -> dict[str, Any]:
    """Return what MXNet says about a net."""
    program = PROGRAMS[name]
    attributes = {
        node: {key: text for key, text in row.items() if key.startswith("__")}
        for node, row in symbol.attr_dict().items()
    }
    given = program.types or dict.fromkeys(program.shapes, "float32")
    return {
        "arguments": symbol.list_arguments(),
        "outputs": symbol.list_outputs(),
        "states": symbol.list_auxiliary_states(),
        "internals": symbol.get_internals().list_outputs(),
        "shapes": [list(map(list, shapes)) for shapes in symbol.infer_shape(**program.shapes)],
        "types": [[np.dtype(t).name for t in types] for types in symbol.infer_type(**given)],
        "attributes": {node: row for node, row in attributes.items() if row},
    }


if __name__ == "__main__":
    main()
