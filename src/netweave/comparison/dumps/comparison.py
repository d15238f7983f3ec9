"""The comparison of a net with a dump, and of two dumps."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from netweave.comparison.dumps.causes import Cause, CauseFinder
from netweave.comparison.dumps.inputs import Inputs, choose_inputs
from netweave.comparison.dumps.shards import (
    groups_of,
    join_inputs,
    join_parts,
    projections_of,
    take_apart,
)
from netweave.comparison.dumps.tensors import (
    TOLERANCES,
    TensorIndex,
    TensorPair,
    alike,
    comparable_arrays,
    error_of,
    is_partial,
    match_tensors,
    precision_of,
)
from netweave.comparison.execution import memory_budget
from netweave.comparison.execution.tapped_values import TappedValues, ValueStore
from netweave.comparison.explain.findings import where
from netweave.comparison.layout.wording import describe
from netweave.comparison.metric import LOCAL_TOLERANCE, OUTPUT_TOLERANCE, Signals, comparable
from netweave.comparison.result.comparison import (
    Comparison,
    Coverage,
    Evidence,
    Finding,
    Group,
    Status,
    TensorMapping,
    Unexercised,
)
from netweave.comparison.result.verdicts import Verdict
from netweave.errors import NetweaveError, UsageError
from netweave.graph import Graph, layer_keys
from netweave.graph.passes import to_inference
from netweave.graph.summary import ratio_text

Arrays = Mapping[str, np.ndarray]

CLEARLY_LIKE = 0.9
"""Least correlation of a tensor that is said to be wrong before one whose cause is known."""

CONVINCING = 5e-2
"""Largest error, relative to the rms, at which the output alone shows that two runs are the same."""

LEAST_SHARE = 0.9
"""Share of the dump's tensors that must hold values of A where the output alone does not convince."""

SMALL = 1e-5
"""Largest error of a tensor that nothing but rounding explains, before one that is wrong."""

OUTPUT = "output"
"""Name in a dump of what the whole module returned; parts of it have an index or a key behind it."""

NOT_PRINTED = Unexercised(
    "values that are not printed", "", "the dump holds a few of each tensor", is_limit=True
)

ONE_INPUT = Unexercised("other inputs", "", "a dump is of one run", is_limit=True)


@dataclass(slots=True)
class NetRun:
    """A net run on the inputs of a dump, with its tensors paired by values.

    Attributes:
        signals: The net.
        values: What it computes, by signal.
        pairs: Tensors of B with the values of a signal.
        right: Signals that B computes as well: those with a counterpart, and what these are computed from.
        taken: Tensors of B that are a signal's counterpart.
    """

    signals: Signals
    values: dict[str, np.ndarray]
    pairs: dict[str, list[TensorPair]]
    right: set[str] = field(default_factory=set)
    taken: frozenset[str] = frozenset()

    @classmethod
    def of(cls, graph: Graph, inputs: Inputs, index: TensorIndex) -> NetRun:
        """Run a net at the sizes of the inputs.

        Raises:
            UsageError: It does not take these sizes.
            RunError: It cannot be run.
        """
        sized = memory_budget.resized(graph, {name: x.shape for name, x in inputs.items()})
        if sized is None:
            sizes = ", ".join(f"{name} {'x'.join(map(str, x.shape))}" for name, x in inputs.items())
            raise UsageError(f"net {graph.name!r} cannot be run on inputs of the sizes in the dump: {sizes}")
        signals = Signals.of(sized)
        tensors = TappedValues(sized, memory_budget.given(inputs), signals.names, ValueStore())
        values = {name: tensors[name] for name in signals.names}
        given = {str(value.name) for value in sized.inputs}
        computed = {name: x for name, x in values.items() if name not in given and x.dtype == np.float32}
        pairs = match_tensors(computed, index)
        outputs = set(signals.outputs)
        inner = {name: x for name, x in computed.items() if name not in pairs and name not in outputs}
        reordered = {n: found for n, x in inner.items() if (found := index.find(n, x, in_any_order=True))}
        held = [*pairs.values(), *reordered.values()]
        run = cls(signals, values, pairs, taken=frozenset(pair.b for found in held for pair in found))
        run._settle_outputs([name for name in index.names if _is_returned(name)])
        run.right = run._ancestors(run.pairs | reordered) | given
        return run

    def _settle_outputs(self, returned: Sequence[str]) -> None:
        """Pair outputs with tensors that B returns alone, where the dump says which these are."""
        outputs = dict.fromkeys(self.signals.outputs)
        if not returned or len(returned) < len(outputs):
            return
        for name in outputs:
            pairs = [pair for pair in self.pairs.pop(name, ()) if pair.b in returned]
            if pairs:
                self.pairs[name] = pairs

    def _ancestors(self, names: Mapping[str, object]) -> set[str]:
        todo, seen = list(names), set(names)
        while todo:
            node = self.signals.producer.get(todo.pop())
            for name in self.signals.inputs_of(node) if node is not None else ():
                if name not in seen:
                    seen.add(name)
                    todo.append(name)
        return seen

    def right_before(self, rest: Arrays) -> set[str]:
        """Return the signals that are right before the first one that B computes almost alike.

        A norm hides what is wrong before it: what it computes may be right again.
        """
        left = {
            name: x for name, x in self.values.items() if name not in self.pairs and x.dtype == np.float32
        }
        order = {name: index for index, name in enumerate(self.values)}
        close = [order[pair.a] for pair in alike(left, rest) if pair.likeness >= CLEARLY_LIKE]
        first = min(close, default=len(order))
        inputs = {str(value.name) for value in self.signals.graph.inputs}
        return inputs | self._ancestors({name: () for name in self.pairs if order[name] < first})

    def unmatched(self, arrays: Arrays) -> dict[str, np.ndarray]:
        """Return the tensors of B that hold no signal's values, or return those of one that is no output."""
        outputs = [self.pairs.get(name) for name in dict.fromkeys(self.signals.outputs)]
        right = {pair.b for pairs in outputs for pair in pairs or ()}
        wrong = (
            {name for name in arrays if _is_returned(name) and name not in right}
            if None in outputs
            else set()
        )
        return {name: x for name, x in arrays.items() if name not in self.taken or name in wrong}

    def wrong(self) -> dict[str, np.ndarray]:
        """Return what is computed behind the signals that B computes as well, in the order of the net."""
        values = self.values.items()
        return {
            name: x for name, x in values if name not in self.right and x.dtype == np.float32 and x.size > 1
        }


