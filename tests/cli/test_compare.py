"""``netweave compare``: what was found is shown whole, a guess is called one, and the status is right."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from itertools import pairwise

import pytest
from rich.console import Console

from netweave.cli.compare_view import mapping_text, show_comparison
from netweave.cli.console import PIPE_WIDTH
from netweave.comparison import Comparison, Evidence, Finding, Group, Status, TensorMapping, Verdict
from netweave.comparison.result.html import comparison_html

POOL = Finding(
    mismatch="pool-rounding",
    cause="a.prototxt rounds the size up, b.json down",
    fix="set pooling_convention=full in b.json:17",
    place_a="a.prototxt:13",
    place_b="b.json:17",
    layer_a="pool",
    layer_b="down",
    error=0.534,
    error_fixed=2.1e-7,
)
EPS = Finding(
    "bn-eps", "eps is 1e-05 against 0.001", "set eps=1e-05", layer_a="relu", layer_b="act", latent=True
)
RIDDLE = Finding(None, "another operator", layer_a="both", layer_b="cat", error=0.1)


def group(a, b, status, evidence=Evidence.VALUES, **more):
    return Group(
        tuple(f"{key}/n" for key in a), tuple(f"{key}/n" for key in b), a, b, evidence, status, **more
    )


def different(net) -> Comparison:
    keys = list(net.layers)
    conv, relu, both, pool = [(key,) for key in keys]
    return Comparison(
        a=net,
        b=net,
        verdict=Verdict.DIFFERENT,
        sentence="different at pool: the size is rounded down",
        groups=(
            *(group(conv, conv, Status.EQUAL, error=1e-7) for _ in range(5)),
            group(relu, relu, Status.LATENT, error=0.0, finding=EPS),
            group(pool, pool, Status.DIFFERENT, Evidence.WEIGHTS, error=0.534, finding=POOL),
            group(both, both, Status.DIFFERENT, Evidence.STRUCTURE, error=0.1, finding=RIDDLE),
            *(
                group(conv, conv, Status.PROPAGATED, Evidence.GUESS, error=0.4, isolated_error=1e-7)
                for _ in range(3)
            ),
            group(relu, (), Status.ONLY_A),
            group((), relu, Status.ONLY_B),
        ),
        inputs=(TensorMapping("data", "image", axes=(0, 1, 3, 2), text="height and width swapped"),),
        outputs=(TensorMapping("pool", "pool"),),
        error=0.3,
        probes=("data 1x3x8x8, noise",),
        notes=("the weights of A were drawn",),
        seconds={"read": 2.0, "align": 0.25, "explain": 1.0},
    )


def shown(comparison, *, width: int, terminal: bool = True, everything: bool = False) -> str:
    stream = io.StringIO()
    console = Console(file=stream, width=width, force_terminal=terminal, color_system=None)
    show_comparison(console, comparison, everything=everything)
    return stream.getvalue()


def joined(text: str) -> str:
    """Undo the wrapping."""
    return " ".join(text.split())


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (Status.EQUAL, "values agree within rounding"),
        (Status.MAPPED, "values agree within rounding"),
        (Status.DIFFERENT, "values agree before rounding"),
        (Status.PROPAGATED, "values agree before rounding"),
    ],
)
def test_values_of_a_rounded_net_are_told_with_its_rounding(small_net, status, expected):
    rounded = group(("conv",), ("conv",), status, error=0.01, rounding_error=0.02)
    named = replace(rounded, evidence=Evidence.NAME)
    comparison = replace(
        different(small_net), groups=(named, rounded, rounded, replace(rounded, rounding_error=None))
    )
    text = shown(comparison, width=140, everything=True)
    assert f"evidence: {expected} (2); values agree (1); same name (1)" in joined(text)
    assert expected in text.partition("evidence:")[0]
    assert expected in comparison_html(comparison)


@pytest.mark.parametrize("width", [80, 120, 200])
def test_whole_at_every_width(width, small_net):
    text = shown(different(small_net), width=width)
    first = "different at pool / down: a.prototxt rounds the size up, b.json down; 1 more"
    assert joined(text).startswith(f"{first} The outputs of the nets differ by up to ")
    assert max(map(len, text.splitlines())) <= width
    for words in (
        "data -> image: height and width swapped",
        "pool (a.prototxt:13) vs down (b.json:17)",
        "a.prototxt rounds the size up, b.json down",
        "set pooling_convention=full in b.json:17",
        "given the same inputs, the outputs of the two layers differ by up to 0.5 times the rms of A's "
        "output. With the fix they agree to within 2e-07 of the rms",
        "no effect with these weights and inputs",
        "the weights of A were drawn",
        "read and compared in 3.2 s",
    ):
        assert words in joined(text)


def test_what_nothing_explains_is_said_to_be_unexplained(small_net):
    assert "fix unknown: none of the known mismatches" in joined(shown(different(small_net), width=120))


def test_outputs_of_other_sizes_are_not_called_infinitely_apart(small_net):
    finding = replace(POOL, error=float("inf"))
    groups = (group(("pool",), ("pool",), Status.DIFFERENT, finding=finding),)
    found = replace(different(small_net), groups=groups, error=float("inf"))
    text = joined(shown(found, width=120))
    assert "the outputs of the two layers have different sizes, or are not finite. With the fix" in text


def test_the_outputs_have_one_number(small_net):
    """How far a layer differs in isolation is worded otherwise than how far the nets' outputs differ."""
    effect = "The outputs of the nets differ by up to 0.3 times their rms"
    sentence = f"different at pool: the size is rounded down. {effect}"
    text = joined(shown(replace(different(small_net), sentence=sentence), width=200, everything=True))
    assert text.count("outputs of the nets differ by") == 1


