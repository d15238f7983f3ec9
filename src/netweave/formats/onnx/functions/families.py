"""The bodies, one file per family; importing this registers them all."""

from netweave.formats.onnx.functions import (
    detection,
    multibox,
    outputs,
    pooling,
    proposals,
    recurrent,
    regions,
)

__all__ = ["detection", "multibox", "outputs", "pooling", "proposals", "recurrent", "regions"]
