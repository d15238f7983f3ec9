"""Compare nets with their float16, bfloat16 and int8 versions, and with planted faults of quantisation.

The 8-bit files are by ONNX Runtime's own quantisers and, in the folder of ``--tflite``, by TensorFlow's
(``tflite_files``); those in half precision by its converter or by PyTorch's export of a module.
torchvision's nets need torchvision, and have weights that are drawn.
"""

from __future__ import annotations

import json
import logging
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import netweave
from benchmarks.precision.nets import calibrated, edited, float_net, images
from benchmarks.precision.planted import PER_CHANNEL, PER_TENSOR, PLANTED
from benchmarks.record import Namespace, Record, option

TORCHVISION = ("resnet18", "mobilenet_v2", "squeezenet1_1")

SIZE = 64
"""Height and width of the images for torchvision's nets."""


EQUAL = "equal under a mapping"

TFLITE_PAIRS = (
    ("int8, per channel", "int8, per tensor"),
    ("int8, per tensor", "int8, per channel"),
    ("int8, per channel", "dynamic range"),
    ("int16 x int8", "int8, per channel"),
)
"""Forms that are compared with each other: both are rounded."""


OPTIONS = (
    option("names", nargs="*", metavar="NAME", help="nets; all if there are none"),
    option("--tflite", type=Path, metavar="FOLDER", help="what tflite_files wrote"),
)


def main(options: Namespace, record: Record) -> None:
    """Compare all pairs, or those of some nets, and write what was said; rows of other nets stay."""
    logging.disable(logging.WARNING)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        eight_bit = () if options.tflite is None else _tflite(options.tflite, options.names)
        for row in chain(_rows(Path(folder), options.names), eight_bit):
            print(f"{row.net:20} {row.form:40} {row.verdict:32} {row.findings}", flush=True)
            rows.append(asdict(row))
    tried = {(row["net"], row["form"]) for row in rows}
    rows += [row for row in record.results.get("rows", []) if (row["net"], row["form"]) not in tried]
    rows.sort(key=lambda row: row["net"])
    right = sum(row["verdict"] == row["expected"] and row["located"] for row in rows)
    record.save({"right": right, "pairs": len(rows), "rows": rows})
    print(f"{right} of {len(rows)} right")


@dataclass(frozen=True, slots=True)
class Row:
    """What was said of one pair.

    Attributes:
        net: The net.
        form: Its other version, or the planted fault.
        expected: The verdict that is right.
        verdict: The verdict.
        seen: The loss of the output; None where nothing is rounded.
        explained: What rounding explains of it.
        findings: Layer and mismatch of each finding.
        located: Whether every finding names a layer that is at fault, and there is one.
        seconds: Time of the comparison.
    """

    net: str
    form: str
    expected: str
    verdict: str
    seen: float | None
    explained: float | None
    findings: list[str] = field(default_factory=list)
    located: bool = True
    seconds: float = 0.0

    def unlocated(self) -> Row:
        """Return the row with a finding that does not say what is wrong."""
        return replace(self, located=False)


def compared(net: str, form: str, expected: str, a: Any, b: Any, layers: tuple[str, ...] = ()) -> Row:
    """Compare two nets.

    Args:
        net: Name of the net.
        form: What the second one is.
        expected: The verdict that is right.
        a: The first net.
        b: The second net.
        layers: Layers of the first one that may be named; none where there is nothing to find.
    """
    start = time.perf_counter()
    comparison = netweave.compare(a, b)
    seconds = time.perf_counter() - start
    findings = comparison.findings
    located = {finding.layer_a for finding in findings} <= set(layers) and bool(findings) == bool(layers)
    precision = comparison.precision
    return Row(
        net,
        form,
        expected,
        comparison.verdict.value,
        None if precision is None else round(precision.seen, 5),
        None if precision is None else round(precision.expected, 5),
        [f"{finding.layer_a}: {finding.mismatch}" for finding in findings],
        located,
        round(seconds, 2),
    )


def _rows(folder: Path, names: list[str]) -> Iterator[Row]:
    if not names or "planted" in names:
        yield from _planted(folder)
    if not names or "residual" in names:
        path = folder / "residual.onnx"
        onnx.save(float_net(), str(path))
        yield from _versions("residual", path, images(16))
    for name in TORCHVISION:
        if not names or name in names:
            yield from _torchvision(name, folder)


