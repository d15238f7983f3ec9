"""``mx.optimizer``: optimizers as objects that update one array at a time.

The arithmetic is that of the rules in ``netweave.training.optim.mxnet``; here stand MXNet's bookkeeping
(counts of updates, multipliers by name, the scheduler) and what scripts subclass.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

import torch

from netweave.errors import UsageError
from netweave.formats.mxnet.symbol.training import DECAYED, DEFAULT_BASE_LR, RATES
from netweave.mxnet.ndarray.array import NDArray
from netweave.training.optim import make_rule
from netweave.training.optim.rule import RULES, Beginning, Block, Multiplied, Rule

O = TypeVar("O", bound=type["Optimizer"])  # noqa: E741


class Optimizer:
    """Base of optimizers; a subclass has ``create_state`` and ``update``.

    Args:
        rescale_grad: Factor of the gradients.
        param_idx2name: Names of the arrays by their index.
        wd: Weight decay.
        clip_gradient: Largest size of an element of the gradient; None for none.
        learning_rate: The rate; None for the scheduler's, or 0.01.
        lr_scheduler: Called with the number of the update.
        sym: The net, whose variables have multipliers.
        begin_num_update: Updates that count as done before the first one.
        multi_precision: As MXNet has it; what is updated always has 32 bits or more.
        param_dict: Gluon's parameters by index.
    """

    opt_registry: ClassVar[dict[str, type[Optimizer]]] = {}

    def __init__(
        self,
        rescale_grad: float = 1.0,
        param_idx2name: Mapping[int, str] | None = None,
        wd: float = 0.0,
        clip_gradient: float | None = None,
        learning_rate: float | None = None,
        lr_scheduler: Any = None,
        sym: Any = None,
        begin_num_update: int = 0,
        multi_precision: bool = False,
        param_dict: Mapping[int, Any] | None = None,
    ) -> None:
        self.rescale_grad, self.wd, self.clip_gradient = rescale_grad, wd, clip_gradient
        self.lr_scheduler = lr_scheduler
        self.lr = DEFAULT_BASE_LR if learning_rate is None else learning_rate
        if lr_scheduler is not None and learning_rate is not None:
            lr_scheduler.base_lr = learning_rate
        self.begin_num_update = self.num_update = begin_num_update
        self.multi_precision = multi_precision
        self._index_update_count: dict[Any, int] = {}
        self.idx2name = dict(param_idx2name or {})
        self.param_dict = dict(param_dict or {})
        self.sym_info = (sym.attr_dict(), sym.list_arguments()) if sym is not None else ()
        self.lr_mult: dict[Any, float] = {}
        self.wd_mult: dict[Any, float] = {}
        self.set_lr_mult({})
        self.set_wd_mult({})

    @staticmethod
    def register(klass: O) -> O:
        """Make an optimizer known by its name in small letters."""
        Optimizer.opt_registry[klass.__name__.lower()] = klass
        return klass

    @staticmethod
    def create_optimizer(name: str, **kwargs: Any) -> Optimizer:
        """Return the optimizer of a name.

        Raises:
            UsageError: There is none of that name, or it has no such setting.
        """
        known = Optimizer.opt_registry
        if name.lower() not in known:
            raise UsageError(f"unknown optimizer {name!r}; expected one of {', '.join(sorted(known))}")
        return known[name.lower()](**kwargs)

    @property
    def learning_rate(self) -> float:
        """The rate of the update that is due, before multipliers."""
        return self.lr if self.lr_scheduler is None else float(self.lr_scheduler(self.num_update))

    def set_learning_rate(self, lr: float) -> None:
        """Set the rate.

        Raises:
            UsageError: A scheduler decides.
        """
        if self.lr_scheduler is not None:
            raise UsageError("the learning rate is the scheduler's; change lr_scheduler.base_lr")
        self.lr = lr

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """Return what is kept for an array; None for nothing."""
        return None

    def create_state_multi_precision(self, index: Any, weight: NDArray) -> Any:
        """Return what is kept for an array."""
        return self.create_state(index, weight)

    def left_out(self, index: Any) -> tuple[NDArray, ...]:
        """Return what is kept for an array beside its state, and MXNet's files have no place for."""
        return ()

    def memory_of(self, attributes: Mapping[str, Any]) -> dict[str, float]:
        """Return what updates remember beside the arrays, from the attributes of an optimizer of MXNet's."""
        return {}

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: Any) -> None:
        """Change an array by its gradient."""
        raise NotImplementedError

    def update_multi_precision(self, index: Any, weight: NDArray, grad: NDArray, state: Any) -> None:
        """Change an array by its gradient."""
        self.update(index, weight, grad, state)

    def set_lr_mult(self, args_lr_mult: Mapping[Any, float]) -> None:
        """Set factors on the learning rate, by name or index; those of the net's variables stay."""
        self.lr_mult = {**self._of_variables("__lr_mult__"), **args_lr_mult}

    def set_wd_mult(self, args_wd_mult: Mapping[Any, float]) -> None:
        """Set factors on the weight decay; arrays that are no weights and no gammas have 0."""
        undecayed = {name: 0.0 for name in self.idx2name.values() if not name.endswith(DECAYED)}
        self.wd_mult = {**undecayed, **self._of_variables("__wd_mult__"), **args_wd_mult}

    def _of_variables(self, key: str) -> dict[str, float]:
        if not self.sym_info:
            return {}
        attributes, names = self.sym_info
        return {name: float(attributes[name][key]) for name in names if key in attributes.get(name, {})}

    def _update_count(self, index: Any) -> None:
        for one in index if isinstance(index, list | tuple) else [index]:
            count = self._index_update_count.get(one, self.begin_num_update) + 1
            self._index_update_count[one] = count
            self.num_update = max(count, self.num_update)

    def _get_lr(self, index: Any) -> float:
        return self.learning_rate * self._multiplier(index, "lr_mult", self.lr_mult)

    def _get_wd(self, index: Any) -> float:
        return self.wd * self._multiplier(index, "wd_mult", self.wd_mult)

    def _multiplier(self, index: Any, attribute: str, table: Mapping[Any, float]) -> float:
        if index in self.param_dict:
            return float(getattr(self.param_dict[index], attribute))
        if index in table:
            return table[index]
        return table.get(self.idx2name.get(index), 1.0)


