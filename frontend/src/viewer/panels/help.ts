/** The dialog that lists the keys and explains the marks. */

import { h } from "../dom.ts";
import type { Document } from "../model/document.ts";
import { LOOKS, STATUSES } from "../model/looks.ts";

const KEYS: [keys: string[], words: string][] = [
  [["/"], "search by name, type, shape, file or line"],
  [["n", "p"], "next and previous difference"],
  [["f"], "collapse or expand the block of the selected layer"],
  [["↑", "↓", "←", "→"], "move along the net within a pane"],
  [["l", "o"], "show layers, show operators"],
  [["h"], "heat map: parameters, multiply-adds, bytes, time, error, your own data"],
  [["v"], "both nets as one graph, or beside each other"],
  [["[", "]"], "close or open the list and the details"],
  [["+", "-", "0"], "zoom in, zoom out, fit"],
  [["w"], "padding lab: windows of convolutions and poolings"],
  [["c"], "copy a link to the selected layer"],
  [["↑", "↓", "Home", "End"], "move in the list of differences or layers, where it has the focus"],
  [["Enter"], "move from the list or a pane to the details"],
  [["Esc"], "clear the selection"],
];

export function helpDialog(document: Document): HTMLDialogElement {
  const rows = KEYS.map(([keys, words]) =>
    h("tr", {}, h("th", { scope: "row" }, ...keys.map((key) => h("kbd", {}, key))), h("td", {}, words)),
  );
  const marks = STATUSES.filter((status) => LOOKS[status].words).map((status) =>
    h(
      "li",
      { "data-status": status },
      h("span", { class: "nw-mark" }, LOOKS[status].mark),
      LOOKS[status].words,
    ),
  );
  const known = document.kind === "comparison" ? document.verdicts : [];
  const verdicts = known.map(({ mark, words, key, meaning }) =>
    h("li", { "data-verdict": key, title: meaning }, h("span", { class: "nw-mark" }, mark), words),
  );
  const close = h("button", { type: "button", class: "nw-button", onclick: () => dialog.close() }, "Close");
  const dialog: HTMLDialogElement = h(
    "dialog",
    { class: "nw-dialog", "aria-label": "Keys and marks" },
    h("header", { class: "nw-dialog-head" }, h("h2", {}, "Keys"), close),
    h("table", { class: "nw-table nw-two" }, h("tbody", {}, ...rows)),
    verdicts.length ? h("h2", {}, "Verdicts") : null,
    verdicts.length ? h("ul", { class: "nw-plainlist nw-marks" }, ...verdicts) : null,
    h("h2", {}, "Marks of layers"),
    h("ul", { class: "nw-plainlist nw-marks" }, ...marks),
    h(
      "p",
      { class: "nw-quiet" },
      "The wheel scrolls; with Ctrl it zooms. Double-click a block to expand it.",
    ),
  );
  return dialog;
}
