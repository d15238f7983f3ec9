"""Configuration and data files of Darknet."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from netweave.errors import ReadError, UsageError
from netweave.files import read_bytes
from netweave.files.source import is_folder

# All blanks are dropped, a line that begins with ``#`` or ``;`` is a comment, and of a setting that is
# written twice in one section the first counts.
#
# Settings are those that ``parser.c`` of pjreddie's or AlexeyAB's branch asks for, and three more that nets
# of these branches contain although nothing reads them (beta1, max_epochs, seen). Most matter to training
# alone. For any other name Darknet prints "Unused field" and goes on, so that a mistyped setting makes
# another net.

T = TypeVar("T")

_INTEGER = re.compile(r"[+-]?\d{1,18}(?![\d.])")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


@dataclass(frozen=True, slots=True)
class Section:
    """One section of the file: a layer, or the net itself.

    Attributes:
        type: What stands between the brackets.
        file: The file.
        line: The line of the brackets, from 1.
        settings: Texts by name, without blanks.
        lines: The line of each setting.
    """

    type: str
    file: str
    line: int
    settings: Mapping[str, str]
    lines: Mapping[str, int]

    @property
    def place(self) -> str:
        """Its place, for messages."""
        return self.place_of(self.line)

    def place_of(self, line: int) -> str:
        """Return the place of one of its lines, for messages."""
        return f"{self.file}:{line}: section [{self.type}]"

    def has(self, name: str) -> bool:
        """Return whether a setting is written."""
        return name in self.settings

    def integer(self, name: str, default: int, *, least: int | None = None) -> int:
        """An integer, as C's ``atoi`` reads it; what follows the number is ignored.

        Raises:
            ReadError: It is not one, or is below ``least``.
        """
        expected = "an integer" if least is None else f"an integer of at least {least}"
        number = self._value(name, default, _integer, expected)
        if least is not None and number < least:
            raise self.read_error(name, expected)
        return number

    def flag(self, name: str) -> bool:
        """Return whether a setting is an integer other than 0; off if it is not written."""
        return self.integer(name, 0) != 0

    def strides(self) -> list[int]:
        """The steps of a window, down and across."""
        stride = self.integer("stride", 1, least=1)
        return [self.integer(name, stride, least=1) for name in ("stride_y", "stride_x")]

    def number(self, name: str, default: float) -> float:
        """A number, as C's ``atof`` reads it.

        Raises:
            ReadError: It is not one.
        """
        return self._value(name, default, _number, "a number")

    def integers(self, name: str) -> tuple[int, ...]:
        """Integers between commas; none if the setting is not written.

        Raises:
            ReadError: They are not.
        """
        return self._value(name, (), _integers, "integers between commas")

    def numbers(self, name: str) -> tuple[float, ...]:
        """Numbers between commas; none if the setting is not written.

        Raises:
            ReadError: They are not.
        """
        return self._value(name, (), _numbers, "numbers between commas")

    def string(self, name: str, default: str) -> str:
        """A string."""
        return self.settings.get(name, default)

    def read_error(self, name: str, expected: str) -> ReadError:
        """Return the error for a setting that is not what it must be."""
        if name not in self.settings:
            return ReadError(f"has no {name!r}, expected {expected}", place=self.place)
        message = f"{name!r} is {self.settings[name]!r:.60}, expected {expected}"
        return ReadError(message, place=self.place_of(self.lines[name]))

    def _value(self, name: str, default: T, parse: Callable[[str], T], expected: str) -> T:
        if name not in self.settings:
            return default
        try:
            return parse(self.settings[name])
        except ValueError as error:
            raise self.read_error(name, expected) from error


def read_config(path: Path) -> list[Section]:
    """Parse a file.

    Raises:
        ReadError: It cannot be read, is no text, or a line is neither a section nor a setting.
    """
    return parse_config(read_bytes(path), file=str(path))


def parse_config(content: bytes, *, file: str) -> list[Section]:
    """Parse a file's content; see ``read_config``."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ReadError(f"is not text: byte {error.start} is not UTF-8", place=file) from error
    sections: list[Section] = []
    for number, raw in enumerate(text.splitlines(), start=1):
        line = re.sub(r"\s", "", raw)
        if not line or line[0] in "#;":
            continue
        if line[0] == "[":
            sections.append(_section(line, file=file, number=number))
        else:
            _add_setting(sections, line, file=file, number=number)
    if not sections:
        raise ReadError("contains no section; expected [net] and layers", place=file)
    return sections


def _section(line: str, *, file: str, number: int) -> Section:
    name, bracket, _ = line[1:].partition("]")
    if not bracket or not name:
        raise ReadError(f"{line!r:.60} is not a section, expected [name]", place=f"{file}:{number}")
    return Section(name, file, number, {}, {})


def _add_setting(sections: Sequence[Section], line: str, *, file: str, number: int) -> None:
    name, equals, value = line.partition("=")
    place = f"{file}:{number}"
    if not equals or not name or not value:
        raise ReadError(f"{line!r:.60} is not a setting; expected name=value", place=place)
    if not sections:
        raise ReadError(f"{line!r:.60} is before the first section; expected [net]", place=place)
    section = sections[-1]
    assert isinstance(section.settings, dict)
    assert isinstance(section.lines, dict)
    section.settings.setdefault(name, value)
    section.lines.setdefault(name, number)


