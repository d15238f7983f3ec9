/** The viewer: `netweave.viewer.mount(element, document, options)` shows a net or a comparison in an element. */

import { type Document, VERSION } from "./document.ts";
import "./viewer.css";

export interface Options {
  /** The viewer is the whole page: it sets the title and takes the keys. */
  wholePage?: boolean;
}

export function mount(element: HTMLElement, document: Document, _options: Options = {}): void {
  element.replaceChildren();
  element.classList.add("nw-viewer");
  const heading = globalThis.document.createElement("h1");
  heading.textContent =
    document.version === VERSION
      ? document.kind === "comparison"
        ? document.sentence
        : document.title
      : `This page shows documents of version ${VERSION}, this one is of version ${document.version}.`;
  element.append(heading);
}

/** Fetches the documents of elements with `data-src` and shows them. */
async function mountAll(): Promise<void> {
  for (const element of globalThis.document.querySelectorAll<HTMLElement>(
    "[data-netweave-viewer][data-src]",
  )) {
    const response = await fetch(element.dataset.src ?? "", { headers: { Accept: "application/json" } });
    if (response.ok) mount(element, (await response.json()) as Document);
    else
      element.textContent = `The comparison could not be fetched: ${response.status} ${response.statusText}`;
  }
}

void mountAll();
