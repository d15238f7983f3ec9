"""The optimizers of two trainings, by what they did to the weights."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from netweave.comparison.result.comparison import Finding
from netweave.comparison.training_step.pairing import WeightPair
from netweave.comparison.training_step.record import Setting, TrainingRecord
from netweave.comparison.training_step.rules import Rule, completed, rates, updated, variants
from netweave.graph.summary import list_names, ratio_text

TOLERANCES = {True: 1e-8, False: 1e-4}
"""Largest error of a recomputed update, relative to its size; by whether the record is in double
precision."""

SINGLE = 1e-6
"""Rounding of a weight in single precision, relative to its size, which its update inherits."""

DEPENDING = {"is_decoupled": "weight_decay", "nesterov": "momentum", "dampening": "momentum"}
"""Settings that say nothing where another one is 0."""

WITHOUT_FORMULA = {"AMSGrad", "NAdam", "RAdam", "Adamax", "Adadelta", "Rprop", "ASGD"}
"""Rules that are told from one whose first updates are the same by their names alone."""

RATES = 1e-3
"""Learning rates that differ by less than this are one."""

Change = tuple[tuple[str, Setting, Setting], ...]
"""Settings with their values in A and in B."""

WORDS: Mapping[str, tuple[str, str]] = {
    "lr": ("the learning rate is {a}", "lr={a}"),
    "weight_decay": ("the weight decay is {a}", "weight_decay={a}"),
    "momentum": ("the momentum is {a}", "momentum={a}"),
    "dampening": ("the dampening of the momentum is {a}", "dampening={a}"),
    "alpha": ("the smoothing of squared gradients is {a}", "alpha={a}"),
    "beta1": ("beta1 is {a}", "beta1={a}"),
    "beta2": ("beta2 is {a}", "beta2={a}"),
    "eps": ("eps is {a}", "eps={a}"),
    "initial": ("squared gradients are summed from {a} on", "initial_accumulator_value={a}"),
    "lr_decay": ("the decay of the learning rate is {a}", "lr_decay={a}"),
}
"""Names of settings that are numbers, in a sentence, each with its fix."""

PHRASES: Mapping[str, Mapping[Setting, str]] = {
    "is_corrected": {
        True: "corrects the bias of its moments",
        False: "does not correct the bias of its moments",
    },
    "eps_place": {
        "after": "adds eps to the square root",
        "inside": "adds eps inside the square root",
        "correction": "adds eps before the moments are corrected (epsilon-hat)",
    },
    "is_decoupled": {
        True: "subtracts the weight decay from the weight (decoupled)",
        False: "adds the weight decay to the gradient (coupled)",
    },
    "nesterov": {True: "looks ahead (Nesterov)", False: "does not look ahead (no Nesterov)"},
    "centered": {True: "centers the squared gradients", False: "does not center the squared gradients"},
    "is_reset": {
        True: "is given the gradient of each batch",
        False: "is given the sum of all gradients so far, which are not reset between updates",
    },
    "maximize": {True: "follows the gradient upwards", False: "follows the gradient downwards"},
}
"""Phrases for what an optimizer does under a setting that is no number."""


@dataclass(frozen=True, slots=True)
class _Result:
    """The difference between the updates of a weight.

    Attributes:
        change: Settings that differ.
        is_explained: Whether both updates are those of their formulas.
        error: Difference of the weights after the last update, relative to what the updates changed.
        effective: Settings without which the updates agree no more.
    """

    change: Change
    is_explained: bool
    error: float
    effective: frozenset[str] = frozenset()


def compare_optimizers(a: TrainingRecord, b: TrainingRecord, pairs: Sequence[WeightPair]) -> list[Finding]:
    """Return how the optimizers differ: one finding for each cause, with all its weights."""
    clipped = _clipping(a, b)
    results: dict[tuple[Change, bool], list[tuple[WeightPair, _Result]]] = defaultdict(list)
    for pair in pairs:
        result = _compared(a, b, pair)
        if result is not None:
            results[result.change, result.is_explained].append((pair, result))
    found = [clipped] if clipped is not None else []
    for (change, is_explained), of in results.items():
        where = "" if len(of) == len(pairs) else f" for {list_names(pair.b for pair, _ in of)}"
        error = max(result.error for _, result in of)
        if not change and not is_explained and not (clipped and error):
            found.append(_unexplained(a, b, of[-1][0], where, error))
        for setting, x, y in change:
            is_latent = not any(setting in result.effective for _, result in of)
            found.append(_finding(setting, x, y, where, of[0][0], error, latent=is_latent))
    return found


def _finding(
    setting: str, x: Setting, y: Setting, where: str, pair: WeightPair, error: float, *, latent: bool
) -> Finding:
    if setting in PHRASES:
        phrases = PHRASES[setting]
        text, fix = f"the optimizer of A {phrases[x]}, that of B {phrases[y]}", ""
    elif setting == "kind":
        text, fix = f"the optimizer is {x} in A, {y} in B", str(x)
    else:
        words, fix = WORDS.get(setting, (f"{setting} is {{a}}", f"{setting}={{a}}"))
        text = f"{words.format(a=_number(x))} in A, {_number(y)} in B"
        fix = fix.format(a=_number(x))
    return Finding(
        f"optimizer-{setting.removeprefix('is_').replace('_', '-')}",
        text + where,
        fix=fix,
        layer_a=pair.a,
        layer_b=pair.b,
        error=error,
        latent=latent,
    )


def _number(value: Setting) -> str:
    return f"{value:g}" if isinstance(value, float | int) and not isinstance(value, bool) else str(value)


def _unexplained(a: TrainingRecord, b: TrainingRecord, pair: WeightPair, where: str, error: float) -> Finding:
    kinds = [record.rules.get(name, {}).get("kind") for record, name in ((a, pair.a), (b, pair.b))]
    named = f" ({kinds[0]} in A, {kinds[1]} in B)" if all(kinds) else ""
    by = f"by up to {ratio_text(error)} times their size{where}{named}"
    text = f"the updates differ {by}; no formula known here explains it"
    return Finding("optimizer", text, layer_a=pair.a, layer_b=pair.b, error=error)


def _compared(a: TrainingRecord, b: TrainingRecord, pair: WeightPair) -> _Result | None:
    """Return how the updates of one weight differ; None if they do not."""
    num_updates = min(len(a.updated), len(b.updated))
    weight, moved = _moves(a, pair.a, num_updates)
    other, moved_b = _moves(b, pair.b, num_updates)
    apart = _apart(np.array([pair.change.apply(x) for x in moved]), moved_b)
    tolerance = TOLERANCES[a.is_double and b.is_double]
    stated_a, stated_b = a.rules.get(pair.a), b.rules.get(pair.b)
    rule_a = completed(stated_a) if stated_a else None
    gradients_a, gradients_b = _gradients(a, pair.a, num_updates), _gradients(b, pair.b, num_updates)
    if gradients_a is None or gradients_b is None:
        return None  # what does not learn in one net was told of its gradient
    if rule_a is None:
        return _by_settings(stated_a, stated_b, apart, tolerance)
    if not _explains(rule_a, weight, gradients_a, moved, tolerance):
        return _by_settings(stated_a, stated_b, apart, tolerance)
    rule_b = completed(stated_b) if stated_b else None
    if rule_b is not None and _explains(rule_b, other, gradients_b, moved_b, tolerance):
        change = _change(rule_a, rule_b)
        effective = {
            key
            for key, x, _ in change
            if key == "kind" or not _explains({**rule_b, key: x}, other, gradients_b, moved_b, tolerance)
        }
        return _Result(change, True, apart, effective=frozenset(effective)) if change else None
    if _explains(rule_a, other, gradients_b, moved_b, tolerance):
        is_named = stated_b is not None and stated_b.get("kind") in WITHOUT_FORMULA
        return _Result(_change(stated_a, stated_b), True, apart) if is_named else None  # type: ignore[arg-type]  # both are stated
    for variant in variants(rule_a, rule_b):
        if _explains(variant.rule, other, gradients_b, moved_b, tolerance):
            change = _change(rule_a, variant.rule)
            return _Result(change, True, apart, effective=frozenset(key for key, _, _ in change))
    found = rates(rule_a, [other, *(other + moved_b)], gradients_b, max(tolerance, SINGLE))
    if found:
        same = max(found) - min(found) <= RATES * max(map(abs, found))
        change = (("lr", rule_a["lr"], found[0] if same else ", ".join(f"{rate:g}" for rate in found)),)
        return _Result(change, True, apart, effective=frozenset({"lr"}))
    return _by_settings(stated_a, stated_b, apart, tolerance)


def _by_settings(a: Rule | None, b: Rule | None, apart: float, tolerance: float) -> _Result | None:
    """Return what stated settings say of updates that no formula gives."""
    change = _change(a, b) if a and b else ()
    if apart <= tolerance and not change:
        return None
    effective = frozenset(key for key, _, _ in change) if apart > tolerance else frozenset()
    return _Result(change, False, apart, effective=effective)


def _change(a: Rule, b: Rule) -> Change:
    if a.get("kind") != b.get("kind"):
        return (("kind", a.get("kind"), b.get("kind")),)
    changed = [key for key in a if key in b and a[key] != b[key]]
    moot = {key for key, of in DEPENDING.items() if not (a.get(of, True) and b.get(of, True))}
    return tuple((key, a[key], b[key]) for key in changed if key not in moot)


def _moves(record: TrainingRecord, name: str, num_updates: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a weight, and how far from it each update has moved it."""
    weight = record.weights[name].astype(np.float64)
    return weight, np.array([step[name].astype(np.float64) - weight for step in record.updated[:num_updates]])