def _integer(text: str) -> int:
    match = _INTEGER.match(text)
    if not match:
        raise ValueError(text)
    return int(match[0])


def _number(text: str) -> float:
    match = _NUMBER.match(text)
    if not match:
        raise ValueError(text)
    return float(match[0])


def _integers(text: str) -> tuple[int, ...]:
    return tuple(_integer(item) for item in text.split(",") if item)


def _numbers(text: str) -> tuple[float, ...]:
    return tuple(_number(item) for item in text.split(",") if item)


# fmt: off
SETTINGS = frozenset({
    "absolute", "activation", "adam", "adversarial_lr", "alpha", "anchors", "angle", "antialiasing",
    "aspect", "assisted_excitation", "atoms", "attention", "augment_speed", "B1", "B2", "background",
    "badlabels_rejection_percentage", "batch", "batch_normalize", "beta", "beta1", "beta_nms", "bias_match",
    "bin_output", "binary", "blur", "bottleneck", "burn_in", "burnin_update", "cbn", "center", "channels",
    "class_scale", "classes", "classfix", "clip", "cls_normalizer", "contrastive", "contrastive_color",
    "contrastive_jit_flip", "contrastive_neg_max", "coord_scale", "coordconv", "coords",
    "counters_per_class", "crop_height", "crop_width", "cutmix", "decay", "delta_normalizer",
    "dets_for_show", "dets_for_track", "dilation", "dont_update", "dontload", "dontloadscales", "dontsave",
    "dot", "dropblock", "dropblock_size_abs", "dropblock_size_rel", "dynamic_minibatch", "ema_alpha",
    "embedding_layer", "eps", "equidistant_point", "exposure", "extra", "filters", "flatten", "flip",
    "flipped", "focal_loss", "forced", "from", "gamma", "gaussian_noise", "grad_centr", "group_id",
    "groups", "height", "hidden", "hidden_filters", "history_size", "hue", "ids", "ignore_thresh", "inputs",
    "iou_loss", "iou_normalizer", "iou_thresh", "iou_thresh_kind", "jitter", "kappa", "label_smooth_eps",
    "layers", "learning_rate", "learning_rate_min", "letter_box", "log", "logistic", "loss_scale",
    "lstm_activation", "map", "mask", "mask_scale", "max", "max_batches", "max_chart_loss", "max_crop",
    "max_delta", "max_epochs", "max_ratio", "maxpool_depth", "maxpool_zero_nonmax", "mean", "min_crop",
    "min_ratio", "mixup", "momentum", "mosaic", "mosaic_bound", "new_coords", "nms_kind", "noadjust",
    "noloss", "noobj", "noobject_scale", "notruth", "num", "num_sigmas_reject_badlabels", "numload",
    "obj_normalizer", "object_scale", "objectness_smooth", "onlyforward", "optimized_memory",
    "out_channels", "output", "output_filters", "pad", "padding", "peephole", "policy", "power",
    "probability", "random", "ratio", "reorg", "rescore", "resize", "resize_step", "reverse", "rotate",
    "saturation", "scale", "scale_wh", "scale_x_y", "scales", "seen", "seq_scales",
    "sequential_subdivisions", "sgdr_cycle", "sgdr_mult", "share_index", "shift", "shortcut",
    "show_details", "show_receptive_field", "side", "sim_thresh", "size", "smooth", "softmax", "spatial",
    "sqrt", "state_constrain", "std", "step", "steps", "stopbackward", "stream", "stretch", "stretch_sway",
    "stride", "stride_x", "stride_y", "subdivisions", "sway", "tanh", "temperature", "thresh",
    "time_normalizer", "time_steps", "track", "track_ciou_norm", "track_history_size", "train_only_bn",
    "tree", "truth", "truth_thresh", "try_fix_nan", "type", "uc_normalizer", "unsupervised",
    "use_cuda_graph", "wait_stream", "weights_normalization", "weights_reject_freq", "weights_type",
    "width", "workspace_size_limit_MB", "xnor", "yolo_layer", "yolo_point",
})
# fmt: on


_KEYS = {"train", "valid", "names", "labels", "classes", "backup", "results", "eval", "top", "map"}

_SETS = {"train": ("trainval.txt", "train.txt"), "valid": ("test.txt", "val.txt")}
"""Lists of VOC's ``ImageSets/Main``, the first that there is."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A ``.data`` file: the paths of images and class names.

    Attributes:
        place: The file or folder.
        root: Folder that names of images in lists are relative to.
        train: List of the images to train on; None if there is none.
        valid: List of the images to test on; None if there is none.
        names: Names of the classes; empty where nothing says.
        classes: How many classes there are; 0 where nothing says.
        backup: Folder for weights; None where nothing says.
    """

    place: str
    root: Path
    train: Path | None
    valid: Path | None
    names: tuple[str, ...] = ()
    classes: int = 0
    backup: Path | None = None


