/** Painting a scene, one net at a time: less of it from afar. */

import { LOOKS, type ItemStatus } from "../model/looks.ts";
import { BOTH } from "../model/model.ts";
import {
  type Box,
  type Frame,
  MAX_ROWS,
  ROW,
  type Row,
  type Scene,
  type SceneEdge,
  isDrawn,
  isPresent,
} from "./scene.ts";
import type { Surface, TextStyle } from "./surface.ts";
import type { Theme } from "./theme.ts";

/** Pixels on the screen for one of the layout from which on everything is written, names are, boxes have borders. */
const LEGIBLE = 0.7;
const NAMED = 0.3;
/** Size in pixels of the screen below which text is not written. */
const READABLE = 10;
const BORDERED = 0.16;

/** Heat of a box, 0 to 1, and the words for it; a colour of its own where the user's data give one. */
export interface Heat {
  heat: number;
  text: string;
  colour?: string | undefined;
}

export interface Painting {
  scene: Scene;
  side: number;
  theme: Theme;
  scale: number;
  /** What is in sight, in the layout's pixels. */
  left: number;
  top: number;
  right: number;
  bottom: number;
  selected: number | null;
  /** What the heat map says of a box; null while there is none. */
  heatOf: ((box: Box, side: number) => Heat) | null;
}

export function paint(surface: Surface, painting: Painting): void {
  const { scene, top, bottom } = painting;
  const frames = scene.frames.filter(
    (frame) => frame.y + frame.height >= top && frame.y - 12 <= bottom && isHere(painting, frame),
  );
  for (const frame of frames) paintFrame(surface, painting, frame);
  for (const edge of scene.edges) {
    if (isDrawn(edge, painting.side) && edge.bottom >= top && edge.top <= bottom) {
      paintEdge(surface, painting, edge);
    }
  }
  // over the frames that begin just below, and over the edges that come in there
  for (const frame of frames) paintLabel(surface, painting, frame);
  for (const box of scene.between(top, bottom)) {
    if (box.x + box.width < painting.left || box.x > painting.right) continue;
    if (isPresent(box, painting.side)) paintBox(surface, painting, box);
    else paintGap(surface, painting, box);
  }
}

/** Whether a net has something in a frame. */
function isHere({ scene, side }: Painting, frame: Frame): boolean {
  if (side === BOTH) return true;
  return scene.leaves(frame.id).some((leaf) => scene.model.union[leaf]!.members[side]!.length > 0);
}

function paintFrame(surface: Surface, painting: Painting, frame: Frame): void {
  const { theme } = painting;
  const isSelected = painting.selected === frame.id;
  const { x, y, width, height } = frame;
  const stroke = theme.colour(isSelected ? "accent" : "line");
  surface.box(x, y, width, height, {
    fill: theme.colour("frame"),
    stroke,
    radius: 9,
    width: isSelected ? 2 : 1,
  });
}

function paintLabel(surface: Surface, painting: Painting, frame: Frame): void {
  const { scene, side, theme, scale } = painting;
  if (scale < NAMED) return;
  // written at one size on the screen, however far away
  const unit = Math.max(1, Math.min(1 / scale, 2));
  const { title, left, width: room } = scene.label(frame, side, unit);
  if (!room) return;
  const size = 10 * unit;
  const line = frame.y - 7 * (unit - 1);
  surface.box(left, line - 7 * unit, room, 14 * unit, { fill: theme.colour("ground"), radius: 4 });
  const sign = left + 3;
  surface.box(sign, line - 5 * unit, size, size, { stroke: theme.colour("dim"), radius: 2, width: unit });
  surface.box(sign + 2.5 * unit, line - 0.5 * unit, 5 * unit, unit, { fill: theme.colour("dim") });
  const style = { fill: theme.colour("dim"), size, weight: 500, room: room - 18 * unit };
  surface.text(title, sign + 15 * unit, line + 3.5 * unit, style);
}

