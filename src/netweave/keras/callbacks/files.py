"""Callbacks that write files: models, tables, curves for TensorBoard."""

from __future__ import annotations

import csv
import struct
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

from netweave.errors import UsageError
from netweave.files.output_files import write_file, writing
from netweave.keras.callbacks.base import Callback, Logs, Monitoring


class ModelCheckpoint(Monitoring):
    """Writes the model after epochs, or after batches.

    Args:
        filepath: The file; ``{epoch:02d}`` and ``{val_loss:.2f}`` stand for numbers of the epoch.
        monitor: The metric that ``save_best_only`` goes by.
        verbose: Whether to print what is written.
        save_best_only: Only where the metric has improved.
        save_weights_only: Only the arrays, to a ``.weights.h5``.
        mode: ``min``, ``max``, or ``auto``: the larger the better for accuracies and the like.
        save_freq: ``epoch``, or a number of batches.
        initial_value_threshold: What has to be bettered at first.

    Raises:
        UsageError: The name has another ending, or there is no such mode.
    """

    def __init__(
        self,
        filepath: Any,
        monitor: str = "val_loss",
        verbose: int = 0,
        save_best_only: bool = False,
        save_weights_only: bool = False,
        mode: str = "auto",
        save_freq: str | int = "epoch",
        initial_value_threshold: float | None = None,
    ) -> None:
        super().__init__(monitor, mode)
        self.filepath = str(filepath)
        ending = ".weights.h5" if save_weights_only else (".keras", ".h5")
        if not self.filepath.endswith(ending):
            raise UsageError(f"filepath is {self.filepath!r}, expected a name that ends in {ending}")
        if save_freq != "epoch" and not isinstance(save_freq, int):
            raise UsageError(f"save_freq is {save_freq!r}, expected 'epoch' or a number of batches")
        self.verbose, self.save_best_only, self.save_weights_only = verbose, save_best_only, save_weights_only
        self.save_freq = save_freq
        self.best = self.worst if initial_value_threshold is None else initial_value_threshold
        self._batches = self._epoch = 0

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        """Note the number of the epoch."""
        self._epoch = epoch

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Write the model after so many batches."""
        self._batches += 1
        if isinstance(self.save_freq, int) and self._batches >= self.save_freq:
            self._batches = 0
            self._save(self._epoch, logs, batch)

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Write the model after an epoch."""
        if self.save_freq == "epoch":
            self._save(epoch, logs, None)

    def _save(self, epoch: int, logs: Logs, batch: int | None) -> None:
        if self.save_best_only:
            value = self.value(logs)
            if value is None or not self.is_better(value, self.best):
                return
            self.best = value
        numbers = {"epoch": epoch + 1, **({} if batch is None else {"batch": batch + 1}), **(logs or {})}
        try:
            path = self.filepath.format(**numbers)
        except KeyError as error:
            known = ", ".join(numbers)
            raise UsageError(
                f"filepath {self.filepath!r} names {error}, which is not measured: {known}"
            ) from error
        if self.save_weights_only:
            self.model.save_weights(path)
        else:
            self.model.save(path)
        if self.verbose:
            print(f"Epoch {epoch + 1}: saved {path}")

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps."""
        return {"best": self.best, "batches": self._batches}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on where ``state`` was called."""
        self.best, self._batches = state["best"], state["batches"]