def compare_dump(a: Graph, b: Graph, arrays: Arrays, *, is_printed: bool = False) -> Comparison:
    """Compare a net with what another implementation computed.

    Args:
        a: The net.
        b: The dump, as a graph of arrays alone.
        arrays: Its tensors by name, the inputs of the run among them.
        is_printed: Whether NaN stands for what is not known, since a runtime printed a few values alone.

    Raises:
        UsageError: The dump lacks inputs of the net, or the net does not take their sizes.
        RunError: The net cannot be run.
    """
    start = time.perf_counter()
    file = b.files[0] if b.files else b.name
    arrays = join_inputs(arrays)
    held = comparable_arrays(arrays)
    if not is_printed:
        held = {name: x for name, x in held.items() if not is_partial(x)}
    precision = precision_of(arrays.values())
    index = TensorIndex(held, TOLERANCES[precision])
    plain = to_inference(a)
    run, inputs = _best_run(plain, choose_inputs(plain, arrays, file=file), index)
    whole, tolerance = held, index.tolerance
    if groups_of(held):
        held = join_parts(held, run.values, tolerance=tolerance)
    held = take_apart(held, run.values, projections_of(run.signals), tolerance=tolerance)
    if list(held) != list(whole):
        index = TensorIndex(held, tolerance)
        run = NetRun.of(plain, inputs, index)
    used = {name for name, x in held.items() if any(_is_input(x, given) for given in inputs.values())}
    index = TensorIndex({name: x for name, x in held.items() if name not in used}, index.tolerance)
    report = _Report(a, b, file, run, index, precision, inputs)
    compared = report.comparison()
    return replace(compared, seconds={"compare with the dump": time.perf_counter() - start})


def _best_run(graph: Graph, choices: Sequence[Inputs], index: TensorIndex) -> tuple[NetRun, Inputs]:
    """Return the run on the inputs under which the most tensors agree."""
    best: tuple[NetRun, Inputs] | None = None
    refused: NetweaveError | None = None
    for inputs in choices:
        try:
            run = NetRun.of(graph, inputs, index)
        except NetweaveError as error:  # sizes that do not fit each other: other tensors are the inputs
            refused = refused or error
            continue
        if best is None or len(run.pairs) > len(best[0].pairs):
            best = run, inputs
    if best is None:
        assert refused is not None
        raise refused
    return best


def _is_returned(name: str) -> bool:
    """Return whether a tensor is what the whole run returned, by the name that ``capture`` gives it."""
    return name == OUTPUT or name.startswith(f"{OUTPUT}.")


def _is_input(x: np.ndarray, given: np.ndarray) -> bool:
    return x.size == given.size and x.shape == given.shape and np.array_equal(x, given)


