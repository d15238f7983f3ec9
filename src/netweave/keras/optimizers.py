"""Keras' optimizers and schedules: names and settings; the arithmetic is that of ``training.optim.keras``."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from netweave.errors import UsageError
from netweave.job import Policy, Solver
from netweave.keras.objects import Configured, Family, missing, to_json
from netweave.keras.older import optimizer_arguments, refuse_decay

OPTIMIZERS: Family[Any] = Family("optimizer", "keras.optimizers")
SCHEDULES: Family[Any] = Family("learning-rate schedule", "keras.optimizers.schedules")

COMMON = {
    "weight_decay": None,
    "clipnorm": None,
    "clipvalue": None,
    "global_clipnorm": None,
    "use_ema": False,
    "ema_momentum": 0.99,
    "ema_overwrite_frequency": None,
    "loss_scale_factor": None,
    "gradient_accumulation_steps": None,
    "name": None,
}
"""Settings that all optimizers have."""

OWN: dict[str, dict[str, Any]] = {
    "SGD": {"learning_rate": 0.01, "momentum": 0.0, "nesterov": False},
    "RMSprop": {"learning_rate": 0.001, "rho": 0.9, "momentum": 0.0, "epsilon": 1e-7, "centered": False},
    "Adam": {"learning_rate": 0.001, "beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-7, "amsgrad": False},
    "AdamW": {
        "learning_rate": 0.001,
        "weight_decay": 0.004,
        "beta_1": 0.9,
        "beta_2": 0.999,
        "epsilon": 1e-7,
        "amsgrad": False,
    },
    "Adagrad": {"learning_rate": 0.001, "initial_accumulator_value": 0.1, "epsilon": 1e-7},
    "Adadelta": {"learning_rate": 0.001, "rho": 0.95, "epsilon": 1e-7},
    "Adamax": {"learning_rate": 0.001, "beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-7},
    "Nadam": {"learning_rate": 0.001, "beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-7},
    "Ftrl": {
        "learning_rate": 0.001,
        "learning_rate_power": -0.5,
        "initial_accumulator_value": 0.1,
        "l1_regularization_strength": 0.0,
        "l2_regularization_strength": 0.0,
        "l2_shrinkage_regularization_strength": 0.0,
        "beta": 0.0,
    },
    "Lion": {"learning_rate": 0.001, "beta_1": 0.9, "beta_2": 0.99},
    "Adafactor": {
        "learning_rate": 0.001,
        "beta_2_decay": -0.8,
        "epsilon_1": 1e-30,
        "epsilon_2": 1e-3,
        "clip_threshold": 1.0,
        "relative_step": True,
    },
    "Lamb": {"learning_rate": 0.001, "beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-7},
}
"""Each optimizer's own settings with Keras' defaults."""

UNSUPPORTED = ("use_ema", "loss_scale_factor", "gradient_accumulation_steps")


class LearningRateSchedule(Configured):
    """A learning rate that follows the number of the update."""

    settings: dict[str, Any]

    def policy(self) -> Policy:
        """Return the policy of a Job."""
        settings = {key: value for key, value in self.settings.items() if key != "name"}
        rate = settings.pop("initial_learning_rate", 0.0)
        return Policy(f"keras.{type(self).__name__}", rate, settings)

    def __call__(self, step: int) -> float:
        """Return the rate of the update of a number, from 0."""
        from netweave.training.optim.rule import make_policy

        return make_policy(self.policy()).rate(int(step))

    def get_config(self) -> dict[str, Any]:
        """Return the settings, JSON values."""
        return {key: to_json(value) for key, value in self.settings.items()}


SCHEDULE_SETTINGS: dict[str, str] = {
    "ExponentialDecay": (
        "initial_learning_rate, decay_steps, decay_rate, staircase=False, name='ExponentialDecay'"
    ),
    "PiecewiseConstantDecay": "boundaries, values, name='PiecewiseConstant'",
    "PolynomialDecay": (
        "initial_learning_rate, decay_steps, end_learning_rate=0.0001, power=1.0, cycle=False, "
        "name='PolynomialDecay'"
    ),
    "InverseTimeDecay": (
        "initial_learning_rate, decay_steps, decay_rate, staircase=False, name='InverseTimeDecay'"
    ),
    "CosineDecay": (
        "initial_learning_rate, decay_steps, alpha=0.0, name='CosineDecay', warmup_target=None, "
        "warmup_steps=0"
    ),
    "CosineDecayRestarts": (
        "initial_learning_rate, first_decay_steps, t_mul=2.0, m_mul=1.0, alpha=0.0, name='SGDRDecay'"
    ),
}
"""The parameters of each schedule, as Python writes them."""


def _schedule_class(name: str, parameters: str) -> type[LearningRateSchedule]:
    scope: dict[str, Any] = {}
    exec(f"def __init__(self, {parameters}): pass", {}, scope)
    signature = inspect.signature(scope["__init__"])

    def initialise(self: Any, *args: Any, **kwargs: Any) -> None:
        bound = signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        self.settings = {key: value for key, value in bound.arguments.items() if key != "self"}

    initialise.__signature__ = signature  # type: ignore[attr-defined]  # inspect reads it
    members = {"__init__": initialise, "__doc__": f"Keras' schedule {name}."}
    made: type[LearningRateSchedule] = SCHEDULES.register()(type(name, (LearningRateSchedule,), members))
    return made


class Optimizer(Configured):
    """An update rule with its settings.

    Attributes:
        settings: All settings, with defaults.
        policy_in_use: The policy of a fit that runs; its rate is what ``learning_rate`` says then.
    """

    settings: dict[str, Any]

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Refuse arguments that no version of Keras has."""
        given = optimizer_arguments(COMMON, kwargs)
        given.pop("decay", None)
        return super().__new__(cls, *args, **given)

    def _set(self, settings: Mapping[str, Any]) -> None:
        self.settings = dict(settings)
        unsupported = [name for name in UNSUPPORTED if self.settings.get(name)]
        if unsupported:
            raise UsageError(f"{type(self).__name__}: {unsupported[0]} is not supported; leave it out")
        rate = self.settings["learning_rate"]
        if isinstance(rate, Mapping):
            rate = SCHEDULES.get(rate)
        if not isinstance(rate, (int, float, LearningRateSchedule)):
            raise UsageError(
                f"learning_rate is {rate!r:.60}, expected a number or a schedule; for a function of your own "
                "use the callback LearningRateScheduler"
            )
        self._rate: Any = rate
        self.name = self.settings["name"] or type(self).__name__.lower()
        self.policy_in_use: Any = None
        self.excluded: tuple[str, ...] = ()

    @property
    def learning_rate(self) -> Any:
        """The rate, or the schedule; a rate may be set at any time."""
        in_use = self.policy_in_use
        return self._rate if in_use is None or not hasattr(in_use, "now") else in_use.now

    @learning_rate.setter
    def learning_rate(self, value: float) -> None:
        if isinstance(self._rate, LearningRateSchedule):
            raise UsageError("the optimizer has a schedule, so that its learning_rate cannot be set")
        self._rate = float(value)
        if self.policy_in_use is not None:
            self.policy_in_use.now = float(value)

    lr = learning_rate

    def exclude_from_weight_decay(self, var_list: Any = None, var_names: Any = None) -> None:
        """Leave arrays out of weight decay: variables, or those whose names contain one of some texts."""
        self.excluded = (*self.excluded, *(one.path for one in var_list or ()), *(var_names or ()))

    def solver(self, axes: Mapping[str, tuple[int, int]]) -> Solver:
        """Return the solver of a Job.

        Args:
            axes: For Adafactor, the last two axes of each array in the tensor that a net holds.
        """
        left_out = {"learning_rate", "name", *UNSUPPORTED, "ema_momentum", "ema_overwrite_frequency"}
        settings = {key: value for key, value in self.settings.items() if key not in left_out}
        if type(self).__name__ == "Adafactor":
            settings["axes"] = dict(axes)
        rate = self._rate
        policy = rate.policy() if isinstance(rate, LearningRateSchedule) else Policy("keras.constant", rate)
        return Solver(f"keras.{type(self).__name__.lower()}", policy, settings)

    def get_config(self) -> dict[str, Any]:
        """Return the settings, JSON values."""
        rate = self.learning_rate
        return {**{key: to_json(value) for key, value in self.settings.items()}, "name": self.name,
                "learning_rate": to_json(rate)}  # fmt: skip


