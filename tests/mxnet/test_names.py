"""Names of MXNet's that are not here fail with their own name and the way out."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import netweave.mxnet as mx
from netweave.errors import UsageError


@pytest.mark.parametrize(
    ("reach", "message"),
    [
        (lambda: mx.np, r"no mx\.np; use mx\.nd"),
        (lambda: mx.sym.Convolutio, r"no mx\.sym\.Convolutio; is it one of Convolution"),
        (
            lambda: mx.sym.contrib.MultiBoxPriors,
            r"contrib\.MultiBoxPriors; is it one of MultiBox",
        ),
        (lambda: mx.sym.CaffeOp, r"no mx\.sym\.CaffeOp; use the operators of mx\.sym"),
        (lambda: mx.io.ImageDetIter, r"no mx\.io\.ImageDetIter; is it one of"),
        (
            lambda: mx.gluon.model_zoo.vision.resnet19_v1,
            r"vision\.resnet19_v1; is it one of",
        ),
    ],
)
def test_a_name_that_is_missing(reach, message):
    with pytest.raises(AttributeError, match=message):
        reach()


def test_every_module_that_scripts_name_can_be_imported():
    for name in mx.MODULES:
        assert getattr(mx, name) is not None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mx.init.create("xaviar"), "unknown initializer 'xaviar'; expected one of"),
        (lambda: mx.metric.create("accurate"), "unknown metric 'accurate'; expected one of"),
        (lambda: mx.optimizer.create("sdg"), "unknown optimizer 'sdg'; expected one of"),
        (lambda: mx.optimizer.SGD(momentun=0.9), "has no setting momentun"),
        (lambda: mx.Context("tpu"), "there is no device 'tpu'; expected one of cpu, gpu"),
        (lambda: mx.nd.zeros((2,)) + mx.nd.zeros((3,)), r"arrays of shapes \(2,\) and \(3,\)"),
        (lambda: mx.nd.zeros((2, 2)).asscalar(), r"an array of shape \(2, 2\) is no single number"),
        (lambda: mx.nd.ones((2,)).backward(), "nothing was recorded for this array"),
        (lambda: mx.nd.array(["a"]), "expected numbers, found list"),
        (lambda: mx.lr_scheduler.FactorScheduler(0), "step is 0, expected at least 1"),
        (lambda: mx.test_utils.get_mnist("/nowhere"), "nothing is downloaded here"),
    ],
)
def test_a_wrong_call(call, message):
    with pytest.raises(mx.MXNetError, match=message):
        call()


def test_a_gpu_that_is_not_there():
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(UsageError, match=r"gpu\(0\): torch sees 0 CUDA devices; use mx.cpu\(\)"):
        mx.nd.zeros((2,), ctx=mx.gpu(0))
