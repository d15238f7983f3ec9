"""``mx.contrib.svrg_optimization``: stochastic gradients with reduced variance."""

from netweave.mxnet.contrib.svrg_optimization.svrg_module import SVRGModule

__all__ = ["SVRGModule"]
