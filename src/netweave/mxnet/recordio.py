"""``mx.recordio``: reading and writing records one by one, by Netweave's frames and headers."""

from __future__ import annotations

import struct
from collections import namedtuple
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import numpy as np

from netweave.errors import ReadError, UsageError, WriteError
from netweave.files.output_files import replacing_file, write_file, writing
from netweave.runtime.images.decode import decode, opencv
from netweave.training.data.recordio import HEADER, Packed, frame, head, padded, unframe
from netweave.training.data.recordio import pack as pack_image

IRHeader = namedtuple("IRHeader", ["flag", "label", "id", "id2"])


class MXRecordIO:
    """A file of records, read or written from its beginning.

    A file that is written takes the place of the old one when it is closed, and its index with it.

    Args:
        uri: The file.
        flag: ``r`` or ``w``.

    Raises:
        ReadError: The file cannot be opened.
        WriteError: The file cannot be written.
        UsageError: ``flag`` is neither.
    """

    def __init__(self, uri: str, flag: str) -> None:
        if flag not in {"r", "w"}:
            raise UsageError(f"flag is {flag!r}, expected 'r' or 'w'")
        self.uri, self.flag = str(uri), flag
        self.writable = flag == "w"
        self.is_open = False
        self._file: BinaryIO
        self.open()

    def open(self) -> None:
        """Open the file."""
        self._opened = ExitStack()
        if self.writable:
            self._file = self._opened.enter_context(self._replacement())
        else:
            try:
                self._file = self._opened.enter_context(Path(self.uri).open("rb"))  # noqa: SIM115
            except OSError as error:
                raise ReadError(f"cannot be opened: {error.strerror or error}", place=self.uri) from error
        self.is_open = True

    @contextmanager
    def _replacement(self) -> Iterator[BinaryIO]:
        """Yield the new file; without an error, it and its index are put in their places."""
        with replacing_file(Path(self.uri)) as new:
            with new.open("wb") as file:
                yield file
            self._write_index(new.parent)

    def _write_index(self, folder: Path) -> None:
        """Write what belongs to the file that was written into the folder of new files."""

    def close(self) -> None:
        """Close the file."""
        if self.is_open:
            self.is_open = False
            self._opened.close()

    def reset(self) -> None:
        """Go back to the beginning; what was written is thrown away."""
        self._leave(UsageError(f"{self.uri} is written anew"))
        self.open()

    def _leave(self, error: BaseException) -> None:
        """Close the file; the old one stays if a new one was being written."""
        if self.is_open:
            self.is_open = False
            self._opened.__exit__(type(error), error, None)

    def tell(self) -> int:
        """Return the byte that comes next."""
        return self._file.tell()

    def write(self, buf: bytes | str) -> None:
        """Write a record.

        Raises:
            UsageError: The file is open for reading.
            WriteError: The record cannot be written.
        """
        if not self.writable:
            raise UsageError(f"{self.uri} is open for reading; open it with flag 'w'")
        try:
            with writing(self.uri):
                self._file.write(frame(buf.encode() if isinstance(buf, str) else buf))
        except WriteError as error:
            self._leave(error)  # so that half a record is not put in place later
            raise

    def read(self) -> bytes | None:
        """Return the next record; None at the end.

        Raises:
            ReadError: The record is damaged.
            UsageError: The file is open for writing.
        """
        if self.writable:
            raise UsageError(f"{self.uri} is open for writing; open it with flag 'r'")
        start = self.tell()
        content = b""
        try:
            while True:
                first = self._file.read(8)
                if not first and not content:
                    return None
                flag, length = head(first)
                content += first + self._file.read(padded(length))
                if flag in {0, 3}:
                    return unframe(content)
        except ValueError as error:
            raise ReadError(f"the record at byte {start:,} {error}", place=self.uri) from error

    def read_at(self, place: int) -> bytes | None:
        """Return the record that begins at a byte, as ``tell`` gave it.

        Raises:
            ReadError: The record is damaged.
        """
        self._file.seek(place)
        return self.read()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._leave(error)
        self.close()

    def __del__(self) -> None:
        if getattr(self, "is_open", False):
            self.close()