def test_latent_findings_come_last_and_rows_point_at_their_number(small_net):
    text = shown(different(small_net), width=200)
    assert [line.split()[1:3] for line in text.splitlines() if line.startswith("finding")] == [
        ["1", "pool"],
        ["2", "both"],
        ["3", "relu"],
    ]
    rows = shown(different(small_net), width=200).splitlines()
    (pool,) = [row for row in rows if row.startswith(" pool") and "≠" in row]
    assert pool.split()[-5:] == ["different,", "error", "0.5", "same", "weights"]
    assert "see finding 1" in rows[rows.index(pool) + 1]


def test_a_pipe_gets_at_most_100_columns_and_no_characters_of_boxes(small_net):
    name = "a_layer_whose_name_is_longer_than_all_others_by_far_" * 3
    found = different(small_net)
    small_net.layers.add(replace(small_net.layers["relu"], key=name))
    longest = Group(("n",), ("n",), (name,), ("relu",), Evidence.NAME, Status.EQUAL)
    found = replace(found, groups=(*found.groups, longest))
    piped = shown(found, width=PIPE_WIDTH, terminal=False, everything=True)
    assert max(map(len, piped.splitlines())) <= PIPE_WIDTH == 100
    assert "\n ----" in piped
    boxes = re.compile("[\u2500-\u259f]")
    assert not boxes.search(piped)
    assert boxes.search(shown(found, width=PIPE_WIDTH, terminal=True, everything=True))


@pytest.mark.parametrize("width", [60, 80, 120])
def test_long_names_are_folded_not_cut(width, small_net):
    names = ("inception_3a/5x5_reduce_and_what_stands_behind_it", "resnetv10_stage1_activation0_of_the_port")
    groups = (Group(("n",), ("n",), (names[0],), (names[1],), Evidence.GUESS, Status.UNKNOWN),)
    net_a, net_b = (small_net.clone() for _ in range(2))
    for net, name in zip((net_a, net_b), names, strict=True):
        net.layers.add(replace(net.layers["relu"], key=name))
    text = shown(Comparison(net_a, net_b, Verdict.UNDECIDED, "", groups), width=width)
    assert max(map(len, text.splitlines())) <= width
    head, rows = (part.splitlines() for part in re.split(r" ─+ \n", text))
    starts = [max(line.find(title) for line in head) for title in (" A  small", " B  small", " status")]
    for name, (start, end) in zip(names, pairwise(starts), strict=True):
        assert name in "".join(row[start:end].strip(" ?") for row in rows)


def test_equal_layers_are_left_out_but_counted(small_net):
    short = shown(different(small_net), width=120)
    assert "equal (4 groups)" in short
    assert "propagates an earlier difference (1 group)" in joined(short)
    everything = shown(different(small_net), width=120, everything=True)
    assert "..." not in everything
    assert everything.count("conv[1]  Convolution") == 2 * 8


def test_table_is_left_out_when_nothing_is_in_it(small_net):
    same = (("relu",), ("relu",), Status.EQUAL)
    found = Comparison(small_net, small_net, Verdict.IDENTICAL, "identical", (group(*same), group(*same)))
    assert "status" not in shown(found, width=120)
    assert "2 groups of layers: equal (2)" in shown(found, width=120)
    assert "status" in shown(found, width=120, everything=True)