def _optimizer_class(name: str, own: Mapping[str, Any]) -> type[Optimizer]:
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    settings = {**own, **{key: value for key, value in COMMON.items() if key not in own}}
    parameters = [inspect.Parameter(key, kind, default=value) for key, value in settings.items()]
    signature = inspect.Signature([inspect.Parameter("self", kind), *parameters])

    def initialise(self: Any, *args: Any, **kwargs: Any) -> None:
        given = optimizer_arguments(settings, kwargs)
        decay = given.pop("decay", None)
        bound = signature.bind(self, *args, **given)
        bound.apply_defaults()
        if decay is not None:
            rate = bound.arguments["learning_rate"]
            refuse_decay(name, isinstance(rate, LearningRateSchedule))
            bound.arguments["learning_rate"] = SCHEDULE_CLASSES["InverseTimeDecay"](rate, 1, decay)
        self._set({key: value for key, value in bound.arguments.items() if key != "self"})

    initialise.__signature__ = signature  # type: ignore[attr-defined]  # inspect reads it
    members = {"__init__": initialise, "__doc__": f"Keras' optimizer {name}."}
    made: type[Optimizer] = OPTIMIZERS.register()(type(name, (Optimizer,), members))
    return made


CLASSES = {name: _optimizer_class(name, own) for name, own in OWN.items()}
SCHEDULE_CLASSES = {name: _schedule_class(name, text) for name, text in SCHEDULE_SETTINGS.items()}


class _Schedules:
    """``keras.optimizers.schedules``."""

    LearningRateSchedule = LearningRateSchedule

    def __getattr__(self, name: str) -> Any:
        if name in SCHEDULE_CLASSES:
            return SCHEDULE_CLASSES[name]
        raise missing("keras.optimizers.schedules", name, SCHEDULE_CLASSES)

    def __dir__(self) -> list[str]:
        return ["LearningRateSchedule", *SCHEDULE_CLASSES]


schedules = _Schedules()


def get(identifier: Any) -> Any:
    """Return an optimizer by its name or settings.

    Raises:
        UsageError: There is none of that name, or it has other settings.
    """
    if isinstance(identifier, Mapping) and "class_name" not in identifier and "name" in identifier:
        settings = dict(identifier)
        return OPTIMIZERS.find(str(settings.pop("name")))(**settings)
    return OPTIMIZERS.get(identifier)


def __getattr__(name: str) -> Any:
    if name in CLASSES or (name.lower() in OPTIMIZERS.classes and name.islower()):
        return OPTIMIZERS.find(name)
    raise missing("keras.optimizers", name, [*CLASSES, "Optimizer", "schedules"])


def __dir__() -> list[str]:
    return sorted({*globals(), *CLASSES})
