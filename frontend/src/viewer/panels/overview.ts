/** What the details show while nothing is selected: the verdict, how the nets were run, the nets themselves. */

import { h } from "../dom.ts";
import { causesOf, itemsWith, numPlaces } from "../model/causes.ts";
import type { ComparisonDocument, Net } from "../model/document.ts";
import { verdictLook } from "../model/looks.ts";
import type { Model } from "../model/model.ts";
import { type FixActions, patchPart } from "./patch.ts";
import { amountText, costText } from "../model/wording.ts";

export interface OverviewActions {
  select: (id: number) => void;
  fixes: FixActions | null;
}

export function overviewParts(model: Model, actions: OverviewActions): HTMLElement[] {
  const { document } = model;
  const parts = document.kind === "comparison" ? verdictParts(document, model, actions) : [];
  return [
    ...parts,
    ...document.nets.map((net, side) => netPart(net, document.nets.length > 1 ? "AB"[side]! : "")),
  ];
}

function verdictParts(
  document: ComparisonDocument,
  model: Model,
  { select, fixes }: OverviewActions,
): HTMLElement[] {
  const { mark, key } = verdictLook(document);
  const mappings = [
    ...document.inputs.map((mapping) => ["input", mapping] as const),
    ...document.outputs.map((mapping) => ["output", mapping] as const),
  ];
  return [
    h(
      "header",
      { class: "nw-title" },
      h("h2", { "data-verdict": key }, h("span", { class: "nw-mark" }, mark), document.verdict),
      h("p", { class: "nw-cause" }, document.detail ?? document.sentence),
    ),
    ...causesPart(model, select),
    ...allFixes(document, fixes),
    ...document.notes.map((note) => h("p", { class: "nw-note" }, note)),
    facts("How the nets were compared", [
      ...mappings.map(([name, m]): [string, string] => [
        name,
        `${m.a} → ${m.b}${m.text ? `\n${m.text}` : ""}`,
      ]),
      ...document.probes.map((probe): [string, string] => ["run on", probe]),
    ]),
  ];
}

/** Each cause in a line that leads to its first place. */
function causesPart(model: Model, select: (id: number) => void): HTMLElement[] {
  const rows = causesOf(model.document).map((cause) => {
    const [first] = itemsWith(model, cause);
    const count = numPlaces(model.document, cause);
    const act = { type: "button", class: "nw-link", onclick: () => first !== undefined && select(first) };
    return h("li", {}, h("button", act, cause.text), count > 1 ? ` in ${count} places` : null);
  });
  if (!rows.length) return [];
  return [
    h("section", { class: "nw-section" }, h("h3", {}, "Causes"), h("ol", { class: "nw-causes" }, ...rows)),
  ];
}

function allFixes(document: ComparisonDocument, fixes: FixActions | null): HTMLElement[] {
  const part = document.patch?.diff ? patchPart(document.patch, null, fixes) : null;
  return part ? [h("section", { class: "nw-section" }, h("h3", {}, "All fixes"), part)] : [];
}

function netPart(net: Net, letter: string): HTMLElement {
  const ends = (values: number[]): string => values.map((value) => net.values[value]?.[0] ?? "").join(", ");
  const { totals } = net;
  const rows: [string, string][] = [
    ["format", net.format],
    ["files", net.files.join("\n")],
    ["inputs", ends(net.inputs)],
    ["outputs", ends(net.outputs)],
    ["layers", net.layers.length.toLocaleString("en")],
    ["operators", net.nodes.length.toLocaleString("en")],
  ];
  if (totals) {
    rows.push(
      ["parameters", `${amountText(totals.parameters)}${net.loaded ? "" : ", some without values"}`],
      ["multiply-adds", costText(totals, "multiply_adds")],
      ["activations", costText(totals, "activation_bytes")],
    );
  }
  const found = [
    ...rows.filter(([, value]) => value),
    ...net.notes.map((note): [string, string] => ["note", note]),
  ];
  return letter ? facts(`${letter}: ${net.name}`, found) : facts(net.name, found, "h2");
}

function facts(title: string, rows: [string, string][], heading: "h2" | "h3" = "h3"): HTMLElement {
  const body = rows.map(([name, value]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, value)));
  return h(
    "section",
    { class: "nw-section" },
    h(heading, {}, title),
    h("table", { class: "nw-table nw-two" }, h("tbody", {}, ...body)),
  );
}
