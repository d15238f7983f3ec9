"""Fillers of parameters, by the rules of the framework that the net was written for."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from netweave.errors import UsageError
from netweave.training.optim.filler import fill

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from netweave.graph import Parameter

Wanted = tuple[str, dict[str, Any]]

CAFFE_ROLES = {"gamma": 1.0, "slope": 0.25}
"""What layers of Caffe fill with where the file says nothing; all others with 0."""

MXNET_NAMES: tuple[tuple[str, Wanted], ...] = (
    (r"upsampling.*", ("bilinear", {})),
    (r"stn_loc.*weight", ("zeros", {})),
    (r"stn_loc.*bias", ("constant", {"value": [1.0, 0.0, 0.0, 0.0, 1.0, 0.0]})),
    (r".*bias", ("zeros", {})),
    (r".*gamma", ("ones", {})),
    (r".*beta", ("zeros", {})),
    (r".*moving_mean", ("zeros", {})),
    (r".*moving_var", ("ones", {})),
    (r".*moving_inv_var", ("zeros", {})),
    (r".*moving_avg", ("zeros", {})),
    (r".*min", ("zeros", {})),
    (r".*max", ("ones", {})),
)
"""MXNet's initializers by the names of arrays, first match wins; ``weight`` is for the one given."""

MXNET_DEFAULT = {"type": "uniform", "scale": 0.01}
"""What MXNet's ``fit`` gives to weights where nobody says."""


def first_values(
    parameter: Parameter, *, source: str, seed: int, default: Mapping[str, Any] | None = None
) -> np.ndarray:
    """Return the values that a parameter starts training from, float32, in the source's layout.

    Args:
        parameter: Its ``filler`` says how, or the source's rule for its name or role.
        source: The format that its net was read from.
        seed: Of the Job.
        default: MXNet's initializer for weights, ``{"type": ..., its settings}``; Uniform(0.01) as in
            ``fit`` if None.

    Raises:
        UsageError: There is no such filler, or it cannot fill this parameter.
    """
    if parameter.filler:
        settings = dict(parameter.filler)
        kind = str(settings.pop("type", "constant"))
        if "init" in settings and settings["init"] is None:  # FusedRNN without one of its own
            settings["init"] = _as_mxnet_writes_it(default or MXNET_DEFAULT)
    elif source == "caffe":
        kind, settings = "constant", {"value": CAFFE_ROLES.get(parameter.role, 0.0)}
    elif source == "mxnet":
        kind, settings = _by_name(parameter.key, dict(default or MXNET_DEFAULT))
    else:
        rule = "'init'" if source == "singa" else "initializer"
        raise UsageError(
            f"parameter {parameter.key!r} has neither values nor an {rule}; set one, or give a weights file "
            "that has the parameter"
        )
    kind = f"{source}.{kind.lower() if source == 'mxnet' else kind}"
    return fill(kind, parameter.shape, settings, key=parameter.key, seed=seed)


def _as_mxnet_writes_it(wanted: Mapping[str, Any]) -> str:
    settings = dict(wanted)
    return json.dumps([settings.pop("type"), settings])


def _by_name(name: str, default: dict[str, Any]) -> Wanted:
    for pattern, wanted in MXNET_NAMES:
        if re.fullmatch(pattern, name):
            return wanted
    if name.endswith("weight"):
        return default.pop("type"), default
    raise UsageError(
        f"parameter {name!r}: MXNet has no default initializer for this name, only for names that end in "
        "weight, bias, gamma or beta; set an initializer for the variable (__init__)"
    )
