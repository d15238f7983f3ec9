"""Policies and initializers of MXNet."""

from __future__ import annotations

import json
import math
from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from netweave.training.optim.first_values import FILLERS, Shape, bilinear, filler
from netweave.training.optim.rule import Policy, policy
from netweave.training.settings import require

# They are asked with the number of the update, counted from ``first_update``: 1 since 1.0, 0 before, where
# the rate was read ahead of the counting.


@dataclass(slots=True, kw_only=True)
class Scheduler(Policy):
    """Base of schedulers: a warm-up before they begin.

    MXNet knows two rates. The optimizer's ``learning_rate`` overwrites the scheduler's attribute ``base_lr``,
    which Factor and MultiFactor start from; the value that the scheduler's constructor was given stays what a
    linear warm-up rises to and what Poly and Cosine start from.

    Attributes:
        base_lr: What the scheduler's constructor was given; None for the learning rate.
        warmup_steps: Updates before the scheduler's own rule begins.
        warmup_begin_lr: Rate of the first of these.
        warmup_mode: ``linear`` rises from there to the base rate, ``constant`` stays there.
        first_update: Number of the first update.
    """

    base_lr: float | None = None
    warmup_steps: int = 0
    warmup_begin_lr: float = 0.0
    warmup_mode: str = "linear"
    first_update: int = 1

    def __post_init__(self) -> None:
        require(self.warmup_steps >= 0, f"warmup_steps is {self.warmup_steps}, expected at least 0")
        low = self.warmup_begin_lr <= self.own_rate
        require(low, f"warmup_begin_lr is {self.warmup_begin_lr}, expected at most {self.own_rate}")
        known = self.warmup_mode in {"linear", "constant"}
        require(known, f"warmup_mode is {self.warmup_mode!r}, expected linear or constant")

    @property
    def own_rate(self) -> float:
        """The rate of the scheduler itself, which ``learning_rate`` does not overwrite."""
        return self.base_rate if self.base_lr is None else self.base_lr

    def rate(self, iteration: int, loss: float | None = None) -> float:
        """Return the rate of an iteration."""
        update = iteration + self.first_update
        if update >= self.warmup_steps:
            return self.after_warmup(update)
        if self.warmup_mode == "constant":
            return self.warmup_begin_lr
        return self.warmup_begin_lr + (self.own_rate - self.warmup_begin_lr) * update / self.warmup_steps

    def after_warmup(self, update: int) -> float:
        """Return the rate of an update by its number."""
        return self.base_rate


@policy("mxnet.fixed")
@dataclass(slots=True, kw_only=True)
class Fixed(Scheduler):
    """The learning rate of the optimizer, without a scheduler."""


