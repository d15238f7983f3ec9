"""``gluon.contrib``: further blocks."""

from netweave.mxnet.gluon.contrib import nn, rnn

__all__ = ["nn", "rnn"]


def __getattr__(name: str) -> object:
    from netweave.mxnet.base import missing

    raise missing("gluon.contrib", name, __all__)
