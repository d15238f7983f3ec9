"""Solvers, learning-rate policies and initial values, with the exact rules of each framework."""

from netweave.training.optim import caffe as _caffe
from netweave.training.optim import darknet as _darknet
from netweave.training.optim import singa as _singa
from netweave.training.optim.first_values import first_values
from netweave.training.optim.keras import policies as _keras_policies
from netweave.training.optim.keras import rules as _keras_rules
from netweave.training.optim.mxnet import adaptive as _mxnet_adaptive
from netweave.training.optim.mxnet import policies as _mxnet_policies
from netweave.training.optim.mxnet import rules as _mxnet_rules
from netweave.training.optim.rule import (
    POLICIES,
    RULES,
    FlatLayout,
    Policy,
    Rule,
    Trained,
    flat_layout,
    make_policy,
    make_rule,
)
from netweave.training.optim.updater import Update, Updater

# these are imported to enter their rows in the tables
del _caffe, _darknet, _singa, _keras_policies, _keras_rules
del _mxnet_adaptive, _mxnet_policies, _mxnet_rules

__all__ = [
    "POLICIES",
    "RULES",
    "FlatLayout",
    "Policy",
    "Rule",
    "Trained",
    "Update",
    "Updater",
    "first_values",
    "flat_layout",
    "make_policy",
    "make_rule",
]
