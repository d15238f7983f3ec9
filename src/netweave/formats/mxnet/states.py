"""The ``.states`` files of MXNet: a pickle of what an optimizer keeps for each array.

MXNet pickles a dict from the number or the name of an array to None, an array, or a tuple of these; Gluon's
trainer pickles a pair of this dict and the optimizer. An array is a call of ``NDArray`` whose state is one
record of a ``.params`` file. What is written here has the same form, so that MXNet reads it. Nothing that
a pickle names is imported or called when one is read.
"""

from __future__ import annotations

import io
import struct
from typing import Any

import numpy as np

from netweave.errors import ReadError, UnsupportedError, UsageError
from netweave.files.pickles import Name, PickledCall, bytes_of, describe, read_pickled
from netweave.formats.mxnet.ndarray import encode_record, is_arrays, read_record

ARRAYS = {
    Name("mxnet.ndarray", "NDArray"),
    Name("mxnet.ndarray.ndarray", "NDArray"),
    Name("mxnet.numpy.multiarray", "ndarray"),
}
"""What arrays are called in pickles of MXNet's releases."""

_OPTIMIZERS = ("mxnet.optimizer", "mxnet.optimizer.optimizer")


def encode_states(value: Any) -> bytes:
    """Return dicts, tuples, arrays, texts, numbers and None as a pickle that MXNet 1.x loads.

    Raises:
        UsageError: MXNet has no such type of elements.
    """
    return b"\x80\x04" + _encode(value) + b"."  # the protocol of Python 3.4, since which sizes have 64 bits


def _encode(value: Any) -> bytes:
    """Return the opcodes of a value; ``pickle`` would import the classes that it names, MXNet's too."""
    if value is None:
        return b"N"
    if isinstance(value, bool | np.bool_):
        return b"\x88" if value else b"\x89"
    if isinstance(value, int | np.integer):
        number = int(value)
        length = number.bit_length() // 8 + 1
        return b"\x8a" + bytes([length]) + number.to_bytes(length, "little", signed=True)
    if isinstance(value, float | np.floating):
        return b"G" + struct.pack(">d", value)
    if isinstance(value, str):
        text = value.encode()
        return b"\x8d" + struct.pack("<Q", len(text)) + text
    if isinstance(value, tuple):
        return b"(" + b"".join(map(_encode, value)) + b"t"
    if isinstance(value, dict):
        pairs = (_encode(key) + _encode(one) for key, one in value.items())
        return b"}(" + b"".join(pairs) + b"u"
    if isinstance(value, np.ndarray):
        record = encode_record("a state of the optimizer", value)
        raw = b"cbuiltins\nbytearray\n" + b"\x8e" + struct.pack("<Q", len(record)) + record + b"\x85R"
        # NDArray(None), then its state {"handle": bytearray(record)}, as its __reduce__ says
        return b"cmxnet.ndarray\nNDArray\nN\x85R}" + _encode("handle") + raw + b"sb"
    raise UsageError(f"a state of the optimizer is {describe(value)}; expected arrays, or tuples of them")


def decode_states(content: bytes, place: str) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """Return what a file keeps for each array, and the attributes of the optimizer if it holds one.

    Arrays are NumPy's. Attributes that are objects stay descriptions (``PickledCall``).

    Args:
        content: The content of the file.
        place: Its name, for messages.

    Raises:
        ReadError: It holds no states of an optimizer.
        UnsupportedError: It holds what Netweave does not read.
    """
    if is_arrays(content):
        raise ReadError(
            "is a list of arrays and holds no states of an optimizer; give a file that "
            "save_optimizer_states wrote",
            place=place,
        )
    root = read_pickled(io.BytesIO(content), place=place)
    states, optimizer = root if isinstance(root, tuple) and len(root) == 2 else (root, None)
    if not isinstance(states, dict):
        raise ReadError(
            f"holds {describe(states)}, expected a dict from numbers or names of arrays to states",
            place=place,
        )
    decoder = _Decoder(place)
    attributes = optimizer.state if isinstance(optimizer, PickledCall) else None
    is_known = isinstance(optimizer, PickledCall) and _is_optimizer(optimizer)
    known_attributes = attributes if is_known and isinstance(attributes, dict) else {}
    return {key: decoder.decode(value) for key, value in states.items()}, known_attributes


def _is_optimizer(call: PickledCall) -> bool:
    # up to protocol 1, Python writes copyreg._reconstructor(class, object, None); after it, the class itself
    arguments = call.arguments if isinstance(call.arguments, tuple) else ()
    return any(isinstance(one, Name) and one.module in _OPTIMIZERS for one in (call.function, *arguments))


class _Decoder:
    """Gives a meaning to what a pickle describes."""

    def __init__(self, place: str) -> None:
        self._place = place

    def decode(self, value: Any) -> Any:
        if isinstance(value, tuple | list):
            return tuple(self.decode(one) for one in value)
        if isinstance(value, dict):
            return {key: self.decode(one) for key, one in value.items()}
        if isinstance(value, PickledCall):
            return self._array(value)
        if value is None or isinstance(value, bool | int | float | str):
            return value
        raise self._unsupported(value)

    def _array(self, call: PickledCall) -> np.ndarray | None:
        if not isinstance(call.function, Name) or call.function not in ARRAYS:
            raise self._unsupported(call)
        handle = call.state.get("handle") if isinstance(call.state, dict) else None
        return None if handle is None else read_record(self._bytes(handle), self._place)

    def _bytes(self, value: Any) -> bytes:
        content = bytes_of(value)
        if content is None:
            raise ReadError(f"an array has {describe(value)} where its bytes should be", place=self._place)
        return content

    def _unsupported(self, value: Any) -> UnsupportedError:
        return UnsupportedError(
            f"holds {describe(value)} among the states of an optimizer; arrays and tuples of arrays are read",
            place=self._place,
        )
