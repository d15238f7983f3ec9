"""The names of ``netweave.runtime.backends.torch``, and the modules that they are imported from."""

from netweave.runtime.backends.torch.net import TorchNet as TorchNet
from netweave.runtime.backends.torch.net import prepare as prepare
from netweave.runtime.backends.torch.operator_table import Ints as Ints
from netweave.runtime.backends.torch.operator_table import Lowering as Lowering
from netweave.runtime.backends.torch.operator_table import Number as Number
from netweave.runtime.backends.torch.operator_table import all_lowerings as all_lowerings
from netweave.runtime.backends.torch.operator_table import find_lowering as find_lowering
from netweave.runtime.backends.torch.operator_table import lowering as lowering
from netweave.runtime.backends.torch.parameters import ParameterStore as ParameterStore
