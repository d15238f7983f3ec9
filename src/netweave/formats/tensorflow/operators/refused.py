"""Operators that are known and not read, with the reason; any other name is simply unknown."""

from __future__ import annotations

REASONS = {
    **dict.fromkeys(
        ("Enter", "RefEnter", "NextIteration", "Exit", "LoopCond"),
        "a loop of TensorFlow 1 (tf.while_loop, dynamic_rnn); write the net with static_rnn, or save it with "
        "control flow v2",
    ),
    **dict.fromkeys(
        ("TensorArrayV3", "TensorArrayReadV3", "TensorArrayWriteV3", "TensorArrayGatherV3"),
        "part of a loop of TensorFlow 1",
    ),
    **dict.fromkeys(
        ("RandomUniform", "RandomStandardNormal", "TruncatedNormal", "StatelessRandomUniformV2"),
        "random numbers outside of a dropout",
    ),
    **dict.fromkeys(
        ("PyFunc", "EagerPyFunc"), "its code is in the program that wrote the net, not in the file"
    ),
    **dict.fromkeys(
        ("NonMaxSuppressionV2", "NonMaxSuppressionV3", "CombinedNonMaxSuppression", "CropAndResize"),
        "a layer of a detection net: not read yet",
    ),
    **dict.fromkeys(
        ("DecodeJpeg", "DecodePng", "ParseExample", "ParseExampleV2", "IteratorGetNext"),
        "it reads data; freeze the net from its first layer on",
    ),
    **dict.fromkeys(("CudnnRNN", "CudnnRNNV3"), "weights packed for one make of GPU: not read yet"),
}


def reason(op: str) -> str:
    """Return why an operator is not read, as the end of a sentence; empty for an unknown one."""
    return f": {REASONS[op]}" if op in REASONS else ""