class RuleOptimizer(Optimizer):
    """An optimizer whose arithmetic is a rule of ``netweave.training.optim``.

    Args:
        kwargs: The rule's own settings, and those of ``Optimizer``.

    Raises:
        UsageError: There is no such setting, or one is out of range.
    """

    kind: ClassVar[str] = ""

    def __init__(self, **kwargs: Any) -> None:
        common = {key: kwargs.pop(key) for key in _COMMON if key in kwargs}
        if common.get("learning_rate") is None and common.get("lr_scheduler") is None:
            common["learning_rate"] = RATES.get(self.kind, DEFAULT_BASE_LR)
        kwargs.pop("use_fused_step", None)
        kwargs.pop("aggregate_num", None)
        self._own = kwargs
        self._memory: dict[str, float] = {}
        self._beside: dict[Any, dict[str, NDArray]] = {}  # what the rule keeps and MXNet does not, by index
        self._made: tuple[Any, Rule] | None = None
        super().__init__(**common)
        for name, value in kwargs.items():
            setattr(self, name, value)
        self._rule()  # settings that are wrong are found now

    def _rule(self) -> Rule:
        """Return the rule for the settings as they are now: scripts change ``rescale_grad``."""
        key = (self.rescale_grad, self.clip_gradient)
        if self._made is None or self._made[0] != key:
            settings = {"rescale_grad": self.rescale_grad, "clip_gradient": self.clip_gradient, **self._own}
            self._made = (key, make_rule(f"mxnet.{self.kind}", settings))
        return self._made[1]

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """Return what MXNet keeps for an array: one array, or a tuple of them in its order."""
        rule, form = self._rule(), self._form()

        def first(name: str | None) -> NDArray | None:
            return None if name is None else NDArray(rule.first(name, weight.tensor.detach()))

        kept = set(form if isinstance(form, tuple) else (form,))
        beside = {name: first(name) for name in rule.names if name not in kept}
        self._beside[index] = {name: one for name, one in beside.items() if one is not None}
        return tuple(map(first, form)) if isinstance(form, tuple) else first(form)

    def left_out(self, index: Any) -> tuple[NDArray, ...]:
        """Return the sum of gradients of an update that is not complete, which MXNet loses."""
        return tuple(one for name, one in self._beside.get(index, {}).items() if name == "sum")

    def _form(self) -> str | tuple[str | None, ...] | None:
        """Return the rule's names for what MXNet keeps for an array; one name if that is no tuple."""
        rule = self._rule()
        momentum = "mom" if getattr(rule, "momentum", 0.0) else None
        forms: dict[str, str | tuple[str | None, ...]] = {
            "adagrad": "history",
            "dcasgd": (momentum, "before"),
            "groupadagrad": "history",
            "rmsprop": rule.names if getattr(rule, "centered", False) else ("n",),
        }
        if self.kind in forms:
            return forms[self.kind]
        return momentum if "mom" in rule.names else rule.names or None

    def memory_of(self, attributes: Mapping[str, Any]) -> dict[str, float]:
        """Return what the rule remembers, from the attributes of an optimizer of MXNet's."""
        own, theirs = {"nadam": ("product", "m_schedule"), "lars": ("rate", "cur_lr")}.get(
            self.kind, ("", "")
        )
        value = attributes.get(theirs)
        return {own: float(value)} if isinstance(value, int | float) else {}

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: Any) -> None:
        """Change an array by its gradient."""
        self._update_count(index)
        if index not in self._beside:
            self.create_state(index, weight)
        rule, form = self._rule(), self._form()
        names, arrays = (form, state) if isinstance(form, tuple) else ((form,), (state,))
        named = dict(zip(names, arrays, strict=True)) | self._beside.get(index, {})
        block = Block(
            weights=[weight.tensor.detach()],
            gradients=[grad.tensor.detach().to(weight.tensor.dtype)],
            state={name: [named[name].tensor] for name in rule.names},
            rate=self._get_lr(index),
            decay=self._get_wd(index),
            step=self._index_update_count[index],
            scale=1.0,
            noise=lambda: [torch.randn_like(weight.tensor)],
        )
        with torch.no_grad():
            self._begin(rule, block, self.idx2name.get(index, str(index)))
            rule.update(block)

    def _begin(self, rule: Rule, block: Block, name: str) -> None:
        """Give a block what the rule finds out when an update begins; here it is for one array."""
        sums = tuple(rule.measure(block).tolist()) if rule.measures else ()
        parameter = Multiplied(name, block.rate, block.decay, sums)
        beginning = Beginning(block.step, self.learning_rate, 1, (parameter,), self._memory)
        block.factors = tuple(rule.begin(beginning).get(name, ()))
        block.scale = rule.scale(beginning)


