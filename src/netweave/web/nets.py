"""Operations on nets and their files, for the pages and the HTTP API."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import IO, Any
from uuid import UUID

from django.conf import settings
from django.core.files.base import ContentFile
from django.core.files.base import File as Content
from django.core.files.storage import default_storage
from django.db import transaction

from netweave.web import owners
from netweave.web.models import File, Net, State, Upload, Workspace
from netweave.web.options import FILE, Options
from netweave.web.prepared_statements import insert, select
from netweave.web.safety import count, counted, last_part, safe_name
from netweave.web.work import leases, storage, supervise
from netweave.web.work.storage import Arrival, RefusedError
from netweave.web.work.tasks import DIED, read_net, write_array

__all__ = [
    "InputShapes",
    "RefusedError",
    "add_file",
    "add_files",
    "allow_code",
    "change_net",
    "make_net",
    "open_array",
    "parse_input_shapes",
    "remove_file",
]

InputShapes = dict[str, list[int]]

CHUNK_BYTES = 1 << 16


def make_net(
    workspace: Workspace, *, name: str = "", input_shapes: InputShapes | None = None, entry: str = ""
) -> Net:
    """Make a net that waits for its files."""
    net = Net(workspace=workspace, name=name[:200], input_shapes=input_shapes or {}, entry=entry)
    insert(net)
    net.listed_files = []
    return net


def add_file(net: Net, name: str, stream: IO[bytes], *, num_bytes: int | None) -> None:
    """Store a file of a net, in place of one of the same name, and have the net read again.

    Args:
        net: The net.
        name: What the file is called where it comes from.
        stream: Its content.
        num_bytes: Its size as announced; None if it was not.

    Raises:
        RefusedError: It is too large, empty, or one too many.
        TooManyError: Too many files came in a minute.
    """
    safe, small = safe_name(name), storage.is_small(num_bytes)
    with uploading(net.workspace_id, num_bytes) as count_it:
        if not small:
            _replaced(net, safe, name)  # before it arrives, not only after
        with storage.arriving(net, safe, num_bytes) as arrival:
            size = arrived(arrival, stream, num_bytes)
            with transaction.atomic():
                count_it()
                old = _keep(arrival, net, came_as=name, num_bytes=size)
    storage.drop([old.stored] if old is not None else [])


def uploading(workspace: UUID, num_bytes: int | None) -> AbstractContextManager[Callable[[], None]]:
    """Return a context in which a file is uploaded; what it gives counts it in the transaction that keeps it.

    Args:
        workspace: Whose file it is.
        num_bytes: Its size as announced; a large one is counted when it begins.

    Raises:
        TooManyError: Too many files came in a minute.
    """
    limit = settings.OPTIONS.uploads_per_minute
    at_once = not storage.is_small(num_bytes)
    return counted("uploads", str(workspace), limit=limit, at_once=at_once)


def _replaced(net: Net, safe: str, name: str) -> File | None:
    """Return the file of a net that another one takes the place of; None if there is none of its name.

    Args:
        net: The net.
        safe: The name under which the new file is kept.
        name: What it is called where it comes from.

    Raises:
        RefusedError: It would be one too many, or take the place of a file of another name.
    """
    options: Options = settings.OPTIONS
    kept = {file.name: file for file in select(File, net=net)}
    old = kept.pop(safe, None)
    if old is not None and safe != last_part(name):
        raise RefusedError(
            f"{last_part(name)}: is kept as {safe!r}, and the net has another file of that name; remove that "
            "file first, or rename this one"
        )
    if len(kept) >= options.max_files:
        raise RefusedError(f"a net has at most {options.max_files} files here")
    net.listed_files = sorted(kept.values(), key=lambda file: file.name)
    return old


def _keep(arrival: Arrival, net: Net, *, came_as: str, num_bytes: int) -> File | None:
    """Make a file of what has arrived, and have the net read; return the file whose place it takes."""
    name = arrival.name
    net.name = net.name or name
    if not leases.queue(net, read_net):
        raise RefusedError(f"the net was deleted while {name!r} was uploaded")
    old = _replaced(net, name, came_as)
    arrival.keep(num_bytes)
    if old is not None:
        File.objects.filter(pk=old.pk).delete()
    file = File(net=net, name=name, stored=arrival.stored, num_bytes=num_bytes)
    insert(file)
    net.listed_files = sorted([*net.listed_files, file], key=lambda file: file.name)
    return old


def arrived(arrival: Arrival, stream: IO[bytes], num_bytes: int | None) -> int:
    """Store a stream in its place and return its size."""
    name = arrival.name
    message = storage.too_large(name, arrival.limit, settings.OPTIONS)
    bounded = _Bounded(stream, arrival.limit, message, storage.KeepAlive(arrival.upload).touch)
    stored = default_storage.save(arrival.stored, bounded)
    if stored != arrival.stored:
        storage.drop([stored])
        raise RuntimeError(f"{arrival.stored} already exists in the storage")
    size = default_storage.size(stored)
    if size == 0:
        raise RefusedError(f"{name}: the file is empty")
    if num_bytes is not None and size != num_bytes:
        raise RefusedError(f"{name}: was uploaded incompletely")
    return size


def add_files(net: Net, files: Mapping[str, bytes]) -> None:
    """Store the files of a sample and have the net read once.

    Raises:
        RefusedError: There is no room for them.
    """
    uploads: list[Upload] = []
    try:
        for name, content in files.items():
            uploads.append(storage.reserve(net, name, len(content)))
            default_storage.save(uploads[-1].stored, ContentFile(content))
        with transaction.atomic():
            for name, upload in zip(files, uploads, strict=True):
                File.objects.create(net=net, name=name, stored=upload.stored, num_bytes=upload.num_bytes)
                upload.delete()
            leases.queue(net, read_net)
    except BaseException:
        for upload in uploads:
            storage.release(upload)
        raise


def remove_file(net: Net, name: str) -> bool:
    """Remove a file of a net, and have the rest read again; False if there is none of that name."""
    with transaction.atomic():
        leases.hold(net)
        file = net.files.filter(name=name).first()
        if file is None:
            return False
        file.delete()
        if net.files.exists():
            leases.queue(net, read_net)
        else:
            Net.objects.filter(pk=net.pk).update(state=State.EMPTY, facts={}, error="", lease="")
    storage.drop([file.stored])
    return True


def change_net(
    net: Net,
    *,
    name: str | None = None,
    input_shapes: InputShapes | None = None,
    entry: str | None = None,
) -> None:
    """Rename a net, or say other sizes of its inputs or the class that makes it; then it is read again."""
    if name is not None:
        net.name = name.strip()[:200] or net.name
        net.save(update_fields=["name"])
    wanted = {"input_shapes": input_shapes, "entry": entry}
    changed = {
        key: value for key, value in wanted.items() if value is not None and value != getattr(net, key)
    }
    if not changed:
        return
    for key, value in changed.items():
        setattr(net, key, value)
    net.save(update_fields=list(changed))
    if net.files.exists():
        leases.queue(net, read_net)


def allow_code(net: Net) -> None:
    """Allow the owner's files that are code, and have this net read again.

    Raises:
        RefusedError: It is not the visitor's own machine.
    """
    if not owners.allow_code(net.workspace):
        raise RefusedError(
            f"files that contain code are not allowed here: the operator sets code = true in {FILE}"
        )
    if net.files.exists():
        leases.queue(net, read_net)


def parse_input_shapes(text: str) -> InputShapes:
    """Parse sizes of inputs as a person types them: ``data=1x3x224x224, mask=1x10``.

    Raises:
        RefusedError: The text is something else.
    """
    shapes: InputShapes = {}
    for part in text.replace(";", " ").replace(", ", " ").split():
        name, equals, sizes = part.rpartition("=")
        numbers = sizes.replace("×", "x").replace(",", "x").split("x")
        if not equals or not name or not all(number.isdecimal() and int(number) > 0 for number in numbers):
            raise RefusedError(f"{part!r} is not NAME=SIZES, such as data=1x3x224x224")
        shapes[name] = [int(number) for number in numbers]
    return shapes


class _Bounded(Content[Any]):
    """A stream as Django's storages take it, that refuses to go on past its room."""

    def __init__(
        self, stream: IO[bytes], limit: int, message: str, on_piece: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__(stream)
        self._stream, self._left, self._message, self._on_piece = stream, limit, message, on_piece

    def chunks(self, chunk_size: int | None = None) -> Any:
        """Yield the content in pieces."""
        while piece := self.read(chunk_size or CHUNK_BYTES):
            yield piece

    def read(self, num_bytes: int = -1) -> bytes:
        """Return the next piece.

        Raises:
            RefusedError: There is more than may come.
        """
        piece = self._stream.read(num_bytes if num_bytes > 0 else CHUNK_BYTES)
        self._left -= len(piece)
        if self._left < 0:
            raise RefusedError(self._message)
        self._on_piece()
        return piece

    def multiple_chunks(self, chunk_size: int | None = None) -> bool:
        """Return True: how large it is is not known."""
        return True


WAIT_SECONDS = 20
"""So long a request for an array waits for another one: nets are read one at a time beside the workers."""

_one_at_a_time = threading.Semaphore()


def open_array(net: Net, key: str) -> IO[bytes]:
    """Open one stored array of a net, as a .npy file that nothing else holds.

    Raises:
        RefusedError: There is no such array, the net cannot be read, or others are waiting.
        TooManyError: The workspace has asked too often.
    """
    count("arrays", str(net.workspace_id), limit=settings.OPTIONS.nets_per_minute)
    if net.state != State.DONE:
        raise RefusedError("the net has not been read; its arrays are there once it is")
    if not _one_at_a_time.acquire(timeout=WAIT_SECONDS):
        raise RefusedError("other arrays are being read; try again in a moment")
    try:
        with storage.scratch() as folder:
            return write_array(net, key, folder).open("rb")
    except supervise.FailedError as error:
        raise RefusedError(str(error)) from None
    except supervise.DiedError:
        raise RefusedError(DIED) from None
    finally:
        _one_at_a_time.release()
