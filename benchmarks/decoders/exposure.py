"""Mistakes that a short input without padding does not show: are they found, or is it said what was not run?

::

    python -m benchmarks decoders.exposure --folder build/exposure [--held-out] [--only NAME]
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch

import netweave
from benchmarks.decoders.lengths import Features, original_text, port_text, port_weights
from benchmarks.decoders.scoring import WRONG_CASE, Row, compared, run_cases
from benchmarks.decoders.scoring import distance as relative_distance
from benchmarks.record import Namespace, Record, option
from benchmarks.source_module import source_module
from netweave.comparison.result.verdicts import Verdict

TOKENS = 16
"""Length of the input that both nets are read with; nothing of a mistake shows there without more inputs."""

LONG = 300
"""Length at which PyTorch shows each mistake."""


@dataclass(frozen=True, slots=True)
class Case:
    """A mistake, or a right port.

    Attributes:
        features: Of the original.
        changed: What the port has otherwise; empty for a right port.
        inputs: What both are given besides tokens: ``mask``, ``positions`` or ``past``.
    """

    features: Features
    changed: Features = field(default_factory=dict)
    inputs: tuple[str, ...] = ()


WINDOW: Features = {"sliding_window": 32}
DYNAMIC: Features = {"dynamic_factor": 4.0, "original_max_position_embeddings": 32}
LONGROPE: Features = {"short_factor": 1.0, "long_factor": 4.0, "original_max_position_embeddings": 32}
TABLE: Features = {"max_position_embeddings": 128, "is_rotary": False}
BUCKETS: Features = {"num_buckets": 16, "max_distance": 128, "is_rotary": False}
ALIBI: Features = {"has_alibi": True, "is_rotary": False}
MASK: Features = {"arguments": ["mask"]}
COUNTED: Features = {**MASK, "counts_mask": True}
PAST: Features = {"arguments": ["past_key", "past_value"]}
POSITIONS: Features = {"arguments": ["positions"]}

MISTAKES = {
    "window-ignored": Case(WINDOW, {"sliding_window": 0}),
    "window-one-more": Case(WINDOW, {"sliding_window": 33}),
    "window-twice": Case(WINDOW, {"sliding_window": 64}),
    "window-other-layer": Case({**WINDOW, "window_layers": [0]}, {"window_layers": [1]}),
    "sinks-ignored": Case({**WINDOW, "num_sinks": 4}, {"num_sinks": 0}),
    "positions-wrap": Case({}, {"wrap": 32}),
    "positions-stop": Case({}, {"limit": 32}),
    "positions-bfloat16": Case({"max_length": 280}, {"is_bf16": True}),
    "mask-buffer": Case({}, {"buffer": 32}),
    "mask-buffer-open": Case({}, {"open_buffer": 32}),
    "log-n-ignored": Case({"log_base": 32}, {"log_base": 0}),
    "log-n-base": Case({"log_base": 32}, {"log_base": 64}),
    "temperature-ignored": Case({"floor_scale": 32}, {"floor_scale": 0}),
    "dynamic-ignored": Case(DYNAMIC, {"dynamic_factor": 0}),
    "dynamic-factor": Case(DYNAMIC, {"dynamic_factor": 2.0}),
    "dynamic-later": Case(DYNAMIC, {"original_max_position_embeddings": 64}),
    "longrope-short": Case(LONGROPE, {"long_factor": 1.0}),
    "longrope-later": Case(LONGROPE, {"original_max_position_embeddings": 128}),
    "table-shorter": Case(TABLE, {"rows": 64}),
    "table-wraps": Case(TABLE, {"wrap": 32}),
    "table-stops": Case(TABLE, {"limit": 32}),
    "table-other-rows": Case(TABLE, {"has_other_rows": 64}),
    "chunk-ignored": Case({"attention_chunk_size": 32}, {"attention_chunk_size": 0}),
    "chunk-twice": Case({"attention_chunk_size": 32}, {"attention_chunk_size": 64}),
    "alibi-limit": Case(ALIBI, {"alibi_limit": 32}),
    "buckets-distance": Case({**BUCKETS, "num_buckets": 64}, {"max_distance": 64}),
    "padding-ignored": Case(MASK, {"masked": ""}, ("mask",)),
    "padding-of-queries": Case(MASK, {"masked": "queries"}, ("mask",)),
    "padding-left": Case(MASK, {"masked": "lengths"}, ("mask",)),
    "padding-positions": Case(COUNTED, {"counts_mask": False}, ("mask",)),
    "padding-not-given": Case(MASK, {"masked": ""}),
    "positions-ignored": Case(POSITIONS, {"ignores_positions": True}, ("positions",)),
    "positions-not-given": Case(POSITIONS, {"ignores_positions": True}),
    "cache-offset": Case(PAST, {"restarts": True}, ("past",)),
    "cache-offset-not-given": Case(PAST, {"restarts": True}),
    "cache-mask": Case(PAST, {"is_aligned_left": True}, ("past",)),
}
"""Mistakes by name."""

RIGHT = {
    "plain": Case({}),
    "window": Case(WINDOW),
    "window-of-a-layer": Case({**WINDOW, "window_layers": [0]}),
    "sinks": Case({**WINDOW, "num_sinks": 4}),
    "log-n": Case({"log_base": 32}),
    "temperature": Case({"floor_scale": 32}),
    "dynamic": Case(DYNAMIC),
    "longrope": Case(LONGROPE),
    "table": Case(TABLE),
    "chunk": Case({"attention_chunk_size": 32}),
    "alibi": Case(ALIBI),
    "buckets": Case({**BUCKETS, "num_buckets": 64}),
    "mask": Case(MASK, inputs=("mask",)),
    "mask-not-given": Case(MASK),
    "counted": Case(COUNTED, inputs=("mask",)),
    "position-ids": Case(POSITIONS, inputs=("positions",)),
    "cache": Case(PAST, inputs=("past",)),
    "buffer": Case({"max_length": 512}, {"buffer": 512}),
}
"""Right ports by name."""

SPELLINGS = ("sdpa", "added")
"""Further spellings of attention and its mask in a port."""

BOTH: Features = {"arguments": ["mask", "positions"]}
OF_INPUTS = {
    "mask-window": Case({**MASK, **WINDOW}, inputs=("mask",)),
    "mask-positions": Case(BOTH, inputs=("mask", "positions")),
    "mask-counted": Case(COUNTED, inputs=("mask",)),
    "mask-alibi": Case({**MASK, **ALIBI}, inputs=("mask",)),
    "mask-table": Case({**COUNTED, **TABLE, "max_position_embeddings": 512}, inputs=("mask",)),
    "positions-table": Case({**POSITIONS, **TABLE, "max_position_embeddings": 512}, inputs=("positions",)),
}
"""Right ports with a mask or positions as inputs, each in both further spellings."""

RIGHT_OF_INPUTS = {
    f"{name}-{spelling}": Case(case.features, {"spelling": spelling}, case.inputs)
    for name, case in OF_INPUTS.items()
    for spelling in SPELLINGS
}
"""Those in both spellings, by name."""

HELD_OUT = 3
"""Of the cases in their order, each third is held out: the third, the sixth, ..."""

NAMES = {
    "mask": {"attention_mask": "mask"},
    "positions": {"position_ids": "positions"},
    "past": {"past_key": "past_key", "past_value": "past_value"},
}
"""Inputs of the original and of the port."""

SHAPES = {"mask": (1, TOKENS), "positions": (1, TOKENS), "past": (1, 2, 5, 16)}


def made(folder: Path, name: str, text: str) -> Any:
    """Write a source, and return its net with drawn weights."""
    path = folder / f"{name.replace('-', '_')}.py"
    path.write_text(text)
    net = source_module(path).Net().eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for own, parameter in net.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if parameter.ndim == 1:
                parameter.copy_(1 + 0.2 * noise)
            elif "embed" in own:
                parameter.copy_(noise)
            else:
                parameter.copy_(1.5 * noise / math.sqrt(parameter.shape[-1]))
    return net


def pair_of(folder: Path, name: str, case: Case) -> tuple[Any, Any]:
    """Return an original and its port."""
    features = dict(case.features)
    a = made(folder, f"{name}-a", original_text({k: v for k, v in features.items() if k != "arguments"}))
    b = made(folder, f"{name}-b", port_text(features | case.changed))
    b.load_state_dict(port_weights(a.state_dict(), features | case.changed))
    torch.save(a.state_dict(), folder / f"{name.replace('-', '_')}_a.pt")
    torch.save(b.state_dict(), folder / f"{name.replace('-', '_')}_b.pt")
    return a, b


def distance(a: Any, b: Any, case: Case, length: int, *, with_all: bool) -> float:
    """Return how far the outputs are apart at a length, relative to the rms; infinity if B fails alone."""
    generator = torch.Generator().manual_seed(0)
    given_a: dict[str, Any] = {"input_ids": torch.randint(53, (2, length), generator=generator)}
    given_b: dict[str, Any] = {"ids": given_a["input_ids"]}
    wanted = case.features.get("arguments", ()) if with_all else ()
    for own, other in (
        ("attention_mask", "mask"),
        ("position_ids", "positions"),
        ("past_key",) * 2,
        ("past_value",) * 2,
    ):
        if other not in wanted:
            continue
        value = torch.randn((2, 2, 5, 16), generator=generator)
        if other == "mask":
            value = torch.randint(2, (2, length), generator=generator)
            value[:, 0] = 1
        elif other == "positions":
            value = torch.arange(length).repeat(2, 1) % 9
        given_a[own] = given_b[other] = value
    with torch.no_grad():
        try:
            first = a(**given_a)
        except (IndexError, RuntimeError):
            return 0.0
        try:
            second = b(**given_b)
        except (IndexError, RuntimeError):
            return math.inf
    return relative_distance(first, second)


def row_of(name: str, case: Case, folder: Path, *, is_mistake: bool) -> Row:
    """Return what a comparison says of one case."""
    row: Row = {"is_mistake": is_mistake}
    a, b = pair_of(folder, name, case)
    short = distance(a, b, case, TOKENS, with_all=False)
    shown = [distance(a, b, case, length, with_all=True) for length in (TOKENS, 100, LONG)]
    row |= {"short": short, "long": max(shown)}
    if short > WRONG_CASE or (row["long"] < WRONG_CASE) == is_mistake:
        return row | {"said": "the case is wrong", "outcome": "case"}
    own, other = {"input_ids": (1, TOKENS)}, {"ids": (1, TOKENS)}
    for wanted in case.inputs:
        for name_a, name_b in NAMES[wanted].items():
            own[name_a] = other[name_b] = SHAPES[wanted]
    comparison = compared(
        row,
        lambda: netweave.compare(netweave.load(a, input_shapes=own), netweave.load(b, input_shapes=other)),
    )
    if comparison is None:
        return row | {"outcome": "error"}
    row["first"] = [f"{each.layer_a} | {each.layer_b} | {each.cause}" for each in comparison.findings[:2]]
    outcomes = {
        "different": comparison.verdict is Verdict.DIFFERENT,
        "said": "not exercised" in comparison.sentence,
        "silent": comparison.equal,
        "other": True,
    }
    return row | {"outcome": next(name for name, holds in outcomes.items() if holds)}


OPTIONS = (
    option("--folder", default=Path("build/exposure")),
    option("--held-out", default=False, help="the third that is held out"),
    option("--inputs", default=False, help="right ports with masks and positions as inputs"),
    option("--only", default="", help="part of a name"),
)


def main(options: Namespace, record: Record) -> None:
    """Run the cases, and print the counts."""
    options.folder.mkdir(parents=True, exist_ok=True)
    every = ((False, RIGHT_OF_INPUTS),) if options.inputs else ((True, MISTAKES), (False, RIGHT))
    for is_mistake, cases in every:
        wanted = {
            f"{'mistake' if is_mistake else 'right'}:{name}": partial(
                row_of, name, case, options.folder, is_mistake=is_mistake
            )
            for number, (name, case) in enumerate(cases.items(), 1)
            if (options.inputs or (number % HELD_OUT == 0) == options.held_out) and options.only in name
        }
        rows = run_cases(wanted, record)
        outcomes = [row["outcome"] for row in rows]
        number_of = {outcome: outcomes.count(outcome) for outcome in dict.fromkeys(outcomes)}
        findings = sum(row.get("findings", 0) for row in rows)
        print("mistakes" if is_mistake else "right", len(rows), number_of, "findings", findings)
