"""A stand-in for Chainer that records: ``installed`` puts it in the place of ``chainer`` for a while."""

from netweave.formats.chainer.shim.modules import installed

__all__ = ["installed"]
