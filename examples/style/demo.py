"""Neural style transfer: a photograph, drawn in the manner of another picture (Gatys et al. 2015).

Both manners of programming, mixed. Declared, as symbols: the features of a net, their Gram matrices, how
far these are from those wanted. By hand, as a loop of torch: the picture that is learnt, how smooth it
should be, and each step.

Run it with ``python -m examples.style.demo`` in the folder above ``examples``. It draws scikit-learn's
photograph of a Chinese temple (``china.jpg``) with the colours and petals of its dahlia (``flower.jpg``), and
writes ``style.png``: photograph, style and drawing. scikit-learn ships no painting, so bring your own:
``--style starry_night.jpg``.

With ``--weights VGG_ILSVRC_19_layers.caffemodel`` the features are those of VGG-19. Without weights, a small
net first learns from both pictures what they are made of.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import cv2
import numpy as np
import torch
from sklearn.datasets import load_sample_image

from examples.style import criterion
from examples.style.features import learn_small_net, vgg19
from examples.style.transfer import recolored, transfer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from examples.style.features import FeatureNet
    from examples.style.transfer import Progress

HERE = Path(__file__).parent


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.style.demo", description="Neural style transfer."
    )
    parser.add_argument("--content", type=Path, help="the photograph; scikit-learn's china.jpg by default")
    parser.add_argument("--style", type=Path, help="the painting; scikit-learn's flower.jpg by default")
    parser.add_argument("--weights", type=Path, metavar="FILE.caffemodel", help="weights of VGG-19")
    parser.add_argument("--size", type=int, default=192, help="height of the picture (default 192)")
    parser.add_argument("--steps", type=int, default=200, help="steps of descent (default 200)")
    parser.add_argument("--style-weight", type=float, default=5.0, help="of the style beside the content")
    parser.add_argument("--save-every", type=int, metavar="STEPS", help="also write the picture on the way")
    parser.add_argument("--output", type=Path, default=HERE / "style.png", help="the file that is written")
    return parser.parse_args(argv)


def read_picture(file: Path | None, sample: str, size: int) -> np.ndarray:
    """Return a picture of some height, red first, in 0 to 255."""
    picture = load_sample_image(sample) if file is None else cv2.imread(str(file), cv2.IMREAD_COLOR_RGB)
    if picture is None:
        sys.exit(f"{file}: cannot be read as a picture")
    height, width = picture.shape[:2]
    return np.asarray(cv2.resize(picture, (round(width * size / height), size), interpolation=cv2.INTER_AREA))


def as_tensor(picture: np.ndarray) -> torch.Tensor:
    """Return a picture as (1, 3, height, width), in 0 to 1."""
    return torch.from_numpy(np.ascontiguousarray(picture.transpose(2, 0, 1))).float()[None] / 255


def as_array(picture: torch.Tensor) -> np.ndarray:
    """Return the inverse of ``as_tensor``."""
    return (picture[0].permute(1, 2, 0).numpy() * 255).round().astype(np.uint8)


def write_picture(file: Path, picture: np.ndarray) -> None:
    """Write a picture whose channels are red first."""
    if not cv2.imwrite(str(file), cv2.cvtColor(picture, cv2.COLOR_RGB2BGR)):
        sys.exit(f"{file}: cannot be written")


def reporter(options: argparse.Namespace) -> Callable[[Progress], None]:
    """Return what prints how far the drawing is, and writes it on the way."""
    every = max(1, options.steps // 8)

    def report(progress: Progress) -> None:
        if progress.step % every == 0:
            step, style, content = progress.step, progress.style, progress.content
            print(
                f"step {step:4} of {options.steps}: style {style:.3f} away, content {content:.3f}", flush=True
            )
        if options.save_every and progress.step and progress.step % options.save_every == 0:
            name = f"{options.output.stem}-{progress.step}{options.output.suffix}"
            write_picture(options.output.with_name(name), as_array(progress.picture))

    return report


def features(weights: Path | None, pictures: Sequence[np.ndarray]) -> FeatureNet:
    """Return VGG-19 with the weights of a file, or the small net, having learnt from the pictures."""
    if weights is not None:
        return vgg19(weights)
    net, accuracy = learn_small_net(pictures)
    print(f"the small net tells which picture a patch is from, and which way up, in {accuracy:.0%} of cases")
    return net


def main(argv: Sequence[str] | None = None) -> int:
    """Return 0 if the picture shows the content in the style."""
    options = arguments(argv)
    content = read_picture(options.content, "china.jpg", options.size)
    style = read_picture(options.style, "flower.jpg", options.size)
    net = features(options.weights, (content, style))
    drawing = transfer(net, as_tensor(content), as_tensor(style))
    drawn = drawing.draw(
        recolored(as_tensor(content), as_tensor(style)),
        steps=options.steps,
        weight=options.style_weight,
        smooth=0.1,
        progress=reporter(options),
    )
    with torch.no_grad():
        left = [float(distance) for distance in drawing.distances(drawn)]
    print(f"step {options.steps:4} of {options.steps}: style {left[0]:.3f} away, content {left[1]:.3f}")
    row = cv2.hconcat([content, style, as_array(drawn)])
    write_picture(options.output, row)
    verdict = criterion.judge(*(picture / 255 for picture in (as_array(drawn), content, style)))
    print(f"{options.output.name}: {verdict}")
    return 0 if verdict.passed else 1


if __name__ == "__main__":
    sys.exit(main())
