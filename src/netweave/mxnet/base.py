"""``mx.base``: the error that scripts catch, and the one for names that are not here."""

from __future__ import annotations

from collections.abc import Iterable

from netweave.errors import NetweaveError, UnsupportedError

MXNetError = NetweaveError
"""What scripts catch as ``mx.base.MXNetError``: any error that Netweave raises on purpose."""

string_types = (str,)
numeric_types = (float, int)

__all__ = ["MXNetError", "numeric_types", "string_types"]

REMEDIES = {
    "mx.np": "use mx.nd, or NumPy itself",
    "mx.npx": "use mx.nd",
    "mx.th": "use torch itself on x.tensor",
    "mx.rtc": "write the operator with mx.operator.CustomOp, or with netweave.operator on torch tensors",
    "mx.library": "register operators in Python: netweave.operator or mx.operator.CustomOp",
    "mx.onnx": "use netweave.load and netweave.save, which read and write ONNX",
    "mx.contrib.onnx": "use netweave.load and netweave.save, which read and write ONNX",
    "mx.contrib.quantization": "use netweave.load and export with netweave.save",
    "mx.contrib.tensorboard": "pass a callback that writes with torch.utils.tensorboard",
    "mx.sym.CaffeOp": "use the operators of mx.sym; netweave.load reads the Caffe net itself",
    "mx.sym.CaffeLoss": "use mx.sym.SoftmaxOutput; netweave.load reads the Caffe net itself",
    "mx.sym.TorchModule": "write the module with netweave.operator(arrays='torch')",
}
"""The way out for what is not here, by MXNet's name."""


def missing(path: str, name: str, known: Iterable[str] = ()) -> AttributeError:
    """Return the error for a name of MXNet that is not here.

    Args:
        path: The module: ``mx.sym``.
        name: The name in it.
        known: Names that are there, of which similar ones are proposed.
    """
    import difflib

    full = f"{path}.{name}"
    near = difflib.get_close_matches(name, list(known), n=3)
    remedy = REMEDIES.get(full) or (f"is it one of {', '.join(near)}?" if near else "")
    text = f"netweave.mxnet has no {full}" + (f"; {remedy}" if remedy else "")
    return AttributeError(f"{text} (docs/reference/mxnet.md lists what is there)")


def require_torch() -> None:
    """Fail with the way out where torch is not installed.

    Raises:
        UsageError: torch is not installed.
    """
    from netweave.api.runs import need_torch

    need_torch()


def unsupported(what: str, remedy: str) -> UnsupportedError:
    """Return the error for an argument of MXNet that cannot be carried out."""
    return UnsupportedError(f"{what} is not supported; {remedy}")