function paintEdge(surface: Surface, painting: Painting, edge: SceneEdge): void {
  const { theme, selected, scale } = painting;
  const only = onlySide(painting, edge);
  const isOnlyHere = only !== null;
  const isNear = selected !== null && (edge.source === selected || edge.target === selected);
  const colour = isNear ? "accent" : isOnlyHere ? ONLY[only] : "edge";
  const width = (isNear ? 1.8 : 1.2) / Math.max(Math.min(scale, 1), 0.5);
  const dash = isOnlyHere || edge.back ? [5, 4] : undefined;
  surface.line(edge.points, { stroke: theme.colour(colour), width, dash, arrow: scale >= BORDERED });
}

const ONLY = ["only-a", "only-b"] as const;

/** The net that alone has an edge that the other could have; null for both, and where the boxes say it. */
function onlySide(painting: Painting, edge: SceneEdge): 0 | 1 | null {
  if (painting.side !== BOTH) return edge.isOnlyHere ? (painting.side === 0 ? 0 : 1) : null;
  return edge.sides === 1 ? 0 : edge.sides === 2 ? 1 : null;
}

/** In the overlay, the net that alone has a box. */
function onlyOf(painting: Painting, box: Box): 0 | 1 | null {
  if (painting.side !== BOTH || painting.scene.model.nets.length < 2) return null;
  return box.present[0] ? (box.present[1] ? null : 0) : 1;
}

function paintGap(surface: Surface, painting: Painting, box: Box): void {
  const { theme, scale, side } = painting;
  const isMissing = box.status === "ONLY_A" || box.status === "ONLY_B";
  if (!isMissing || scale < BORDERED) return;
  const stroke = theme.colour("line");
  surface.box(box.x, box.y, box.width, box.height, { stroke, dash: [3, 4], radius: 7 });
  if (scale < LEGIBLE) return;
  const middle = box.x + box.width / 2;
  const words = side ? "not in B" : "not in A";
  // the edge of the net that lacks it leads through the gap
  surface.box(middle - 28, box.y + box.height / 2 - 9, 56, 18, { fill: theme.colour("ground"), radius: 4 });
  surface.text(words, middle, box.y + box.height / 2 + 4, {
    fill: theme.colour("dim"),
    size: 11,
    align: "center",
  });
}

function paintBox(surface: Surface, painting: Painting, box: Box): void {
  const { theme, scale, side } = painting;
  const { x, y, width, height } = box;
  const look = LOOKS[box.status];
  const only = onlyOf(painting, box);
  const colour = theme.colour(only === null ? look.colour : ONLY[only]);
  const hot = painting.heatOf?.(box, side) ?? null;
  if (scale < BORDERED) {
    surface.box(x, y, width, height, { fill: hot ? warmth(hot) : colour });
    if (painting.selected === box.id) ring(surface, painting, box);
    return;
  }
  if (box.isFold) {
    for (const offset of [6, 3]) {
      const inset = { fill: theme.colour("box"), stroke: theme.colour("line"), radius: 7 };
      surface.box(x + offset, y + offset, width - 2 * offset, height, inset);
    }
  }
  const soft = only === null ? (look.weight >= 4 ? look.colour : null) : ONLY[only];
  const fill = theme.colour(soft === null ? "box" : `${soft}-soft`);
  const stroke = look.weight >= 5 || only !== null ? colour : theme.colour("line");
  surface.box(x, y, width, height, {
    fill,
    stroke,
    dash: look.dash,
    radius: 7,
    width: look.isDifference ? 1.5 : 1,
  });
  if (hot && (hot.heat > 0 || hot.colour))
    surface.box(x + 1, y + 1, width - 2, height - 2, { fill: warmth(hot), radius: 6 });
  surface.box(x, y, 4, height, { fill: colour, radius: 2 });
  if (box.isFold) paintShares(surface, painting, box);
  if (scale >= LEGIBLE) paintRows(surface, painting, box, hot?.text ?? null);
  else if (scale >= NAMED) paintNames(surface, painting, box);
  if (painting.selected === box.id) ring(surface, painting, box);
}

