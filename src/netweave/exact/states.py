"""State dictionaries as JSON values and arrays, and back: nothing in a file is code."""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from netweave.errors import ReadError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Mapping

_MAPPINGS: dict[str, type[Any]] = {"dict": dict, "ordered": OrderedDict, "counter": Counter}
_SEQUENCES: dict[str, type[Any]] = {"list": list, "tuple": tuple, "set": set}

MAX_DEPTH = 100
"""Values in values; no state has nearly as many, and each is a call."""


def packed(value: Any, arrays: dict[str, np.ndarray], path: str) -> Any:
    """Return a value as JSON; tensors and arrays in it are added to ``arrays``.

    Args:
        value: Of a state dictionary.
        arrays: Arrays by name.
        path: What the value is called in messages.

    Raises:
        UnsupportedError: It is of a type that a file cannot hold.
    """
    if value is None or type(value) in {bool, int, float, str}:
        return value
    for kind, of_kind in _MAPPINGS.items():
        if type(value) is of_kind:
            rows = [
                [packed(key, arrays, f"{path}: key {key!r}"), packed(one, arrays, f"{path}[{key!r}]")]
                for key, one in value.items()
            ]
            return {"kind": kind, "rows": rows}
    for kind, of_kind in _SEQUENCES.items():
        if type(value) is of_kind:
            rows = [packed(one, arrays, f"{path}[{number}]") for number, one in enumerate(value)]
            return {"kind": kind, "rows": rows}
    if isinstance(value, torch.Tensor) and value.layout is torch.strided:
        name = f"state:{len(arrays)}"
        tensor = value.detach().cpu().contiguous()
        # as bytes: NumPy does not know all types of torch
        arrays[name] = tensor.reshape(-1).view(torch.uint8).numpy().copy()
        dtype = str(value.dtype).removeprefix("torch.")
        return {"kind": "tensor", "name": name, "dtype": dtype, "shape": list(value.shape)}
    if isinstance(value, np.number | np.bool):
        return packed(value.item(), arrays, path)
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
        return {"kind": "array", "of": packed(torch.from_numpy(value.copy()), arrays, path)}
    raise UnsupportedError(
        f"{path} is of type {type(value).__name__}, which a checkpoint cannot hold; expected tensors, "
        "numbers, texts, and lists or dictionaries of them"
    )


def unpacked(value: Any, arrays: Mapping[str, np.ndarray], place: str, depth: int = 0) -> Any:
    """Return what ``packed`` was given.

    Args:
        value: JSON.
        arrays: Arrays by name.
        place: The file, for messages.
        depth: In so many values.

    Raises:
        ReadError: It is nothing that ``packed`` returns.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    error = ReadError(f"is no checkpoint of netweave.exact: {value!r:.100} is no state", place=place)
    if depth > MAX_DEPTH or not isinstance(value, dict):
        raise error
    try:
        kind = value["kind"]
        if kind in _MAPPINGS:
            rows = [[unpacked(one, arrays, place, depth + 1) for one in row] for row in value["rows"]]
            return _MAPPINGS[kind](dict(rows))
        if kind in _SEQUENCES:
            return _SEQUENCES[kind](unpacked(one, arrays, place, depth + 1) for one in value["rows"])
        if kind == "array":
            return unpacked(value["of"], arrays, place, depth + 1).numpy()
        content = torch.from_numpy(np.array(arrays[value["name"]]))
        dtype = getattr(torch, value["dtype"])
        tensor = content.view(dtype) if len(content) else torch.empty(0, dtype=dtype)
        return tensor.reshape(value["shape"])
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as cause:
        raise error from cause
