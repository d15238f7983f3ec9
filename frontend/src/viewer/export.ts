/** The whole picture as a file: what the panes show, from end to end. */

import { download } from "./dom.ts";
import { paint } from "./draw/paint.ts";
import type { Scene } from "./draw/scene.ts";
import { CanvasSurface } from "./draw/surface.ts";
import type { Stage } from "./draw/stage.ts";
import { SvgSurface } from "./draw/svg.ts";

const MARGIN = 24;
const HEAD = 34;
/** Pixels of a picture that browsers still make, along a side and in all. */
const MAX_SIDE = 16_000;
const MAX_PIXELS = 60_000_000;

export function saveSvg(scene: Scene, stage: Stage, name: string): void {
  const surface = new SvgSurface(stage.theme, stage.fitter);
  const { width, height } = sizeOf(scene);
  scene.model.nets.forEach((net, side) => {
    surface.group(MARGIN + side * (scene.layout.width + 2 * MARGIN), MARGIN + HEAD);
    surface.text(net.name, 0, -HEAD / 2, { fill: stage.theme.colour("text"), size: 15, weight: 600 });
    paint(surface, painting(scene, stage, side));
  });
  const text = surface.finish(width, height, scene.model.document.title);
  download(`${name}.svg`, new Blob([text], { type: "image/svg+xml" }));
}

/** Save as PNG, as large as browsers allow, at most twice as large as it is drawn. */
export async function savePng(scene: Scene, stage: Stage, name: string): Promise<void> {
  const { width, height } = sizeOf(scene);
  const scale = Math.min(2, MAX_SIDE / Math.max(width, height), Math.sqrt(MAX_PIXELS / (width * height)));
  const canvas = document.createElement("canvas");
  canvas.width = Math.ceil(width * scale);
  canvas.height = Math.ceil(height * scale);
  const context = canvas.getContext("2d")!;
  context.scale(scale, scale);
  context.fillStyle = stage.theme.colour("ground");
  context.fillRect(0, 0, width, height);
  const surface = new CanvasSurface(context, stage.theme, stage.fitter);
  scene.model.nets.forEach((net, side) => {
    context.save();
    context.translate(MARGIN + side * (scene.layout.width + 2 * MARGIN), MARGIN + HEAD);
    surface.text(net.name, 0, -HEAD / 2, { fill: stage.theme.colour("text"), size: 15, weight: 600 });
    paint(surface, painting(scene, stage, side));
    context.restore();
  });
  const blob = await new Promise<Blob | null>((done) => canvas.toBlob(done, "image/png"));
  if (!blob) throw new Error("the browser cannot create an image of this size");
  download(`${name}.png`, blob);
}

function sizeOf(scene: Scene): { width: number; height: number } {
  const { width, height } = scene.layout;
  const sides = scene.model.nets.length;
  return { width: sides * (width + 2 * MARGIN), height: height + 2 * MARGIN + HEAD };
}

function painting(scene: Scene, stage: Stage, side: number): Parameters<typeof paint>[1] {
  const { width, height } = scene.layout;
  const sight = { left: -MARGIN, top: -MARGIN, right: width + MARGIN, bottom: height + MARGIN };
  return { scene, side, theme: stage.theme, scale: 1, ...sight, selected: null, heatOf: stage.heatOf };
}
