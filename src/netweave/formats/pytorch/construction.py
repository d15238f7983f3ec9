"""Construction of PyTorch's modules."""

from __future__ import annotations

import importlib
import inspect
import json
import math
import urllib.request
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch.overrides import TorchFunctionMode

from netweave.errors import UnsupportedError, WeightError
from netweave.files.library_errors import root_cause
from netweave.files.missing_modules import importing, plain_base, with_bases, without
from netweave.files.model_imports import Wanted, construct, imported, in_folder, own_factories
from netweave.files.pickles import removed_names
from netweave.files.python_code import Settings
from netweave.formats.pytorch import read_state
from netweave.formats.pytorch.exporting import stand_in
from netweave.formats.pytorch.module import unscripted
from netweave.formats.pytorch.state import COUNTERS, match_names
from netweave.formats.pytorch.tiny_config import shrink, with_stored

# ``class Net(pl.LightningModule)`` is an ``nn.Module`` with more around it for training; so is
# ``BaseModule`` of mmcv. What such a base does for training, nothing here asks for.


class AbsentBase(torch.nn.Module):  # type: ignore[misc]  # torch is not looked into
    """An ``nn.Module`` that takes whatever a base of another package takes."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def save_hyperparameters(self, *args: Any, **kwargs: Any) -> None:
        """Keep the arguments of the constructor that calls it as ``hparams``, as Lightning does."""
        frame = inspect.currentframe()
        caller = frame.f_back if frame is not None else None
        values = dict(caller.f_locals) if caller is not None else {}
        self.hparams = Settings({k: v for k, v in values.items() if k not in {"self", "__class__"}})

    def init_weights(self) -> None:
        """Do nothing: weights are drawn already."""


def base_for(name: str) -> type:
    """Return the class that stands for an absent one: ``nn.Module`` for a module by its name."""
    last = name.rpartition(".")[2]
    return AbsentBase if last.endswith("Module") and not last.endswith("DataModule") else plain_base(name)


# Many constructors download the weights of their backbone, or load a file of their author's. Nothing is
# fetched here: the code gets a state dict that is empty, which any net accepts, and the user is told.


class MissingState(OrderedDict[str, Any]):
    """A state dict that was not fetched: it is empty, and so is what a checkpoint holds under a key."""

    def __missing__(self, key: str) -> MissingState:
        return MissingState()

    def __delitem__(self, key: str) -> None:
        if key in self:
            super().__delitem__(key)

    def pop(self, key: str, default: Any = None) -> Any:
        """Return what is under a key; nothing is."""
        return super().pop(key, default)

    def get(self, key: str, default: Any = None) -> Any:
        """Return what is under a key: an empty state as well."""
        return self[key]

    def eval(self) -> MissingState:
        """Return itself, as a module that was pickled whole would."""
        return self

    def state_dict(self) -> MissingState:
        """Return itself, as a module that was pickled whole would."""
        return self


@contextmanager
def drawn_instead(notes: list[str], *, trusted: bool) -> Iterator[None]:
    """Answer what code fetches with an empty state dict, until the context ends.

    Args:
        notes: What to tell the user is added here.
        trusted: Try to fetch it first, as the code would.
    """
    answers = _Answers(notes, trusted=trusted)
    with ExitStack() as stack:
        for owner, name, answer in answers.table():
            stack.enter_context(patch.object(owner, name, answer))
        yield


class _Answers:
    """Functions that stand for those that fetch weights."""

    def __init__(self, notes: list[str], *, trusted: bool) -> None:
        self._notes = notes
        self._trusted = trusted
        self._is_missing = False
        self._load_into = torch.nn.Module.load_state_dict

    def table(self) -> list[tuple[Any, str, Callable[..., Any]]]:
        """Return the functions by the place where code looks for them."""
        hub, zoo = torch.hub, importlib.import_module("torch.utils.model_zoo")
        state = self._instead_of(hub.load_state_dict_from_url, MissingState())
        return [
            (hub, "load_state_dict_from_url", state),
            (zoo, "load_url", state),
            (hub, "download_url_to_file", self._instead_of(hub.download_url_to_file, None)),
            (urllib.request, "urlretrieve", self._instead_of(urllib.request.urlretrieve, ("", None))),
            (torch, "load", self._instead_of(torch.load, MissingState(), is_file=True)),  # noqa: TID251 - in the sandbox
            (torch.nn.Module, "load_state_dict", self._loading()),
        ]

    def _instead_of(
        self, function: Callable[..., Any], answer: Any, *, is_file: bool = False
    ) -> Callable[..., Any]:
        def fetch(*args: Any, **kwargs: Any) -> Any:
            source = next(iter((*args, *kwargs.values())), None)  # it may be named: url=..., filename=...
            can_try = self._trusted or (is_file and _is_readable(source))
            try:
                if can_try:
                    return function(*args, **kwargs)
            except OSError:
                pass  # no such file, no network
            self._is_missing = True
            verb = "loads" if is_file else "downloads"
            note = f"its code {verb} {str(source)!r}, which is not here: these weights are drawn"
            advice = "" if self._trusted else "; --trust lets code that you trust read and download files"
            if note + advice not in self._notes:
                self._notes.append(note + advice)
            return answer

        return fetch

    def _loading(self) -> Callable[..., Any]:
        original = self._load_into

        def load_state_dict(
            module: torch.nn.Module, state_dict: Any, strict: bool = True, **kwargs: Any
        ) -> Any:
            """Accept a state that lacks arrays, once one could not be fetched."""
            return original(module, state_dict, strict=strict and not self._is_missing, **kwargs)

        return load_state_dict


def _is_readable(source: Any) -> bool:
    return not isinstance(source, str | Path) or Path(source).is_file()


NEEDS = {"torch.utils.tensorboard": "tensorboard"}
"""Modules of PyTorch that another package is needed for, and no net."""

WRAPPERS = (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)
"""Modules that hold a net for training on several devices."""


def module_from_code(request: Mapping[str, Any], notes: list[str]) -> torch.nn.Module:
    """Import a file of code, construct the model that a request names, and load its weights.

    Args:
        request: What the child process was asked for.
        notes: What to tell the user is added here.
    """
    folder, place = request["trusted_folder"], request["place"]
    with (
        without([*request["missing"], *_absent_of_torch()], request["templates"]),
        with_bases(base_for),
        drawn_instead(notes, trusted=folder is not None),
        in_folder(folder),
        removed_names(),
        unscripted(),
    ):
        with importing():
            code = imported(
                Path(request["net"]),
                name=request["name"],
                folders=request["folders"],
                first=request["first"],
                is_own_used=request["is_own_used"],
            )
        stand_in(code)
        wanted = Wanted.of_request(
            request, torch.nn.Module, noun="an nn.Module", as_tensor=torch.from_numpy, adapted=as_module
        )
        classes, functions = own_factories(code, torch.nn.Module)
        made = construct(code, classes if len(classes) == 1 else functions or classes, wanted)
    notes += [f"{place}: {note}" for note in made.notes]
    module: torch.nn.Module = made.model
    while isinstance(module, WRAPPERS):
        module = module.module
    if request["weights"]:
        load_weights(module, Path(request["weights"]), request["weights_place"], notes)
    return module


def as_module(made: Any) -> Any:
    """Return a function as a module that calls it; a module, and what cannot be called, stay as they are."""
    if isinstance(made, torch.nn.Module) or not callable(made) or isinstance(made, type):
        return made
    module = torch.nn.Module()
    module.forward = made
    return module


def _absent_of_torch() -> list[str]:
    """Return the modules of PyTorch that need a package that is not installed."""
    return [name for name, package in NEEDS.items() if find_spec(package) is None]


def module_from_folder(request: Mapping[str, Any], notes: list[str]) -> torch.nn.Module:
    """Construct the model of a Hugging Face model folder, by the package that it names the class of.

    Raises:
        UnsupportedError: The package is not installed.
    """
    try:
        import transformers
    except ImportError as error:
        raise UnsupportedError(
            "is a Hugging Face model folder, which is read with transformers, and that is not installed: "
            "pip install transformers"
        ) from error
    folder = request["net"]
    config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=True)
    if request.get("tiny"):
        return _tiny_from(config, Path(folder), request, notes)
    config.use_cache = False  # what a next call would be given is no output of the net
    config._experts_implementation = EXPERTS
    if request["has_weights"]:
        settings = {"config": config, "attn_implementation": "eager"}
        kind = _kind_of(config, request["entry"])
        module = kind.from_pretrained(folder, local_files_only=True, dtype=torch.float32, **settings)
    else:
        module = _of_config(config, request["entry"])
    if request["weights"]:
        load_weights(module, Path(request["weights"]), request["weights_place"], notes)
    assert isinstance(module, torch.nn.Module)
    return module


def _kind_of(config: Any, entry: str | None) -> Any:
    """Return the class of Transformers that a configuration names, or the caller."""
    import transformers

    names = [name for name in getattr(config, "architectures", None) or () if hasattr(transformers, name)]
    return getattr(transformers, entry or (names[0] if names else "AutoModel"))


EXPERTS = "batched_mm"
"""Implementation of experts in a trace; Transformers' usual one sorts tokens, which ONNX cannot say."""