function ring(surface: Surface, painting: Painting, box: Box): void {
  const stroke = painting.theme.colour("accent");
  const width = Math.max(2.5, 2 / painting.scale);
  surface.box(box.x - 3, box.y - 3, box.width + 6, box.height + 6, { stroke, width, radius: 9 });
}

/** From afar one line, as large on the screen as it can be read. */
function paintNames(surface: Surface, painting: Painting, box: Box): void {
  const { theme, scene, side, scale } = painting;
  const { mark, colour } = LOOKS[box.status];
  const size = Math.min(READABLE / scale, box.height > ROW + 10 ? ROW - 8 : 30);
  const middle = (box.height - (box.isFold ? 4 : 0)) / 2;
  const rows = scene.rows(box, side).slice(0, MAX_ROWS);
  const left = box.x + (mark ? 12 + size * 0.95 : 12);
  const room = box.x + box.width - 6 - left;
  rows.forEach((row, index) => {
    const y = box.y + (rows.length > 1 ? 5 + (index + 0.5) * ROW : middle) + size * 0.35;
    const title = { fill: theme.colour(titleColour(painting, row)), size, weight: 600, room };
    const end = surface.text(fittingTitle(surface, row.title, title), left, y, title) + size * 0.4;
    if (!box.isFold)
      whole(surface, [row.name], left + end, y, { fill: theme.colour("dim"), size, room: room - end });
    if (index || !mark) return;
    const style = { fill: theme.colour(colour), size, weight: 700, align: "center" as const };
    surface.text(mark, box.x + 8 + size * 0.45, y, style);
  });
}

/** A title, with the usual short forms of long words where there is no room for it. */
function fittingTitle(
  surface: Surface,
  title: string,
  { room, ...style }: TextStyle & { room: number },
): string {
  if (surface.measure(title, style) <= room) return title;
  return title
    .replace("Normalization", "Norm")
    .replace("GlobalAverage", "GlobalAvg")
    .replace("Transpose", "Transp")
    .replace("Convolution", "Conv");
}

/** The colour of an operator; over heat, where colours would be too faint, that of text. */
function titleColour({ heatOf }: Painting, { category }: Row): string {
  return heatOf || category === "other" ? "text" : `op-${category}`;
}

function paintRows(surface: Surface, painting: Painting, box: Box, heatText: string | null): void {
  const { theme, scene, side, scale } = painting;
  const look = LOOKS[box.status];
  const rows = scene.rows(box, side);
  const dim = theme.colour("dim");
  const left = box.x + (look.mark ? 25 : 13);
  const room = box.x + box.width - 9 - left;
  if (look.mark) {
    const mark = { fill: theme.colour(look.colour), size: 14, weight: 700, align: "center" as const };
    surface.text(look.mark, box.x + 14.5, box.y + 20, mark);
  }
  rows.slice(0, MAX_ROWS).forEach((row, index) => {
    const y = box.y + 5 + index * ROW;
    const amount = heatText !== null && index === 0 ? heatText : null;
    paintTitle(surface, painting, row, left, y + 14, room);
    paintDetail(surface, painting, row, left, y + 29.5, room, amount);
  });
  if (rows.length > MAX_ROWS) {
    const more = `and ${rows.length - MAX_ROWS} more`;
    surface.text(more, left, box.y + box.height - 7, { fill: dim, size: readable(10.5, scale) });
  }
  const stubs = side === BOTH ? [...new Set(box.stubs.flat())] : box.stubs[side]!;
  const style = { fill: dim, size: readable(9.5, scale) };
  let x = box.x + 8;
  for (const name of stubs.slice(0, 2)) {
    const words = `◂ ${valueName(name)}`;
    const width = Math.min(surface.measure(words, style), box.x + box.width - x - 10) + 10;
    if (width < 40) break;
    const look = { fill: theme.colour("panel"), stroke: theme.colour("line"), radius: 6 };
    surface.box(x, box.y - 15, width, style.size + 3.5, look);
    surface.text(words, x + 5, box.y - 14.5 + style.size, { ...style, room: width - 8 });
    x += width + 4;
  }
}

