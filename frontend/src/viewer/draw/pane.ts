/** A canvas that shows one net; it moves with the others. */

import { type ZoomTransform, zoomIdentity } from "d3";

import { h } from "../dom.ts";
import { type Painting, paint } from "./paint.ts";
import type { Scene } from "./scene.ts";
import { CanvasSurface, type Fitter } from "./surface.ts";
import type { Theme } from "./theme.ts";

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

  /** The scale at which a scene's width fits, no less than a given one. */
  fitting(scene: Scene, least: number): number {
    return Math.max(Math.min(1, (this.width - 32) / Math.max(scene.layout.width, 1)), least);
  }

  /** The transform that shows the width of a scene, from its top, at no less than a given scale. */
  fitted(scene: Scene, least: number): ZoomTransform {
    const { width } = scene.layout;
    const scale = this.fitting(scene, least);
    return zoomIdentity.translate((this.width - width * scale) / 2, 24).scale(scale);
  }
}
