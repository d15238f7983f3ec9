/** A canvas that shows one net; it moves with the others. */

import { type ZoomTransform, zoomIdentity } from "d3";

import { h } from "../dom.ts";
import { type Painting, paint } from "./paint.ts";
import type { Scene } from "./scene.ts";
import { CanvasSurface, type Fitter } from "./surface.ts";
import type { Theme } from "./theme.ts";

/** Above and below a net that is shown whole. */
const MARGIN = 20;
const BELOW = 52; // the buttons are there
/** The scale down to which a net is shown whole: names are ten pixels high there. */
const WHOLE = 0.33;

export class Pane {
  readonly canvas: HTMLCanvasElement;
  width = 0;
  height = 0;
  private ratio = 1;

  constructor(
    readonly side: number,
    label: string,
  ) {
    this.canvas = h("canvas", {
      class: "nw-canvas",
      tabindex: 0,
      role: "application",
      "aria-roledescription": "graph",
      "aria-label": label,
      "aria-describedby": "nw-keys-hint",
    });
  }

  /** Fit the canvas to its place on the page; say whether that changed anything. */
  resize(): boolean {
    const place = this.canvas.parentElement!.getBoundingClientRect();
    const ratio = window.devicePixelRatio || 1;
    if (place.width === this.width && place.height === this.height && ratio === this.ratio) return false;
    [this.width, this.height, this.ratio] = [place.width, place.height, ratio];
    // on whole pixels, or texts would be blurred
    this.canvas.style.left = `${Math.ceil(place.left) - place.left}px`;
    this.canvas.width = Math.round(place.width * ratio);
    this.canvas.height = Math.round(place.height * ratio);
    return true;
  }

  draw(
    scene: Scene,
    transform: ZoomTransform,
    theme: Theme,
    fitter: Fitter,
    state: Pick<Painting, "selected" | "heatOf">,
  ): void {
    const context = this.canvas.getContext("2d", { alpha: false })!;
    const { ratio } = this;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.fillStyle = theme.colour("ground");
    context.fillRect(0, 0, this.canvas.width, this.canvas.height);
    const { k, x, y } = transform;
    context.setTransform(ratio * k, 0, 0, ratio * k, ratio * x, ratio * y);
    const [left, top] = transform.invert([0, 0]);
    const [right, bottom] = transform.invert([this.width, this.height]);
    const surface = new CanvasSurface(context, theme, fitter);
    paint(surface, { scene, side: this.side, theme, scale: k, left, top, right, bottom, ...state });
  }

  /** The transform that shows a whole scene, or from its top as much as there is room for at a given scale. */
  fitted(scene: Scene, least: number): ZoomTransform {
    const { width, height } = scene.layout;
    const across = (this.width - 32) / Math.max(width, 1);
    const whole = Math.min(1, across, (this.height - MARGIN - BELOW) / Math.max(height, 1));
    const scale = whole >= Math.min(least, WHOLE) ? whole : Math.max(Math.min(1, across), least);
    return zoomIdentity.translate((this.width - width * scale) / 2, MARGIN).scale(scale);
  }
}
