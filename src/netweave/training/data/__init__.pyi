"""The names of ``netweave.training.data``, and the modules that they are imported from."""

from netweave.training.data.loader import Batch as Batch
from netweave.training.data.loader import Loader as Loader
from netweave.training.data.order import BatchPlan as BatchPlan
from netweave.training.data.order import BatchShards as BatchShards
from netweave.training.data.order import BatchShare as BatchShare
from netweave.training.data.order import BatchTurns as BatchTurns
from netweave.training.data.order import Order as Order
from netweave.training.data.order import Shards as Shards
from netweave.training.data.order import Turns as Turns
from netweave.training.data.order import share_bounds as share_bounds
from netweave.training.data.source import SOURCES as SOURCES
from netweave.training.data.source import EndOfDataError as EndOfDataError
from netweave.training.data.source import Record as Record
from netweave.training.data.source import Source as Source
from netweave.training.data.source import open_source as open_source
from netweave.training.data.transform import TRANSFORMS as TRANSFORMS
from netweave.training.data.transform import Pipeline as Pipeline