@dataclass(slots=True)
class _Report:
    """The findings about a net and a dump, as a result."""

    a: Graph
    b: Graph
    file: str
    run: NetRun
    index: TensorIndex
    precision: str
    inputs: Inputs

    def comparison(self) -> Comparison:
        """Return the result."""
        for find in (self.equal, self.different):
            found = find()
            if found is not None:
                return found
        return self.undecided()

    def equal(self) -> Comparison | None:
        """Return the result if the dump holds what the net returns; else None."""
        errors = [self._output_error(name) for name in self.run.signals.outputs]
        if not errors or None in errors:
            return None
        worst = max(error or 0.0 for error in errors)
        apart = f"agrees to within {ratio_text(worst)} of the rms" if worst else "is identical"
        rounding = (
            f", which {self.precision} explains"
            if self.precision in {"float16", "bfloat16", "float8"}
            else ""
        )
        if worst > CONVINCING and self._num_taken < LEAST_SHARE * len(self.index.names):
            doubt = (
                f"{Verdict.UNDECIDED.value}: the output {apart}{rounding}, but only {self._counted()}; "
                "it can hide a mistake: dump a run in a finer format, or fewer tensors that A lacks"
            )
            wrong = self.different()
            return self._comparison(Verdict.UNDECIDED, doubt, self._groups()) if wrong is None else wrong
        sentence = f"{Verdict.LATENT.value}: the output {apart}{rounding}; {self._counted()}"
        equal = self._comparison(Verdict.LATENT, sentence, self._groups(), error=worst)
        if all(name in self.run.pairs for name in self.run.signals.outputs):
            return equal
        inside = self.different()
        return equal if inside is None else _without_effect(equal, inside)

    def _output_error(self, name: str) -> float | None:
        pairs = self.run.pairs.get(name)
        if not pairs:
            returned = {key: x for key, x in self.index.arrays.items() if _is_returned(key)}
            arrays = returned if len(returned) >= len(self.run.signals.outputs) else self.index.arrays
            loose = TensorIndex(arrays, max(self.index.tolerance, OUTPUT_TOLERANCE))
            pairs = loose.find(name, self.run.values[name]) if name in self.run.values else []
        return min((pair.error or 0.0 for pair in pairs), default=None)

    def different(self) -> Comparison | None:
        """Return the result if a tensor of the dump is wrong; None if none is known to be."""
        rest = self.run.unmatched({name: self.index.arrays[name] for name in self.index.names})
        cause = self._cause()
        likely = alike(self.run.wrong(), rest)
        if cause is None and not likely:
            return None
        finding = self._explained(cause, likely) if cause is not None else self._unexplained(likely[0])
        node = cause.variant.node if cause is not None else self.run.signals.producer[likely[0].a]
        group = Group(
            nodes_a=(str(node.name),),
            nodes_b=(finding.layer_b,),
            layers_a=layer_keys(node),
            layers_b=(),
            evidence=Evidence.VALUES if cause is not None else Evidence.GUESS,
            status=Status.DIFFERENT,
            error=finding.error,
            finding=finding,
        )
        later = [self._propagated(pair) for pair in likely if pair.b != finding.layer_b]
        place = " / ".join(name for name in (finding.layer_a, finding.layer_b) if name)
        places = " / ".join(name for name in (finding.place_a, finding.place_b) if name)
        sentence = f"different at {place} ({places}): {finding.cause}; {self._counted()}"
        if finding.fix:
            sentence += f". Fix: {finding.fix}"
        return self._comparison(Verdict.DIFFERENT, sentence, [*self._groups(), group, *later])

    def undecided(self) -> Comparison:
        """Return the result where the dump says too little."""
        signals = self.run.signals
        if self._is_printed and not self.index.names:
            said = "the dump prints too few values of each tensor to tell one from another"
        elif not self.run.pairs:
            said = (
                "no tensor of the dump holds anything that A computes: is it of the same inputs and weights?"
            )
        else:
            last = [name for name in signals.names if name in self.run.pairs][-1]
            layer = where(signals, signals.producer[last])[0]
            said = f"{self._counted()}, the last at {layer!r}; no tensor shows what follows"
        return self._comparison(Verdict.UNDECIDED, f"not decidable: {said}", self._groups())

    def _cause(self) -> Cause | None:
        """Return the cause of what differs; if there is none, that of what differs by little before it."""
        index, run = self.index, self.run
        for tolerance in (index.tolerance, min(index.tolerance, SMALL)):
            is_strict = tolerance < index.tolerance
            if is_strict:
                index = TensorIndex(index.arrays, tolerance)
                run = NetRun.of(to_inference(self.a), self.inputs, index)
            form = NetRun.of(comparable(self.a), self.inputs, index)
            rest, taken = run.unmatched(index.arrays), run.taken
            run.right = run.right_before(rest) if is_strict else run.right
            form.right = form.right_before(rest) if is_strict else form.right
            right = form.right | {name for name in form.values if name in run.right}
            others = {name: x for name, x in index.arrays.items() if name in taken}
            indices = [TensorIndex(arrays, tolerance) for arrays in (rest, others)]
            cause = CauseFinder(form.signals, form.values, right, *indices).find() if rest else None
            if cause is not None or self.index.tolerance > LOCAL_TOLERANCE:
                return cause
        return None

    def _explained(self, cause: Cause, likely: Sequence[TensorPair]) -> Finding:
        variant, first = cause.variant, self._first(cause, likely)
        layer, place = where(self.run.signals, variant.node)
        often = f", in {cause.num_nodes} nodes" if cause.num_nodes > 1 else ""
        whose = "B's values and its output" if cause.outputs_agree else "B's values"
        return Finding(
            mismatch=variant.mismatch,
            cause=f"{whose} are those of A with {variant.cause}{often}; {ratio_text(cause.error)} left",
            fix=variant.fix,
            place_a=place,
            place_b=self.file,
            layer_a=layer,
            layer_b=first.b,
            error=self._error(first),
            error_fixed=cause.error,
        )

    def _first(self, cause: Cause, likely: Sequence[TensorPair]) -> TensorPair:
        """Return the first wrong tensor: one before those that the cause explains, if it is clearly alike.

        Blocks are nodes where the cause is looked for, and what is computed inside them has no name there.
        """
        first = cause.pairs[0]
        place = {name: index for index, name in enumerate(self.run.values)}
        same = next((pair.a for pair in likely if pair.b == first.b), first.a)
        explained = {pair.b for pair in cause.pairs}
        before = [pair for pair in likely if pair.likeness >= CLEARLY_LIKE and pair.b not in explained]
        before = [pair for pair in before if same in place and place[pair.a] < place[same]]
        return before[0] if before else first

    def _error(self, pair: TensorPair) -> float | None:
        x = self.run.values.get(pair.a)
        y = self.index.arrays[pair.b]
        return None if x is None or x.size != y.size else error_of(pair.change.apply(x), y)

    def _unexplained(self, pair: TensorPair) -> Finding:
        signals = self.run.signals
        layer, place = where(signals, signals.producer[pair.a])
        before = [name for name in self._sources(pair.a) if name in self.run.pairs]
        known = ", ".join(self.run.pairs[name][0].b for name in before[:3])
        cause = f"unexplained: {pair.b!r} resembles A's tensor (correlation {pair.likeness:.3g})"
        cause += f"; what it is computed from agrees ({known})" if known else ""
        return Finding(
            mismatch=None,
            cause=cause,
            place_a=place,
            place_b=self.file,
            layer_a=layer,
            layer_b=pair.b,
            error=error_of(pair.change.apply(self.run.values[pair.a]), self.index.arrays[pair.b]),
        )

    def _sources(self, name: str) -> list[str]:
        """Return the nearest signals with a counterpart that one is computed from."""
        todo, seen = [name], {name}
        found: list[str] = []
        while todo:
            node = self.run.signals.producer.get(todo.pop(0))
            for source in self.run.signals.inputs_of(node) if node is not None else ():
                if source in seen:
                    continue
                seen.add(source)
                (found if source in self.run.pairs else todo).append(source)
        return found

    def _propagated(self, pair: TensorPair) -> Group:
        node = self.run.signals.producer[pair.a]
        error = error_of(pair.change.apply(self.run.values[pair.a]), self.index.arrays[pair.b])
        return Group(
            nodes_a=(str(node.name),),
            nodes_b=(pair.b,),
            layers_a=layer_keys(node),
            layers_b=(),
            evidence=Evidence.GUESS,
            status=Status.PROPAGATED,
            error=error,
        )

    def _groups(self) -> list[Group]:
        """Return a group for each signal with a counterpart, in A's order."""
        groups = []
        for name in self.run.signals.names:
            for pair in self.run.pairs.get(name, ())[:1]:
                node = self.run.signals.producer[name]
                text = describe(pair.change)
                mapping = TensorMapping.named(pair.a, pair.b, pair.change, text)
                groups.append(
                    Group(
                        nodes_a=(str(node.name),),
                        nodes_b=(pair.b,),
                        layers_a=layer_keys(node),
                        layers_b=(),
                        evidence=Evidence.VALUES,
                        status=Status.MAPPED if text else Status.EQUAL,
                        error=pair.error,
                        mapping=mapping if text else None,
                    )
                )
        return groups

    def _counted(self) -> str:
        names = self.index.names
        printed = ", by the few values that are printed of each" if self._is_printed else ""
        return f"{self._num_taken} of {len(names)} tensors of the dump hold values of A{printed}"

    @property
    def _num_taken(self) -> int:
        """Tensors of the dump that hold values of A."""
        return len(self.run.taken.intersection(self.index.names))

    @property
    def _is_printed(self) -> bool:
        return any(is_partial(x) for x in self.index.arrays.values())

    def _comparison(
        self, verdict: Verdict, sentence: str, groups: Sequence[Group], *, error: float | None = None
    ) -> Comparison:
        probe = ", ".join(f"{name} {'x'.join(map(str, x.shape))}" for name, x in self.inputs.items())
        limits = (ONE_INPUT, NOT_PRINTED) if self._is_printed else (ONE_INPUT,)
        coverage = Coverage(0, limits) if verdict is Verdict.LATENT else None
        return Comparison(
            self.a,
            self.b,
            verdict,
            sentence,
            groups=tuple(groups),
            error=error,
            coverage=coverage,
            probes=(f"{probe}, from the dump",),
            notes=("only the tensors of one run are compared",),
        )


