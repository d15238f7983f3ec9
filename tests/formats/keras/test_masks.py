"""Masks of Keras: what they do besides what is held against Keras itself (``tests/parity``)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import netweave
from netweave.errors import NetweaveError, UnsupportedError

if TYPE_CHECKING:
    from pathlib import Path

WORDS = {"batch_shape": [None, 6], "dtype": "int32", "name": "words"}


def layer(
    kind: str, name: str, config: dict[str, Any], *reads: str, together: bool = False
) -> dict[str, Any]:
    """Return a layer as Keras 3 writes it."""
    args: list[Any] = [
        {"class_name": "__keras_tensor__", "config": {"keras_history": [r, 0, 0]}} for r in reads
    ]
    calls = [{"args": [args] if together else args, "kwargs": {}}] if reads else []
    return {"class_name": kind, "config": {"name": name, **config}, "name": name, "inbound_nodes": calls}


def model(folder: Path, *layers: dict[str, Any]) -> Path:
    """Write a model that begins with an embedding of words, 0 for none, and ends with its last layer."""
    first = [
        layer("InputLayer", "words", WORDS),
        layer("Embedding", "rows", {"input_dim": 9, "output_dim": 4, "mask_zero": True}, "words"),
    ]
    config = {
        "name": "model",
        "layers": [*first, *layers],
        "input_layers": [["words", 0, 0]],
        "output_layers": [[layers[-1]["name"], 0, 0]],
    }
    path = folder / "model.json"
    path.write_text(json.dumps({"class_name": "Functional", "config": config}))
    return path


LSTM = {"units": 3, "return_sequences": True}


def test_steps_without_a_word_change_nothing(tmp_path):
    """The last state of a sentence is the same wherever words are missing in it."""
    graph = netweave.load(model(tmp_path, layer("LSTM", "lstm", {"units": 3}, "rows")))
    words = np.array([[5, 2, 7, 0, 0, 0], [0, 0, 0, 5, 2, 7], [0, 5, 0, 2, 0, 7]])
    (made,) = netweave.run(graph, {"words": words.astype(np.int32)}).values()
    np.testing.assert_allclose(made[1:], made[:1].repeat(2, 0), atol=1e-6)


def test_a_sentence_without_any_word_leaves_the_first_state(tmp_path):
    graph = netweave.load(model(tmp_path, layer("GRU", "gru", {"units": 3}, "rows")))
    (made,) = netweave.run(graph, {"words": np.zeros((2, 6), np.int32)}).values()
    np.testing.assert_array_equal(made, np.zeros((2, 3)))


def test_layers_pass_a_mask_on_to_the_next(tmp_path):
    """A mean over time behind two layers counts the words alone."""
    layers = [
        layer("Dense", "dense", {"units": 3, "use_bias": False}, "rows"),
        layer("Dropout", "drop", {"rate": 0.5}, "dense"),
        layer("GlobalAveragePooling1D", "mean", {}, "drop"),
    ]
    graph = netweave.load(model(tmp_path, *layers))
    short, padded = np.array([[4, 8, 4, 8, 4, 8]]), np.array([[4, 8, 0, 0, 0, 0]])
    made = [netweave.run(graph, {"words": words.astype(np.int32)})["mean"] for words in (short, padded)]
    np.testing.assert_allclose(*made, atol=1e-6)


def test_what_is_not_read_is_refused(tmp_path):
    other = layer("Masking", "masked", {"mask_value": 0.5}, "rows")
    joined = layer("Add", "add", {}, "rows", "masked", together=True)
    with pytest.raises(UnsupportedError, match=r"'add' \(Add\): joins tensors with different masks"):
        netweave.load(model(tmp_path, other, joined))
    for config, message in (
        ({"num_heads": 2, "key_dim": 3, "attention_axes": [1, 2]}, "attention_axes"),
        ({"num_heads": 2, "key_dim": 3, "sliding_window": 4}, "sliding_window=4"),
        ({"num_heads": 0, "key_dim": 3}, "num_heads=0, expected at least 1"),
    ):
        with pytest.raises(NetweaveError, match=message):
            netweave.load(model(tmp_path, layer("MultiHeadAttention", "heads", config, "rows", "rows")))
    cell = {"class_name": "OwnCell", "config": {"name": "own"}}
    with pytest.raises(UnsupportedError, match="a cell of class 'OwnCell' inside it"):
        netweave.load(model(tmp_path, layer("RNN", "rnn", {"cell": cell}, "rows")))
    inner = {"layer": {"class_name": "LSTM", "config": {"name": "lstm", **LSTM}}, "merge_mode": "max"}
    with pytest.raises(UnsupportedError, match="merge_mode='max' is not supported"):
        netweave.load(model(tmp_path, layer("Bidirectional", "both", inner, "rows")))