_COMMON = (
    "rescale_grad",
    "param_idx2name",
    "wd",
    "clip_gradient",
    "learning_rate",
    "lr_scheduler",
    "sym",
    "begin_num_update",
    "multi_precision",
    "param_dict",
)


def _of_rule(kind: str, name: str) -> type[RuleOptimizer]:
    rule = RULES[f"mxnet.{kind}"]
    made = type(name, (RuleOptimizer,), {"kind": kind, "__doc__": rule.__doc__, "__module__": __name__})
    return Optimizer.register(made)


SGD = _of_rule("sgd", "SGD")
ccSGD = _of_rule("ccsgd", "ccSGD")  # noqa: N816 - MXNet's name
NAG = _of_rule("nag", "NAG")
Signum = _of_rule("signum", "Signum")
DCASGD = _of_rule("dcasgd", "DCASGD")
SGLD = _of_rule("sgld", "SGLD")
Adam = _of_rule("adam", "Adam")
AdaGrad = _of_rule("adagrad", "AdaGrad")
GroupAdaGrad = _of_rule("groupadagrad", "GroupAdaGrad")
RMSProp = _of_rule("rmsprop", "RMSProp")
AdaDelta = _of_rule("adadelta", "AdaDelta")
Ftrl = _of_rule("ftrl", "Ftrl")
Adamax = _of_rule("adamax", "Adamax")
Nadam = _of_rule("nadam", "Nadam")
FTML = _of_rule("ftml", "FTML")
LAMB = _of_rule("lamb", "LAMB")
LARS = _of_rule("lars", "LARS")
LBSGD = _of_rule("lbsgd", "LBSGD")


@Optimizer.register
class Test(Optimizer):
    """w += g rescale_grad; the state is a copy of w."""

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """Return zeros."""
        return NDArray(torch.zeros_like(weight.tensor))

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: Any) -> None:
        """Change an array by its gradient."""
        weight[:] = weight + grad * self.rescale_grad
        state[:] = weight


register = Optimizer.register
create = Optimizer.create_optimizer


class Updater:
    """An optimizer with what it keeps for each array, called as ``updater(index, grad, weight)``.

    Attributes:
        optimizer: The optimizer.
        states: What is kept, by index.
    """

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer
        self.states: dict[Any, Any] = {}
        self.states_synced: dict[Any, bool] = {}

    def __call__(self, index: Any, grad: Any, weight: Any) -> None:
        """Change an array, or several, by their gradients."""
        several = isinstance(index, list | tuple)
        pairs = zip(index, grad, weight, strict=True) if several else [(index, grad, weight)]
        for one, gradient, array in pairs:
            if one not in self.states:
                self.states[one] = self.optimizer.create_state_multi_precision(one, array)
            self.optimizer.update_multi_precision(one, array, gradient, self.states[one])


def get_updater(optimizer: Optimizer) -> Updater:
    """Return what updates arrays by an optimizer."""
    return Updater(optimizer)


__all__ = ["Optimizer", "RuleOptimizer", "Updater", "create", "get_updater", "register"]
