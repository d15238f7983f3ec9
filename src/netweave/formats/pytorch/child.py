"""The program that the guarded child process runs: files of PyTorch to ONNX. It is never imported.

It is given a request as JSON, and leaves ``net.onnx`` and ``tables.json`` in its working folder, or
``error.json``.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from netweave.errors import ReadError, UsageError, WeightError
from netweave.files.guard_answer import answer
from netweave.formats.pytorch import read_state
from netweave.formats.pytorch.module import describe, export, write, write_script

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

NET, TABLES = Path("net.onnx"), Path("tables.json")


def main(request: dict[str, Any]) -> dict[str, Any]:
    """Do what a request says and return the tables."""
    torch.set_num_threads(2)
    return _KINDS[request["kind"]](request)


def _from_code(request: dict[str, Any]) -> dict[str, Any]:
    module = _make(_imported(request), request)
    if request["weights"]:
        _load(module, Path(request["weights"]), request["weights_place"])
    return export(module, NET, input_shapes=request["input_shapes"])


def _from_program(request: dict[str, Any]) -> dict[str, Any]:
    program = torch.export.load(request["net"])
    write(program, NET)
    return {
        "modules": {},
        "state": list(program.state_dict),
        "trainable": list(program.graph_signature.parameters),
        "notes": [],
    }


def _from_script(request: dict[str, Any]) -> dict[str, Any]:
    script = torch.jit.load(request["net"], map_location="cpu")
    write_script(script, NET, request["input_shapes"])
    return describe(script) | {
        "modules": {
            name: {"type": part.original_name, "settings": {}} for name, part in script.named_modules()
        }
    }


_KINDS = {"CODE": _from_code, "PROGRAM": _from_program, "SCRIPT": _from_script}


def _imported(request: dict[str, Any]) -> ModuleType:
    path = Path(request["net"])
    spec = importlib.util.spec_from_file_location("netweave_model", path)
    if spec is None or spec.loader is None:
        raise ReadError("cannot be imported as Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _make(code: ModuleType, request: dict[str, Any]) -> torch.nn.Module:
    """Return the module that the named factory makes, or the only one that there is."""
    found = _factories(code)
    wanted = request["entry"]
    if wanted is not None and not callable(getattr(code, wanted, None)):
        raise UsageError(f"has no class or function {wanted!r}; has: {', '.join(found) or 'none'}")
    if wanted is None and len(found) != 1:
        file = request["place"]
        raise UsageError(
            f"has {len(found)} classes or functions that make a model without arguments "
            f"({', '.join(found) or 'none'}), expected one: name it ({file}:{next(iter(found), 'make')})"
        )
    made = (getattr(code, wanted) if wanted else next(iter(found.values())))()
    if not isinstance(made, torch.nn.Module):
        raise UsageError(
            f"{wanted or next(iter(found))!r} makes a {type(made).__name__}, expected an nn.Module"
        )
    return made


def _factories(code: ModuleType) -> Mapping[str, Callable[[], Any]]:
    """Return what makes a model without arguments: the only class, else functions, else the classes."""
    own = {
        name: value for name, value in vars(code).items() if getattr(value, "__module__", "") == code.__name__
    }
    functions = {
        name: value
        for name, value in own.items()
        if inspect.isfunction(value) and not name.startswith("_") and _takes_nothing(value)
    }
    classes = {
        name: value
        for name, value in own.items()
        if inspect.isclass(value) and issubclass(value, torch.nn.Module) and _takes_nothing(value)
    }
    if len(classes) == 1:
        return classes
    return functions or classes


def _takes_nothing(made: Callable[..., Any]) -> bool:
    return all(
        argument.default is not argument.empty
        or argument.kind in {argument.VAR_POSITIONAL, argument.VAR_KEYWORD}
        for argument in inspect.signature(made).parameters.values()
    )


def _load(module: torch.nn.Module, weights: Path, place: str) -> None:
    arrays = read_state(weights)
    if arrays and all(name.startswith("module.") for name in arrays):  # saved from nn.DataParallel
        arrays = {name.removeprefix("module."): array for name, array in arrays.items()}
    tensors = {name: _tensor(array) for name, array in arrays.items()}
    own = module.state_dict()
    missing = [name for name in own if name not in tensors and not name.endswith("num_batches_tracked")]
    unknown = [name for name in tensors if name not in own]
    unlike = [
        f"{name} has {tuple(tensors[name].shape)}, expected {tuple(own[name].shape)}"
        for name in own
        if name in tensors and tensors[name].shape != own[name].shape
    ]
    faults = [
        f"{word} {', '.join(names[:5])}{', ...' if len(names) > 5 else ''}"
        for word, names in (("missing:", missing), ("not in the model:", unknown), ("sizes:", unlike))
        if names
    ]
    if faults:
        raise WeightError(f"does not fit the model: {'; '.join(faults)}", place=place)
    module.load_state_dict(tensors, strict=False)


def _tensor(array: Any) -> torch.Tensor:
    if array.dtype.name == "bfloat16":  # NumPy has none of its own
        return torch.from_numpy(array.view("int16")).view(torch.bfloat16)
    return torch.from_numpy(array)


if __name__ == "__main__":
    answer(lambda asked: TABLES.write_text(json.dumps(main(asked))))