def _gradients(record: TrainingRecord, name: str, num_updates: int) -> list[np.ndarray] | None:
    found = [record.given(number).get(name) for number in range(num_updates)]
    return [x for x in found if x is not None] if all(x is not None for x in found) else None


def _explains(
    rule: Rule, weight: np.ndarray, gradients: Sequence[np.ndarray], moved: np.ndarray, tolerance: float
) -> bool:
    """Return whether a rule gives the updates that were made."""
    if str(rule["kind"]) not in {"SGD", "Adam", "RMSprop", "Adagrad"}:
        return False
    with np.errstate(all="ignore"):
        expected = np.array([x - weight for x in updated(rule, weight, gradients)])
    slack = SINGLE * float(np.abs(weight).max(initial=0.0)) if tolerance > 1e-6 else 1e-14
    size = float(np.abs(moved).max(initial=0.0))
    return bool(float(np.abs(expected - moved).max(initial=0.0)) <= tolerance * size + slack)


def _apart(a: np.ndarray, b: np.ndarray) -> float:
    size = float(np.abs(a).max(initial=0.0))
    apart = float(np.abs(a - b).max(initial=0.0))
    return apart / size if size else float("inf") if apart else 0.0


def _clipping(a: TrainingRecord, b: TrainingRecord) -> Finding | None:
    """Return how gradients are clipped otherwise, before the optimizer is given them."""
    said_a, said_b = _clipped(a), _clipped(b)
    if said_a == said_b:
        return None
    texts = [f"are {said} in {side}" for side, said in (("A", said_a), ("B", said_b)) if said]
    none = [f"are not clipped in {side}" for side, said in (("A", said_a), ("B", said_b)) if not said]
    return Finding("gradient-clipping", f"gradients {' and '.join([*texts, *none])}", error=1.0)


def _clipped(record: TrainingRecord) -> str:
    """Return what was done to the gradients of the first update, in words; empty if nothing was."""
    if not record.prepared:
        return ""
    before, after = record.gradients[0], record.prepared[0]
    names = [name for name in before if name in after]
    changed = [name for name in names if not np.array_equal(before[name], after[name])]
    if not changed:
        return ""
    flat = [np.concatenate([x[name].astype(np.float64).ravel() for name in names]) for x in (before, after)]
    norm, norm_after = (float(np.linalg.norm(x)) for x in flat)
    if np.allclose(flat[0] * (norm_after / norm), flat[1], rtol=1e-4, atol=1e-6 * norm_after):
        return f"clipped to a norm of {norm_after:.4g}"
    most = float(np.abs(flat[1]).max())
    if np.allclose(np.clip(flat[0], -most, most), flat[1], rtol=1e-5, atol=1e-12):
        return f"clipped to values of at most {most:.4g}"
    return "changed before the update"
