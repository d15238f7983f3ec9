"""The program that the guarded child process runs: files of PyTorch to ONNX. It is never imported.

It is given a request as JSON, and leaves ``net.onnx`` and ``tables.json`` in its working folder, or
``error.json``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from netweave.errors import WeightError
from netweave.files.absent import importing, without
from netweave.files.guard_answer import answer
from netweave.files.model_code import imported, make, own_factories
from netweave.formats.pytorch import read_state
from netweave.formats.pytorch.module import describe, export, write, write_script
from netweave.formats.pytorch.source_functions import stand_in

if TYPE_CHECKING:
    from types import ModuleType

NET, TABLES = Path("net.onnx"), Path("tables.json")


def main(request: dict[str, Any]) -> dict[str, Any]:
    """Do what a request says and return the tables."""
    torch.set_num_threads(2)
    return _KINDS[request["kind"]](request)


def _from_code(request: dict[str, Any]) -> dict[str, Any]:
    with without(request["missing"]):
        with importing():
            code = imported(Path(request["net"]), name=request["name"], folders=request["folders"])
        stand_in(code)
        module = _make(code, request)
    if request["weights"]:
        _load(module, Path(request["weights"]), request["weights_place"])
    return export(module, NET, input_shapes=request["input_shapes"], likely_shapes=request["likely_shapes"])


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


def _make(code: ModuleType, request: dict[str, Any]) -> torch.nn.Module:
    """Return the model: of the only class, else of a function, else of the class that is named."""
    classes, functions = own_factories(code, torch.nn.Module)
    found = classes if len(classes) == 1 else functions or classes
    made: torch.nn.Module = make(
        code,
        found,
        torch.nn.Module,
        wanted=request["entry"],
        place=request["place"],
        noun="an nn.Module",
    )
    return made


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
