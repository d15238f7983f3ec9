"""The update rules once more, in NumPy, from the sources' own code and element by element.

Each function takes weights, gradients, kept arrays (a dictionary, empty at first), the local rate and
decay, the number of the step from 1, and the settings; it returns the new weights.
"""

from __future__ import annotations

import math

import numpy as np


def zeros(kept, name, w):
    return kept.setdefault(name, np.zeros_like(w))


def caffe_diff(w, g, decay, regularization_type="L2"):
    """SGDSolver::Regularize."""
    if regularization_type == "L2":
        return g + decay * w
    return g + decay * ((w > 0).astype(w.dtype) - (w < 0).astype(w.dtype))


def caffe_sgd(w, g, kept, rate, decay, step, momentum=0.0, regularization_type="L2"):
    """SGDSolver::ComputeUpdateValue: axpby(rate, diff, momentum, history)."""
    diff = caffe_diff(w, g, decay, regularization_type)
    kept["h"] = rate * diff + momentum * zeros(kept, "h", w)
    return w - kept["h"]


def caffe_nesterov(w, g, kept, rate, decay, step, momentum=0.0):
    """NesterovSolver: step back, then over step."""
    update = zeros(kept, "h", w).copy()
    kept["h"] = rate * caffe_diff(w, g, decay) + momentum * kept["h"]
    update = (1 + momentum) * kept["h"] + -momentum * update
    return w - update


def caffe_adagrad(w, g, kept, rate, decay, step, delta=1e-8):
    diff = caffe_diff(w, g, decay)
    kept["h"] = np.power(diff, 2) + zeros(kept, "h", w)
    return w - rate * (diff / (np.power(kept["h"], 0.5) + delta))


def caffe_rmsprop(w, g, kept, rate, decay, step, delta=1e-8, rms_decay=0.99):
    diff = caffe_diff(w, g, decay)
    kept["h"] = (1 - rms_decay) * np.power(diff, 2) + rms_decay * zeros(kept, "h", w)
    return w - rate * (diff / (np.power(kept["h"], 0.5) + delta))


def caffe_adadelta(w, g, kept, rate, decay, step, momentum=0.0, delta=1e-8):
    diff = caffe_diff(w, g, decay)
    kept["h"] = (1 - momentum) * np.power(diff, 2) + momentum * zeros(kept, "h", w)
    ratio = (delta + zeros(kept, "h2", w)) / (delta + kept["h"])
    update = diff * np.power(ratio, 0.5)
    kept["h2"] = (1 - momentum) * np.power(update, 2) + momentum * kept["h2"]
    return w - rate * update


def caffe_adam(
    w, g, kept, rate, decay, step, momentum=0.0, momentum2=0.999, delta=1e-8, regularization_type="L2"
):
    diff = caffe_diff(w, g, decay, regularization_type)
    correction = math.sqrt(1.0 - momentum2**step) / (1.0 - momentum**step)
    kept["m"] = (1 - momentum) * diff + momentum * zeros(kept, "m", w)
    kept["v"] = (1 - momentum2) * diff * diff + momentum2 * zeros(kept, "v", w)
    return w - rate * correction * (kept["m"] / (np.power(kept["v"], 0.5) + delta))


def clip(g, clip_gradient):
    return g if not clip_gradient else np.clip(g, -clip_gradient, clip_gradient)


def mxnet_sgd(w, g, kept, rate, decay, step, momentum=0.0, rescale_grad=1.0, clip_gradient=None):
    """SGDKernel and SGDMomKernel."""
    g = clip(rescale_grad * g, clip_gradient)
    if momentum == 0.0:
        return (1 - rate * decay) * w - rate * g
    kept["mom"] = momentum * zeros(kept, "mom", w) - rate * decay * w - rate * g
    return w + kept["mom"]


def mxnet_nag(w, g, kept, rate, decay, step, momentum=0.0, rescale_grad=1.0, clip_gradient=None):
    """NAGMomKernel, in place: the weights are new by the time of the second decay."""
    g = clip(rescale_grad * g, clip_gradient)
    if momentum == 0.0:
        return (1 - rate * decay) * w - rate * g
    mom = momentum * zeros(kept, "mom", w)
    w = w - mom + (momentum + 1) * (mom - rate * (g + decay * w))
    kept["mom"] = mom - rate * (g + decay * w)
    return w


