"""Modules from code and from Hugging Face model folders, in the guarded child process."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from netweave.errors import UnsupportedError, WeightError
from netweave.files.absent import importing, with_bases, without
from netweave.files.model_code import Wanted, construct, imported, in_folder, own_factories
from netweave.files.removed_names import removed_names
from netweave.formats.pytorch import read_state
from netweave.formats.pytorch.absent_base import base_for
from netweave.formats.pytorch.fetched_weights import drawn_instead
from netweave.formats.pytorch.source_functions import stand_in
from netweave.formats.pytorch.state_match import COUNTERS, match_names
from netweave.formats.pytorch.unscripted import unscripted

if TYPE_CHECKING:
    from collections.abc import Mapping

NEEDS = {"torch.utils.tensorboard": "tensorboard"}
"""Modules of PyTorch that another package is needed for, and no net."""

WRAPPERS = (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)
"""Modules that hold a net for training on several devices."""


def module_from_code(request: Mapping[str, Any], notes: list[str]) -> torch.nn.Module:
    """Import a file of code, construct the model that a request names, and load its weights.

    Args:
        request: What the child process was asked for.
        notes: What to tell the user is added here.
    """
    folder, place = request["trusted_folder"], request["place"]
    with (
        without([*request["missing"], *_absent_of_torch()], request["templates"]),
        with_bases(base_for),
        drawn_instead(notes, trusted=folder is not None),
        in_folder(folder),
        removed_names(),
        unscripted(),
    ):
        with importing():
            code = imported(
                Path(request["net"]),
                name=request["name"],
                folders=request["folders"],
                first=request["first"],
                is_own_used=request["is_own_used"],
            )
        stand_in(code)
        wanted = Wanted.of_request(request, torch.nn.Module, noun="an nn.Module", as_tensor=torch.from_numpy)
        classes, functions = own_factories(code, torch.nn.Module)
        made = construct(code, classes if len(classes) == 1 else functions or classes, wanted)
    notes += [f"{place}: {note}" for note in made.notes]
    module: torch.nn.Module = made.model
    while isinstance(module, WRAPPERS):
        module = module.module
    if request["weights"]:
        load_weights(module, Path(request["weights"]), request["weights_place"], notes)
    return module


def _absent_of_torch() -> list[str]:
    """Return the modules of PyTorch that need a package that is not installed."""
    return [name for name, package in NEEDS.items() if find_spec(package) is None]


def module_from_folder(request: Mapping[str, Any], notes: list[str]) -> torch.nn.Module:
    """Construct the model of a Hugging Face model folder, by the package that it names the class of.

    Raises:
        UnsupportedError: The package is not installed.
    """
    try:
        import transformers
    except ImportError as error:
        raise UnsupportedError(
            "is a Hugging Face model folder, which is read with transformers, and that is not installed: "
            "pip install transformers"
        ) from error
    folder = request["net"]
    config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=True)
    names = [name for name in getattr(config, "architectures", None) or () if hasattr(transformers, name)]
    kind = getattr(transformers, request["entry"] or (names[0] if names else "AutoModel"))
    config.use_cache = False  # what a next call would be given is no output of the net
    settings = {"config": config, "attn_implementation": "eager"}
    if request["has_weights"]:
        module = kind.from_pretrained(folder, local_files_only=True, dtype=torch.float32, **settings)
    else:
        make = getattr(kind, "from_config", None) or kind._from_config
        module = make(**settings)
    if request["weights"]:
        load_weights(module, Path(request["weights"]), request["weights_place"], notes)
    assert isinstance(module, torch.nn.Module)
    return module


def load_weights(module: torch.nn.Module, weights: Path, place: str, notes: list[str]) -> None:
    """Give a module the arrays of a file.

    Raises:
        WeightError: They are not those of the module.
    """
    own = module.state_dict()
    match = match_names(read_state(weights, place=place), {name: value.shape for name, value in own.items()})
    if match.note:
        notes.append(f"{place}: {match.note}")
    tensors = {name: _tensor(array) for name, array in match.arrays.items() if not match.note or name in own}
    missing = [name for name in own if name not in tensors and not name.endswith(COUNTERS)]
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