class MXIndexedRecordIO(MXRecordIO):
    """A file of records with an index, in any order.

    Args:
        idx_path: The index.
        uri: The file.
        flag: ``r`` or ``w``.
        key_type: Type of the keys.

    Raises:
        ReadError: A file cannot be opened.
        WriteError: A file cannot be written.
    """

    def __init__(self, idx_path: str, uri: str, flag: str, key_type: Any = int) -> None:
        self.idx_path, self.key_type = str(idx_path), key_type
        self.idx: dict[Any, int] = {}
        self.keys: list[Any] = []
        super().__init__(uri, flag)

    def open(self) -> None:
        """Open the file and its index."""
        super().open()
        self.idx, self.keys = {}, []
        if self.writable:
            return
        try:
            lines = Path(self.idx_path).read_text(encoding="utf-8").splitlines()
        except OSError as error:
            raise ReadError(f"cannot be opened: {error.strerror or error}", place=self.idx_path) from error
        for line in lines:
            key, _, offset = line.strip().partition("\t")
            self.idx[self.key_type(key)] = int(offset)
            self.keys.append(self.key_type(key))

    def _write_index(self, folder: Path) -> None:
        """Write the index; one that lies elsewhere than the file is put in its place by itself."""
        index = Path(self.idx_path)
        is_beside = index.parent.resolve() == Path(self.uri).resolve().parent
        lines = [f"{key}\t{self.idx[key]}\n" for key in self.keys]
        write_file(folder / index.name if is_beside else index, "".join(lines))

    def seek(self, idx: Any) -> None:
        """Go to the record of a key."""
        self._file.seek(self.idx[idx])

    def read_idx(self, idx: Any) -> bytes | None:
        """Return the record of a key."""
        self.seek(idx)
        return self.read()

    def write_idx(self, idx: Any, buf: bytes) -> None:
        """Write a record under a key."""
        key = self.key_type(idx)
        self.idx[key] = self.tell()
        self.keys.append(key)
        self.write(buf)


def pack(header: Any, s: bytes) -> bytes:
    """Return header and content as a record."""
    flag, label, number, other = header
    labels = np.atleast_1d(np.asarray(label, np.float32))
    if np.ndim(label) == 0:
        return HEADER.pack(int(flag), float(labels[0]), int(number), int(other)) + s
    return (
        pack_image(Packed(labels, int(number), s))
        if labels.size != 1
        else (HEADER.pack(1, 0.0, int(number), int(other)) + labels.tobytes() + s)
    )


def unpack(s: bytes) -> tuple[Any, bytes]:
    """Return header and content of a record.

    Raises:
        ReadError: The record is too short.
    """
    try:
        header = IRHeader(*HEADER.unpack_from(s))
    except struct.error as error:
        raise ReadError(f"the record has {len(s)} bytes, expected a header of {HEADER.size}") from error
    content = s[HEADER.size :]
    if header.flag > 0:
        labels = np.frombuffer(content, np.float32, header.flag)
        return header._replace(label=labels), content[4 * header.flag :]
    return header, content


def pack_img(header: Any, img: np.ndarray, quality: int = 95, img_fmt: str = ".jpg") -> bytes:
    """Return header and image (BGR, as OpenCV has it) as a record.

    Raises:
        UsageError: The image cannot be encoded so.
    """
    cv2 = opencv()
    kind = img_fmt.lower()
    setting = cv2.IMWRITE_PNG_COMPRESSION if kind == ".png" else cv2.IMWRITE_JPEG_QUALITY
    done, buffer = cv2.imencode(img_fmt, img, [setting, quality])
    if not done:
        raise UsageError(f"the image cannot be encoded as {img_fmt!r}")
    return pack(header, buffer.tobytes())


def unpack_img(s: bytes, iscolor: int = -1) -> tuple[Any, np.ndarray]:
    """Return header and image (BGR, as OpenCV has it) of a record."""
    header, content = unpack(s)
    return header, decode(content, "gray" if iscolor == 0 else "bgr", lambda: "unpack_img")
