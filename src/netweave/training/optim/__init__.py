"""Solvers, learning-rate policies and initial values, with the exact rules of each framework."""

from netweave.training.optim.blocks import Trained
from netweave.training.optim.caffe import fillers as _caffe_fillers
from netweave.training.optim.caffe import policies as _caffe_policies
from netweave.training.optim.caffe import rules as _caffe_rules
from netweave.training.optim.darknet import initializers as _darknet_initializers
from netweave.training.optim.darknet import policies as _darknet_policies
from netweave.training.optim.darknet import rules as _darknet_rules
from netweave.training.optim.first_values import first_values
from netweave.training.optim.keras import initializers as _keras_initializers
from netweave.training.optim.keras import layerwise as _keras_layerwise
from netweave.training.optim.keras import policies as _keras_policies
from netweave.training.optim.keras import rules as _keras_rules
from netweave.training.optim.layout import FlatLayout, flat_layout
from netweave.training.optim.mxnet import adaptive as _mxnet_adaptive
from netweave.training.optim.mxnet import initializers as _mxnet_initializers
from netweave.training.optim.mxnet import layerwise as _mxnet_layerwise
from netweave.training.optim.mxnet import policies as _mxnet_policies
from netweave.training.optim.mxnet import rules as _mxnet_rules
from netweave.training.optim.policy import POLICIES, Policy, make_policy
from netweave.training.optim.rule import RULES, Rule, make_rule
from netweave.training.optim.singa import initializers as _singa_initializers
from netweave.training.optim.singa import policies as _singa_policies
from netweave.training.optim.singa import rules as _singa_rules
from netweave.training.optim.updater import Update, Updater

# these are imported to enter their rows in the tables
del _caffe_fillers, _caffe_policies, _caffe_rules
del _darknet_initializers, _darknet_policies, _darknet_rules
del _keras_initializers, _keras_layerwise, _keras_policies, _keras_rules
del _mxnet_adaptive, _mxnet_initializers, _mxnet_layerwise, _mxnet_policies, _mxnet_rules
del _singa_initializers, _singa_policies, _singa_rules

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
