"""What lies outside two nets: the step of the preprocessing that makes the difference is named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest

import netweave
from netweave.cli import main
from netweave.comparison import Verdict, open_comparison
from netweave.errors import UsageError
from netweave.viewer import comparison_document, document_rows
from tests.comparison.precision.nets import edited, float_net

if TYPE_CHECKING:
    from pathlib import Path

CAFFE = "order=bgr,mean=104;117;123,scale=1,fit=stretch"


@pytest.fixture
def net(tmp_path: Path) -> Path:
    path = tmp_path / "net.onnx"
    onnx.save(float_net(), str(path))
    return path


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """A picture with a different gradient in each colour, twice as wide as high."""
    cv2 = pytest.importorskip("cv2")
    rows, columns = np.mgrid[0:60, 0:120]
    pixels = np.stack([2 * columns, 4 * rows, 255 - columns], axis=-1).astype(np.uint8)
    cv2.imwrite(str(tmp_path / "cat.png"), pixels)
    return tmp_path / "cat.png"


STEPS = [
    ("order=rgb", "channel order", "bgr before A, rgb before B"),
    ("mean=0", "mean", "123;117;104 for red, green and blue before A, 0 before B"),
    ("scale=1/255,mean=104/255;117/255;123/255", "scale", "1 before A, 0.0039216 before B"),
    ("fit=crop", "resize rule", "stretch before A, crop before B"),
    ("fit=letterbox", "resize rule", "stretch before A, letterbox before B"),
    ("resize=32", "crop", "none but to the size of the input before A, 32, then the middle before B"),
    ("interpolation=nearest", "interpolation", "linear before A, nearest before B"),
]


@pytest.mark.parametrize(("change", "step", "words"), STEPS)
def test_the_step_that_differs_is_named(net: Path, image: Path, change: str, step: str, words: str) -> None:
    words = words.replace("0.0039216", f"{1 / 255:.5g}")
    other = f"{CAFFE},{change}" if change != "order=rgb" else "order=rgb,mean=123;117;104,scale=1,fit=stretch"
    settings = dict(part.split("=") for part in other.split(","))
    other = ",".join(f"{name}={value}" for name, value in settings.items())
    comparison = netweave.compare(net, net, image=image, preprocess_a=CAFFE, preprocess_b=other)
    assert comparison.verdict is Verdict.DIFFERENT
    (finding,) = comparison.findings
    assert finding.cause == f"{step} of the image: {words}"
    assert finding.error is not None
    assert finding.error > 1e-3
    assert finding.error_fixed == 0
    assert "The nets themselves are identical" in comparison.sentence


def test_the_effect_of_a_step_is_that_of_the_image_made_so(net: Path, image: Path) -> None:
    """The oracle runs the net on both images, made with OpenCV and numpy alone."""
    cv2 = pytest.importorskip("cv2")
    bgr = cv2.resize(cv2.imread(str(image)), (24, 24)).astype(np.float32)
    mean = np.array([104, 117, 123], np.float32)
    images = [((x - m).transpose(2, 0, 1))[None] for x, m in ((bgr, mean), (bgr[..., ::-1], mean[::-1]))]
    (a,), (b,) = (list(netweave.run(netweave.load(net), {"x": x}).values()) for x in images)
    wanted = float(np.abs(a - b).max() / np.sqrt(np.mean(a**2)))
    other = "order=rgb,mean=123;117;104,scale=1,fit=stretch"
    comparison = netweave.compare(net, net, image=image, preprocess_a=CAFFE, preprocess_b=other)
    assert comparison.findings[0].error == pytest.approx(wanted, rel=1e-3)


def test_an_order_that_the_net_undoes_is_no_difference(net: Path, image: Path, tmp_path: Path) -> None:
    """B's first filters read their channels reversed, and B is given the image reversed."""

    def reversed_channels(arrays: dict[str, np.ndarray], model: onnx.ModelProto) -> None:
        arrays["conv1.weight"] = np.ascontiguousarray(arrays["conv1.weight"][:, ::-1])

    port = edited(net, tmp_path / "port.onnx", reversed_channels)
    right = "order=rgb,mean=123;117;104,scale=1,fit=stretch"
    comparison = netweave.compare(net, port, image=image, preprocess_a=CAFFE, preprocess_b=right)
    assert comparison.verdict is Verdict.EQUAL
    assert comparison.findings == ()
    wrong = netweave.compare(net, port, image=image, preprocess_a=CAFFE, preprocess_b=CAFFE)
    assert [finding.fix for finding in wrong.findings] == ["in B's preprocessing: order rgb"]


def test_several_steps_are_ordered_by_their_effect(net: Path, image: Path) -> None:
    comparison = netweave.compare(net, net, image=image, preprocess_a=CAFFE, preprocess_b="keras-torch")
    errors = [finding.error for finding in comparison.findings]
    assert len(errors) >= 3
    assert errors == sorted(errors, reverse=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"preprocess_a": "caffe"}, "give the image, too"),
        ({"image": "cat.png", "preprocess_a": "caffe"}, "without preprocess_b"),
        ({"image": "cat.png", "preprocess_a": "caffe", "preprocess_b": "x"}, "'x' is not known"),
        (
            {"image": "cat.png", "preprocess_a": CAFFE, "preprocess_b": CAFFE, "probe": {}},
            "the nets are run on one of them",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(net: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        netweave.compare(net, net, **options)


def test_a_crop_that_is_not_the_size_of_the_input_is_refused(net: Path, image: Path) -> None:
    spec = f"{CAFFE},crop=32"
    with pytest.raises(UsageError, match="is 24 x 24 pixels, and the preprocessing cuts out 32 x 32"):
        netweave.compare(net, net, image=image, preprocess_a=spec, preprocess_b=spec)


def test_the_command_names_the_step(
    net: Path, image: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["compare", str(net), str(net), "--image", str(image), "--json", str(tmp_path / "a.json")]
    other = "order=rgb,mean=123;117;104,scale=1,fit=stretch"
    with pytest.raises(SystemExit) as left:
        main([*arguments, "--preprocess-a", CAFFE, "--preprocess-b", other])
    assert left.value.code == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert "channel order of the image: bgr before A, rgb before B" in shown
    assert "alone, it changes A's output by" in shown
    opened = open_comparison(tmp_path / "a.json")
    assert [finding.mismatch for finding in opened.findings] == ["preprocessing"]


def test_the_page_shows_a_finding_outside_the_net(net: Path, image: Path) -> None:
    comparison = netweave.compare(net, net, image=image, preprocess_a=CAFFE, preprocess_b=f"{CAFFE[:-7]}crop")
    document = document_rows(comparison_document(comparison))
    assert document["findings"][document["groups"][0]["finding"]]["mismatch"] == "preprocessing"
    assert document["verdict"] == "different"