def mxnet_nag_0_9(w, g, kept, rate, decay, step, momentum=0.0, rescale_grad=1.0, clip_gradient=None):
    """NAG.update of 0.9.5."""
    grad = clip(g * rescale_grad, clip_gradient)
    mom = zeros(kept, "mom", w) * momentum
    grad = grad + decay * w
    kept["mom"] = mom + grad
    grad = grad + momentum * kept["mom"]
    return w + -rate * grad


def mxnet_signum(
    w, g, kept, rate, decay, step, momentum=0.9, wd_lh=0.0, rescale_grad=1.0, clip_gradient=None
):
    """SignumKernel and SignSGDKernel."""
    if momentum == 0.0:
        return (1 - rate * decay) * w - rate * np.sign(g)
    g = clip(rescale_grad * g, clip_gradient)
    mom = momentum * zeros(kept, "mom", w) - (1 - momentum) * decay * w - (1 - momentum) * g
    kept["mom"] = mom
    return (1 - rate * wd_lh) * w + rate * np.sign(mom)


def mxnet_dcasgd(
    w, g, kept, rate, decay, step, momentum=0.0, lamda=0.04, rescale_grad=1.0, clip_gradient=None
):
    grad = clip(g * rescale_grad, clip_gradient)
    before = kept.get("before", w)
    mom = zeros(kept, "mom", w) * momentum
    kept["mom"] = mom - rate * (grad + decay * w + lamda * grad * grad * (w - before))
    kept["before"] = w
    return w + kept["mom"]


def mxnet_adam(
    w, g, kept, rate, decay, step, beta1=0.9, beta2=0.999, epsilon=1e-8, rescale_grad=1.0, clip_gradient=None
):
    """Adam.update and AdamUpdateKernel."""
    lr = rate * math.sqrt(1.0 - beta2**step) / (1.0 - beta1**step)
    grad = clip(g * rescale_grad + w * decay, clip_gradient)
    kept["mean"] = beta1 * zeros(kept, "mean", w) + (1 - beta1) * grad
    kept["var"] = beta2 * zeros(kept, "var", w) + (1 - beta2) * grad * grad
    return w - lr * kept["mean"] / (np.sqrt(kept["var"]) + epsilon)


def mxnet_adam_0_7(
    w, g, kept, rate, decay, step, beta1=0.9, beta2=0.999, epsilon=1e-8, rescale_grad=1.0, clip_gradient=None
):
    """Adam.update of 0.7.0."""
    grad = clip(g * rescale_grad, clip_gradient)
    kept["mean"] = beta1 * zeros(kept, "mean", w) + (1.0 - beta1) * grad
    kept["var"] = beta2 * zeros(kept, "var", w) + (1.0 - beta2) * grad * grad
    lr = rate * (math.sqrt(1.0 - beta2**step) / (1.0 - beta1**step))
    w = w - lr * kept["mean"] / (np.sqrt(kept["var"]) + epsilon)
    return w - (lr * decay) * w


def mxnet_adagrad(w, g, kept, rate, decay, step, eps=1e-7, rescale_grad=1.0, clip_gradient=None):
    grad = clip(g * rescale_grad, clip_gradient)
    kept["history"] = zeros(kept, "history", w) + np.square(grad)
    div = grad / np.sqrt(kept["history"] + eps)
    return w + (div + w * decay) * -rate


def mxnet_rmsprop(
    w,
    g,
    kept,
    rate,
    decay,
    step,
    gamma1=0.9,
    gamma2=0.9,
    epsilon=1e-8,
    centered=False,
    clip_weights=None,
    rescale_grad=1.0,
    clip_gradient=None,
):
    """RMSPropUpdateKernel and RMSPropAlexUpdateKernel."""
    grad = clip(rescale_grad * g + decay * w, clip_gradient)
    kept["n"] = (1 - gamma1) * grad * grad + gamma1 * zeros(kept, "n", w)
    if not centered:
        return clip(w - rate * (grad / np.sqrt(kept["n"] + epsilon)), clip_weights)
    kept["g"] = (1 - gamma1) * grad + gamma1 * zeros(kept, "g", w)
    root = np.sqrt(kept["n"] - kept["g"] * kept["g"] + epsilon)
    kept["delta"] = gamma2 * zeros(kept, "delta", w) - rate * grad / root
    return clip(w + kept["delta"], clip_weights)