class CSVLogger(Callback):
    """Writes a table: a row for each epoch.

    Args:
        filename: The file.
        separator: What stands between columns.
        append: Whether to go on with a file that is there.
    """

    def __init__(self, filename: Any, separator: str = ",", append: bool = False) -> None:
        super().__init__()
        self.filename, self.separator, self.append = Path(filename), separator, append
        self._names: list[str] = []

    def on_train_begin(self, logs: Logs = None) -> None:
        """Empty the file, or read the names of its columns; half a row, left by a kill, is removed."""
        self._names = []
        if self.append and self.filename.exists():
            content = self.filename.read_bytes()
            if not content.endswith(b"\n"):
                write_file(self.filename, content[: content.rfind(b"\n") + 1])
            with self.filename.open(newline="") as file:
                self._names = next(csv.reader(file, delimiter=self.separator), [])[1:]
        else:
            write_file(self.filename, "")

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Write a row."""
        logs = logs or {}
        with writing(self.filename), self.filename.open("a", newline="") as file:
            writer = csv.writer(file, delimiter=self.separator, lineterminator="\n")
            if not self._names:
                self._names = [*sorted(logs)]
                writer.writerow(["epoch", *self._names])
            writer.writerow([epoch, *(logs.get(name, "NA") for name in self._names)])


class TensorBoard(Callback):
    """Writes curves for TensorBoard: those of epochs, and of batches if it is told.

    Args:
        log_dir: The folder; ``train`` and ``validation`` in it get a file each.
        update_freq: ``epoch``; ``batch`` or a number of batches writes curves of batches too.
        ignored: Keras' settings for histograms, pictures and profiles, which have to be off.

    Raises:
        UsageError: Something is asked for that is not written.
    """

    OFF: ClassVar[dict[str, Any]] = {
        "histogram_freq": 0,
        "write_graph": True,
        "write_images": False,
        "write_steps_per_second": False,
        "profile_batch": 0,
        "embeddings_freq": 0,
        "embeddings_metadata": None,
    }

    def __init__(self, log_dir: Any = "logs", update_freq: str | int = "epoch", **ignored: Any) -> None:
        super().__init__()
        for name, value in ignored.items():
            if name not in self.OFF or (value and name != "write_graph"):
                raise UsageError(f"TensorBoard: {name}={value!r} is not supported; only curves are written")
        self.log_dir = Path(log_dir)
        self._every = 0 if update_freq == "epoch" else 1 if update_freq == "batch" else int(update_freq)
        self._files: dict[str, BinaryIO] = {}
        self._batches = 0

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Write the metrics of the epoch so far."""
        self._batches += 1
        if self._every and self._batches % self._every == 0:
            self._write(
                "train", {f"batch_{name}": value for name, value in (logs or {}).items()}, self._batches
            )

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Write the metrics of an epoch."""
        logs = dict(logs or {})
        judged = {name[4:]: logs.pop(name) for name in list(logs) if name.startswith("val_")}
        rate = self.model.optimizer.learning_rate
        logs["learning_rate"] = rate if isinstance(rate, float) else rate(self._batches)
        self._write("train", {f"epoch_{name}": value for name, value in logs.items()}, epoch)
        self._write("validation", {f"epoch_{name}": value for name, value in judged.items()}, epoch)

    def on_train_end(self, logs: Logs = None) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()
        self._files.clear()

    def _write(self, folder: str, values: Mapping[str, Any], step: int) -> None:
        numbers = {name: float(value) for name, value in values.items() if isinstance(value, (int, float))}
        if not numbers:
            return
        if folder not in self._files:
            path = self.log_dir / folder
            with writing(path):
                path.mkdir(parents=True, exist_ok=True)
                file = (path / f"events.out.tfevents.{int(time.time())}.netweave").open("wb")
                self._files[folder] = file
                file.write(_record(_double(1, time.time()) + _bytes(3, b"brain.Event:2")))
        body = b"".join(
            _bytes(1, _bytes(1, name.encode()) + b"\x15" + struct.pack("<f", value))
            for name, value in numbers.items()
        )
        event = _double(1, time.time()) + b"\x10" + _varint(step) + _bytes(5, body)
        with writing(self.log_dir / folder):
            self._files[folder].write(_record(event))
            self._files[folder].flush()


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def _bytes(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _double(field: int, number: float) -> bytes:
    return _varint(field << 3 | 1) + struct.pack("<d", number)


def _record(content: bytes) -> bytes:
    """Return an event as TensorFlow's record files frame it: length, its checksum, content, its checksum."""
    length = struct.pack("<Q", len(content))
    return length + _checksum(length) + content + _checksum(content)


def _checksum(content: bytes) -> bytes:
    """Return a CRC-32C (Castagnoli), rotated and shifted as in ``tensorflow/core/lib/hash/crc32c.h``."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
