"""Other people's rewriters of ONNX files, in an environment of their own: onnxslim and onnxoptimizer.

PYTHON rewriting.py onnxslim FOLDER    writes NAME.onnxslim for each NAME.onnx of the folder
"""

from __future__ import annotations

import sys
from pathlib import Path

import onnx


def rewritten(model: onnx.ModelProto, tool: str) -> onnx.ModelProto:
    """Return a net as a tool rewrites it."""
    if tool == "onnxslim":
        import onnxslim

        return onnxslim.slim(model)
    import onnxoptimizer

    return onnxoptimizer.optimize(model)


def main() -> None:
    """Rewrite all nets of a folder; those that the tool fails on are left out."""
    tool, folder = sys.argv[1], Path(sys.argv[2])
    for file in sorted(folder.glob("*.onnx")):
        try:
            onnx.save(rewritten(onnx.load(file), tool), file.with_suffix(f".{tool}"))
        except Exception as error:  # noqa: BLE001  # the tool's own faults are not measured here
            print(f"{file.name}: {tool} failed: {error}", file=sys.stderr)


if __name__ == "__main__":
    main()
