"""Tasks of a worker: reading a net that has arrived, comparing two nets."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import transaction
from django_tasks import task

from netweave.web.models import Comparison, File, Net, State
from netweave.web.owners import may_read_code
from netweave.web.work import child, leases, shares, storage, supervise
from netweave.web.work.readers import READERS, Reader, key_of, keys_of

if TYPE_CHECKING:
    from netweave.web.options import Options


@task()
def read_net(pk: str) -> None:
    """Read a net and keep what is shown of it."""
    _once(Net, pk, _read)


@task()
def compare_nets(pk: str) -> None:
    """Compare two nets and keep the result."""
    _once(Comparison, pk, _compare)


TASKS: dict[type[Net | Comparison], Any] = {Net: read_net, Comparison: compare_nets}


DIED = (
    "the processes that worked on it died without a message, most likely because they ran out of memory; "
    "a smaller net, or more memory for the workbench, may help"
)
"""Message for the user about a child that ended without one."""


def _once(model: type[Any], pk: str, carry_out: Callable[[Any, str, ExitStack], dict[str, Any]]) -> None:
    """Carry out a job that can be had, and end it with what was found; leave nothing behind otherwise."""
    lease = leases.claim(model, pk)
    job = model.objects.filter(pk=pk).first()
    if job is None:
        return
    if lease is None:
        if job.state != State.QUEUED:  # cancelled, say; one that had to wait for its turn goes on waiting
            shares.enter_next(job.workspace_id, TASKS)
        return
    try:
        _carry_out(job, lease, carry_out)
    finally:
        shares.enter_next(job.workspace_id, TASKS)


def _carry_out(job: Any, lease: str, carry_out: Callable[[Any, str, ExitStack], dict[str, Any]]) -> None:
    """Carry out a job that is held, and end it."""
    model = type(job)
    try:
        with ExitStack() as held:
            outcome = carry_out(job, lease, held)
    except supervise.LostError:
        return
    except supervise.DiedError as error:
        most = leases.MAX_ATTEMPTS if error.was_killed else leases.MAX_CRASHES
        if not leases.give_back(job, lease, TASKS, max_attempts=most):
            leases.end(job, lease, State.FAILED, error=DIED)
        return
    except supervise.FailedError as error:
        told = {"facts": error.facts} if model is Net else {}
        leases.end(job, lease, State.FAILED, error=str(error), **told)
        return
    kept = ("document", "result", "fixes")
    old = [getattr(job, name, "") for name in kept]
    others = outcome.pop("others", {})
    with transaction.atomic():
        ended = leases.end(job, lease, State.DONE, **outcome)
        used = split(job, outcome["facts"], others) if ended and model is Net else set()
    unused = {known["document"] for known in others.values()} - used
    storage.drop([*unused, *(old if ended else [outcome.get(name, "") for name in kept])])


def split(net: Net, facts: dict[str, Any], others: dict[str, dict[str, Any]]) -> set[str]:
    """Make a net of its own of each further net that was found among the files of one.

    Files out of an archive stay where they are: the archive is one file.

    Args:
        net: The net whose files they were.
        facts: What was read of the first net.
        others: Facts and document of those that have been read already, by their first file.

    Returns:
        The documents that the new nets have.
    """
    first, *rest = facts["sorting"]["nets"]
    kept = {file.name: file for file in net.files.all()}
    made, used = [], set()
    for names in rest:
        if not all(name in kept for name in names):
            continue
        sizes = facts["sorting"].get("sizes", {}).get(names[0], {})
        known = others.get(names[0])
        state = {"state": State.DONE, **known} if known else {}
        other = Net.objects.create(workspace_id=net.workspace_id, name=names[0], input_shapes=sizes, **state)
        File.objects.filter(pk__in=[kept[name].pk for name in names]).update(net=other)
        if known:
            used.add(known["document"])
        else:
            leases.queue(other, read_net)
        made.append(str(other.pk))
    fields: dict[str, Any] = {"facts": facts | {"split": made}}
    if net.name in kept:
        fields["name"] = first[0]  # it was called after the file that came first
    Net.objects.filter(pk=net.pk).update(**fields)
    return used


def _read(net: Net, lease: str, held: ExitStack) -> dict[str, Any]:
    READERS.drop()
    folder = held.enter_context(storage.scratch())
    storage.lay_out(net, folder / "net")
    arrived = tuple(net.files.order_by("pk").values_list("name", flat=True))
    stays = len(arrived) > 1  # which may be two nets, to be compared next
    request = replace(_request(net, folder, nets=[net]), arrived=arrived, stays=stays)
    process = _run(net, lease, request)
    if process is not None:
        held.callback(process.end)
    facts = json.loads((folder / child.FACTS).read_bytes())
    first, *others = [
        {"facts": known, "document": _kept_net(net, lease, folder, number)}
        for number, known in enumerate(facts)
    ]
    if process is not None and others:
        READERS.keep(Reader(process, folder, keys_of(net, facts[0]["sorting"]), held.pop_all()))
    return first | {"others": {known["facts"]["sorting"]["nets"][0][0]: known for known in others}}


def _kept_net(net: Net, lease: str, folder: Path, number: int) -> str:
    content = (folder / child.NET.format(number)).read_bytes()
    return storage.keep(f"documents/{net.pk}/{lease}-{number}.json.gz", content)


def _compare(comparison: Comparison, lease: str, held: ExitStack) -> dict[str, Any]:
    nets = [net for net in (comparison.net_a, comparison.net_b) if net is not None]
    if len(nets) < 2:
        raise supervise.FailedError("a net was deleted before it could be compared")
    chosen = comparison.settings
    reader = READERS.take(nets, chosen)
    if reader is not None:
        held.push(reader.held)
    folder = held.enter_context(storage.scratch()) if reader is None else reader.folder
    own = comparison.own_input
    own_file = None if own is None else storage.lay_out_input(own, folder / "input")
    request = _request(comparison, folder, nets=nets, chosen=chosen, own_input=own_file)
    if reader is None:
        for letter, net in zip("ab", nets, strict=True):
            storage.lay_out(net, folder / letter)
        _run(comparison, lease, request)
    else:
        read = tuple(reader.numbers[key_of(net)] for net in nets)
        _run(comparison, lease, replace(request, read=read), reader.process)
    told = json.loads((folder / child.VERDICT).read_bytes())
    fixes = (folder / child.FIXES).read_bytes()
    place = f"results/{comparison.pk}/{lease}"
    return {
        **told,
        "result": storage.keep(f"{place}-result.json.gz", (folder / child.RESULT).read_bytes()),
        "document": storage.keep(f"{place}-document.json.gz", (folder / child.DOCUMENT).read_bytes()),
        "fixes": storage.keep(f"{place}-fixes.json.gz", fixes) if json.loads(fixes) else "",
    }


def write_array(net: Net, key: str, folder: Path) -> Path:
    """Read a net once more, in a child process, for one of its stored arrays; return the file of it (.npy).

    Raises:
        DiedError: The child ended without a word.
        FailedError: There is no such array, or the net cannot be read any more.
    """
    storage.lay_out(net, folder / "net")
    request = replace(_request(net, folder, nets=[net]), array=key)
    supervise.run(request, max_seconds=settings.OPTIONS.max_seconds, alive=lambda stage, known: True)
    return folder / child.ARRAY


def _run(
    job: Net | Comparison, lease: str, request: child.Request, process: supervise.Child | None = None
) -> supervise.Child | None:
    """Carry out a request for a job in a child of its own, which is returned if it stays, or in another."""

    def alive(stage: str, known: Mapping[str, str]) -> bool:
        return leases.alive(job, lease, stage, **known)

    most = settings.OPTIONS.max_seconds
    if process is None:
        return supervise.run(request, max_seconds=most, alive=alive)
    process.ask(request)
    process.follow(max_seconds=most, alive=alive)
    return None


def _request(
    job: Net | Comparison,
    folder: Path,
    *,
    nets: Sequence[Net],
    chosen: dict[str, Any] | None = None,
    own_input: Path | None = None,
) -> child.Request:
    chosen = chosen or {}
    options: Options = settings.OPTIONS
    return child.Request(
        folder=folder,
        nets=("net",) if len(nets) == 1 else ("a", "b"),
        input_shapes=tuple(
            net.input_shapes | chosen.get(f"input_shapes_{letter}", {})
            for net, letter in zip(nets, "ab", strict=False)
        ),
        entries=tuple(net.entry for net in nets),
        settings=chosen,
        own_input=own_input,
        code=may_read_code(job.workspace),
        asks_for_code=options.asks_for_code,
        memory_bytes=options.max_memory_mb << 20,
        unpacked_bytes=options.max_file_mb << 20,
    )
