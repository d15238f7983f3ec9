"""Drawn modules against their own exports and Keras re-builds, and pairs of nets with unlike inputs.

::

    python -m benchmarks drawn_modules --first 90 --modules 200 --pairs 40 --json FILE

A run that was cut off goes on where it was, by the rows in its file.
"""

from __future__ import annotations

import json
import random
import signal
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import onnxruntime
import torch

import netweave
from benchmarks.drawn_modules.draw import Drawn, draw
from benchmarks.record import Namespace, Record, option
from netweave.errors import NetweaveError, UnsupportedError

TRACED_OPSETS = range(13, 21)
"""What the exporter based on TorchScript writes."""

DYNAMO_OPSETS = range(18, 24)

KERAS_EVERY = 5
"""One module in so many is written as Keras source besides: reading it back takes seconds."""

TIMEOUT_S = 60
"""Seconds of processor time for one comparison, with reading; then it counts as one that did not end."""

EXPORT_TIMEOUT_S = 120
"""Seconds of processor time for one export; a pooling that is unrolled takes minutes, and is left out."""

RAW = ("onnxruntime", "ONNX Runtime", "Traceback", "libc10")
"""Words of messages that come from a runtime and not from Netweave."""

FORMS = ("module", "traced.onnx", "net.prototxt", "net-symbol.json")


class _TimeoutError(BaseException):
    """Something takes too long; no handler of ``Exception`` on the way up may swallow it."""


def _timed_out(*_: object) -> NoReturn:
    raise _TimeoutError


@contextmanager
def _limit(seconds: float) -> Iterator[None]:
    """End what runs after so many seconds of processor time."""
    signal.signal(signal.SIGPROF, _timed_out)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def outcome(a: Any, b: Any) -> dict[str, str]:
    """Return the verdict on two nets, or the error, and what was said."""
    try:
        with _limit(TIMEOUT_S):
            compared = netweave.compare(a, b, trust=True)
    except _TimeoutError:
        return {"outcome": "timeout", "said": f"not done within {TIMEOUT_S} s of processor time"}
    except NetweaveError as error:
        text = str(error)
        return {"outcome": "raw error" if any(word in text for word in RAW) else "error", "said": text}
    except Exception as error:  # noqa: BLE001 - any other error is what is looked for
        return {"outcome": "raw error", "said": f"{type(error).__name__}: {error}"}
    return {"outcome": compared.verdict.value, "said": compared.sentence}


def export_traced(drawn: Drawn, path: Path, rng: random.Random) -> str:
    """Write a module with the exporter based on TorchScript, and return how."""
    names, opset = list(drawn.inputs), rng.choice(TRACED_OPSETS)
    is_named, is_open = rng.random() < 0.5, rng.random() < 0.5
    torch.onnx.export(
        drawn.module,
        tuple(drawn.inputs.values()),
        str(path),
        dynamo=False,
        opset_version=opset,
        input_names=names if is_named or is_open else None,
        dynamic_axes={name: {0: "batch"} for name in names} if is_open else None,
    )
    return f"traced, opset {opset}{', named' * is_named}{', open batch' * is_open}"


def export_dynamo(drawn: Drawn, path: Path, rng: random.Random) -> str:
    """Write a module with the exporter based on ``torch.export``, and return how."""
    opset, is_open = rng.choice(DYNAMO_OPSETS), rng.random() < 0.5
    batch = torch.export.Dim("batch", min=1, max=64)
    torch.onnx.export(
        drawn.module,
        tuple(torch.cat([x, x]) if is_open else x for x in drawn.inputs.values()),
        str(path),
        dynamo=True,
        opset_version=opset,
        verbose=False,
        dynamic_shapes=tuple({0: batch} for _ in drawn.inputs) if is_open else None,
    )
    return f"dynamo, opset {opset}{', open batch' * is_open}"


