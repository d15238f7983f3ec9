"""The public API: what ``import netweave`` provides; its names are in ``__init__.pyi``."""

from netweave.deferred import names_of_stub

__all__, __getattr__, __dir__ = names_of_stub(__name__, __file__)
from netweave.api import kvstore
from netweave.api.arguments import draw_inputs, load_arrays, save_arrays
from netweave.api.boxes import AnchorResult, evaluate_boxes, find_anchors, find_boxes, image_input
from netweave.api.comparing import (
    FixedPort,
    bisect,
    check_target,
    compare,
    compare_all,
    fix_port,
    mend,
)
from netweave.api.custom_operators import operator
from netweave.api.dumps import capture
from netweave.api.injection import Injection, inject
from netweave.api.inspecting import (
    CharacterModel,
    PreparedNet,
    load_for_inspection,
    prepare,
    sample,
    save_page,
    stream_sample,
)
from netweave.api.joint_reading import load_all
from netweave.api.memory import measure_memory, plan_memory, save_memory_picture, tiled
from netweave.api.parts import SortedParts, formats, load_parts, sort_parts, unpack_parts
from netweave.api.reading import convert_and_verify, load, run, save, to_inference
from netweave.api.runs import evaluate, extract, find_checkpoints, find_runs, load_phases, read_curves
from netweave.api.timing import gain_of, load_for_timing, time_inference, time_layers
from netweave.api.training import (
    PackOptions,
    load_cluster,
    load_job,
    pack,
    plan_cluster,
    plan_partition,
    plan_run,
    train,
)
from netweave.api.training_records import compare_training, load_training, record_training, save_training
from netweave.api.weights import PruneResult, prune, replicate, save_weights, transfer_weights, writes_weights
from netweave.api.zoo import ZooNet, save_zoo_picture, zoo_costs
from netweave.comparison import (
    OUTPUT_TOLERANCE,
    CompareOptions,
    Comparison,
    Verdict,
    open_comparison,
    save_comparison,
)
from netweave.comparison.fixes import Mended, Mender
from netweave.files.protections import protections
from netweave.formats import CODE_NOT_ALLOWED, format_text
from netweave.formats.mxnet import symbol
from netweave.graph import Graph
from netweave.graph.passes.partition import LayerCut
from netweave.graph.summary import bytes_text
from netweave.job import Cluster, Job
from netweave.runtime.images.preprocessing import Preprocessing
from netweave.training.parallel.devices import Context, cpu, device, gpu
from netweave.training.run_record import RECORD as RUN_RECORD
from netweave.training.run_record import RunState, RunStatus, is_alive, process_birth, run_goodput, run_status
from netweave.training.watchers import TrainOptions
from netweave.viewer import comparison_sarif, summary_lines

__all__ = [
    "CODE_NOT_ALLOWED",
    "OUTPUT_TOLERANCE",
    "RUN_RECORD",
    "AnchorResult",
    "CharacterModel",
    "Cluster",
    "CompareOptions",
    "Comparison",
    "Context",
    "FixedPort",
    "Graph",
    "Injection",
    "Job",
    "LayerCut",
    "Mended",
    "Mender",
    "PackOptions",
    "PreparedNet",
    "Preprocessing",
    "PruneResult",
    "RunState",
    "RunStatus",
    "SortedParts",
    "TrainOptions",
    "Verdict",
    "ZooNet",
    "bisect",
    "bytes_text",
    "capture",
    "check_target",
    "compare",
    "compare_all",
    "compare_training",
    "comparison_sarif",
    "convert_and_verify",
    "cpu",
    "device",
    "draw_inputs",
    "evaluate",
    "evaluate_boxes",
    "extract",
    "find_anchors",
    "find_boxes",
    "find_checkpoints",
    "find_runs",
    "fix_port",
    "format_text",
    "formats",
    "gain_of",
    "gpu",
    "image_input",
    "inject",
    "is_alive",
    "kvstore",
    "load",
    "load_all",
    "load_arrays",
    "load_cluster",
    "load_for_inspection",
    "load_for_timing",
    "load_job",
    "load_parts",
    "load_phases",
    "load_training",
    "measure_memory",
    "mend",
    "open_comparison",
    "operator",
    "pack",
    "plan_cluster",
    "plan_memory",
    "plan_partition",
    "plan_run",
    "prepare",
    "process_birth",
    "protections",
    "prune",
    "read_curves",
    "record_training",
    "replicate",
    "run",
    "run_goodput",
    "run_status",
    "sample",
    "save",
    "save_arrays",
    "save_comparison",
    "save_memory_picture",
    "save_page",
    "save_training",
    "save_weights",
    "save_zoo_picture",
    "sort_parts",
    "stream_sample",
    "summary_lines",
    "symbol",
    "tiled",
    "time_inference",
    "time_layers",
    "to_inference",
    "train",
    "transfer_weights",
    "unpack_parts",
    "writes_weights",
    "zoo_costs",
]
