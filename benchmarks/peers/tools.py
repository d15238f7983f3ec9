"""What Polygraphy, onnx-array-api and diffonnx say of pairs of ONNX files, each used as its documents say.

Run by an interpreter that has them: ``python -m benchmarks.peers.tools FOLDER`` reads ``pairs.json`` there
and writes ``answers.json``. The first two are given inputs: the same for both nets, under the name that each
has for them, images turned where a net wants another order of axes. diffonnx draws its own by name. Outputs
count as equal up to 1e-3 of their rms: what a tool prints of smaller differences is no false alarm.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort

TOLERANCE = 1e-3

Answer = tuple[str, str]
"""``equal`` or ``different``, and the node that the tool points at first; empty if it points at none."""


def feeds_of(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    """Return noise for every input, the same for nets that take the same sizes."""
    random = np.random.default_rng(0)
    found = {}
    for value in model.graph.input:
        sizes = [dim.dim_value or 1 for dim in value.type.tensor_type.shape.dim]
        found[value.name] = random.standard_normal(sizes).astype(np.float32)
    return found


def feeds_for(model: onnx.ModelProto, given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the same inputs for another net, by position, turned where its axes have another order."""
    found = {}
    for value, x in zip(model.graph.input, given.values(), strict=True):
        sizes = tuple(dim.dim_value or 1 for dim in value.type.tensor_type.shape.dim)
        if x.ndim == 4 and x.shape != sizes and x.transpose(0, 2, 3, 1).shape == sizes:
            x = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
        elif x.ndim == 4 and x.shape != sizes and x.transpose(0, 3, 1, 2).shape == sizes:
            x = np.ascontiguousarray(x.transpose(0, 3, 1, 2))
        found[value.name] = x
    return found


def apart(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays differ by more than the tolerance, relative to the rms of the first."""
    if a.shape != b.shape:
        return True
    rms = float(np.sqrt(np.mean(np.square(a, dtype=np.float64)))) or 1.0
    return not np.abs(a.astype(np.float64) - b).max() <= TOLERANCE * rms


def polygraphy(a: Path, b: Path) -> Answer:
    """Compare every tensor of two runs (``--onnx-outputs mark all``), then the outputs for the verdict."""
    from polygraphy.backend.onnx import BytesFromOnnx, ModifyOutputs, OnnxFromPath
    from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
    from polygraphy.comparator import Comparator, CompareFunc

    first, second = onnx.load(a), onnx.load(b)
    feeds = feeds_of(first)
    results = []
    for path, fed in ((a, feeds), (b, feeds_for(second, feeds))):
        marked = ModifyOutputs(OnnxFromPath(str(path)), outputs=_all_tensors())
        runner = OnnxrtRunner(SessionFromOnnx(BytesFromOnnx(marked)), name=str(path))
        results.append(Comparator.run([runner], data_loader=[fed]))
    joined = type(results[0])([*results[0], *results[1]])
    compared = Comparator.compare_accuracy(
        joined, fail_fast=False, compare_func=CompareFunc.simple(check_error_stat="max", atol=1e-4, rtol=1e-3)
    )
    outcome = next(iter(compared[0].values()))[0]
    outputs = {value.name for value in first.graph.output}
    wrong = [name for name, result in outcome.items() if not result]
    makers = {output: node.name for node in first.graph.node for output in node.output}
    failed = [name for name in wrong if name in outputs]
    if not any(name in outcome for name in outputs):
        raise RuntimeError("no output was compared")
    return ("different", makers.get(wrong[0], wrong[0])) if failed else ("equal", "")


def _all_tensors() -> Any:
    from polygraphy import constants

    return constants.MARK_ALL


def onnx_array_api(a: Path, b: Path) -> Answer:
    """Align the two executions (``compare_onnx_execution``); the verdict is that of the aligned outputs."""
    from onnx_array_api.reference import compare_onnx_execution
    from onnx_array_api.reference.evaluator_yield import ResultType

    first, second = onnx.load(a), onnx.load(b)
    feeds = feeds_of(first)
    inputs = feeds, feeds_for(second, feeds)
    rows, columns, alignment, _ = compare_onnx_execution(first, second, inputs=inputs, keep_tensor=True)
    where, verdict = "", "equal"
    num_outputs, last = 0, (-1, -1)
    for i, j in alignment:
        together = (last[0] + 1, last[1] + 1) == (i, j)
        last = i, j
        one, other = rows[i], columns[j]
        if not together:
            continue
        differs = one.value is not None and other.value is not None and apart(one.value, other.value)
        if differs and not where and one.kind == ResultType.RESULT:
            where = one.name
        if one.kind == ResultType.OUTPUT and other.kind == ResultType.OUTPUT:
            num_outputs += 1
            verdict = "different" if differs else verdict
    if num_outputs < len(first.graph.output):
        verdict = "different"
    makers = {output: node.name for node in first.graph.node for output in node.output}
    return verdict, makers.get(where, where) if verdict == "different" else ""


def diffonnx(a: Path, b: Path) -> Answer:
    """Compare nodes by what they are, and outputs by running both (``MainDiff.summary``)."""
    from diffonnx import MainDiff

    first, second = onnx.load(a), onnx.load(b)
    static, run = MainDiff(first, second, num_warmup=0).summary(output=False)
    wrong = bool(run.mismatched or run.invalid)
    wrong = wrong or any(not found.max_err <= TOLERANCE for found in run.nonequal.values())
    messages = [entry for matches in static.graph_matches.values() for entry in matches.b_diff]
    nodes = [json.loads(entry) for entry in messages if isinstance(entry, str) and "op_type" in entry]
    return ("different", nodes[0].get("name", "") if nodes else "") if wrong else ("equal", "")


TOOLS: dict[str, Callable[[Path, Path], Answer]] = {
    "Polygraphy": polygraphy,
    "onnx-array-api": onnx_array_api,
    "diffonnx": diffonnx,
}


def effect(row: dict[str, Any]) -> str:
    """Return what a fault does, by ONNX Runtime: it ``moves`` an output, ``none``, or ``does not run``."""
    made = []
    for key in ("right", "b"):
        model = onnx.load(row[key])
        try:
            session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
            made.append(session.run(None, feeds_of(model)))
        except Exception:  # noqa: BLE001  (a net that does not run any more is a fault that shows)
            return "does not run"
    return "moves" if any(apart(x, y) for x, y in zip(*made, strict=False)) else "none"


def main(folder: Path) -> None:
    """Ask every tool about every pair, the tools taking turns."""
    rows = json.loads((folder / "pairs.json").read_text())
    answers = []
    for index, row in enumerate(rows):
        found: dict[str, Any] = {"effect": effect(row) if "layer" in row else ""}
        for name, tool in TOOLS.items():
            start = time.perf_counter()
            try:
                says, where = tool(Path(row["a"]), Path(row["b"]))
            except Exception as error:  # noqa: BLE001  (whatever a tool ends with is its answer)
                says, where = "error", f"{type(error).__name__}: {error}"[:200]
            found[name] = {"says": says, "where": where, "seconds": time.perf_counter() - start}
        answers.append(found)
        print(f"{index + 1} of {len(rows)}", file=sys.stderr, flush=True)
    (folder / "answers.json").write_text(json.dumps(answers, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
