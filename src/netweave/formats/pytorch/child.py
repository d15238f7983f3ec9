"""The program that the guarded child process runs: files of PyTorch to ONNX. It is never imported.

It is given requests as JSON, and for each leaves ``net.onnx`` and ``tables.json`` in its working folder, or
``error.json``. With a request that names arrays it leaves ``outputs.npz``: what the code computes of them, or
its first updates on them. Of steps through its cache only ``tables.json`` tells. For a folder that is to be
shrunk it leaves that of the shrunk net.
"""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

gc.disable()  # until it answers: what PyTorch makes lives on, and the search is a quarter of its import

import numpy as np
import torch

from netweave.files.construction_lines import recording, return_place
from netweave.files.seccomp import answer
from netweave.formats.pytorch.construction import module_from_code, module_from_folder, on_cpu
from netweave.formats.pytorch.module import describe, export, outputs_of, steps_of, write, write_script
from netweave.formats.pytorch.training_record import train_code

if TYPE_CHECKING:
    from collections.abc import Callable

SEED = torch.initial_seed()

NET, TABLES, OUTPUTS = Path("net.onnx"), Path("tables.json"), Path("outputs.npz")


def main(request: dict[str, Any]) -> dict[str, Any]:
    """Do what a request says and return the tables."""
    torch.set_num_threads(2)
    torch.manual_seed(SEED)  # weights that code draws are the same for each question
    return _KINDS[request["kind"]](request)


def _from_code(request: dict[str, Any]) -> dict[str, Any]:
    return _exported(request, module_from_code)


def _from_folder(request: dict[str, Any]) -> dict[str, Any]:
    return _exported(request, module_from_folder)


def _exported(
    request: dict[str, Any], construct: Callable[[dict[str, Any], list[str]], torch.nn.Module]
) -> dict[str, Any]:
    notes: list[str] = []
    with on_cpu():
        files = {request["net"], *request["beside"]}
        with recording(torch.nn.Module, files) as constructed:
            module = construct(request, notes)
        if request.get("tiny"):
            return {"changes": notes}
        if request.get("training"):
            return _train(module, request, files)
        if request.get("steps"):
            return steps_of(module, _batches(request), request["steps"])
        if request.get("batches"):
            return _run(module, request)
        lines = {name: constructed[part] for name, part in module.named_modules() if part in constructed}
        shapes = {"input_shapes": request["input_shapes"], "likely_shapes": request["likely_shapes"]}
        tables = export(module, NET, **shapes)
    returned = return_place(module, files) if tables["is_flat"] else None
    return tables | {"notes": [*notes, *tables["notes"]], "lines": lines, "returned": returned}


def _batches(request: dict[str, Any]) -> list[dict[str, np.ndarray]]:
    batches: dict[str, dict[str, np.ndarray]] = {}
    with np.load(request["batches"]) as arrays:
        for key, array in arrays.items():
            number, _, name = key.partition("/")
            batches.setdefault(number, {})[name] = array
    return list(batches.values())


def _train(module: torch.nn.Module, request: dict[str, Any], files: set[str]) -> dict[str, Any]:
    arrays, rest = train_code(module, _batches(request)[0], request["training"], files)
    named = {f"{kind}:{name}": x for kind, of_kind in arrays.items() for name, x in of_kind.items()}
    np.savez(OUTPUTS, **named)  # type: ignore[arg-type]  # NumPy's stub takes the names for settings
    return rest


def _run(module: torch.nn.Module, request: dict[str, Any]) -> dict[str, Any]:
    computed = outputs_of(module, _batches(request))
    named = {f"{i}/{j}": x for i, made in enumerate(computed) for j, x in enumerate(made or ())}
    np.savez(OUTPUTS, **named)  # type: ignore[arg-type]  # NumPy's stub takes the names for settings
    return {}


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


_KINDS = {"CODE": _from_code, "FOLDER": _from_folder, "PROGRAM": _from_program, "SCRIPT": _from_script}


if __name__ == "__main__":
    answer(lambda asked: TABLES.write_text(json.dumps(main(asked))))