def is_faithful(drawn: Drawn, path: Path) -> bool:
    """Return whether ONNX Runtime computes from an export what the module does."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    given = [x.numpy() for x in drawn.inputs.values()]
    with torch.no_grad():
        expected = drawn.module(*drawn.inputs.values()).numpy()
    found = session.run(None, dict(zip(names, given, strict=True)))[0]
    return bool(np.abs(found - expected).max() <= 1e-3 * (np.sqrt((expected**2).mean()) + 1e-6))


def both_orders(
    a: Any, b: Any, names: tuple[str, str] = ("module first", "module second")
) -> Iterator[dict[str, str]]:
    """Yield the outcomes of a pair in both orders, which have these names."""
    for order, pair in zip(names, ((a, b), (b, a)), strict=True):
        yield {"order": order, **outcome(*pair)}


def rows_of(seed: int, folder: Path) -> Iterator[dict[str, Any]]:
    """Yield a row for each comparison of the module of a seed."""
    drawn, rng = draw(seed), random.Random(seed + 100_000)
    base = {"seed": seed, "family": drawn.family}
    exporters: list[Callable[[Drawn, Path, random.Random], str]] = [export_traced, export_dynamo]
    for export in exporters:
        path = folder / f"{export.__name__}.onnx"
        try:
            with _limit(EXPORT_TIMEOUT_S):
                how = export(drawn, path, rng)
            faithful = is_faithful(drawn, path)
        except _TimeoutError:
            said = f"not done within {EXPORT_TIMEOUT_S} s of processor time"
            yield base | {"how": export.__name__, "outcome": "not exported", "said": said}
            continue
        except Exception as error:  # noqa: BLE001 - what an exporter cannot write is left out
            yield base | {"how": export.__name__, "outcome": "not exported", "said": str(error)[:200]}
            continue
        if not faithful:
            yield base | {"how": how, "outcome": "unfaithful export", "said": ""}
            continue
        yield from (base | {"how": how} | row for row in both_orders(drawn.module, str(path)))
    if seed % KERAS_EVERY == 0:
        yield from (base | {"how": "keras"} | row for row in _keras_rows(drawn, folder))


def _keras_rows(drawn: Drawn, folder: Path) -> Iterator[dict[str, str]]:
    sizes = {name: tuple(x.shape) for name, x in drawn.inputs.items()}
    try:
        graph = netweave.load(drawn.module, input_shapes=sizes)
        netweave.save(graph, folder / "rebuilt.py", to="keras")
    except UnsupportedError as error:
        yield {"outcome": "not written as Keras", "said": str(error)}
        return
    except NetweaveError as error:
        yield {"outcome": "error", "said": str(error)}
        return
    yield from both_orders(drawn.module, str(folder / "rebuilt.py"))


def in_form(drawn: Drawn, form: str, folder: Path) -> Any:
    """Return a drawn module in a form; in its export where the form's writer does not take it."""
    sizes = {name: tuple(x.shape) for name, x in drawn.inputs.items()}
    if form == "module":  # nobody but the caller knows the sizes of two inputs
        return drawn.module if len(sizes) == 1 else netweave.load(drawn.module, input_shapes=sizes)
    path = folder / form
    if form != "traced.onnx":
        try:
            files = netweave.save(netweave.load(drawn.module, input_shapes=sizes), path)
        except NetweaveError:
            path = folder / "traced.onnx"
        else:
            return f"{files.net},{files.weights}"
    torch.onnx.export(drawn.module, tuple(drawn.inputs.values()), str(path), dynamo=False)
    return str(path)


def unlike_rows(number: int, folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a pair of nets that take unlike inputs, in two of the forms."""
    rng = random.Random(200_000 + number)
    while True:
        first, second = draw(rng.randrange(10_000)), draw(rng.randrange(10_000))
        sizes = [tuple(x.shape for x in drawn.inputs.values()) for drawn in (first, second)]
        if sizes[0] != sizes[1]:
            break
    forms = rng.choice(FORMS), rng.choice(FORMS)
    places = [folder / name for name in ("a", "b")]
    for place in places:
        place.mkdir(exist_ok=True)
    shown = " and ".join("x".join(map(str, shape[0])) for shape in sizes)
    base = {"pair": number, "how": f"{forms[0]} and {forms[1]}: {shown}"}
    try:
        nets = [
            in_form(drawn, form, place)
            for drawn, form, place in zip((first, second), forms, places, strict=True)
        ]
    except torch.onnx.errors.OnnxExporterError as error:  # an adaptive pooling, say
        yield base | {"outcome": "not exported", "said": str(error)[:200]}
        return
    yield from (base | row for row in both_orders(*nets, ("first as A", "first as B")))


def summarised(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the counts of outcomes, by what was compared."""
    exports = [row for row in rows if "seed" in row]
    kinds = Counter(f"{row['how'].split(',')[0]}: {row['outcome']}" for row in exports)
    return {
        "modules": len({row["seed"] for row in exports}),
        "comparisons": sum("order" in row for row in exports),
        "outcomes": dict(sorted(Counter(row["outcome"] for row in exports).items())),
        "by form": dict(sorted(kinds.items())),
        "unlike inputs": dict(sorted(Counter(r["outcome"] for r in rows if "pair" in r).items())),
    }


OPTIONS = (
    option("--first", default=0, help="the first seed"),
    option("--modules", default=90, help="number of seeds"),
    option("--first-pair", default=0, help="the first pair with unlike inputs"),
    option("--pairs", default=40, help="number of such pairs"),
)


def main(options: Namespace, record: Record) -> None:
    """Run what is not done yet, and print the counts."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    rows: list[dict[str, Any]] = record.results.setdefault("rows", [])
    done = {(key, row[key]) for row in rows for key in ("seed", "pair") if key in row}
    pairs = range(options.first_pair, options.first_pair + options.pairs)
    seeds = range(options.first, options.first + options.modules)
    wanted = [("pair", number) for number in pairs] + [("seed", number) for number in seeds]
    for what, number in wanted:
        if (what, number) in done:
            continue
        with tempfile.TemporaryDirectory() as name:
            rows += (rows_of if what == "seed" else unlike_rows)(number, Path(name))
        record.save({"rows": rows, **summarised(rows)})
    print(json.dumps(summarised(rows), indent=1))