def mxnet_adadelta(
    w, g, kept, rate, decay, step, rho=0.9, epsilon=1e-5, rescale_grad=1.0, clip_gradient=None
):
    grad = clip(g * rescale_grad, clip_gradient)
    kept["acc_g"] = zeros(kept, "acc_g", w) * rho + (1.0 - rho) * grad * grad
    delta = np.sqrt(zeros(kept, "acc_delta", w) + epsilon) / np.sqrt(kept["acc_g"] + epsilon) * grad
    kept["acc_delta"] = kept["acc_delta"] * rho + (1.0 - rho) * delta * delta
    return w - (delta + decay * w)


def mxnet_ftrl(w, g, kept, rate, decay, step, lamda1=0.01, beta=1.0, rescale_grad=1.0, clip_gradient=None):
    """FtrlUpdateKernel."""
    grad = clip(g * rescale_grad, clip_gradient)
    n = zeros(kept, "n", w)
    kept["z"] = zeros(kept, "z", w) + grad - (np.sqrt(n + np.square(grad)) - np.sqrt(n)) * w / rate
    kept["n"] = n + np.square(grad)
    z = kept["z"]
    return (np.sign(z) * lamda1 - z) / ((beta + np.sqrt(kept["n"])) / rate + decay) * (np.abs(z) > lamda1)


def mxnet_adamax(w, g, kept, rate, decay, step, beta1=0.9, beta2=0.999, rescale_grad=1.0, clip_gradient=None):
    lr = rate / (1.0 - beta1**step)
    grad = clip(g * rescale_grad + decay * w, clip_gradient)
    kept["m"] = zeros(kept, "m", w) * beta1 + (1.0 - beta1) * grad
    kept["u"] = np.maximum(beta2 * zeros(kept, "u", w), np.abs(grad))
    return w - lr * kept["m"] / kept["u"]


def mxnet_nadam(
    w,
    g,
    kept,
    rate,
    decay,
    step,
    common,
    beta1=0.9,
    beta2=0.999,
    epsilon=1e-8,
    schedule_decay=0.004,
    rescale_grad=1.0,
    clip_gradient=None,
):
    """Nadam.update; ``common`` is the optimizer object's own m_schedule."""
    grad = clip(g * rescale_grad + decay * w, clip_gradient)
    momentum_t = beta1 * (1.0 - 0.5 * (pow(0.96, step * schedule_decay)))
    momentum_t_1 = beta1 * (1.0 - 0.5 * (pow(0.96, (step + 1) * schedule_decay)))
    common["m_schedule"] = common.get("m_schedule", 1.0) * momentum_t
    m_schedule_next = common["m_schedule"] * momentum_t_1
    kept["m"] = zeros(kept, "m", w) * beta1 + (1.0 - beta1) * grad
    kept["v"] = zeros(kept, "v", w) * beta2 + (1.0 - beta2) * grad * grad
    grad_prime = grad / (1.0 - common["m_schedule"])
    m_t_prime = kept["m"] / (1.0 - m_schedule_next)
    v_t_prime = kept["v"] / (1.0 - pow(beta2, step))
    m_t_bar = (1.0 - momentum_t) * grad_prime + momentum_t_1 * m_t_prime
    return w - rate * m_t_bar / (np.sqrt(v_t_prime) + epsilon)


def mxnet_ftml(
    w, g, kept, rate, decay, step, beta1=0.6, beta2=0.999, epsilon=1e-8, rescale_grad=1.0, clip_gradient=None
):
    """FTMLKernel."""
    grad = clip(rescale_grad * g + decay * w, clip_gradient)
    kept["v"] = beta2 * zeros(kept, "v", w) + (1 - beta2) * np.square(grad)
    d_t = (1 - beta1**step) / rate * (np.sqrt(kept["v"] / (1 - beta2**step)) + epsilon)
    kept["z"] = beta1 * zeros(kept, "z", w) + (1 - beta1) * grad - (d_t - beta1 * zeros(kept, "d", w)) * w
    kept["d"] = d_t
    return -kept["z"] / d_t


