"""Running a Graph by ONNX Runtime on the CPU, with the registry's own forwards for what it lacks."""

from netweave.runtime.backends.onnxruntime.session import prepare, prepare_nodes, runtime

__all__ = ["prepare", "prepare_nodes", "runtime"]