@policy("mxnet.factor")
@dataclass(slots=True, kw_only=True)
class Factor(Scheduler):
    """base_lr factor^k, k steps of ``step`` updates being over; not below ``stop_factor_lr``."""

    step: int
    factor: float = 1.0
    stop_factor_lr: float = 1e-8

    def __post_init__(self) -> None:
        Scheduler.__post_init__(self)
        require(self.step >= 1, f"step is {self.step}, expected at least 1")
        require(self.factor <= 1.0, f"factor is {self.factor}, expected at most 1")

    def after_warmup(self, update: int) -> float:
        """Return the rate of an update by its number."""
        rate = self.base_rate * self.factor ** (max(0, update - 1) // self.step)
        return rate if update <= self.step else max(rate, self.stop_factor_lr)


@policy("mxnet.multifactor")
@dataclass(slots=True, kw_only=True)
class MultiFactor(Scheduler):
    """base_lr factor^k, k of the updates in ``step`` being over."""

    step: list[int]
    factor: float = 1.0

    def __post_init__(self) -> None:
        Scheduler.__post_init__(self)
        rising = all(a < b for a, b in zip([0, *self.step], self.step, strict=False))
        require(rising, f"step is {self.step}, expected numbers that rise, from 1 on")
        require(self.factor <= 1.0, f"factor is {self.factor}, expected at most 1")

    def after_warmup(self, update: int) -> float:
        """Return the rate of an update by its number."""
        return self.base_rate * self.factor ** sum(update > step for step in self.step)


@dataclass(slots=True, kw_only=True)
class _Falling(Scheduler):
    max_update: int
    final_lr: float = 0.0

    def __post_init__(self) -> None:
        Scheduler.__post_init__(self)
        require(self.max_update >= 1, f"max_update is {self.max_update}, expected at least 1")

    def after_warmup(self, update: int) -> float:
        """Return the rate of an update by its number."""
        done = (min(update, self.max_update) - self.warmup_steps) / (self.max_update - self.warmup_steps)
        return self.final_lr + (self.own_rate - self.final_lr) * self.left(done)

    @abstractmethod
    def left(self, done: float) -> float:
        """Return the share of the way down that is left when a share of the updates is done."""


@policy("mxnet.poly")
@dataclass(slots=True, kw_only=True)
class Poly(_Falling):
    """From base_lr down to final_lr along (1 - x)^pwr, x from 0 to 1 over the updates after the warm-up."""

    pwr: float = 2.0

    def left(self, done: float) -> float:
        """Return the share of the way down that is left when a share of the updates is done."""
        return math.pow(1.0 - done, self.pwr)


@policy("mxnet.cosine")
@dataclass(slots=True, kw_only=True)
class Cosine(_Falling):
    """From base_lr down to final_lr along half a period of the cosine."""

    def left(self, done: float) -> float:
        """Return the share of the way down that is left when a share of the updates is done."""
        return (1.0 + math.cos(math.pi * done)) / 2.0


GATES = {"rnn_relu": 1, "rnn_tanh": 1, "lstm": 4, "gru": 3}
FORGET_GATE = 1
"""The gates of an LSTM are i, f, c, o."""


@filler("mxnet.zeros", "mxnet.zero")
def zeros(shape: Shape, generator: np.random.Generator) -> np.ndarray:
    """Return zeros."""
    return np.zeros(shape)


@filler("mxnet.ones", "mxnet.one")
def ones(shape: Shape, generator: np.random.Generator) -> np.ndarray:
    """Return ones."""
    return np.ones(shape)


@filler("mxnet.constant")
def constant(shape: Shape, generator: np.random.Generator, value: float = 0.0) -> np.ndarray:
    """Return one value, or a given array."""
    return np.broadcast_to(np.asarray(value, np.float64), shape)


@filler("mxnet.uniform")
def uniform(shape: Shape, generator: np.random.Generator, scale: float = 0.07) -> np.ndarray:
    """Return numbers between -scale and scale."""
    return generator.uniform(-scale, scale, shape)


@filler("mxnet.normal")
def normal(shape: Shape, generator: np.random.Generator, sigma: float = 0.01) -> np.ndarray:
    """Return normal numbers."""
    return generator.normal(0.0, sigma, shape)


@filler("mxnet.orthogonal")
def orthogonal(
    shape: Shape, generator: np.random.Generator, scale: float = 1.414, rand_type: str = "uniform"
) -> np.ndarray:
    """Return a matrix (the axes after the first taken together) of orthogonal rows or columns."""
    matrix = (shape[0], math.prod(shape[1:]))
    if rand_type == "uniform":
        drawn = generator.uniform(-1.0, 1.0, matrix)
    elif rand_type == "normal":
        drawn = generator.normal(0.0, 1.0, matrix)
    else:
        raise ValueError(f"rand_type is {rand_type!r}, expected uniform or normal")
    left, _, right = np.linalg.svd(drawn, full_matrices=False)
    chosen: np.ndarray = left if left.shape == matrix else right
    return scale * chosen.reshape(shape)


@filler("mxnet.xavier")
def xavier(
    shape: Shape,
    generator: np.random.Generator,
    rnd_type: str = "uniform",
    factor_type: str = "avg",
    magnitude: float = 3.0,
) -> np.ndarray:
    """Return numbers of scale sqrt(magnitude / factor): uniform between -/+ it, or normal."""
    if len(shape) < 2:
        raise ValueError(f"the shape is {shape}, expected at least 2 axes")
    field = math.prod(shape[2:])
    fan_in, fan_out = shape[1] * field, shape[0] * field
    factors = {"avg": (fan_in + fan_out) / 2.0, "in": fan_in, "out": fan_out}
    if factor_type not in factors:
        raise ValueError(f"factor_type is {factor_type!r}, expected avg, in or out")
    scale = math.sqrt(float(magnitude) / factors[factor_type])
    if rnd_type == "uniform":
        return generator.uniform(-scale, scale, shape)
    if rnd_type == "gaussian":
        return generator.normal(0.0, scale, shape)
    raise ValueError(f"rnd_type is {rnd_type!r}, expected uniform or gaussian")


@filler("mxnet.msraprelu")
def msra_prelu(
    shape: Shape, generator: np.random.Generator, factor_type: str = "avg", slope: float = 0.25
) -> np.ndarray:
    """Return normal numbers of variance 2 / (1 + slope^2) / factor."""
    return xavier(shape, generator, "gaussian", factor_type, 2.0 / (1.0 + slope**2))


@filler("mxnet.bilinear")
def interpolation(shape: Shape, generator: np.random.Generator) -> np.ndarray:
    """Return the weights of an up-sampling; lopsided unless half the size is even."""
    half = (shape[-1] + 1) // 2
    return bilinear(shape, half=half, centre=(2 * half - 1 - half % 2) / (2.0 * half))


@filler("mxnet.lstmbias")
def lstm_bias(shape: Shape, generator: np.random.Generator, forget_bias: float = 1.0) -> np.ndarray:
    """Return zeros, and the given value for the second of four gates."""
    values = np.zeros(shape)
    quarter = shape[0] // 4
    values[quarter : 2 * quarter] = forget_bias
    return values


@filler("mxnet.fusedrnn")
def fused_rnn(
    shape: Shape,
    generator: np.random.Generator,
    init: str,
    num_hidden: int,
    num_layers: int,
    mode: str,
    bidirectional: bool = False,
    forget_bias: float = 1.0,
) -> np.ndarray:
    """Return the vector of an ``RNN``: each gate's matrix filled by itself, zeros for the biases.

    An LSTM's forget gate has ``forget_bias`` in both of its biases.

    Args:
        shape: Number of elements.
        generator: To draw from.
        init: The initializer of the matrices, as MXNet writes it: ``["xavier", {}]``, JSON.
        num_hidden: Units of a layer in one direction.
        num_layers: Layers.
        mode: ``rnn_relu``, ``rnn_tanh``, ``lstm`` or ``gru``.
        bidirectional: Whether there is a second direction.
        forget_bias: Of an LSTM.
    """
    if mode not in GATES:
        raise ValueError(f"mode is {mode!r}, expected {', '.join(GATES)}")
    gates, directions = GATES[mode], 2 if bidirectional else 1
    per_unit = shape[0] // (directions * num_hidden * gates)
    first = per_unit - (num_layers - 1) * (num_hidden * (directions + 1) + 2) - num_hidden - 2
    if len(shape) != 1 or first < 1 or shape[0] % (directions * num_hidden * gates):
        raise ValueError(f"the shape is {shape}, which {num_layers} layers of {num_hidden} units do not have")
    kind, settings = json.loads(init)
    matrices = [
        FILLERS[f"mxnet.{kind.lower()}"]((num_hidden, size), generator, **settings).ravel()
        for layer in range(num_layers)
        for _ in range(directions)
        for size in (directions * num_hidden if layer else first, num_hidden)
        for _ in range(gates)
    ]
    bias = np.zeros((gates, num_hidden))
    if mode == "lstm":
        bias[FORGET_GATE] = forget_bias
    return np.concatenate([*matrices, *[bias.ravel()] * (2 * num_layers * directions)])
