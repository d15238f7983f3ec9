"""Netweave reads a neural net written for any framework into one graph, compares nets and trains them.

``import netweave`` is light: it loads no framework and no runtime; names are loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from netweave.api import (
        Cluster,
        CompareOptions,
        Comparison,
        Context,
        Graph,
        Job,
        LayerCut,
        PackOptions,
        PreparedNet,
        TrainOptions,
        Verdict,
        bisect,
        capture,
        compare,
        compare_all,
        compare_training,
        cpu,
        device,
        evaluate,
        evaluate_boxes,
        extract,
        find_anchors,
        find_boxes,
        gpu,
        inject,
        kvstore,
        load,
        load_all,
        load_job,
        load_training,
        measure_memory,
        operator,
        pack,
        plan_memory,
        prepare,
        prune,
        record_training,
        replicate,
        run,
        sample,
        save,
        save_training,
        save_weights,
        tiled,
        time_layers,
        train,
        transfer_weights,
    )
    from netweave.formats.mxnet import symbol
    from netweave.keras import EarlyStopping, Sequential

__all__ = [
    "Cluster",
    "CompareOptions",
    "Comparison",
    "Context",
    "EarlyStopping",
    "Graph",
    "Job",
    "LayerCut",
    "PackOptions",
    "PreparedNet",
    "Sequential",
    "TrainOptions",
    "Verdict",
    "bisect",
    "capture",
    "compare",
    "compare_all",
    "compare_training",
    "cpu",
    "device",
    "evaluate",
    "evaluate_boxes",
    "extract",
    "find_anchors",
    "find_boxes",
    "gpu",
    "inject",
    "kvstore",
    "load",
    "load_all",
    "load_job",
    "load_training",
    "measure_memory",
    "operator",
    "pack",
    "plan_memory",
    "prepare",
    "prune",
    "record_training",
    "replicate",
    "run",
    "sample",
    "save",
    "save_training",
    "save_weights",
    "symbol",
    "tiled",
    "time_layers",
    "train",
    "transfer_weights",
]


_OF_KERAS = frozenset({"EarlyStopping", "Sequential"})
"""Names that ``netweave.keras`` has, the same classes."""


def __getattr__(name: str) -> Any:
    if name in _OF_KERAS:
        from netweave import keras

        return getattr(keras, name)
    if name in __all__:
        from netweave import api

        return getattr(api, name)
    raise AttributeError(f"module 'netweave' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
