"""A comparison as the page knows it: both nets, the groups with their evidence, the findings, the verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from netweave.comparison import Comparison, Finding, Group, TensorMapping
from netweave.comparison.execution.inputs import InputMapping
from netweave.comparison.execution.memory_budget import resized
from netweave.comparison.execution.sizes import Sizes, declared_sizes
from netweave.comparison.fixes import Mender
from netweave.comparison.result.verdict import detail
from netweave.comparison.result.verdicts import Verdict
from netweave.deferred import collector_at_rest
from netweave.graph import Graph
from netweave.graph.passes.inference import inference_form
from netweave.viewer.net import VERSION, Json, net_json, real, record_json
from netweave.viewer.tables import rare, repeated, table
from netweave.viewer.values import StoredArrays, values_json, weight_differences

Times = Mapping[str, float]


def comparison_document(
    comparison: Comparison, *, times: Sequence[Times] = (), mender: Mender | None = None
) -> Json:
    """Return a comparison for the page, as JSON values.

    Of a comparison that was opened from a file, which holds no nodes, only layers are shown.

    Args:
        comparison: What was found.
        times: Seconds that each layer takes, by key, of A and of B, where they were measured.
        mender: What has applied fixes of the comparison already.
    """
    with collector_at_rest():
        return _document(comparison, times, mender or Mender(comparison))


def _document(comparison: Comparison, times: Sequence[Times], mender: Mender) -> Json:
    short = _shortener(comparison)
    nets = _nets(comparison, times)
    findings = [group.finding for group in comparison.groups if group.finding]
    numbers = {id(finding): number for number, finding in enumerate(findings)}
    places = [_Places(net) for net in nets]
    return {
        "version": VERSION,
        "kind": "comparison",
        "title": f"{comparison.a.name} and {comparison.b.name}",
        "nets": nets,
        "verdict": comparison.verdict.value,
        "verdicts": [verdict.to_json() for verdict in Verdict],
        "exit_status": comparison.exit_status,
        "sentence": short(comparison.sentence),
        "headline": short(comparison.headline),
        "detail": short(detail(comparison)),
        "error": real(comparison.error),
        "inputs": [_mapping_json(mapping) for mapping in comparison.inputs],
        "outputs": [_mapping_json(mapping) for mapping in comparison.outputs],
        "probes": list(comparison.probes),
        "notes": [
            *map(short, comparison.notes),
            *([str(comparison.coverage)] if comparison.coverage else []),
        ],
        "groups": _group_table(comparison.groups, places, numbers),
        "weights": _weight_table(comparison, places),
        "findings": [
            _finding_json(finding, short) | {"patch": _patch_json(mender, [finding], short)}
            for finding in findings
        ],
        "causes": [
            {
                "text": short(cause.text),
                "fix": short(cause.fix),
                "findings": [numbers[id(finding)] for finding in cause.findings],
                "num_described": cause.num_described,
            }
            for cause in comparison.causes
        ],
        "patch": _patch_json(mender, None, short),
    }


def _patch_json(
    mender: Mender, findings: Sequence[Finding] | None, short: Callable[[str], str]
) -> Json | None:
    """Return the change of B's text that fixes findings, or why there is none; None without one."""
    mended = mender.mend(findings)
    # what is said of one finding stands beneath its fix
    reasons = [refusal.why if findings is None else refusal.reason for refusal in mended.refused]
    why = "; ".join(dict.fromkeys(map(short, reasons)))
    if not mended.after and not why:
        return None
    return {"diff": mended.diff, "why": why, "files": [Path(file).name for file in mended.after]}


def _shortener(comparison: Comparison) -> Callable[[str], str]:
    """Return what takes the folders off the names of files in a text."""
    files = sorted({*comparison.a.files, *comparison.b.files}, key=len, reverse=True)

    def short(text: str) -> str:
        for file in files:
            text = text.replace(file, Path(file).name)
        return text

    return short


def _nets(comparison: Comparison, times: Sequence[Times]) -> list[Json]:
    a, b = comparison.a, comparison.b
    seconds = [*times, None, None][:2]
    if not isinstance(a, Graph) or not isinstance(b, Graph):
        return [
            net_json(net, net, seconds=known) if isinstance(net, Graph) else record_json(net)
            for net, known in zip((a, b), seconds, strict=True)
        ]
    shown = _fitted(comparison, a, b)
    return [
        net_json(net, form, seconds=known) for net, form, known in zip((a, b), shown, seconds, strict=True)
    ]


