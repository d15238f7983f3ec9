"""What the benchmark of ports counts as found, explained, false and fixed."""

from __future__ import annotations

import re

import pytest

from benchmarks.ports.pairs import Difference, Net, Pair, load_pairs
from benchmarks.ports.score import score

NET = Net("owner/name", "0" * 40, "net.py:Net")


def pair(*differences):
    return Pair("pair", NET, NET, "drawn", differences)


def finding(layer_a="", layer_b="", mismatch="stride", *, latent=False):
    return {
        "layer_a": layer_a,
        "layer_b": layer_b,
        "mismatch": mismatch,
        "cause": "",
        "latent": latent,
    }


STRIDES = Difference("strides", ("stride", "padding"), layer_a="^conv", count=2)


def test_findings_are_counted_by_their_layers_and_their_mismatches():
    findings = [
        finding("conv1"),
        finding("conv2", mismatch="kernel-size"),
        finding("pool"),
        finding("pool", latent=True),
    ]
    counts = score(pair(STRIDES), [{"findings": findings}])
    assert (counts.true, counts.found, counts.explained) == (2, 2, 1)
    assert (counts.false, counts.latent_false) == (1, 1)
    assert len(counts.wrong) == 3


def test_a_finding_of_several_mismatches_is_right_if_all_of_them_are():
    both = finding("conv1", mismatch="stride + padding")
    one = finding("conv2", mismatch="stride + kernel-size")
    assert score(pair(STRIDES), [{"findings": [both, one]}]).explained == 1


def test_what_has_no_effect_is_counted_apart():
    silent = Difference("rounding", ("pool-rounding",), layer_a="pool", count=3, without_effect=True)
    counts = score(pair(silent), [{"findings": [finding("pool1", mismatch="pool-rounding", latent=True)]}])
    assert (counts.true, counts.latent_true, counts.latent_found) == (0, 3, 1)


def test_a_fix_counts_if_the_next_comparison_does_not_find_the_layer_again():
    findings = [finding("conv1"), finding("conv2")]
    first = {"findings": findings, "applied": findings}
    assert score(pair(STRIDES), [first, {"findings": [finding("conv2")]}]).fixed == 1
    assert score(pair(STRIDES), [first, {"error": "cannot be read"}]).fixed == 0


def test_a_comparison_that_failed_found_nothing():
    counts = score(pair(STRIDES), [{"error": "cannot be read"}])
    assert (counts.true, counts.found, counts.false) == (2, 0, 0)


@pytest.mark.parametrize("one", load_pairs(), ids=lambda one: one.name)
def test_every_pair_names_commits_and_patterns_that_compile(one):
    assert one.weights in {"trained", "drawn"}
    for net in (one.original, one.port):
        assert re.fullmatch(r"[^/]+/[^/]+", net.repository)
        assert re.fullmatch(r"[0-9a-f]{40}", net.commit)
    for difference in one.differences:
        assert difference.layer_a or difference.layer_b
        assert difference.mismatch
        re.compile(difference.layer_a), re.compile(difference.layer_b)
