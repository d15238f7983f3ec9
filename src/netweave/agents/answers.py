"""The answers of the tools: what was found, within a number of tokens, and what to do next."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches

from netweave.api import Comparison, FixedPort, Graph, Mended, Verdict, format_text, summary_lines
from netweave.comparison import Group
from netweave.errors import UsageError, shortened
from netweave.graph.summary import layer_summaries, ratio_text, settings_texts, value_summary

MAX_TOKENS = 1500
"""Tokens of an answer at most, as ``num_tokens`` counts them."""

MAX_LINE = 400

_TOKEN = re.compile(r"[^\W_]{1,3}|[^\w\s]|_|\n")


def num_tokens(text: str) -> int:
    """Return a number of tokens that no usual tokenizer exceeds for source code and English.

    Three letters or digits count as one token, and so does every other sign.

    >>> num_tokens("pad_h: 12")
    5
    """
    return len(_TOKEN.findall(text))


def answer(lines: Iterable[str], *, last: Iterable[str] = (), more: str = "") -> str:
    """Join lines to an answer of at most so many tokens.

    Args:
        lines: Lines, the important ones first: those that do not fit are left out.
        last: Lines that are never left out, such as what to do next.
        more: Where all of it can be read, for the line that says how much was left out.
    """
    kept = [shortened(line, MAX_LINE) for line in lines]
    end = [shortened(line, MAX_LINE) for line in last]
    num_lines = len(kept)
    while kept:
        left = num_lines - len(kept)
        cut = [f"({left:,} more lines{f': read {more}' if more else ''})"] if left else []
        text = "\n".join([*kept, *cut, *end])
        if num_tokens(text) <= MAX_TOKENS:
            return text
        kept.pop()
    return "\n".join(end)


def comparison_answer(comparison: Comparison, *, page: str) -> str:
    """Answer what a comparison found.

    Args:
        comparison: The comparison.
        page: URI of the whole comparison.
    """
    return answer(
        summary_lines(comparison), last=[f"everything: {page}", f"next: {_next(comparison)}"], more=page
    )


def _next(comparison: Comparison) -> str:
    if comparison.is_strictly_equal:
        return "nothing; the port was shown to be the same net on the inputs that were tried"
    if comparison.equal:
        return (
            "say that it is equal under the condition above, or remove the condition; do not say 'identical'"
        )
    if comparison.verdict is Verdict.STRUCTURE:
        return "name the weights as well (FILE,WEIGHTS) and compare again; the port is not done"
    if comparison.verdict is Verdict.UNDECIDED:
        return "mend what the verdict names and compare again; nothing is shown yet, so the port is not done"
    fixes = any(finding.fix and not finding.latent for finding in comparison.findings)
    if fixes:
        return "call fix, or make the change yourself, then compare again; the port is not done"
    return "call explain with the layer that is wrong, mend it, then compare again; the port is not done"


def layer_answer(comparison: Comparison, layer: str, *, page: str) -> str:
    """Answer what a comparison found about a layer of either net.

    Raises:
        UsageError: No net has such a layer; the message names those that are spelled alike.
    """
    groups = [g for g in comparison.groups if layer in (*g.layers_a, *g.layers_b, *g.nodes_a, *g.nodes_b)]
    if not groups:
        known = [*comparison.b.layers, *comparison.a.layers]
        near = get_close_matches(layer, known, n=5, cutoff=0.4) or known[:5]
        raise UsageError(f"no net has a layer {layer!r}; expected one of {', '.join(near)}, ...")
    lines = [line for group in groups for line in _group_lines(comparison, group)]
    return answer(lines, last=[f"next: {_next(comparison)}"], more=page)


def _group_lines(comparison: Comparison, group: Group) -> Iterator[str]:
    yield f"status: {group.status.value} ({group.evidence_text})"
    for name, net, keys in (("A", comparison.a, group.layers_a), ("B", comparison.b, group.layers_b)):
        for layer in (net.layers[key] for key in keys if key in net.layers):
            settings = ", ".join(f"{setting}={text}" for setting, text in settings_texts(layer.settings))
            yield f"{name}: {layer.place}" + (f": {settings}" if settings else "")
    if group.error is not None:
        yield f"error: {ratio_text(group.error)} times the rms, each net on its own values"
    if group.isolated_error is not None:
        yield f"alone: {ratio_text(group.isolated_error)} times the rms, B's layer given A's inputs"
    if group.mapping is not None and group.mapping.text:
        yield f"mapping: B's output is A's with {group.mapping.text}"
    finding = group.finding
    if finding is not None:
        yield f"cause: {finding.cause}"
        yield f"fix: {finding.fix or 'unknown'}"
        if finding.error_fixed is not None:
            yield f"tested: with the fix {ratio_text(finding.error_fixed)} of the rms is left"


def net_answer(graph: Graph, *, page: str) -> str:
    """Answer what is in a net."""
    rows = layer_summaries(graph)
    parameters = sum(row.cost.parameters for row in rows)
    head = [
        f"{graph.name}: {format_text(graph)}, {', '.join(graph.files)}",
        f"{len(rows):,} layers, {parameters:,} parameters, weights {'read' if graph.loaded else 'missing'}",
        *(f"input {value.name}: {value_summary(value)}" for value in graph.inputs),
        *(f"output {value.name}: {value_summary(value)}" for value in graph.outputs),
        *(f"note: {note}" for note in graph.notes),
    ]
    layers = (f"{row.layer.place} -> {', '.join(map(str, row.outputs))}" for row in rows)
    return answer([*head, *layers], last=["next: compare it with its port"], more=page)


def fix_answer(mended: Mended, fixed: FixedPort | None, *, page: str) -> str:
    """Answer what can be fixed: the patch, and the verdict on the mended port if it was written.

    Args:
        mended: The changes.
        fixed: The port that was written; None if none was asked for.
        page: URI of the whole patch.
    """
    lines = [f"{len(mended.applied)} fixes applied, {len(mended.refused)} not"]
    lines += [f"not applied at {r.finding.layer_b or r.finding.layer_a}: {r.why}" for r in mended.refused]
    lines += mended.diff.splitlines()
    if fixed is None:
        last = ["next: apply the patch (or call fix with an output), then compare again"]
    elif fixed.comparison is None:
        last = [f"{fixed.file} was written and cannot be compared: {fixed.problem}", "next: mend it by hand"]
    else:
        verdict = fixed.comparison.sentence
        last = [f"{fixed.file} compared again: {verdict}", f"next: {_next(fixed.comparison)}"]
    return answer(lines, last=last, more=page)
