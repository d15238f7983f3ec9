"""The program that the guarded child process runs: a model class to a graph. It is never imported.

It is given a request as JSON, and leaves ``net.onnx`` in its working folder, or an error.
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netweave.errors import UsageError
from netweave.files.guard_answer import answer
from netweave.files.onnx.save import save
from netweave.formats.chainer.standin import installed
from netweave.formats.chainer.standin.link import Link
from netweave.formats.chainer.standin.recorder import Recorder
from netweave.formats.chainer.tracing import trace
from netweave.formats.chainer.weights import read_weights

if TYPE_CHECKING:
    from types import ModuleType

NET = Path("net.onnx")


def work(request: dict[str, Any]) -> None:
    """Do what a request says."""
    arrays = None
    if request["weights"]:
        arrays = read_weights(Path(request["weights"]), place=request["weights_place"])
    with installed(is_training=request["train"]):
        model = _made(_imported(Path(request["net"])), request)
        recorder = Recorder(
            Path(request["net"]).stem, file=request["net"], place=request["place"], arrays=arrays
        )
        graph = trace(model, recorder, request["input_shapes"])
    recorder.check_arrays(model, request["weights_place"])
    save(graph, NET)


def _imported(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("netweave_model", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _made(code: ModuleType, request: dict[str, Any]) -> Link:
    """Return the model that the named class or function makes, or the only one that there is."""
    own = {
        name: value for name, value in vars(code).items() if getattr(value, "__module__", "") == code.__name__
    }
    kinds = {name: value for name, value in own.items() if inspect.isclass(value) and issubclass(value, Link)}
    functions = {
        name: value
        for name, value in own.items()
        if inspect.isfunction(value) and not name.startswith("_") and name not in {"main", "train"}
    }
    found: dict[str, Any] = {name: value for name, value in kinds.items() if _takes_nothing(value)}
    if len(found) != 1:
        found |= {name: value for name, value in functions.items() if _takes_nothing(value)}
    wanted, place = request["entry"], request["place"]
    if wanted is not None and not callable(getattr(code, wanted, None)):
        raise UsageError(f"has no class or function {wanted!r}; has: {', '.join(found) or 'none'}")
    if wanted is None and len(found) != 1:
        raise UsageError(
            f"has {len(found)} classes or functions that make a model without arguments "
            f"({', '.join(found) or 'none'}), expected one: name it ({place}:{next(iter(found), 'make')})"
        )
    made = (getattr(code, wanted) if wanted else next(iter(found.values())))()
    if not isinstance(made, Link):
        raise UsageError(f"{wanted or next(iter(found))!r} makes a {type(made).__name__}, expected a link")
    return made


def _takes_nothing(made: Any) -> bool:
    return all(
        argument.default is not argument.empty
        or argument.kind in {argument.VAR_POSITIONAL, argument.VAR_KEYWORD}
        for argument in inspect.signature(made).parameters.values()
    )


if __name__ == "__main__":
    answer(work)
