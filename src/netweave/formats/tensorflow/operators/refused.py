"""Operators that are known and not read, with the reason; any other name is simply unknown."""

from __future__ import annotations

REASONS = {
    **dict.fromkeys(
        ("Enter", "RefEnter", "NextIteration", "RefNextIteration", "Exit", "RefExit"),
        "part of a loop of TensorFlow 1 that has not the form of tf.while_loop; save it with control flow v2",
    ),
    **dict.fromkeys(
        ("RandomUniform", "RandomStandardNormal", "TruncatedNormal", "StatelessRandomUniformV2"),
        "random numbers outside of a dropout",
    ),
    **dict.fromkeys(
        ("PyFunc", "EagerPyFunc"), "its code is in the program that wrote the net, not in the file"
    ),
    "CombinedNonMaxSuppression": "boxes of all classes at once: not read; end the net before it",
    **dict.fromkeys(
        ("CTCGreedyDecoder", "CTCBeamSearchDecoder"),
        "it looks for the best text, step by step; end the net at the scores before it",
    ),
    **dict.fromkeys(
        ("HashTableV2", "LookupTableFindV2", "LookupTableFind", "HashTable"),
        "it looks texts up in a table; begin the net behind it",
    ),
    **dict.fromkeys(
        ("DecodeJpeg", "DecodePng", "ParseExample", "ParseExampleV2", "IteratorGetNext"),
        "it reads data; freeze the net from its first layer on",
    ),
}