def _without_effect(equal: Comparison, different: Comparison) -> Comparison:
    """Return that outputs agree within what is tolerated, with the tensor that does not as the reason."""
    groups = [
        replace(group, status=Status.LATENT, finding=replace(group.finding, latent=True))
        if group.finding is not None
        else group
        for group in different.groups
    ]
    finding = different.findings[0]
    sentence = f"{equal.sentence}. Not so at {finding.layer_a} / {finding.layer_b}: {finding.cause}"
    return replace(equal, sentence=sentence, groups=tuple(groups))


def compare_dumps(a: Graph, b: Graph, arrays_a: Arrays, arrays_b: Arrays) -> Comparison:
    """Compare what two implementations computed, in the order of the first.

    Args:
        a: The first dump, as a graph of arrays alone.
        b: The second.
        arrays_a: The tensors of the first by name, in the order in which they were computed.
        arrays_b: The tensors of the second, in any order.
    """
    held_a, held_b = (
        {name: x for name, x in comparable_arrays(arrays).items() if not is_partial(x)}
        for arrays in (arrays_a, arrays_b)
    )
    tolerance = max(TOLERANCES[precision_of(arrays.values())] for arrays in (arrays_a, arrays_b))
    index = TensorIndex(held_b, tolerance)
    pairs = match_tensors(held_a, index)
    known = TensorIndex(held_a, tolerance).names
    taken = {pair.b for found in pairs.values() for pair in found}
    left_a = {name: held_a[name] for name in known if name not in pairs}
    left_b = {name: held_b[name] for name in index.names if name not in taken}
    groups = [
        Group((found[0].a,), (found[0].b,), (), (), Evidence.VALUES, Status.EQUAL, error=found[0].error)
        for found in pairs.values()
    ]
    counted = f"{len(pairs)} of {len(known)} tensors of A are in B"
    notes = ("only the tensors of one run of each are compared",)
    likely = alike(left_a, left_b)
    if likely:
        groups += [_pair_group(pair, held_a, held_b, is_first=pair is likely[0]) for pair in likely]
        first = likely[0]
        sentence = f"different at {first.a} / {first.b}, the first tensor of A that differs; {counted}"
        return Comparison(a, b, Verdict.DIFFERENT, sentence, groups=tuple(groups), notes=notes)
    if pairs and (not left_a or not left_b):
        coverage = Coverage(0, (ONE_INPUT,))
        sentence = f"{Verdict.LATENT.value}: {counted}"
        return Comparison(
            a, b, Verdict.LATENT, sentence, groups=tuple(groups), notes=notes, coverage=coverage
        )
    sentence = f"not decidable: {counted}, and the others resemble none"
    return Comparison(a, b, Verdict.UNDECIDED, sentence, groups=tuple(groups), notes=notes)


def _pair_group(pair: TensorPair, a: Arrays, b: Arrays, *, is_first: bool) -> Group:
    error = error_of(pair.change.apply(a[pair.a]), b[pair.b])
    cause = f"unexplained: the values of the two resemble each other (correlation {pair.likeness:.3g})"
    finding = Finding(None, cause, layer_a=pair.a, layer_b=pair.b, error=error) if is_first else None
    status = Status.DIFFERENT if is_first else Status.PROPAGATED
    return Group((pair.a,), (pair.b,), (), (), Evidence.GUESS, status, error=error, finding=finding)
