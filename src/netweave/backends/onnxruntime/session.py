"""One ONNX Runtime session: its options, its start, its errors in our words."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import onnxruntime as ort

from netweave.engine.cores import num_cores
from netweave.errors import RunError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np

    from netweave.backends.model import SegmentModel

LEVELS = {
    "disabled": ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
    "basic": ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "extended": ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "all": ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
}
"""Graph optimisation levels by name. Above ``disabled`` nodes are merged, so that values change in the
last bits and tapping costs what the merging gained."""

_ERRORS_ONLY = 4


@dataclass(frozen=True, slots=True)
class Session:
    """A segment in ONNX Runtime.

    Attributes:
        session: The runtime's own session.
        places: Where each node stands, for a message, given its name.
        inputs: Names of the values that it is fed.
        outputs: Names of the values that it gives back.
    """

    session: ort.InferenceSession
    places: Callable[[str], str]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def run(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the outputs by name.

        Raises:
            RunError: The runtime cannot compute them; the message names the layer and is its own.
        """
        try:
            made = self.session.run(list(self.outputs), {name: values[name] for name in self.inputs})
        except Exception as error:  # the runtime's errors have no base of their own
            raise RunError(_explained(error, self.places)) from error
        return dict(zip(self.outputs, made, strict=True))


def start(
    model: SegmentModel,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    *,
    places: Callable[[str], str],
    level: str,
    num_threads: int,
) -> Session:
    """Start a session.

    Args:
        model: What it runs.
        inputs: Names of its inputs.
        outputs: Names of its outputs.
        places: Where each node stands, for a message, given its name.
        level: One of ``LEVELS``.
        num_threads: Threads inside an operator; 0 takes one for each core that this process may use.

    Raises:
        UsageError: There is no such level.
        RunError: The runtime refuses the model.
    """
    options = _options(level, num_threads)
    if model.arrays:
        arrays = [ort.OrtValue.ortvalue_from_numpy(array) for array in model.arrays.values()]
        options.add_external_initializers(list(model.arrays), arrays)
    try:
        session = ort.InferenceSession(model.content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the runtime's errors have no base of their own
        raise RunError(f"ONNX Runtime rejects the net: {_reason(error)}") from error
    return Session(session, places, inputs, outputs)


def _options(level: str, num_threads: int) -> Any:
    if level not in LEVELS:
        raise UsageError(f"unknown optimisation level {level!r}; expected one of {', '.join(LEVELS)}")
    options = ort.SessionOptions()
    options.log_severity_level = _ERRORS_ONLY
    options.graph_optimization_level = LEVELS[level]
    options.intra_op_num_threads = num_threads or num_cores()
    # Idle threads of every live session would spin; see docs/decisions/0005 for what this and the rest save.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # The planner looks for a buffer to use again among all those of unknown size, one after another; buffers
    # are given back to the arena anyway.
    options.enable_mem_reuse = False
    options.enable_mem_pattern = False
    if level == "disabled":
        # A net that is run once or twice does not earn back a second copy of its weights.
        options.add_session_config_entry("session.disable_prepacking", "1")
    return options


_AT_NODE = re.compile(
    r"while running \w+ node\. Name:'(?P<name>.*?)' Status Message: (?P<reason>.*)", re.DOTALL
)


def _explained(error: Exception, places: Callable[[str], str]) -> str:
    """Return the runtime's message with the place of the node that it names."""
    at = _AT_NODE.search(str(error))
    if at is None:
        return f"ONNX Runtime cannot run the net on these inputs: {_reason(error)}"
    return f"{places(at['name'])}: ONNX Runtime cannot run it on these inputs: {at['reason'].strip()}"


def _reason(error: Exception) -> str:
    """Return the runtime's message without its code: ``[ONNXRuntimeError] : 1 : FAIL : reason``."""
    return str(error).split(" : ", 3)[-1].strip()