def test_guess_is_called_a_guess(small_net):
    rows = shown(different(small_net), width=200, everything=True).splitlines()
    guesses = [row for row in rows if "a guess" in row]
    assert len(guesses) == 3
    assert all("propagates an earlier difference" in row for row in guesses)


@pytest.mark.parametrize(
    ("mapping", "text"),
    [
        (TensorMapping("x", "x"), "x"),
        (TensorMapping("x", "y"), "x -> y"),
        (TensorMapping("x", "x", scale=0.5, text="times 0.5"), "x -> x: times 0.5"),
    ],
)
def test_mapping(mapping, text):
    assert mapping_text(mapping).plain == text


@pytest.mark.parametrize(
    ("verdict", "status"),
    [
        (Verdict.IDENTICAL, 0),
        (Verdict.EQUAL, 0),
        (Verdict.STRUCTURE, 4),
        (Verdict.DIFFERENT, 1),
        (Verdict.UNDECIDED, 3),
    ],
)
def test_exit_status_and_json(verdict, status, netweave, loads_small_net, small_net, monkeypatch, tmp_path):
    found = Comparison(small_net, small_net, verdict, "one sentence")
    monkeypatch.setattr("netweave.comparison.compare", lambda a, b, options, **listeners: found)
    file = tmp_path / "found.json"
    called = netweave("compare", "a", "b", "--json", str(file))
    assert (called.status, called.err) == (status, "")
    assert called.out.startswith("one sentence\n")
    assert json.loads(file.read_text())["verdict"] == verdict.value
    called = netweave("compare", "a", "b", "--json", "-")
    assert called.status == json.loads(called.out)["exit_status"] == status


def test_help_tells_every_exit_status(netweave):
    said = " ".join(netweave("compare", "--help").out.split("Exit status:")[1].split())
    for verdict in Verdict:
        assert str(verdict.exit_status) in said
    assert f"{Verdict.STRUCTURE.exit_status} {Verdict.STRUCTURE.value}" in said


def test_a_matrix_marks_every_verdict(netweave, loads_small_net, small_net, monkeypatch):
    verdicts = iter([Verdict.STRUCTURE, Verdict.EQUAL, Verdict.DIFFERENT])
    monkeypatch.setattr(
        "netweave.comparison.compare",
        lambda a, b, options, **listeners: Comparison(small_net, small_net, next(verdicts), "said"),
    )
    rows = netweave("compare", "a", "b", "c").out.splitlines()[3:6]
    assert [row.split()[2:] for row in rows] == [["-", "≟", "≅"], ["≟", "-", "≠"], ["≅", "≠", "-"]]


def test_numbers_that_json_lacks(netweave, loads_small_net, small_net, monkeypatch):
    found = Comparison(small_net, small_net, Verdict.DIFFERENT, "one sentence", error=float("inf"))
    monkeypatch.setattr("netweave.comparison.compare", lambda a, b, options, **listeners: found)
    assert json.loads(netweave("compare", "a", "b", "--json", "-").out)["error"] == "inf"


def test_what_is_said_of_several_layers_is_said_once(tmp_path, netweave):
    layers = "".join(
        f"""layer {{ name: "conv{i}" type: "Convolution" bottom: "{i}" top: "c{i}"
        convolution_param {{ num_output: 3 kernel_size: 3 pad: PAD }} }}
layer {{ name: "pool{i}" type: "Pooling" bottom: "c{i}" top: "{i + 1}"
        pooling_param {{ kernel_size: 2 stride: 2 }} }}
"""
        for i in range(3)
    )
    head = 'input: "0" input_shape { dim: 1 dim: 3 dim: 40 dim: 40 }\n'
    (tmp_path / "a.prototxt").write_text(head + layers.replace("PAD", "1 dilation: 1"))
    (tmp_path / "b.prototxt").write_text(head + layers.replace("PAD", "2 dilation: 2"))
    found = netweave("compare", str(tmp_path / "a.prototxt"), str(tmp_path / "b.prototxt"))
    assert found.status == 1
    assert found.out.count("cause      ") == 1
    also = f"also at conv1 ({tmp_path / 'b.prototxt'}:6); conv2 ({tmp_path / 'b.prototxt'}:10)"
    assert "".join(also.split()) in "".join(found.out.split())


@pytest.mark.parametrize(
    "option", ["--sarif=page.sarif", "--from=conv1", "--strict", "--profile", "--fix=b.py"]
)
def test_options_that_say_nothing_of_a_training_are_refused(netweave, option):
    called = netweave("compare", "a.npz", "b.npz", "--train", option)
    assert called.status == 2
    assert f"leave out {option.partition('=')[0]}" in called.err
