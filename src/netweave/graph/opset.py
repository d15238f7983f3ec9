"""Constants of every Graph: the opset, Netweave's own domain, the symbol of the batch size."""

OPSET = 22
"""The ONNX opset that every Graph is written in; from 22 on, the shapes of ceil pooling are right."""

DOMAIN = "netweave"
"""The domain of the operators that ONNX lacks; see ``graph.operators``."""

BATCH = "N"
"""The symbol that readers put for the batch size, whatever the file declares."""
