/** Making elements. Texts are always text: nothing of a document is ever parsed as markup. */

type Child = globalThis.Node | string | null | undefined | false;
type Handler = (event: never) => void;
type Value = string | number | boolean | null | undefined | Handler;

const SVG = "http://www.w3.org/2000/svg";

/** Make an HTML element; `on...` are listeners, the others attributes (false and null: none). */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Record<string, Value> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  fill(element, attributes, children);
  return element;
}

/** Make an SVG element. */
export function s<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Record<string, Value> = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  const element = document.createElementNS(SVG, tag);
  fill(element, attributes, children);
  return element;
}

function fill(element: Element, attributes: Record<string, Value>, children: Child[]): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function")
      // eslint-disable-next-line @typescript-eslint/no-unsafe-type-assertion -- each caller names the event that its listener takes
      element.addEventListener(name.replace(/^on/, ""), value as EventListener);
    else if (value !== false && value !== null && value !== undefined) {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
}

/** Hand a file that was made here to the user. */
export function download(name: string, content: Blob): void {
  const url = URL.createObjectURL(content);
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