def _fitted(comparison: Comparison, a: Graph, b: Graph) -> tuple[Graph, Graph]:
    """Return both nets as they were compared, at the sizes that they declare."""
    shown_a, shown_b = inference_form(a), inference_form(b)
    mappings = [InputMapping.from_mapping(mapping) for mapping in comparison.inputs]
    if not mappings:
        return shown_a, shown_b
    sizes = declared_sizes(shown_a, shown_b, mappings)
    sizes_b = {mapping.b: mapping.sizes_of_b(sizes[mapping.a]) for mapping in mappings}
    return _at(shown_a, sizes), _at(shown_b, sizes_b)


def _at(graph: Graph, sizes: Sizes) -> Graph:
    """Return a net at sizes of its inputs; as it is where it is at them already, or does not take them."""
    return resized(graph, sizes) or graph


class _Places:
    """Numbers of a net's nodes, layers and stored arrays by name."""

    def __init__(self, net: Json) -> None:
        self._nodes = _numbers(net["nodes"], "name")
        self._layers = _numbers(net["layers"], "key")
        self.parameters = _numbers(net["parameters"], "key")

    def nodes(self, names: Iterable[str]) -> list[int]:
        return [self._nodes[name] for name in names if name in self._nodes]

    def layers(self, keys: Iterable[str]) -> list[int]:
        return [self._layers[key] for key in keys if key in self._layers]


def _numbers(kept: Json, name: str) -> dict[str, int]:
    return {entry: number for number, entry in enumerate(kept["columns"].get(name, ()))}


def _group_table(groups: Sequence[Group], places: list[_Places], numbers: Mapping[int, int]) -> Json:
    a, b = places
    return table(
        len(groups),
        nodes=[[a.nodes(group.nodes_a), b.nodes(group.nodes_b)] for group in groups],
        layers=[[a.layers(group.layers_a), b.layers(group.layers_b)] for group in groups],
        sides=repeated([(bool(group.nodes_a), bool(group.nodes_b)) for group in groups]),
        status=repeated([group.status.name for group in groups]),
        evidence=repeated([group.evidence.name for group in groups]),
        error=rare([real(group.error) for group in groups]),
        isolated_error=rare([real(group.isolated_error) for group in groups]),
        rounding_error=rare([real(group.rounding_error) for group in groups]),
        mapping=repeated([group.mapping.text if group.mapping else "" for group in groups]),
        finding=rare([numbers[id(group.finding)] if group.finding else None for group in groups]),
        values=rare([values_json(group.values) for group in groups]),
        functions=rare([list(group.functions) if any(group.functions) else None for group in groups]),
    )


def _weight_table(comparison: Comparison, places: list[_Places]) -> Json:
    """Return how the stored arrays of each group differ: a row for each pair of arrays."""
    a, b = comparison.a, comparison.b
    if not isinstance(a, Graph) or not isinstance(b, Graph):
        return table(0)
    arrays_a, arrays_b = StoredArrays(a), StoredArrays(b)
    numbered = [
        (number, difference)
        for number, group in enumerate(comparison.groups)
        if group.is_pair
        for difference in weight_differences(arrays_a, arrays_b, (group.layers_a, group.layers_b))
    ]
    differences = [difference for _, difference in numbered]
    numbers_a, numbers_b = (each.parameters for each in places)
    return table(
        len(numbered),
        group=[number for number, _ in numbered],
        role=repeated([difference.role for difference in differences]),
        keys=[[numbers_a[each.keys[0]], numbers_b[each.keys[1]]] for each in differences],
        channels=repeated([each.channels for each in differences]),
        num_channels=repeated([each.num_channels for each in differences]),
        transposed=repeated([each.transposed for each in differences]),
    )


def _finding_json(finding: Finding, short: Callable[[str], str]) -> Json:
    return {
        "mismatch": finding.mismatch,
        "cause": short(finding.cause),
        "fix": short(finding.fix),
        "places": [short(finding.place_a), short(finding.place_b)],
        "layers": [finding.layer_a, finding.layer_b],
        "error": real(finding.error),
        "error_fixed": real(finding.error_fixed),
        "latent": finding.latent,
    }


def _mapping_json(mapping: TensorMapping) -> dict[str, Any]:
    return {"a": mapping.a, "b": mapping.b, "text": mapping.text}
