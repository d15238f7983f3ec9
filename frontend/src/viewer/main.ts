/** The viewer: `netweave.viewer.mount(element, document, options)` shows a net or a comparison in an element. */

import { type Address, App } from "./app.ts";
import { listenToKeys } from "./keys.ts";
import { startMenus } from "./menus.ts";
import { type Document, VERSION } from "./model/document.ts";
import { type StoredDocument, withRows } from "./model/tables.ts";
import { ofToday } from "./model/version1.ts";
import type { ArrayAddress } from "./panels/parameters.ts";
import type { FixActions } from "./panels/patch.ts";
import { pause } from "./pause.ts";
import "./viewer.css";

export interface Options {
  /** The viewer is the whole page, and fills the window. */
  wholePage?: boolean;
  /** What "Copy link" copies. */
  address?: Address;
  /** What applies fixes, where there is something that can. */
  fixes?: FixActions;
  /** Address of a stored array of one side, by its key, where something has the files. */
  arrays?: ArrayAddress;
  /** Takes the verdict and the tools, in a page that has a head of its own. */
  head?: HTMLElement | null;
}

/** Show a document of any release up to this one in an element; resolves when it is on the page. */
export async function mount(
  element: HTMLElement,
  document: Document | StoredDocument,
  options: Options = {},
): Promise<void> {
  if (!(document.version <= VERSION)) {
    throw new Error(
      `this viewer supports documents up to version ${VERSION}, but this one has version ${document.version}`,
    );
  }
  const shown = isStored(document) ? await withRows(document) : ofToday(document);
  element.classList.toggle("nw-whole", options.wholePage ?? false);
  try {
    const { address = { url: "", note: "" }, fixes = null, arrays = null, head = null } = options;
    const app = new App(element, shown, address, { fixes, arrays }, head);
    await app.start();
    listenToKeys(app, element, options.address?.isEmbedded ?? false);
  } catch (error) {
    fail(element, `The nets could not be drawn: ${error instanceof Error ? error.message : String(error)}`);
    throw error;
  }
}

function isStored(document: Document | StoredDocument): document is StoredDocument {
  return document.version === VERSION;
}

/** Show the document that stands as JSON in another element of the page; it goes from there. */
export async function mountText(
  element: HTMLElement,
  text: HTMLElement,
  options: Options = {},
): Promise<void> {
  const content = text.textContent;
  text.remove();
  await mount(element, await parsed(content), options);
}

/** Fetch a document and show it in an element. */
export async function mountFrom(element: HTMLElement, source: string, options: Options = {}): Promise<void> {
  const response = await fetch(source, { headers: { Accept: "application/json" } });
  if (!response.ok) {
    fail(element, `The nets could not be fetched: ${response.status} ${response.statusText}`);
    return;
  }
  await mount(element, await parsed(await response.text()), options);
}

/** Parses a document in a task of its own: of a large net it takes a tenth of a second. */
async function parsed(text: string): Promise<Document | StoredDocument> {
  await pause();
  // eslint-disable-next-line @typescript-eslint/no-unsafe-type-assertion -- Python wrote it; `mount` checks the version
  const shown = JSON.parse(text) as Document | StoredDocument;
  await pause();
  return shown;
}

/** Fixes by the workbench's HTTP API. */
function workbenchFixes(address: string): FixActions {
  const query = (finding: number | null): string => (finding === null ? "" : `?finding=${finding}`);
  return {
    address: (finding) => address + query(finding),
    apply: async (finding) => {
      const token = document.querySelector<HTMLMetaElement>('meta[name="csrf-token"]')?.content ?? "";
      const response = await fetch(address + query(finding), {
        method: "POST",
        headers: { "X-CSRFToken": token, Accept: "application/json" },
      });
      // eslint-disable-next-line @typescript-eslint/no-unsafe-type-assertion -- what is missing is checked below
      const answer = (await response.json()) as { page?: string; detail?: unknown };
      if (!response.ok || !answer.page)
        throw new Error(typeof answer.detail === "string" ? answer.detail : `status ${response.status}`);
      location.assign(answer.page);
    },
  };
}

function fail(element: HTMLElement, message: string): void {
  element.dataset["state"] = "failed";
  element.replaceChildren(message);
}

/**
 * `<netweave-viewer src="document.json">` draws a net or a comparison in any page.
 *
 * `src` is a document as `/api/comparisons/ID/document` has it. With `embedded` the viewer leaves the address of
 * the page alone and listens to keys only while it has the focus. `address` and `address-note` are what "Copy link"
 * copies and says; `fix` is where fixes are applied, in the workbench, `arrays` where the arrays of each net are saved,
 * with a space between, and `head` selects the element of the page that the verdict and the tools stand in.
 */
class NetweaveViewer extends HTMLElement {
  connectedCallback(): void {
    const source = this.getAttribute("src");
    if (source === null || this.dataset["state"]) return; // it was only moved
    this.dataset["state"] = "fetching";
    const fix = this.getAttribute("fix");
    const address = {
      url: this.getAttribute("address") ?? "",
      note: this.getAttribute("address-note") ?? "",
      isEmbedded: this.hasAttribute("embedded"),
    };
    const wanted = this.getAttribute("head");
    const head = wanted === null ? null : document.querySelector<HTMLElement>(wanted);
    const options: Options = { address, head };
    if (fix !== null) options.fixes = workbenchFixes(fix);
    const arrays = this.getAttribute("arrays")?.split(" ");
    if (arrays) options.arrays = (side, key) => `${arrays[side]}?name=${encodeURIComponent(key)}`;
    mountFrom(this, source, options).catch((error: unknown) => {
      if (this.dataset["state"] === "fetching") fail(this, `The nets could not be fetched: ${String(error)}`);
    });
  }
}

startMenus(document, "details.nw-menu");
customElements.define("netweave-viewer", NetweaveViewer);
