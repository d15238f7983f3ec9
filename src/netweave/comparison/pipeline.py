"""Pipeline of a comparison."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from netweave.comparison.execution.layer_range import cut_layer_range
from netweave.comparison.execution.memory_budget import MemoryBudget
from netweave.comparison.execution.tapped_values import ValueStore
from netweave.comparison.longer_sequences import on_longer_sequences, on_single_steps
from netweave.comparison.metric import OUTPUT_TOLERANCE, ComparableForm, branched, comparable
from netweave.comparison.precision import compare_precisions
from netweave.comparison.prepare import NotComparableError, prepare
from netweave.comparison.result.comparison import Comparison
from netweave.comparison.result.verdicts import Verdict
from netweave.comparison.size_search import assess_sizes
from netweave.comparison.source_runs import on_other_integers
from netweave.comparison.stopwatch import Stopwatch
from netweave.comparison.stored import compare_stored
from netweave.deferred import collector_at_rest
from netweave.errors import UsageError
from netweave.graph import Graph
from netweave.options import Options
from netweave.runtime.memory_plan import parse_bytes

if TYPE_CHECKING:
    from netweave.runtime.images.preprocessing import Preprocessing


Progress = Callable[[str], None]
"""Called with the name of each stage as it begins."""


@dataclass(slots=True)
class StageLog:
    """Times and notes of one comparison.

    Attributes:
        progress: Called with the name of each stage as it begins.
        clock: Takes the time of the stages.
        notes: What the reader of the result should know, one sentence each.
    """

    progress: Progress = field(default=lambda stage: None)
    clock: Stopwatch = field(default_factory=Stopwatch)
    notes: list[str] = field(default_factory=list)

    @property
    def seconds(self) -> dict[str, float]:
        """Time of each stage, by name."""
        return self.clock.seconds

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Announce a stage, and take its time."""
        self.progress(name)
        with self.clock.time(name):
            yield

    def note(self, text: str) -> None:
        """Note a sentence, once: several runs may have the same to say."""
        if text not in self.notes:
            self.notes.append(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareOptions(Options):
    """Options of a comparison.

    Attributes:
        first: Layer, node or value of A that the compared part starts with; its counterpart in B is found.
        last: Layer, node or value of A that the compared part ends with. What cannot be read, and all that
            needs it, is then left out of both nets.
        probe: Inputs of A to run on, by name, or a file of them as for ``load_arrays``; drawn otherwise.
        image: An image to run on, instead of a probe; what each net is given of it is compared as well.
        preprocess_a: How A is given the image: a ``Preprocessing``, the name of a preset (``caffe``,
            ``torchvision``, ``gluon``, ``keras-caffe``, ``keras-tf``, ``keras-torch``, ``darknet``), or
            settings such as ``resize=256,crop=224,order=bgr,mean=104;117;123,scale=1``.
        preprocess_b: The same for B.
        tolerance: Largest relative error of an output treated as equal, > 0.
        strict: Say *not decidable* instead of *equal* where a setting differs within the tolerance or without
            effect on the inputs tried, or something was not exercised: see ``Comparison.is_strictly_equal``.
        one_size: Compare at the declared sizes alone, for a net that was made for one size of its images.
        seed: What inputs are drawn by, >= 0; another seed draws others.
        num_samples: Samples that are drawn where the nets leave the batch open, >= 1. The first is noise, the
            second a smooth image, the third noise of the size of pixels, and further ones are noise. By
            default three, and two of nets that take long for each.
        keep_values: Keep what each group of layers computes in both nets, for the page: see ``Group.values``.
        memory: What the process may take of the memory, with both nets: bytes, or a size such as ``1GB``. Of
            what the nets compute, a part is held, and the rest computed again where it is needed. By default
            half of what is free, and no more than makes a comparison faster.
        input_shapes: Input sizes by name, for both nets; see ``load_all``.
        tiny: Construct a Hugging Face model folder and its port anew, from its configuration shrunk to few
            layers, heads and features, with drawn weights. Both are named by files.
    """

    function: ClassVar[str] = "compare"

    first: str | None = None
    last: str | None = None
    probe: Mapping[str, np.ndarray] | str | Path | None = None
    image: str | Path | None = None
    preprocess_a: Preprocessing | str | None = None
    preprocess_b: Preprocessing | str | None = None
    tolerance: float = OUTPUT_TOLERANCE
    strict: bool = False
    one_size: bool = False
    seed: int = 0
    num_samples: int | None = None
    keep_values: bool = False
    memory: int | str | None = None
    input_shapes: Mapping[str, Sequence[int]] | None = None
    tiny: bool = False

    @property
    def inputs(self) -> Mapping[str, np.ndarray] | None:
        """The probe as arrays.

        Raises:
            UsageError: It is the name of a file, which nobody has read yet.
        """
        if isinstance(self.probe, str | Path):
            raise UsageError(f"the probe is the file {self.probe}, expected arrays by name")
        return self.probe

    @property
    def memory_bytes(self) -> int | None:
        """The limit of memory in bytes.

        Raises:
            UsageError: It is no size.
        """
        return None if self.memory is None else parse_bytes(self.memory)


OnVerdict = Callable[[Comparison], None]


def compare(
    a: Graph,
    b: Graph,
    options: CompareOptions | None = None,
    *,
    progress: Progress | None = None,
    on_verdict: OnVerdict | None = None,
    **settings: Any,
) -> Comparison:
    """Compare two nets: are they the same, and if not, where and why?

    Args:
        a: The first net, the one that is taken for right.
        b: The second net, the port.
        options: How; a probe holds inputs of A (of the compared part's, if there is one) by name, and memory
            is in bytes. Options that are about files and images are those of ``netweave.compare``.
        progress: Called with the name of each stage as it begins.
        on_verdict: Called at most once with the result, before the values of its groups are kept, if its
            verdict and sentence are certain by then.
        settings: Attributes of ``CompareOptions``, which are set on top of ``options``.

    Raises:
        UsageError: There is no such option or layer, the probe does not fit, or the memory is too little.
        RunError: A net cannot be run at all.
    """
    options = CompareOptions.of(options, settings)
    first, last, probe = options.first, options.last, options.inputs
    log = StageLog() if progress is None else StageLog(progress)
    if a.only_weights or b.only_weights:
        if first is not None or last is not None or probe is not None:
            raise UsageError(
                "one of the two contains only weights; a range of layers and a probe need two nets"
            )
        log.progress("compare weights")
        return compare_stored(a, b)
    # Nets that overflow are compared like others: what is not finite is judged where it matters. And graphs
    # are cycles of nodes and values, of which none dies on the way.
    with np.errstate(all="ignore"), collector_at_rest():
        store = ValueStore(MemoryBudget.of(options.memory_bytes, a, b), log.clock)
        exact = partial(_compare_exactly, options=options, log=log, store=store)
        rounded = compare_precisions(
            a, b, exact, probe=probe, tolerance=options.tolerance, seed=options.seed, log=log
        )
        return exact(a, b, on_verdict=on_verdict) if rounded is None else rounded


def _compare_exactly(
    a: Graph,
    b: Graph,
    *,
    options: CompareOptions,
    log: StageLog,
    store: ValueStore,
    on_verdict: OnVerdict | None = None,
) -> Comparison:
    """Compare two nets, or a range of their layers, up to float32 rounding."""
    first, last = options.first, options.last
    if first is None and last is None:
        return _compare_branches(a, b, options, log, store, on_verdict)
    of_whole = replace(options, probe=None, one_size=False, keep_values=False)
    whole = _compare(a, b, comparable, of_whole, log, store)
    parts = cut_layer_range(comparable(a), comparable(b), whole, first=first, last=last)
    again = StageLog(log.progress, log.clock)
    return _compare(*parts, comparable, options, again, store, on_verdict)


def _compare_branches(
    a: Graph,
    b: Graph,
    options: CompareOptions,
    log: StageLog,
    store: ValueStore,
    on_verdict: OnVerdict | None,
) -> Comparison:
    """Compare two nets; if they differ and one has branches, once more branch by branch, which tells more.

    There they may be equal, too: branches whose slices stand in another order are not joined in both
    (decision 0110).
    """
    form = ComparableForm()

    def is_enough(found: Comparison) -> bool:
        return found.same_structure or not form.branchings

    def tell(found: Comparison, *, is_closer: bool = False) -> None:
        is_certain = found.verdict is not Verdict.UNDECIDED if is_closer else is_enough(found)
        if on_verdict is not None and is_certain:
            on_verdict(found)

    comparison = _compare(a, b, form, options, log, store, tell)
    if is_enough(comparison):
        return comparison
    again = StageLog(log.progress, log.clock)
    tell_closer = partial(tell, is_closer=True)
    closer = _compare(a, b, partial(branched, branchings=form.branchings), options, again, store, tell_closer)
    return comparison if closer.verdict is Verdict.UNDECIDED else closer


def _compare(
    a: Graph,
    b: Graph,
    form: Callable[[Graph], Graph],
    options: CompareOptions,
    log: StageLog,
    store: ValueStore,
    on_verdict: OnVerdict | None = None,
) -> Comparison:
    """Compare two nets in one form."""
    try:
        pair = prepare(a, b, form, options, log, store)
        assessment = assess_sizes(pair, options, log, store)
        assessment = on_other_integers(assessment, options, log)
        assessment, apart = on_longer_sequences(assessment, options, log)
        if apart is not None:
            longer = _compare(*apart, form, options, log, store)
            if not longer.equal:
                note = "the nets agree on the sequences that they were read with, and differ on longer ones"
                return replace(longer, notes=(note, *longer.notes))
        assessment = on_single_steps(assessment, options, log)
        if assessment.is_equal:
            assessment = assessment.missing(*(held.limit for held in pair.held))
        if on_verdict is not None:
            on_verdict(assessment.comparison(log))
        return assessment.with_values(log).comparison(log)
    except NotComparableError as reason:
        sentence = f"not decidable: {reason}"
        return Comparison(a, b, Verdict.UNDECIDED, sentence, notes=tuple(log.notes), seconds=log.seconds)