def _of_config(config: Any, entry: str | None) -> torch.nn.Module:
    """Return the model of a configuration, with first weights."""
    config._experts_implementation = EXPERTS
    kind = _kind_of(config, entry)
    make = getattr(kind, "from_config", None) or kind._from_config
    module: torch.nn.Module = make(config=config, attn_implementation="eager")
    return module


def _tiny_from(config: Any, folder: Path, request: Mapping[str, Any], notes: list[str]) -> torch.nn.Module:
    """Return the model of a shrunk configuration with drawn weights, written to the working folder.

    Raises:
        UnsupportedError: Transformers makes no model of the shrunk configuration.
    """
    stored = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    settings = with_stored(json.loads(config.to_json_string(use_diff=False)), stored)
    reasons = []
    for widths in (True, False):  # what is left of a net without its widths is small, too
        shrunk = shrink(settings, widths=widths)
        try:
            module = _of_config(type(config).from_dict(shrunk.config), request["entry"]).float()
            break
        except Exception as error:  # noqa: BLE001 - any model's checks of its settings
            reasons.append(root_cause(error))
    else:
        raise UnsupportedError(
            f"{type(config).__name__} does not take its settings shrunk: {reasons[0]}; shrink config.json by "
            "hand, and leave out --tiny"
        )
    if reasons:
        notes.append(f"heads and features are as large as they were: {reasons[0]}")
    draw_weights(module)
    module.save_pretrained(".", max_shard_size="100GB")
    Path("config.json").write_text(json.dumps(shrunk.config, indent=2), encoding="utf-8")
    dtype = stored.get("dtype") or stored.get("torch_dtype") or "float32"
    notes[:0] = [f"dtype {dtype} to float32"] if dtype != "float32" else []
    notes += shrunk.changes
    notes += ["quantization_config left out"] if stored.get("quantization_config") else []
    return module


