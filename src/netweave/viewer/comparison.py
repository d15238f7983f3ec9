"""A comparison as the page knows it: both nets, the groups with their evidence, the findings, the verdict."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from netweave.comparison.execution.input_mapping import InputMapping
from netweave.comparison.execution.probes import has_sizes, resized
from netweave.comparison.execution.sizes import declared_sizes
from netweave.comparison.result.verdicts import Verdict
from netweave.fixes import mend
from netweave.graph import Graph
from netweave.graph.collection import collector_at_rest
from netweave.passes.inference import inference_form
from netweave.viewer.net import VERSION, Json, net_json, real, record_json
from netweave.viewer.values import StoredArrays, values_json, weights_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from netweave.comparison import Comparison, Finding, Group, TensorMapping
    from netweave.comparison.execution.sizes import Sizes

    Times = Mapping[str, float]


def comparison_document(comparison: Comparison, *, times: Sequence[Times] = ()) -> Json:
    """Return a comparison for the page, as JSON values.

    Of a comparison that was opened from a file, which holds no nodes, only layers are shown.

    Args:
        comparison: What was found.
        times: Seconds that each layer takes, by key, of A and of B, where they were measured.
    """
    with collector_at_rest():
        return _document(comparison, times)


def _document(comparison: Comparison, times: Sequence[Times]) -> Json:
    short = _shortener(comparison)
    nets, stored = _nets(comparison), _stored(comparison)
    for net, seconds in zip(nets, times, strict=False):
        _add_times(net, seconds)
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
        "error": real(comparison.error),
        "inputs": [_mapping_json(mapping) for mapping in comparison.inputs],
        "outputs": [_mapping_json(mapping) for mapping in comparison.outputs],
        "probes": list(comparison.probes),
        "notes": [short(note) for note in comparison.notes],
        "groups": [_group_json(group, places, numbers, stored) for group in comparison.groups],
        "findings": [
            _finding_json(finding, short) | {"patch": _patch_json(comparison, [finding], short)}
            for finding in findings
        ],
        "patch": _patch_json(comparison, None, short),
    }


def _patch_json(
    comparison: Comparison, findings: Sequence[Finding] | None, short: Callable[[str], str]
) -> Json | None:
    """Return the change of B's text that fixes findings, or why there is none; None without one."""
    mended = mend(comparison, findings)
    why = "; ".join(dict.fromkeys(short(refusal.why) for refusal in mended.refused))
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


def _nets(comparison: Comparison) -> list[Json]:
    a, b = comparison.a, comparison.b
    if not isinstance(a, Graph) or not isinstance(b, Graph):
        return [net_json(net, net) if isinstance(net, Graph) else record_json(net) for net in (a, b)]
    return [net_json(net, shown) for net, shown in zip((a, b), _fitted(comparison, a, b), strict=True)]


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
    return graph if has_sizes(graph, sizes) else resized(graph, sizes) or graph


class _Places:
    """Numbers of a net's nodes and layers by name."""

    def __init__(self, net: Json) -> None:
        self._nodes = {node["name"]: number for number, node in enumerate(net["nodes"])}
        self._layers = {layer["key"]: number for number, layer in enumerate(net["layers"])}

    def nodes(self, names: Iterable[str]) -> list[int]:
        return [self._nodes[name] for name in names if name in self._nodes]

    def layers(self, keys: Iterable[str]) -> list[int]:
        return [self._layers[key] for key in keys if key in self._layers]


def _stored(comparison: Comparison) -> tuple[StoredArrays, StoredArrays] | None:
    a, b = comparison.a, comparison.b
    return (StoredArrays(a), StoredArrays(b)) if isinstance(a, Graph) and isinstance(b, Graph) else None


def _add_times(net: Json, seconds: Times) -> None:
    for layer in net["layers"]:
        layer["seconds"] = seconds.get(layer["key"])


def _group_json(
    group: Group,
    places: list[_Places],
    numbers: Mapping[int, int],
    stored: tuple[StoredArrays, StoredArrays] | None,
) -> Json:
    a, b = places
    weights = weights_json(*stored, (group.layers_a, group.layers_b)) if stored and group.is_pair else []
    return {
        "nodes": [a.nodes(group.nodes_a), b.nodes(group.nodes_b)],
        "layers": [a.layers(group.layers_a), b.layers(group.layers_b)],
        "sides": [bool(group.nodes_a), bool(group.nodes_b)],
        "status": group.status.name,
        "evidence": group.evidence.name,
        "error": real(group.error),
        "isolated_error": real(group.isolated_error),
        "rounding_error": real(group.rounding_error),
        "mapping": group.mapping.text if group.mapping else "",
        "finding": numbers[id(group.finding)] if group.finding else None,
        "values": values_json(group.values),
        "weights": weights,
    }


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
