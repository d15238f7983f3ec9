"""Layers that are known and not read, with the reason; any other class is simply unknown."""

from __future__ import annotations

REASONS = {
    "Lambda": "its code is in the program that wrote the model; replace it by layers, or save a SavedModel",
    "TFOpLambda": "a function of TensorFlow called outside of a layer; save the model as a SavedModel",
    "SlicingOpLambda": "a slice written outside of a layer; save the model as a SavedModel",
}