def _tflite(folder: Path, names: list[str]) -> Iterator[Row]:
    """Compare the Keras nets of a folder with their TFLite versions, and with those that have a fault.

    Args:
        folder: What ``tflite_files`` wrote.
        names: Nets; none for all.
    """
    if not names or "planted" in names:
        for fault in json.loads((folder / "planted.json").read_text()):
            plain, port = folder / fault["plain"], folder / fault["port"]
            row = compared(
                "keras planted", fault["name"], "different", str(plain), str(port), tuple(fault["layers"])
            )
            said = {finding.rpartition(": ")[2] for finding in row.findings}
            yield row if said <= set(fault["mismatches"]) else row.unlocated()
    for path in sorted(folder.glob("*.keras")):
        name = path.stem
        if name.startswith("planted") or (names and name not in names):
            continue
        versions = {file.stem.removeprefix(f"{name} "): file for file in folder.glob(f"{name} *.tflite")}
        for form, file in sorted(versions.items()):
            yield compared(name, form, "identical" if form == "float" else EQUAL, str(path), str(file))
        for one, other in TFLITE_PAIRS:
            form = f"{other} against {one}"
            yield compared(name, form, EQUAL, str(versions[one]), str(versions[other]))


def _planted(folder: Path) -> Iterator[Row]:
    for planted in PLANTED:
        plain, source = folder / f"{planted.spread}.onnx", folder / f"{planted.form} {planted.spread}.onnx"
        onnx.save(float_net(spread=planted.spread), str(plain))
        calibrated(plain, source, images(16), per_channel=planted.form == PER_CHANNEL)
        port = edited(source, folder / "planted.onnx", planted.change)
        yield compared("residual", planted.name, "different", str(plain), str(port), planted.layers)


def _versions(name: str, plain: Path, data: list[np.ndarray]) -> Iterator[Row]:
    """Compare an ONNX file with what ONNX Runtime makes of it."""
    for form, make in _FORMS.items():
        port = plain.with_name(f"{name} {form}.onnx")
        make(plain, port, data)
        yield compared(name, form, "equal under a mapping", str(plain), str(port))


def _static(**settings: Any) -> Callable[[Path, Path, list[np.ndarray]], object]:
    return lambda plain, port, data: calibrated(plain, port, data, **settings)


def _dynamic(plain: Path, port: Path, data: list[np.ndarray]) -> None:
    from onnxruntime.quantization import quantize_dynamic

    quantize_dynamic(str(plain), str(port))


def _float16(plain: Path, port: Path, data: list[np.ndarray]) -> None:
    from onnxruntime.transformers.float16 import convert_float_to_float16

    onnx.save(convert_float_to_float16(onnx.load(str(plain)), keep_io_types=True), str(port))


_FORMS: dict[str, Callable[[Path, Path, list[np.ndarray]], object]] = {
    "float16 by converter": _float16,
    f"static, {PER_TENSOR}": _static(per_channel=False),
    f"static, {PER_CHANNEL}": _static(per_channel=True),
    "static, operators": _static(per_channel=True, operators=True),
    "dynamic": _dynamic,
}


def _torchvision(name: str, folder: Path) -> Iterator[Row]:
    try:
        import torch
        import torchvision
    except (ImportError, RuntimeError):  # not installed, or built for another PyTorch
        return
    module = _drawn(getattr(torchvision.models, name)(weights=None))
    shapes = {"x": (1, 3, SIZE, SIZE)}
    plain = netweave.load(module, input_shapes=shapes)
    for dtype in ("float16", "bfloat16"):
        port = _drawn(getattr(torchvision.models, name)(weights=None)).to(getattr(torch, dtype))
        other = netweave.load(port, input_shapes=shapes)
        yield compared(name, f"module in {dtype}", "equal under a mapping", plain, other)
    path = folder / f"{name}.onnx"
    netweave.save(plain, path)
    model = onnx.load(str(path))
    del model.graph.value_info[:]  # the dynamic quantiser transposes weights and not their shapes
    onnx.save(model, str(path))
    generator = np.random.default_rng(2)
    data = [generator.standard_normal((1, 3, SIZE, SIZE)).astype(np.float32) for _ in range(8)]
    yield from _versions(name, path, data)


def _drawn(module: Any) -> Any:
    """Give a module the same drawn weights each time, with statistics that keep its values in bounds."""
    import torch

    generator = torch.Generator().manual_seed(4)
    for name, array in module.state_dict().items():
        if not array.dtype.is_floating_point:
            continue
        if name.endswith("running_var"):
            array.copy_(torch.rand(array.shape, generator=generator) + 0.5)
        elif array.ndim > 1:
            array.copy_(torch.randn(array.shape, generator=generator) * (2 / array[0].numel()) ** 0.5)
        elif name.endswith("weight"):
            array.copy_(torch.rand(array.shape, generator=generator) * 0.4 + 0.6)
        else:
            array.copy_(torch.randn(array.shape, generator=generator) * 0.1)
    return module.eval()
