/** What pictures are drawn on: a canvas on the page, or an SVG file. */

import type { Theme } from "./theme.ts";

export interface BoxStyle {
  fill?: string;
  stroke?: string;
  width?: number;
  dash?: number[];
  radius?: number;
}

export interface TextStyle {
  fill: string;
  size: number;
  weight?: number;
  mono?: boolean;
  align?: "left" | "right" | "center";
  /** Pixels that there is room for; what does not fit ends in an ellipsis. */
  room?: number;
  /** Where the ellipsis is: in the middle, for names, or at the end. */
  cut?: "middle" | "end";
}

export interface LineStyle {
  stroke: string;
  width: number;
  dash?: number[];
  /** Draw the head of an arrow at the end. */
  arrow?: boolean;
}

export interface Surface {
  box(x: number, y: number, width: number, height: number, style: BoxStyle): void;
  /** How wide a text is. */
  measure(text: string, style: TextStyle): number;
  /** Write a text; returns how wide it is, as far as there was room. */
  text(text: string, x: number, y: number, style: TextStyle): number;
  /** A line through points (x and y in turn) that leaves and reaches each of them vertically. */
  line(points: number[], style: LineStyle): void;
}

/** Widths of texts and what of a text fits; both are remembered, since measuring is slow. */
export class Fitter {
  private readonly context = document.createElement("canvas").getContext("2d")!;
  private readonly fitted = new Map<string, string>();
  private readonly widths = new Map<string, number>();
  private font = "";

  fit(text: string, font: string, room: number, cut: "middle" | "end" = "middle"): string {
    const key = `${room} ${cut} ${font} ${text}`;
    let found = this.fitted.get(key);
    if (found === undefined) {
      found = this.shortened(text, font, room, cut === "middle" ? 0.6 : 1);
      this.fitted.set(key, found);
    }
    return found;
  }

  width(text: string, font: string): number {
    const key = `${font} ${text}`;
    let found = this.widths.get(key);
    if (found === undefined) {
      if (this.font !== font) this.context.font = this.font = font;
      found = this.context.measureText(text).width;
      this.widths.set(key, found);
    }
    return found;
  }

  private shortened(text: string, font: string, room: number, head: number): string {
    if (this.width(text, font) <= room) return text;
    let low = 0;
    let high = text.length;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.width(cutAt(text, middle, head), font) <= room) low = middle;
      else high = middle - 1;
    }
    return low > 1 ? cutAt(text, low, head) : "";
  }
}

/** The begin and the end of a text: names of layers differ at the end as often as at the begin. */
function cutAt(text: string, length: number, share: number): string {
  const head = Math.ceil(length * share);
  return `${text.slice(0, head)}…${length > head ? text.slice(text.length - (length - head)) : ""}`;
}

export function fontOf(style: TextStyle, theme: Theme): string {
  return `${style.weight ?? 400} ${style.size}px ${style.mono ? theme.mono : theme.sans}`;
}

export class CanvasSurface implements Surface {
  constructor(
    private readonly context: CanvasRenderingContext2D,
    private readonly theme: Theme,
    private readonly fitter: Fitter,
  ) {}

  box(x: number, y: number, width: number, height: number, style: BoxStyle): void {
    const { context } = this;
    if (style.radius) {
      context.beginPath();
      context.roundRect(x, y, width, height, style.radius);
      if (style.fill) {
        context.fillStyle = style.fill;
        context.fill();
      }
    } else if (style.fill) {
      context.fillStyle = style.fill;
      context.fillRect(x, y, width, height);
    }
    if (!style.stroke) return;
    context.strokeStyle = style.stroke;
    context.lineWidth = style.width ?? 1;
    context.setLineDash(style.dash ?? []);
    if (style.radius) context.stroke();
    else context.strokeRect(x, y, width, height);
    if (style.dash?.length) context.setLineDash([]);
  }

  text(text: string, x: number, y: number, style: TextStyle): number {
    const { context } = this;
    const font = fontOf(style, this.theme);
    context.font = font;
    context.fillStyle = style.fill;
    context.textAlign = style.align ?? "left";
    context.textBaseline = "alphabetic";
    const shown = style.room === undefined ? text : this.fitter.fit(text, font, style.room, style.cut);
    context.fillText(shown, x, y);
    return this.fitter.width(shown, font);
  }

  measure(text: string, style: TextStyle): number {
    return this.fitter.width(text, fontOf(style, this.theme));
  }

  line(points: number[], style: LineStyle): void {
    const { context } = this;
    context.strokeStyle = style.stroke;
    context.lineWidth = style.width;
    context.setLineDash(style.dash ?? []);
    context.beginPath();
    let [x, y] = [points[0]!, points[1]!];
    context.moveTo(x, y);
    for (let index = 2; index < points.length; index += 2) {
      const [nextX, nextY] = [points[index]!, points[index + 1]!];
      const middle = (y + nextY) / 2;
      if (x === nextX) context.lineTo(nextX, nextY);
      else context.bezierCurveTo(x, middle, nextX, middle, nextX, nextY);
      [x, y] = [nextX, nextY];
    }
    context.stroke();
    if (style.dash?.length) context.setLineDash([]);
    if (!style.arrow) return;
    context.fillStyle = style.stroke;
    context.beginPath();
    context.moveTo(x, y + 1);
    context.lineTo(x - 3.5, y - 6);
    context.lineTo(x + 3.5, y - 6);
    context.fill();
  }
}