SEED_OF_TINY = 0
"""Weights of a shrunk net are drawn by it."""


def draw_weights(module: torch.nn.Module) -> None:
    """Draw all weights of a module: those that it starts with hide mistakes (norms of ones, scores near 0).

    Matrices are drawn anew, for outputs about as large as inputs; arrays that start about a value, such as
    the scale of a norm, stay near it.
    """
    generator = torch.Generator().manual_seed(SEED_OF_TINY)
    convolutions = (p for p in module.modules() if isinstance(p, torch.nn.modules.conv._ConvNd))
    filters = {id(part.weight) for part in convolutions}
    stored = module.state_dict()
    buffers = [(name, x) for name, x in module.named_buffers() if name in stored and x.is_floating_point()]
    with torch.no_grad():
        for array in (array for array in module.parameters() if array.is_floating_point()):
            noise = torch.randn(array.shape, generator=generator)
            if array.ndim < 2 or abs(array.mean()) > array.std():  # decays of a scan are a matrix, too
                array.add_(0.2 * noise)
            else:
                fan_in = array[0].numel() if id(array) in filters else array.shape[-1]
                array.copy_(1.2 * noise / math.sqrt(fan_in))
        for name, array in buffers:
            noise = torch.rand(array.shape, generator=generator)
            if name.endswith("running_var"):
                array.copy_(0.5 + noise)
            elif not array.any():  # means, and corrections of a router's scores
                array.copy_(0.2 * (noise - 0.5))


