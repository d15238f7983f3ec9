"""Error messages for files that no reader recognises."""

from __future__ import annotations

EMPTY_ARCHIVE = b"PK\5\6"
"""First bytes of a zip archive without members."""

PAGES = (b"<!doctype html", b"<html")
"""How web pages begin, in lower case."""

CONTENTS = {
    "-symbol.json": "MXNet symbols (JSON)",
    ".caffemodel": "Caffe weights (serialized protobuf)",
    ".cfg": "Darknet nets (text with sections such as [net])",
    ".gguf": "arrays in GGUF",
    ".h5": "Keras models (HDF5)",
    ".hdf5": "Keras models (HDF5)",
    ".keras": "Keras models (zip archives)",
    ".npy": "NumPy arrays",
    ".npz": "NumPy arrays (zip archives)",
    ".onnx": "ONNX models (serialized protobuf)",
    ".pb": "TensorFlow graphs (serialized protobuf)",
    ".pbtxt": "TensorFlow graphs (text of protobuf)",
    ".prototxt": "Caffe nets (text of protobuf)",
    ".pt": "PyTorch files (zip archives of torch.save)",
    ".pt2": "exported PyTorch programs (zip archives)",
    ".pth": "PyTorch files (zip archives of torch.save)",
    ".safetensors": "arrays in safetensors",
    ".tflite": "TFLite models (FlatBuffers)",
    ".xml": "OpenVINO models (XML)",
}
"""What files hold, by the ends of their names that say so."""


def refusal(name: str, head: bytes, *, foreign: str | None, known: str) -> str:
    """Return the message about a file that no reader takes.

    Args:
        name: Its name.
        head: Its first bytes, at least 16 if it has them.
        foreign: What it is, if that is known and no net.
        known: What Netweave reads; said where the name tells nothing.
    """
    end = next((end for end in CONTENTS if name.lower().endswith(end)), None)
    promised = f"; {end} files are {CONTENTS[end]}" if end else ""
    if not head:
        return (
            f"the file is empty, not a net that Netweave knows{promised}. Was it copied or downloaded whole?"
        )
    if head.startswith(EMPTY_ARCHIVE):
        return f"is an empty archive, not a net that Netweave knows{promised}. Was it written to its end?"
    if head.lstrip().lower().startswith(PAGES):
        return (
            f"is a web page, not a net that Netweave knows{promised}. Download the file itself, not the page "
            "that shows it or an error"
        )
    content = foreign or f"it starts with {_shown(head[:8])}"
    if not promised:
        return f"not a net that Netweave knows ({content}). It reads {known}"
    advice = "" if foreign else ". Was it downloaded whole, and has it the right name?"
    return f"not a net that Netweave knows ({content}){promised}{advice}"


def _shown(head: bytes) -> str:
    """Return first bytes as text if they are text, else as hexadecimal numbers."""
    text = head.decode("utf-8", errors="replace").rstrip("\ufffd")  # the last character may be cut
    is_text = text and all(c.isspace() or (c.isprintable() and c != "\ufffd") for c in text)
    return repr(text) if is_text else f"the bytes {head.hex(' ')}"
