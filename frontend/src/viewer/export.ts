/** The whole picture as files: what the panes show, from end to end, a long net in columns and on several pages. */

import { download } from "./dom.ts";
import { type Painting, paint } from "./draw/paint.ts";
import type { Scene } from "./draw/scene.ts";
import { CanvasSurface } from "./draw/surface.ts";
import type { Stage } from "./draw/stage.ts";
import { SvgSurface } from "./draw/svg.ts";
import { columnsOf, perPage } from "./model/columns.ts";
import { BOTH } from "./model/model.ts";

const MARGIN = 24;
const HEAD = 34;
/** Pixels of a picture that browsers still make, along a side and in all. */
const MAX_SIDE = 16_000;
const MAX_PIXELS = 60_000_000;
const MAX_PAGES = 24;

/** A part of the picture: all nets beside each other, from one height to another. */
type Column = [top: number, bottom: number];

interface Sheet {
  columns: Column[];
  width: number;
  height: number;
}

export function saveSvg(scene: Scene, stage: Stage, name: string): void {
  const { columns, width, height } = sheetOf(scene, stage, columnsIn(scene, stage));
  const surface = new SvgSurface(stage.theme, stage.fitter);
  eachPart(scene, stage, columns, (side, left, [top, bottom]) => {
    surface.view(left, 0, sideWidth(scene), bottom - top + HEAD + 2 * MARGIN, top - MARGIN - HEAD, -MARGIN);
    drawPart(surface, scene, stage, side, [top, bottom]);
  });
  const text = surface.finish(width, height, scene.model.document.title);
  download(`${name}.svg`, new Blob([text], { type: "image/svg+xml" }));
}

/** Save as PNG: as many pages as it takes to keep every name legible; returns how many. */
export async function savePng(scene: Scene, stage: Stage, name: string): Promise<number> {
  const columns = columnsIn(scene, stage);
  const whole = sheetOf(scene, stage, columns);
  const fits = Math.min(
    2,
    MAX_SIDE / Math.max(whole.width, whole.height),
    Math.sqrt(MAX_PIXELS / (whole.width * whole.height)),
  );
  const scale = Math.max(1, fits);
  const limits = { side: MAX_SIDE, area: MAX_PIXELS };
  const count = perPage(columns.length, columnWidth(scene, stage), whole.height, fits >= 1 ? null : limits);
  const pages = Math.ceil(columns.length / count);
  if (pages > MAX_PAGES)
    throw new Error(`The picture would take ${pages} PNG files. Save it as SVG, or collapse blocks first.`);
  for (let page = 0; page < pages; page += 1) {
    const sheet = sheetOf(scene, stage, columns.slice(page * count, (page + 1) * count));
    const number = pages > 1 ? `-${String(page + 1).padStart(2, "0")}-of-${pages}` : "";
    download(`${name}${number}.png`, await drawn(scene, stage, sheet, scale));
  }
  return pages;
}

async function drawn(scene: Scene, stage: Stage, sheet: Sheet, scale: number): Promise<Blob> {
  const canvas = document.createElement("canvas");
  canvas.width = Math.ceil(sheet.width * scale);
  canvas.height = Math.ceil(sheet.height * scale);
  const context = canvas.getContext("2d")!;
  context.scale(scale, scale);
  context.fillStyle = stage.theme.colour("ground");
  context.fillRect(0, 0, sheet.width, sheet.height);
  const surface = new CanvasSurface(context, stage.theme, stage.fitter);
  eachPart(scene, stage, sheet.columns, (side, left, [top, bottom]) => {
    context.save();
    context.beginPath();
    context.rect(left, 0, sideWidth(scene), bottom - top + HEAD + 2 * MARGIN);
    context.clip();
    context.translate(left + MARGIN, MARGIN + HEAD - top);
    drawPart(surface, scene, stage, side, [top, bottom]);
    context.restore();
  });
  const blob = await new Promise<Blob | null>((done) => canvas.toBlob(done, "image/png"));
  if (!blob) throw new Error("the browser cannot create an image of this size");
  return blob;
}

function drawPart(
  surface: CanvasSurface | SvgSurface,
  scene: Scene,
  stage: Stage,
  side: number,
  column: Column,
): void {
  const [top, bottom] = column;
  const names = side === BOTH ? scene.model.nets : [scene.model.nets[side]!];
  const title = names.map((net) => net.name).join(" and ") + (top > 0 ? " (continued)" : "");
  paint(surface, painting(scene, stage, side, column));
  const ground = stage.theme.colour("ground");
  // what begins in this column and ends in the next is cut off by the column's margins
  for (const y of [top - MARGIN - HEAD, bottom])
    surface.box(-MARGIN, y, sideWidth(scene), MARGIN + HEAD, { fill: ground, radius: 0 });
  const style = { fill: stage.theme.colour("text"), size: 15, weight: 600, room: scene.layout.width };
  surface.text(title, 0, top - HEAD / 2, style);
}

function columnsIn(scene: Scene, stage: Stage): Column[] {
  const { height } = scene.layout;
  const boxes = scene.boxes.map(({ y, height: tall }): Column => [y, y + tall]);
  return columnsOf(height, columnWidth(scene, stage), boxes);
}

function eachPart(
  scene: Scene,
  stage: Stage,
  columns: Column[],
  draw: (side: number, left: number, column: Column) => void,
): void {
  columns.forEach((column, index) =>
    stage.sides.forEach((side, place) =>
      draw(side, index * columnWidth(scene, stage) + place * sideWidth(scene), column),
    ),
  );
}

function sideWidth(scene: Scene): number {
  return scene.layout.width + 2 * MARGIN;
}

function columnWidth(scene: Scene, stage: Stage): number {
  return stage.sides.length * sideWidth(scene);
}

function sheetOf(scene: Scene, stage: Stage, columns: Column[]): Sheet {
  const tallest = Math.max(...columns.map(([top, bottom]) => bottom - top));
  return {
    columns,
    width: columns.length * columnWidth(scene, stage),
    height: tallest + 2 * MARGIN + HEAD,
  };
}

function painting(scene: Scene, stage: Stage, side: number, [top, bottom]: Column): Painting {
  const sight = { left: -MARGIN, top: top - 1, right: scene.layout.width + MARGIN, bottom: bottom + 1 };
  return { scene, side, theme: stage.theme, scale: 1, ...sight, selected: null, heatOf: stage.heatOf };
}