def read_data_file(path: Path) -> DataFile:
    """Read a ``.data`` file, or look into a folder in the form of Pascal VOC.

    Names in a ``.data`` file are relative to the working folder or, where that has no such list, to the
    nearest folder above the file that has it.

    Raises:
        ReadError: It cannot be read, or is neither.
    """
    return _voc_folder(path) if is_folder(path) else _data_file(path)


def with_lists(given: Mapping[str, str]) -> DataFile:
    """Return where images are by what the caller gives: by phase, or a file or folder under ``""``.

    Raises:
        UsageError: A phase is not one of Darknet's, or there is nothing to train on.
        ReadError: The file or folder cannot be read.
    """
    unknown = [phase for phase in given if phase not in {"", "train", "test"}]
    if unknown:
        raise UsageError(f"data is given for phase {unknown[0]!r}; expected train or test, or a .data file")
    whole = read_data_file(Path(given[""])) if "" in given else DataFile("", Path(), None, None)
    lists = {
        name: Path(given[phase]) if phase in given else getattr(whole, name)
        for name, phase in (("train", "train"), ("valid", "test"))
    }
    return DataFile(
        whole.place or given.get("train", ""),
        whole.root,
        lists["train"],
        lists["valid"],
        whole.names,
        whole.classes,
        whole.backup,
    )


def _data_file(path: Path) -> DataFile:
    """Parse ``read_data_cfg``'s file: a name, an equals sign and a value on each line; blanks are dropped."""
    settings: dict[str, str] = {}
    for number, line in _lines(path):
        name, equals, value = line.partition("=")
        if not equals or not name or not value:
            raise ReadError(f"{line!r:.60} is not a setting; expected name=value", place=f"{path}:{number}")
        if name not in _KEYS:
            known = ", ".join(sorted(_KEYS))
            raise ReadError(f"unknown setting {name!r}; expected one of {known}", place=f"{path}:{number}")
        settings.setdefault(name, value)
    lists = [settings[name] for name in ("train", "valid", "names", "labels") if name in settings]
    if not {"train", "valid"} & settings.keys():
        raise ReadError("has neither train= nor valid=, expected a list of images", place=str(path))
    root = _root(path, lists)
    train, valid = (root / settings[name] if name in settings else None for name in ("train", "valid"))
    names = settings.get("names") or settings.get("labels")
    count = settings.get("classes", "0")
    if not re.fullmatch(r"\d{1,6}", count):
        raise ReadError(f"classes is {count!r}, expected an integer", place=str(path))
    return DataFile(
        place=str(path),
        root=root,
        train=train,
        valid=valid,
        names=_names(root / names) if names else (),
        classes=int(count),
        backup=root / settings["backup"] if "backup" in settings else None,
    )


def _root(path: Path, lists: list[str]) -> Path:
    """Return the folder that names are relative to: the working one, or one above the file."""
    folders = (Path(), *path.absolute().parents)
    return next((folder for folder in folders if any((folder / name).exists() for name in lists)), Path())


def _voc_folder(folder: Path) -> DataFile:
    sets, lists = folder / "ImageSets" / "Main", {}
    if not sets.is_dir() or not (folder / "JPEGImages").is_dir():
        raise ReadError(
            "has no ImageSets/Main or no JPEGImages, expected both, and Annotations, as in Pascal VOC",
            place=str(folder),
        )
    for name, files in _SETS.items():
        lists[name] = next((sets / file for file in files if (sets / file).is_file()), None)
    if lists["train"] is None and lists["valid"] is None:
        wanted = ", ".join(file for files in _SETS.values() for file in files)
        raise ReadError(f"has no list in ImageSets/Main, expected one of {wanted}", place=str(folder))
    if lists["train"] is not None and lists["train"].name == "trainval.txt" and lists["valid"] is not None:
        lists["train"] = _without_the_tested(sets, lists["valid"]) or lists["train"]
    names = next((file for file in sorted(folder.glob("*.names"))), None)
    return DataFile(
        place=str(folder),
        root=folder,
        train=lists["train"],
        valid=lists["valid"],
        names=_names(names) if names else (),
    )


def _without_the_tested(sets: Path, valid: Path) -> Path | None:
    """Return the list that does not hold the images of the test, where ``trainval`` does."""
    alone = sets / "train.txt"
    return alone if valid.name == "val.txt" and alone.is_file() else None


def _names(path: Path) -> tuple[str, ...]:
    return tuple(line for _, line in _lines(path, blanks=True))


def _lines(path: Path, *, blanks: bool = False) -> list[tuple[int, str]]:
    """Return the lines that say something, with their numbers; without blanks in them unless told."""
    try:
        text = read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ReadError(f"is not text: byte {error.start} is not UTF-8", place=str(path)) from error
    lines = [
        (number, line.strip() if blanks else re.sub(r"\s", "", line))
        for number, line in enumerate(text.splitlines(), 1)
    ]
    return [(number, line) for number, line in lines if line and (blanks or line[0] not in "#;")]