def load_weights(module: torch.nn.Module, weights: Path, place: str, notes: list[str]) -> None:
    """Give a module the arrays of a file.

    Raises:
        WeightError: They are not those of the module.
    """
    own = module.state_dict()
    match = match_names(read_state(weights, place=place), {name: value.shape for name, value in own.items()})
    if match.note:
        notes.append(f"{place}: {match.note}")
    tensors = {name: _tensor(array) for name, array in match.arrays.items() if not match.note or name in own}
    given = {own[name].data_ptr() for name in tensors if name in own}  # a tied array may have several names
    missing = [
        name
        for name, value in own.items()
        if name not in tensors and not name.endswith(COUNTERS) and value.data_ptr() not in given
    ]
    unknown = [name for name in tensors if name not in own]
    unlike = [
        f"{name} has {tuple(tensors[name].shape)}, expected {tuple(own[name].shape)}"
        for name in own
        if name in tensors and tensors[name].shape != own[name].shape
    ]
    faults = [
        f"{word} {', '.join(names[:5])}{', ...' if len(names) > 5 else ''}"
        for word, names in (("missing:", missing), ("not in the model:", unknown), ("sizes:", unlike))
        if names
    ]
    if faults:
        raise WeightError(f"does not fit the model: {'; '.join(faults)}", place=place)
    module.load_state_dict(tensors, strict=False)


def _tensor(array: Any) -> torch.Tensor:
    if array.dtype.name == "bfloat16":  # NumPy has none of its own
        return torch.from_numpy(array.view("int16")).view(torch.bfloat16)
    return torch.from_numpy(array)


# Where a tensor lies does not change the net, so all of them lie in main memory.

TENSOR_TYPES = (
    "FloatTensor",
    "DoubleTensor",
    "HalfTensor",
    "LongTensor",
    "IntTensor",
    "ByteTensor",
    "BoolTensor",
)
"""Old constructors of tensors, as ``torch.cuda`` has them."""


class OnCpu(TorchFunctionMode):  # type: ignore[misc]  # torch is not looked into
    """Replaces a GPU by the CPU in each call."""

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Make a call, with the CPU for a GPU."""
        named = dict(kwargs or {})
        if func is torch.Tensor.cuda:
            return args[0]
        if func is torch.Tensor.to:
            args = tuple("cpu" if _is_gpu(argument) else argument for argument in args)
        if _is_gpu(named.get("device")):
            named["device"] = "cpu"
        return func(*args, **named)


def _is_gpu(value: Any) -> bool:
    if isinstance(value, torch.device):
        return str(value.type) == "cuda"
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return is_number or (isinstance(value, str) and value.startswith("cuda"))


@contextmanager
def on_cpu() -> Iterator[None]:
    """Let code that asks for a GPU have the CPU, until the context ends, unless there is one."""
    if torch.cuda.is_available():
        yield
        return
    with ExitStack() as stack:
        for name in TENSOR_TYPES:
            stack.enter_context(patch.object(torch.cuda, name, getattr(torch, name), create=True))
        stack.enter_context(patch.object(torch.cuda, "current_device", lambda: 0))
        stack.enter_context(OnCpu())
        yield
