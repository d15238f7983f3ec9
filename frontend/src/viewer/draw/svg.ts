/** The same picture as an SVG file. */

import type { BoxStyle, Fitter, LineStyle, Surface, TextStyle } from "./surface.ts";
import { fontOf } from "./surface.ts";
import type { Theme } from "./theme.ts";

export class SvgSurface implements Surface {
  private readonly parts: string[] = [];

  constructor(
    private readonly theme: Theme,
    private readonly fitter: Fitter,
  ) {}

  box(x: number, y: number, width: number, height: number, style: BoxStyle): void {
    this.parts.push(
      element("rect", {
        ...{ x, y, width, height, rx: style.radius, fill: style.fill ?? "none", stroke: style.stroke },
        "stroke-width": style.stroke ? (style.width ?? 1) : undefined,
        "stroke-dasharray": style.dash?.join(" ") || undefined,
      }),
    );
  }

  measure(text: string, style: TextStyle): number {
    return this.fitter.width(text, fontOf(style, this.theme));
  }

  text(text: string, x: number, y: number, style: TextStyle): number {
    const font = fontOf(style, this.theme);
    const shown = style.room === undefined ? text : this.fitter.fit(text, font, style.room, style.cut);
    if (!shown) return 0;
    const anchor = style.align === "right" ? "end" : style.align === "center" ? "middle" : undefined;
    this.parts.push(
      element(
        "text",
        {
          ...{ x, y, fill: style.fill, "font-size": style.size, "font-weight": style.weight },
          "font-family": style.mono ? this.theme.mono : this.theme.sans,
          "text-anchor": anchor,
        },
        shown,
      ),
    );
    return this.fitter.width(shown, font);
  }

  line(points: number[], style: LineStyle): void {
    let [x, y] = [points[0]!, points[1]!];
    let path = `M${short(x)} ${short(y)}`;
    for (let index = 2; index < points.length; index += 2) {
      const [nextX, nextY] = [points[index]!, points[index + 1]!];
      const middle = short((y + nextY) / 2);
      path += `C${short(x)} ${middle} ${short(nextX)} ${middle} ${short(nextX)} ${short(nextY)}`;
      [x, y] = [nextX, nextY];
    }
    this.parts.push(
      element("path", {
        ...{ d: path, fill: "none", stroke: style.stroke, "stroke-width": style.width },
        "stroke-dasharray": style.dash?.join(" ") || undefined,
      }),
    );
    if (!style.arrow) return;
    const head = `M${short(x)} ${short(y + 1)}l-3.5 -7h7z`;
    this.parts.push(element("path", { d: head, fill: style.stroke }));
  }

  /** Everything drawn from now on is seen through a window: its place, its size, and the height that it begins at. */
  view(x: number, y: number, width: number, height: number, top: number, left: number): void {
    const place = `x="${short(x)}" y="${short(y)}" width="${short(width)}" height="${short(height)}"`;
    const box = `viewBox="${short(left)} ${short(top)} ${short(width)} ${short(height)}"`;
    this.parts.push(`${this.parts.length ? "</svg>" : ""}<svg ${place} ${box}>`);
  }

  finish(width: number, height: number, title: string): string {
    const size = `width="${Math.ceil(width)}" height="${Math.ceil(height)}"`;
    const box = `viewBox="0 0 ${Math.ceil(width)} ${Math.ceil(height)}"`;
    const ground = element("rect", { width: "100%", height: "100%", fill: this.theme.colour("ground") });
    const body = [...this.parts, "</svg>"].join("\n");
    const head = `<svg xmlns="http://www.w3.org/2000/svg" ${size} ${box} role="img">`;
    return `${head}\n<title>${escaped(title)}</title>\n${ground}\n${body}\n</svg>\n`;
  }
}

function element(
  name: string,
  attributes: Record<string, string | number | undefined>,
  text?: string,
): string {
  const written = Object.entries(attributes)
    .filter(([, value]) => value !== undefined)
    .map(([key, value]) => `${key}="${typeof value === "number" ? short(value) : escaped(value!)}"`);
  const start = `<${name} ${written.join(" ")}`;
  return text === undefined ? `${start}/>` : `${start}>${escaped(text)}</${name}>`;
}

function short(value: number): number {
  return Math.round(value * 100) / 100;
}

/** Text for XML: no markup, and none of the characters that XML does not have. */
function escaped(text: string): string {
  const replaced: Record<string, string> = {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    '"': "&quot;",
    "'": "&#39;",
  };
  const allowed = text.replace(/[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu, "\ufffd");
  return allowed.replace(/[&<>"']/g, (character) => replaced[character]!);
}
