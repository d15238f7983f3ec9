"""Comparing and fixing."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Unpack

from netweave import comparison
from netweave.api.arguments import (
    check_arrays,
    check_count,
    check_file,
    check_net,
    check_nets,
    check_text,
    check_tolerance,
    draw_inputs,
    load_arrays,
)
from netweave.api.boxes import ImagePair
from netweave.api.inspecting import prepare
from netweave.api.reading import ReadOptions, load_all, run_settings
from netweave.comparison import LOCAL_TOLERANCE, READING, CompareOptions, Matrix, fixes
from netweave.errors import NetweaveError, UsageError
from netweave.files.output_files import write_file
from netweave.graph import Graph, total_cost
from netweave.graph.passes import to_inference
from netweave.runtime.backends import AUTO, Purpose
from netweave.runtime.backends import prepare as prepare_on
from netweave.runtime.memory_plan import parse_bytes
from netweave.training.data import Source
from netweave.training.data.named import Named, open_named
from netweave.training.data.pack import pack as pack_source
from netweave.training.data.sources.arrays import Arrays
from netweave.training.data.transforms.geometry import Resize

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import numpy as np

    from netweave.comparison import Comparison, Divergence, Finding
    from netweave.comparison.fixes import Mended


if TYPE_CHECKING:
    Probe = Mapping[str, np.ndarray] | str | Path
    Progress = Callable[[str], None]


def compare(
    a: Any,
    b: Any,
    options: CompareOptions | None = None,
    *,
    progress: Progress | None = None,
    on_verdict: Callable[[Comparison], None] | None = None,
    **settings: Any,
) -> Comparison:
    """Compare two nets: where they agree, where they differ, why, and what to change.

    Args:
        a: The first net: a Graph, or files as for ``load``.
        b: The second net, the one that a fix would change.
        options: How they are compared.
        progress: Called with each step as it starts, in words.
        on_verdict: Called at most once with the result, where verdict and sentence are certain before the
            values of its groups are kept: of large nets that takes seconds.
        settings: Attributes of ``CompareOptions``, which are set on top of ``options``, and options of
            ``load`` for both nets.

    Raises:
        SourceError: The files cannot be read.
        UsageError: There is no such option or layer, the probe or the sizes do not fit, or the memory is too
            little.
        RunError: A net cannot be run.
    """
    check_net(a, what="a")
    check_net(b, what="b")
    (compared,) = _compare_pairs([a, b], options, settings, progress, on_verdict).values()
    return compared


def compare_all(
    nets: Sequence[Any],
    options: CompareOptions | None = None,
    *,
    progress: Progress | None = None,
    **settings: Any,
) -> Matrix:
    """Compare every pair of several nets; each net is read once.

    Args:
        nets: Graphs or files, as for ``load``; or names with Graphs, ``("port", graph)``.
        options: How each pair is compared; an image is for two nets.
        progress: Called with each step as it starts.
        settings: As for ``compare``.

    Raises:
        SourceError: The files cannot be read.
        UsageError: There is no such option or layer, the probe or the sizes do not fit, or the memory is too
            little.
        RunError: A net cannot be run.
    """
    check_nets(nets, least=2, named=True)
    named = [net if isinstance(net, tuple) else (_name(net), net) for net in nets]
    pairs = _compare_pairs([net for _, net in named], options, settings, progress)
    return Matrix(tuple(name for name, _ in named), pairs)


def _compare_pairs(
    nets: Sequence[Any],
    options: CompareOptions | None,
    settings: Mapping[str, Any],
    progress: Progress | None,
    on_verdict: Callable[[Comparison], None] | None = None,
) -> dict[tuple[int, int], Comparison]:
    """Read nets and compare every pair of them."""
    reading: ReadOptions = {name: value for name, value in settings.items() if name in _READ_OPTIONS}  # type: ignore[assignment]  # names of a TypedDict, looked up
    wanted = {name: value for name, value in settings.items() if name not in reading}
    options = _checked(CompareOptions.of(options, wanted, others=sorted(_READ_OPTIONS)))
    if options.image is not None and len(nets) > 2:
        raise UsageError("an image with its preprocessing is for two nets; of more, compare two at a time")
    image = ImagePair.of(options.image, options.preprocess_a, options.preprocess_b, options.probe)
    reading.setdefault("partial", options.last is not None)
    start = time.perf_counter()
    graphs = load_all(nets, input_shapes=options.input_shapes, progress=progress, **reading)
    seconds = time.perf_counter() - start
    pairs = {}
    for i, j in combinations(range(len(graphs)), 2):
        a, b = graphs[i], graphs[j]
        probe = _probe(options.probe, a) if image is None else image.input_of_a(a)
        is_final = image is None and not options.strict
        compared = comparison.compare(
            a,
            b,
            replace(options, probe=probe),
            progress=progress,
            on_verdict=on_verdict if is_final else None,
        )
        if (i, j) == (0, 1):
            compared = replace(compared, seconds={READING: seconds, **compared.seconds})
        compared = compared if image is None else image.added_to(compared, a, b, tolerance=options.tolerance)
        pairs[i, j] = compared.strictly() if options.strict else compared
    return pairs


_READ_OPTIONS = frozenset(ReadOptions.__annotations__)


def _checked(options: CompareOptions) -> CompareOptions:
    """Return options whose values are known to be good, with the memory in bytes.

    Raises:
        UsageError: One is not; the message names it.
    """
    for name, layer in {"first": options.first, "last": options.last}.items():
        if layer is not None:
            check_text(layer, what=name, example="conv1")
    check_count(options.seed, "seed", least=0)
    if options.num_samples is not None:
        check_count(options.num_samples, "num_samples", least=1)
    return replace(options, tolerance=check_tolerance(options.tolerance), memory=_memory(options.memory))


def bisect(
    a: Any,
    b: Any,
    *,
    probe: Probe | None = None,
    tolerance: float = LOCAL_TOLERANCE,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    progress: Progress | None = None,
    **options: Unpack[ReadOptions],
) -> Divergence:
    """Find the first layer at which two nets diverge on one input, by binary search.

    Both nets are run several times, with one tensor kept at a time.

    Args:
        a: The first net: a Graph, or files as for ``load``.
        b: The second net.
        probe: Inputs of A, as for ``compare``.
        tolerance: Largest relative error of a tensor treated as equal, > 0.
        input_shapes: Input sizes by name, for both nets; see ``load_all``.
        progress: Called with what is being run.
        options: As for ``load``.

    Raises:
        SourceError: The files cannot be read.
        UsageError: A net has no weights, the inputs cannot be paired, or the probe or the sizes do not fit.
        RunError: A net cannot be run.
    """
    check_net(a, what="a")
    check_net(b, what="b")
    graphs = load_all([a, b], input_shapes=input_shapes, progress=progress, **options)
    given = _probe(probe, graphs[0])
    return comparison.bisect(*graphs, probe=given, tolerance=check_tolerance(tolerance), progress=progress)


def _memory(memory: int | str | None) -> int | None:
    """Return a limit in bytes.

    Raises:
        UsageError: It is no size.
    """
    num_bytes = None if memory is None else parse_bytes(memory)
    if num_bytes is not None and num_bytes <= 0:
        raise UsageError(f"memory is {memory!r}, expected a size such as 1GB or 512MB")
    return num_bytes


def _probe(probe: Probe | None, a: Graph) -> Mapping[str, np.ndarray] | None:
    names = [str(value.name) for value in a.inputs]
    if isinstance(probe, str | Path):
        return load_arrays(probe, names)
    return None if probe is None else check_arrays(probe, what="probe", names=names)


def _name(net: Any) -> str:
    if isinstance(net, Graph):
        return net.name
    return str(net) if isinstance(net, str | Path) else type(net).__name__


@dataclass(frozen=True, slots=True)
class FixedPort:
    """A port with fixes applied, in a file of its own.

    Attributes:
        file: The file that was written.
        mended: The changes, and the fixes that could not be applied.
        comparison: The first net against the mended one; None if that cannot be read or compared.
        problem: Why it cannot; empty if it can.
        name: How the mended net is given, ``FILE`` or ``FILE,WEIGHTS``: its weights stay where they were.
    """

    file: Path
    mended: Mended
    comparison: Comparison | None
    problem: str = ""
    name: str = ""


def mend(comparison: Comparison, findings: Iterable[Finding] | None = None) -> Mended:
    """Apply the fixes of a comparison to the text of the second net's files, in memory.

    Args:
        comparison: The comparison, of nets that were read from files.
        findings: Those of its findings whose fixes are applied; all that have an effect by default.
    """
    return fixes.mend(comparison, findings)


def check_target(target: str | Path, *, overwrite: bool = False) -> Path:
    """Return the file that a mended net is written to.

    Raises:
        UsageError: It exists, and is not to be replaced.
    """
    target = Path(target)
    if target.exists() and not overwrite:
        raise UsageError(f"{target} exists; give another name, or overwrite it (--overwrite, overwrite=True)")
    return target


def fix_port(
    a: str,
    b: str,
    comparison: Comparison,
    target: str | Path,
    *,
    findings: Iterable[Finding] | None = None,
    overwrite: bool = False,
    memory: int | str | None = None,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    **options: Unpack[ReadOptions],
) -> FixedPort:
    """Write the second net with the fixes of a comparison applied, and compare again.

    Args:
        a: The first net as it was given, ``FILE`` or ``FILE,WEIGHTS``.
        b: The second net, likewise.
        comparison: What was found about them.
        target: The file to write; the files of the nets stay as they are.
        findings: As for ``mend``.
        overwrite: Replace the file if it is there.
        memory: As for ``compare``.
        input_shapes: As for ``compare``.
        options: As for ``load``.

    Raises:
        UsageError: No fix can be applied, the fixes change several files, or the file exists.
        WriteError: The file cannot be written.
    """
    target = check_target(target, overwrite=overwrite)
    mended = fixes.mend(comparison, findings)
    if not mended.after:
        reasons = "; ".join(refusal.why for refusal in mended.refused) or "nothing is to be fixed"
        raise UsageError(f"no fix can be applied to {b}: {reasons}")
    if len(mended.after) > 1:
        names = ", ".join(mended.after)
        raise UsageError(
            f"the fixes change several files ({names}); apply the patch that 'netweave fix' prints"
        )
    ((file, text),) = mended.after.items()
    write_file(target, text)
    name = _renamed(b, file, target, comparison.b.files)
    try:
        again = compare(a, name, memory=memory, input_shapes=input_shapes, **options)
    except NetweaveError as error:
        return FixedPort(target, mended, None, str(error), name)
    return FixedPort(target, mended, again, name=name)


def _renamed(net: str, file: str, target: Path, files: Sequence[str]) -> str:
    """Return how a net is given that has one of its files elsewhere; its weights stay where they are."""
    name, comma, weights = net.partition(",")
    entry = name.removeprefix(file)  # FILE:FACTORY
    if not comma:
        weights = next((other for other in files if Path(other).resolve() != Path(file).resolve()), "")
    return f"{target}{entry}" + (f",{weights}" if weights else "")


ROUNDS = 11
"""Runs of each net, interleaved; the first round is a warm-up."""


@dataclass(frozen=True, slots=True)
class Standing:
    """The cost of a net.

    Attributes:
        nodes: Number of nodes.
        elements: Number of stored elements that the nodes read.
        multiply_adds: For one example.
        median_s: Median time of a run.
        fastest_s: The fastest run.
    """

    nodes: int
    elements: int
    multiply_adds: int
    median_s: float
    fastest_s: float


@dataclass(frozen=True, slots=True)
class Gain:
    """The costs of a net in inference form and of its optimised form.

    Attributes:
        before: Of the inference form.
        after: Of the optimised form.
        backend: The backend that was timed.
    """

    before: Standing
    after: Standing
    backend: str


def gain_of(
    graph: Graph,
    form: Graph,
    *,
    rounds: int = ROUNDS,
    backend: str = AUTO,
    precision: str = "f32",
    threads: int | None = None,
) -> Gain:
    """Return the gain of an optimised form of a net over its plain inference form.

    Both run interleaved, on the same random inputs, on the backend that is the fastest for the optimised
    form, with its own optimisations.

    Args:
        graph: The net.
        form: A form of the net that computes the same function of the same inputs.
        rounds: Counted runs of each, >= 1.
        backend: As for ``prepare``.
        precision: As for ``prepare``.
        threads: As for ``prepare``.

    Raises:
        RunError: One of them cannot be run.
        UsageError: The size of an input is unknown, or as ``prepare`` does.
    """
    plain = to_inference(graph)
    inputs = {name: array[:1] for name, array in draw_inputs(plain, seed=0).items()}
    with prepare(form, backend=backend, precision=precision, threads=threads, example=inputs) as prepared:
        settings = run_settings(Purpose.INFERENCE, precision, prepared.threads)
        runners = [prepare_on(plain, backend=prepared.backend, settings=settings), prepared]
        times: list[list[float]] = [[], []]
        for number in range(rounds + 1):
            for runner, taken in zip(runners, times, strict=True):
                begin = time.perf_counter()
                runner.run(inputs)
                if number:
                    taken.append(time.perf_counter() - begin)
    before, after = (_standing(each, taken) for each, taken in zip((plain, form), times, strict=True))
    return Gain(before, after, prepared.backend)


def _standing(graph: Graph, times: list[float]) -> Standing:
    stored = [value.const_value for value in graph.model.graph.initializers.values() if value.uses()]
    return Standing(
        nodes=len(graph.nodes),
        elements=sum(tensor.size for tensor in stored if tensor is not None),
        multiply_adds=total_cost(graph).multiply_adds,
        median_s=median(times),
        fastest_s=min(times),
    )


KINDS = {".rec": "recordio", ".h5": "hdf5", ".hdf5": "hdf5", ".kvfile": "kvfile"}
"""The format of a target by its suffix; any other target is an LMDB."""


def pack(
    source: str | Path | Source | Sequence[np.ndarray],
    target: str | Path,
    *,
    kind: str | None = None,
    read_as: str | None = None,
    labels: str | None = None,
    root: str | None = None,
    shape: Sequence[int] = (),
    resize: Sequence[int] = (),
    gray: bool = False,
    shuffle: bool = False,
    seed: int = 0,
    encode: str | None = None,
    quality: int = 95,
    split_size: str | int | None = None,
    mean: str | Path | None = None,
) -> int:
    """Pack records into one file or database for training, or into several, and return their number.

    Image files are copied unchanged, unless they are resized or converted to gray.

    Args:
        source: A folder with one subfolder of images per class, a list of images (Caffe's ``.txt``, MXNet's
            ``.lst``), an LMDB, ``.rec``, ``.h5``, ``.npz``, ``.npy``, ``.csv``, idx or CIFAR file, local or
            remote (``s3://``); or arrays of images (N, C, H, W) and labels.
        target: File or folder to create; an existing one is never overwritten.
        kind: ``lmdb``, ``recordio``, ``hdf5``, ``mnist`` or ``kvfile`` (SINGA); None to derive it from the
            target's name.
        read_as: Format of the source; None to derive it from the source's name.
        labels: A file of labels, if they are separate.
        root: The folder that paths in a list are relative to; by default the folder of the list.
        shape: Shape of a record, if the source has rows of numbers.
        resize: Height and width of all images, or one number for the shorter side.
        gray: Convert to one channel.
        shuffle: Write the records in random order.
        seed: Seed of the random order.
        encode: Encode pixels as image files with this suffix, ``.png`` or ``.jpg``.
        quality: JPEG quality, 1 to 100.
        split_size: Write several files of at most about this size, bytes or a text such as ``64MB``:
            ``train-00000.rec``, ``train-00001.rec``, ... for ``train.rec``. They are read as one under the
            target's name.
        mean: File to write the mean of all images to, as they are packed: for Caffe if its name ends in
            ``.binaryproto``, else for SINGA.

    Raises:
        UsageError: The kind is unknown, the target exists, or the source is ambiguous.
        SourceError: A record cannot be read; nothing is left behind.
        WriteError: The target cannot be written; nothing is left behind.
    """
    place = check_file(target, what="target")
    with _opened(source, read_as, Named(labels, root, tuple(shape), "gray" if gray else None)) as records:
        return pack_source(
            records,
            place,
            kind or KINDS.get(place.suffix, "lmdb"),
            resize=_resize(resize),
            gray=gray,
            shuffle=shuffle,
            seed=seed,
            encode=encode is not None,
            suffix=encode or ".png",
            quality=quality,
            mean=Path(mean) if mean else None,
            split_bytes=parse_bytes(split_size) if isinstance(split_size, str) else split_size,
        )


def _opened(source: str | Path | Source | Sequence[np.ndarray], kind: str | None, said: Named) -> Source:
    if isinstance(source, Source):
        return source
    if isinstance(source, str | Path):
        return open_named(str(source), kind, said)
    if not isinstance(source, Sequence):
        raise UsageError(
            f"source is of type {type(source).__name__}, expected the name of a file or folder, or a list of "
            "arrays"
        )
    return Arrays(*source)


def _resize(sizes: Sequence[int]) -> Resize | None:
    if not sizes:
        return None
    if len(sizes) > 2 or min(sizes) < 1:
        raise UsageError(
            f"cannot resize to {'x'.join(map(str, sizes))}; give HEIGHTxWIDTH, or the shorter side"
        )
    return Resize(shorter=sizes[0]) if len(sizes) == 1 else Resize(height=sizes[0], width=sizes[1])