def mxnet_lars(
    w,
    g,
    kept,
    rate,
    decay,
    step,
    momentum=0.0,
    eta=0.001,
    eps=0.0,
    rescale_grad=1.0,
    clip_gradient=None,
):
    """LARS._get_lars, then SGDMomKernel; ``momentum`` is the corrected one (of weights, not of biases)."""
    w_norm, g_norm = np.sqrt((w * w).sum()), np.sqrt(((rescale_grad * g) ** 2).sum())
    lars = eta * w_norm / (g_norm + decay * w_norm + eps) if w_norm > 0 and g_norm > 0 else 1.0
    grad = clip(rescale_grad * g, clip_gradient)
    kept["mom"] = momentum * zeros(kept, "mom", w) - lars * rate * decay * w - lars * rate * grad
    return w + kept["mom"]


def mxnet_lamb(
    w,
    g,
    kept,
    rate,
    decay,
    step,
    beta1=0.9,
    beta2=0.999,
    epsilon=1e-6,
    lower_bound=None,
    upper_bound=None,
    bias_correction=True,
    rescale_grad=1.0,
    clip_gradient=None,
):
    """LambUpdatePhaseOneKernel and LambUpdatePhaseTwoKernel."""
    grad = clip(g * rescale_grad, clip_gradient)
    kept["mean"] = beta1 * zeros(kept, "mean", w) + (1 - beta1) * grad
    kept["var"] = beta2 * zeros(kept, "var", w) + (1 - beta2) * grad * grad
    mean, var = kept["mean"], kept["var"]
    if bias_correction:
        mean, var = mean / (1.0 - beta1**step), var / (1 - beta2**step)
    update = mean / (np.sqrt(var) + epsilon) + decay * w
    r1, r2 = np.sqrt((w * w).sum()), np.sqrt((update * update).sum())
    if lower_bound:
        r1 = max(r1, lower_bound)
    if upper_bound:
        r1 = min(r1, upper_bound)
    return w - (rate if r1 == 0 or r2 == 0 else rate * r1 / r2) * update


def mxnet_groupadagrad(w, g, kept, rate, decay, step, eps=1e-5, rescale_grad=1.0, clip_gradient=None):
    """contrib.GroupAdaGrad.update."""
    grad = clip(g * rescale_grad, clip_gradient)
    kept["h"] = zeros(kept, "h", w[:, :1]) + np.square(grad).mean(axis=1, keepdims=True)
    return w - rate * grad / np.sqrt(kept["h"] + eps)


def mxnet_lbsgd(
    w,
    g,
    kept,
    rate,
    decay,
    step,
    momentum=0.0,
    warmup_strategy="linear",
    warmup_epochs=5,
    batch_scale=1,
    updates_per_epoch=32,
    begin_epoch=0,
    rescale_grad=1.0,
    clip_gradient=None,
):
    """LBSGD.update, _get_lars and _get_lbmult; ``rate`` is the one that it reads."""
    kept["sum"] = zeros(kept, "sum", w) + g
    count, until = begin_epoch * updates_per_epoch + step, warmup_epochs * updates_per_epoch
    if count % batch_scale:
        return w
    mean, kept["sum"] = kept["sum"] / batch_scale, np.zeros_like(w)
    if warmup_strategy == "lars":
        weights, gradients = (w * w).sum(), (mean * mean).sum()
        factor = min(100, max(0.01, math.sqrt(weights / (gradients + decay * weights + 1e-18))))
    elif count >= until:
        factor = batch_scale
    elif warmup_strategy == "linear":
        factor = 1 + (batch_scale - 1) * count / until
    elif warmup_strategy == "power2":
        factor = 1 + (batch_scale - 1) * (count * count) / (until * until)
    else:
        factor = 1 + (batch_scale - 1) * math.sqrt(count / until)
    grad = clip(rescale_grad * mean, clip_gradient)
    kept["mom"] = momentum * zeros(kept, "mom", w) - factor * rate * (grad + decay * w)
    return w + kept["mom"]
