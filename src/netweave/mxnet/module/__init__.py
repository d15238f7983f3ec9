"""``mx.mod``: nets that are bound, run and updated step by step."""

from __future__ import annotations

from typing import Any

from netweave.mxnet.module.base_module import BaseModule
from netweave.mxnet.module.bucketing_module import BucketingModule
from netweave.mxnet.module.fitting import BatchEndParam
from netweave.mxnet.module.module import Module, PythonLossModule, PythonModule
from netweave.mxnet.module.sequential_module import SequentialModule

__all__ = [
    "BaseModule",
    "BatchEndParam",
    "BucketingModule",
    "Module",
    "PythonLossModule",
    "PythonModule",
    "SequentialModule",
]


def __getattr__(name: str) -> Any:
    from netweave.mxnet.base import missing

    raise missing("mx.mod", name, __all__)
