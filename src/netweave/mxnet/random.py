"""``mx.random``: drawing arrays, and the seed of all that is drawn."""

from netweave.mxnet.ndarray.random import (
    exponential,
    gamma,
    generator,
    multinomial,
    negative_binomial,
    normal,
    poisson,
    randint,
    randn,
    seed,
    shuffle,
    uniform,
)

__all__ = [
    "exponential",
    "gamma",
    "generator",
    "multinomial",
    "negative_binomial",
    "normal",
    "poisson",
    "randint",
    "randn",
    "seed",
    "shuffle",
    "uniform",
]
