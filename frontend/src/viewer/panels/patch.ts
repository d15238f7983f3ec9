/** A fix as a change of the source text: shown, downloaded, and where the page stands in a workbench, applied. */

import { download, h } from "../dom.ts";
import type { Patch } from "../model/document.ts";

export interface FixActions {
  /** Address of the mended file, of one finding or of all. */
  address: (finding: number | null) => string;
  /** Makes a net with the fix applied and compares again. */
  apply: (finding: number | null) => Promise<void>;
}

export function patchPart(
  patch: Patch | null | undefined,
  finding: number | null,
  actions: FixActions | null,
): HTMLElement | null {
  if (!patch) return null;
  if (!patch.diff) return h("p", { class: "nw-quiet" }, `Not applied for you: ${patch.why}.`);
  const name = `${patch.files[0] ?? "fix"}.patch`;
  const save = (): void => download(name, new Blob([patch.diff], { type: "text/x-patch" }));
  const busy = h("span", { class: "nw-quiet", role: "status" });
  const apply = async (button: HTMLButtonElement): Promise<void> => {
    if (button.ariaDisabled) return;
    button.ariaDisabled = "true"; // disabled, it would lose the focus
    busy.textContent = "Comparing again …";
    try {
      await actions?.apply(finding);
    } catch (error) {
      button.ariaDisabled = null;
      busy.textContent = error instanceof Error ? error.message : String(error);
    }
  };
  const applied: HTMLButtonElement = h(
    "button",
    { type: "button", class: "nw-button nw-primary", onclick: () => void apply(applied) },
    "Apply and compare again",
  );
  return h(
    "div",
    { class: "nw-patch" },
    h(
      "details",
      { open: finding !== null },
      h("summary", {}, "The change in the file"),
      h("pre", { tabindex: 0 }, ...diffLines(patch.diff)),
    ),
    h(
      "div",
      { class: "nw-patch-actions" },
      actions ? applied : null,
      actions && patch.files.length === 1
        ? h(
            "a",
            { class: "nw-button", href: actions.address(finding), download: patch.files[0] },
            "Mended file",
          )
        : null,
      h("button", { type: "button", class: "nw-button", onclick: save }, "Patch"),
      busy,
    ),
    patch.why ? h("p", { class: "nw-quiet" }, `Not in it: ${patch.why}.`) : null,
  );
}

function diffLines(diff: string): HTMLElement[] {
  return diff
    .replace(/\n$/, "")
    .split("\n")
    .filter((line) => !/^(---|\+\+\+) /.test(line))
    .map((line) => {
      const kind = line.startsWith("+") ? "added" : line.startsWith("-") ? "gone" : "same";
      return h("span", { class: `nw-diff nw-diff-${kind}` }, `${line}\n`);
    });
}
