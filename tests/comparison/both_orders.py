"""Comparisons in both orders: what ``compare(b, a)`` must say, given what ``compare(a, b)`` says."""

from __future__ import annotations

import functools
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from netweave.comparison.pipeline import CompareOptions
from netweave.comparison.result.comparison import Comparison, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from netweave.comparison import TensorMapping

_RANGE = ("first", "last")
_LISTENERS = ("progress", "on_verdict", "keep_values")
"""Options that do not change what is found."""


class AsymmetryError(AssertionError):
    """A comparison whose result depends on the order of the nets."""


class BothOrders:
    """Has each comparison made once more with the nets swapped, while it is switched on."""

    def __init__(self) -> None:
        self._is_on = False
        self._with_findings = True

    @contextmanager
    def switched(self, *, on: bool, with_findings: bool = True) -> Iterator[None]:
        """Switch the second comparison on or off for the body of a ``with`` statement.

        Args:
            on: Whether there is one.
            with_findings: Whether its findings are held against those of the first, besides the verdict.
        """
        before = self._is_on, self._with_findings
        self._is_on, self._with_findings = on, with_findings
        try:
            yield
        finally:
            self._is_on, self._with_findings = before

    def wrap(self, compare: Callable[..., Comparison]) -> Callable[..., Comparison]:
        """Return a function that compares like ``compare`` and holds the swapped result against the first.

        Raises:
            AsymmetryError: The two results are not each other's mirror image.
        """

        @functools.wraps(compare)
        def compare_in_both_orders(
            a: Any, b: Any, chosen: CompareOptions | None = None, **options: Any
        ) -> Comparison:
            options = {**_changed(chosen), **options}
            if not self._is_on or any(options.get(name) is not None for name in _RANGE):
                return compare(a, b, **options)
            with_findings = self._with_findings
            with self.switched(on=False):
                try:
                    result = compare(a, b, **options)
                except Exception as error:
                    _check_raises(type(error), compare, b, a, _swapped(options, ()))
                    raise
                swapped = _swapped(options, result.inputs)
                if swapped is not None:
                    check_mirrored(result, compare(b, a, **swapped), with_findings=with_findings)
                return result

        return compare_in_both_orders


def _changed(chosen: CompareOptions | None) -> dict[str, Any]:
    """Return the options that are not those by default, by name."""
    default = CompareOptions()
    names = CompareOptions.names() if chosen is not None else ()
    return {name: value for name in names if (value := getattr(chosen, name)) is not getattr(default, name)}


def check_mirrored(result: Comparison, swapped: Comparison, *, with_findings: bool = True) -> None:
    """Check that a result is that of the same nets in the other order.

    Args:
        result: The result.
        swapped: The one of the nets in the other order.
        with_findings: Whether the findings are checked and not the verdict and the mappings alone.

    Raises:
        AsymmetryError: It is not; the message lists what differs.
    """
    expected, found = _facts(result), _facts(swapped, is_swapped=True)
    differing = [
        f"{name}: {expected[name]} for (A, B), {found[name]} for (B, A)"
        for name in expected
        if expected[name] != found[name] and (with_findings or name != "nodes in one net alone")
    ]
    findings = _layers_of_findings(result), _layers_of_findings(swapped, is_swapped=True)
    if with_findings and not _are_about_the_same(*findings):
        differing.append(f"layers of findings: {findings[0]} for (A, B), {findings[1]} for (B, A)")
    if differing:
        raise AsymmetryError(
            "the result depends on the order of the nets:\n  "
            + "\n  ".join(differing)
            + f"\n(A, B): {result.sentence}\n(B, A): {swapped.sentence}"
        )


def _facts(result: Comparison, *, is_swapped: bool = False) -> dict[str, Any]:
    """Return what must not depend on the order, told as ``(first net, second net)`` of the first order."""
    turn = slice(None, None, -1 if is_swapped else 1)
    only = [
        frozenset(
            node
            for group in result.groups
            if group.status is status
            for node in (group.nodes_a or group.layers_a or group.nodes_b or group.layers_b)
        )
        for status in (Status.ONLY_A, Status.ONLY_B)
    ]
    return {
        "verdict": result.verdict.name,
        "exit status": result.exit_status,
        "inputs": _pairs(result.inputs, turn),
        "outputs": _pairs(result.outputs, turn),
        "nodes in one net alone": tuple(map(sorted, only))[turn],
    }


def _layers_of_findings(result: Comparison, *, is_swapped: bool = False) -> list[tuple[frozenset[str], ...]]:
    """Return the layers of each group with a finding, in the first net and in the second one.

    Which layer of a group a finding names depends on where B is to be edited, and so on the order: where a
    convolution and a normalisation are one group, it may name either. That a layer moved is told once, where
    A has it, and is about both nets.
    """
    turn = slice(None, None, -1 if is_swapped else 1)
    layers = []
    for group in result.groups:
        if group.finding:
            moved = group.layers_a + group.layers_b if group.finding.mismatch == "layer-order" else ()
            layers.append((frozenset(group.layers_a or moved), frozenset(group.layers_b or moved))[turn])
    return layers


def _are_about_the_same(
    first: Sequence[tuple[frozenset[str], ...]], second: Sequence[tuple[frozenset[str], ...]]
) -> bool:
    """Whether there are as many findings, each with a counterpart that shares layers of both nets with it.

    Weights are copied from A to B, so that what belongs to one group may be two in the other order.
    """

    def share_layers(one: tuple[frozenset[str], ...], other: tuple[frozenset[str], ...]) -> bool:
        return all(a & b or not (a or b) for a, b in zip(one, other, strict=True))

    return len(first) == len(second) and all(
        any(share_layers(each, other) for other in others)
        for each_of, others in ((first, second), (second, first))
        for each in each_of
    )


def _pairs(mappings: Iterable[TensorMapping], turn: slice) -> list[tuple[tuple[str, ...], bool]]:
    return sorted(((each.a, each.b)[turn], each.is_identity) for each in mappings)


def _swapped(options: Mapping[str, Any], inputs: tuple[TensorMapping, ...]) -> dict[str, Any] | None:
    """Return the options for the nets in the other order; None where the probe cannot be given to B."""
    swapped = {name: value for name, value in options.items() if name not in _LISTENERS}
    for own, other in (("preprocess_a", "preprocess_b"), ("preprocess_b", "preprocess_a")):
        swapped.pop(own, None)
        if other in options:
            swapped[own] = options[other]
    probe = options.get("probe")
    if probe is None:
        return swapped
    if not isinstance(probe, dict) or {each.a for each in inputs} != set(probe):
        return None
    swapped["probe"] = {each.b: each.apply(probe[each.a]) for each in inputs}
    return swapped


def _check_raises(
    expected: type[Exception],
    compare: Callable[..., Comparison],
    a: Any,
    b: Any,
    options: dict[str, Any] | None,
) -> None:
    """Check that the nets in the other order are refused as well.

    Raises:
        AsymmetryError: They are compared, or refused with another type of error.
    """
    if options is None:
        return
    try:
        result = compare(a, b, **options)
    except Exception as error:
        if type(error) is not expected:
            raise AsymmetryError(f"(A, B) raises {expected.__name__}, (B, A): {error!r}") from error
        return
    raise AsymmetryError(f"(A, B) raises {expected.__name__}, (B, A): {result.sentence}")
