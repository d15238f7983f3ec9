"""Nets with masks, on masks that hold other integers than zeros and ones.

An integer input is taken for a mask by its name, or since ``1 - x`` is computed of it. Inputs are drawn so,
and tests of a mask have one form (``graph.passes.mask_forms``). So nets that are equal may differ on others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.comparison.execution import memory_budget
from netweave.comparison.execution.input_domains import pair_domains
from netweave.comparison.execution.sizes import declared_sizes
from netweave.comparison.result.comparison import Unexercised
from netweave.comparison.source_runs import agree, outputs_of_both, sources

if TYPE_CHECKING:
    from netweave.comparison.assessment import Assessment
    from netweave.comparison.pipeline import CompareOptions, StageLog

VALUES = ((-1, 0, 1, 2, 3, 100), (0, 1, 2))
"""What masks hold, batch by batch: at the second a net may take where the first is too large for it."""

SAMPLES = 2
"""Samples of each batch."""


def on_other_mask_values(assessment: Assessment, options: CompareOptions, log: StageLog) -> Assessment:
    """Run nets that are equal on masks of other integers, and say it where they differ there.

    Args:
        assessment: What was found on zeros and ones.
        options: What the caller chose.
        log: Takes times.
    """
    if not assessment.is_equal or assessment.pair.completion.weights_copied:
        return assessment
    graphs, mappings = sources(assessment), assessment.candidate.mappings
    domains = pair_domains(*graphs, mappings)
    masks = [name for name, domain in domains.items() if domain.kind == "mask"]
    if not masks:
        return assessment
    inputs = options.inputs
    if inputs is None:
        sizes = declared_sizes(*graphs, mappings, num_samples=SAMPLES)
        inputs = memory_budget.draw(graphs[0], sizes, seed=options.seed, domains=domains).inputs
    generator = np.random.default_rng(options.seed)
    batches = []
    for values in VALUES:
        drawn = {name: _drawn(inputs[name], values, generator) for name in masks}
        batches.append({**inputs, **drawn})
    with log.stage("check other values of masks"):
        computed = outputs_of_both(assessment, batches)
    reason = ""
    for a, b in computed:
        if a is not None and b is not None and not agree(assessment, a, b):
            reason = "the nets differ on them"
        elif (a is None) != (b is None):
            reason = f"{'B' if a is None else 'A'} takes them, {'A' if a is None else 'B'} does not"
    if not reason:
        return assessment
    named = ", ".join(map(repr, masks))
    return assessment.missing(Unexercised(f"values of {named} other than 0 and 1", "", reason, differs=True))


def _drawn(like: np.ndarray, values: tuple[int, ...], generator: np.random.Generator) -> np.ndarray:
    """Return an array of some integers, as far as its type holds them."""
    held = np.array(values)[np.array(values) >= np.iinfo(like.dtype).min]
    drawn: np.ndarray = generator.choice(held, like.shape).astype(like.dtype)
    return drawn
