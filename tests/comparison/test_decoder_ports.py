"""Decoders in several spellings, right ones and ones with a planted mistake; PyTorch says which agree."""

from __future__ import annotations

import importlib.util
from functools import cache

import pytest

torch = pytest.importorskip("torch")

from benchmarks.decoders.originals import LENGTH, drawn_weights  # noqa: E402
from benchmarks.decoders.ports import SPELLINGS, Writer, weights_of  # noqa: E402
from netweave.comparison import Verdict, compare  # noqa: E402
from tests.comparison.torch_pairs import effective, load  # noqa: E402

pytestmark = pytest.mark.slow

TOKENS = torch.randint(97, (2, LENGTH), generator=torch.Generator().manual_seed(0))


def port(folder, family, spelling, mistake="", change=lambda text: text):
    path = folder / f"{family}_{spelling}_{mistake.replace('-', '_')}.py"
    path.write_text(change(Writer(family, SPELLINGS[spelling], mistake).text()))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made = module.Port().eval()
    made.load_state_dict(weights_of(family, SPELLINGS[spelling], drawn_weights(family), mistake))
    return made


@pytest.fixture(scope="module")
def right(tmp_path_factory):
    """Return what makes right ports, each once: the module and its graph."""

    @cache
    def made(family, spelling):
        module = port(tmp_path_factory.mktemp("right"), family, spelling)
        return module, load(module, tokens=(1, LENGTH))

    return made


@pytest.fixture
def pair(right, tmp_path):
    """Return what compares two spellings, and says whether PyTorch computes the same with both."""

    def compared(family, spellings, mistake=""):
        a, graph_a = right(family, spellings[0])
        if mistake:
            b = port(tmp_path, family, spellings[1], mistake)
            graph_b = load(b, tokens=(1, LENGTH))
        else:
            b, graph_b = right(family, spellings[1])
        with torch.no_grad():
            first, second = a(TOKENS), b(TOKENS)
        is_same = torch.allclose(first, second, atol=1e-4 * float(first.square().mean().sqrt()))
        return compare(graph_a, graph_b), is_same

    return compared


@pytest.mark.parametrize(
    ("family", "spellings"),
    [
        ("llama", ("eager", "fused")),
        ("llama", ("fused", "complex")),
        ("qwen3", ("eager", "complex")),
        ("gemma2", ("fused", "eager")),
        ("neox", ("complex", "fused")),
    ],
)
def test_a_decoder_spelled_otherwise_is_identical(pair, family, spellings):
    found, is_same = pair(family, spellings)
    assert is_same
    assert found.equal
    assert not found.findings


@pytest.mark.parametrize(
    ("family", "mistake", "mismatch", "words"),
    [
        (
            "qwen3",
            "theta",
            "rotary-theta",
            "theta) of the rotary embedding is 1,000,000 in A and 10,000 in B",
        ),
        ("llama", "scaling", "rotary-scaling", "A scales the frequencies"),
        ("llama", "offset", "rotary-position", "starts at position 0 in A and at 1 in B"),
        ("neox", "sign", "rotary-sign", "turns the other way in B"),
        ("neox", "partial", "rotary-features", "turns 8 features of each head in A and 16 in B"),
        (
            "gemma2",
            "window",
            "sliding-window",
            "a window of 5, itself and those before; in B no step sees a later",
        ),
        ("gemma2", "window-off", "sliding-window", "a window of 6, itself and those before"),
        ("gemma2", "attention-cap", "attention-softcap", "softcap of attention is 2 in A and 0 in B"),
        (
            "qwen3",
            "tile",
            "head-order",
            "of A are repeated in place, each head 2 times in a row; those of B are",
        ),
        ("gemma2", "weight-plus-one", "norm-offset", "of A multiplies by 1 + w, that of B by w"),
    ],
)
def test_a_mistake_is_named_in_the_words_of_its_block(pair, family, mistake, mismatch, words):
    found, is_same = pair(family, ("fused", "eager"), mistake)
    assert not is_same
    first = effective(found)[0]
    assert first.mismatch == mismatch
    assert words in first.cause
    assert first.fix
    assert first.error_fixed is not None
    assert {finding.mismatch for finding in effective(found)} == {mismatch}


@pytest.mark.parametrize(
    ("family", "spellings", "mistake", "mismatch", "words"),
    [
        (
            "mistral",
            ("eager", "einsum"),
            "partial",
            "rotary-features",
            "turns 16 features of each head in A and 8 in",
        ),
        (
            "llama",
            ("fused", "complex"),
            "no-rotary-k",
            "missing-layer",
            "(a rotary embedding) here, B has nothing",
        ),
    ],
)
def test_a_mistake_is_named_though_weights_stand_in_another_order(
    pair, family, spellings, mistake, mismatch, words
):
    found, is_same = pair(family, spellings, mistake)
    assert not is_same
    first = effective(found)[0]
    assert first.mismatch == mismatch
    assert words in first.cause


def test_positions_that_are_shifted_in_queries_and_keys_have_no_effect(right, tmp_path):
    def shifted(text):
        plain = "torch.arange(start, start + length)"
        assert plain in text
        return text.replace(plain, f"({plain} + 3)")

    moved = load(port(tmp_path, "llama", "eager", change=shifted), tokens=(1, LENGTH))
    found = compare(right("llama", "fused")[1], moved)
    assert found.verdict is Verdict.LATENT
    assert {finding.mismatch for finding in found.findings} == {"rotary-position"}
