"""``gluon.contrib``: further blocks."""

from netweave.mxnet.gluon.contrib import nn

__all__ = ["nn"]


def __getattr__(name: str) -> object:
    from netweave.mxnet.base import missing

    raise missing("gluon.contrib", name, __all__)
