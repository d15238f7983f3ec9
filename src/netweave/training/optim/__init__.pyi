"""The names of ``netweave.training.optim``, and the modules that they are imported from."""

from netweave.training.optim.rule import POLICIES as POLICIES
from netweave.training.optim.rule import RULES as RULES
from netweave.training.optim.rule import FlatLayout as FlatLayout
from netweave.training.optim.rule import Policy as Policy
from netweave.training.optim.rule import Rule as Rule
from netweave.training.optim.rule import Trained as Trained
from netweave.training.optim.rule import flat_layout as flat_layout
from netweave.training.optim.rule import make_policy as make_policy
from netweave.training.optim.rule import make_rule as make_rule
from netweave.training.optim.updater import Update as Update
from netweave.training.optim.updater import Updater as Updater