/** What a value is called in short: pool0 of `/features/pool0/MaxPool_output_0`. */
function valueName(name: string): string {
  const parts = name
    .replace(/_output_\d+$/, "")
    .split("/")
    .filter(Boolean);
  return parts.at(-2) ?? parts.at(-1) ?? name;
}

/** A size of text that is no less than readable on the screen. */
function readable(size: number, scale: number): number {
  return Math.max(size, Math.min(READABLE / scale, 14));
}

/** Write words one after the other, each whole; end before the first that has no room. */
function whole(
  surface: Surface,
  words: string[],
  left: number,
  y: number,
  style: TextStyle & { room: number },
): number {
  const { room, ...plain } = style;
  let x = 0;
  for (const word of words) {
    const width = surface.measure(word, plain);
    if (x + width > room) break;
    surface.text(word, left + x, y, plain);
    x += width + style.size * 0.5;
  }
  return x;
}

/** The first line: the operator, on the right the sizes of its weights, and between them the settings. */
function paintTitle(
  surface: Surface,
  painting: Painting,
  row: Row,
  left: number,
  y: number,
  room: number,
): void {
  const { theme, scale } = painting;
  const title = {
    fill: theme.colour(titleColour(painting, row)),
    size: readable(12.5, scale),
    weight: 600,
    room,
  };
  const used = surface.text(fittingTitle(surface, row.title, title), left, y, title) + 7;
  const dim = theme.colour(painting.heatOf ? "text" : "dim");
  const end = { fill: dim, size: readable(10, scale), mono: true, align: "right" as const };
  const width = surface.measure(row.weights, end);
  const isShown = row.weights !== "" && used + width <= room;
  if (isShown) surface.text(row.weights, left + room, y, end);
  const rest = room - used - (isShown ? width + 7 : 0);
  whole(surface, row.settings, left + used, y, { fill: dim, size: readable(10.5, scale), room: rest });
}

/**
 * The second line: the name, and on the right the sizes of the output or the heat. Where there is no room for both,
 * the sizes give way, which the details have too; the heat stays.
 */
function paintDetail(
  surface: Surface,
  painting: Painting,
  row: Row,
  left: number,
  y: number,
  room: number,
  amount: string | null,
): void {
  const { theme, scale } = painting;
  // on heat, dim text would be too faint
  const fill = theme.colour(amount === null ? "dim" : "text");
  const style = { fill, size: readable(10.5, scale) };
  const weight = amount === null ? 400 : 600;
  const end = { fill, weight, size: readable(10, scale), mono: true, align: "right" as const };
  const sizes = amount ?? row.shape;
  const name = surface.measure(row.name, style);
  const isShown = sizes !== "" && (amount !== null || name + 7 + surface.measure(sizes, end) <= room);
  const rest = isShown ? room - surface.text(sizes, left + room, y, end) - 7 : room;
  const used = surface.text(row.name, left, y, { ...style, room: rest });
  const types = row.types.map((type) => `· ${type}`);
  whole(surface, types, left + used + 5, y, { ...style, room: rest - used - 5 });
}

/** A thin bar with a piece for each status in a fold. */
function paintShares(surface: Surface, painting: Painting, box: Box): void {
  const total = box.shares.reduce((sum, [, count]) => sum + count, 0);
  let x = box.x + 10;
  const room = box.width - 20;
  box.shares.forEach(([status, count]) => {
    const width = (room * count) / total;
    surface.box(x, box.y + box.height - 4, Math.max(width - 1, 1.5), 2, {
      fill: colourOf(painting, status),
    });
    x += width;
  });
}

function colourOf(painting: Painting, status: ItemStatus): string {
  return painting.theme.colour(LOOKS[status].colour);
}

function warmth({ heat, colour }: Heat): string {
  return colour ?? hotColour(heat);
}

/** From nothing to a strong orange, so that text on it stays legible in light and dark. */
export function hotColour(heat: number): string {
  const alpha = 0.06 + 0.54 * Math.min(heat, 1);
  return `hsla(${38 - 26 * heat}, 95%, 52%, ${alpha.toFixed(3)})`;
}
