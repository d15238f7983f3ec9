/** The right side: what is known of the selected item, both sides beside each other; of nothing, the whole. */

import { h } from "../dom.ts";
import type { Scene } from "../draw/scene.ts";
import { causeOfFinding, itemsWith } from "../model/causes.ts";
import type { Finding, Group, Item, Layer, Real } from "../model/document.ts";
import { evidenceText, LOOKS, type ItemStatus } from "../model/looks.ts";
import { type Model, type UnionItem, isLayer, placeOf } from "../model/model.ts";
import {
  amountText,
  apartText,
  costText,
  counted,
  ratioText,
  sizesText,
  typesText,
} from "../model/wording.ts";
import { nodesOf } from "../model/windowed.ts";
import { windowsOf } from "../model/windows.ts";
import { overviewParts } from "./overview.ts";
import { paddingPicture, paddingWords } from "./padding.ts";
import { type ArrayAddress, parameterParts } from "./parameters.ts";
import { type FixActions, patchPart } from "./patch.ts";
import { valueParts, weightPart } from "./values.ts";
import { computedTable, pairNodes, row, writtenTable } from "./settings.ts";

export interface InspectorActions {
  copyLink: () => void;
  toggleFold: (id: number) => void;
  select: (id: number) => void;
  /** Where the page stands in a workbench, which can apply fixes. */
  fixes: FixActions | null;
  /** Where its stored arrays are saved, if the page stands in a workbench. */
  arrays: ArrayAddress | null;
  openLab: (id: number | null) => void;
}

/** Layers of one side whose names are there at once. */
const MAX_NAMES = 3;

export class Inspector {
  readonly element = h("aside", { class: "nw-inspector", "aria-label": "Details", tabindex: 0 });
  private scene!: Scene;

  constructor(private readonly actions: InspectorActions) {}

  show(scene: Scene, id: number | null): void {
    this.scene = scene;
    this.element.scrollTop = 0;
    if (this.element.contains(document.activeElement)) this.element.focus(); // what had the focus goes
    if (id === null) this.element.replaceChildren(...overviewParts(scene.model, this.actions));
    else if (scene.isFold(id)) this.element.replaceChildren(...this.foldParts(id));
    else this.element.replaceChildren(...this.itemParts(scene.model.union[id]!, id));
  }

  private foldParts(id: number): (HTMLElement | string)[] {
    const { scene, actions } = this;
    const sides = scene.model.nets.map((_, side) => scene.members(id, side));
    const isClosed = scene.byId.has(id);
    const button = h(
      "button",
      { type: "button", class: "nw-button", onclick: () => actions.toggleFold(id) },
      isClosed ? "Unfold" : "Fold",
      h("kbd", {}, "f"),
    );
    const leaves = scene.leaves(id).filter((leaf) => LOOKS[scene.model.union[leaf]!.status].weight >= 6);
    const links = leaves.slice(0, 30).map((leaf) => {
      const select = { type: "button", class: "nw-link", onclick: () => actions.select(leaf) };
      return h("li", {}, h("button", select, scene.itemTitle(leaf)));
    });
    const words = {
      run: "Equal blocks, one after the other",
      block: "A block",
      branch: "A branch",
      section: "A section",
      scope: "A module",
    };
    const { kind, name } = scene.tree.folds[id - scene.model.union.length]!;
    return [
      h("header", { class: "nw-title" }, h("h2", {}, scene.foldTitle(id, sides[0]?.length ? 0 : 1)), button),
      h(
        "p",
        { class: "nw-quiet" },
        `${words[kind]}, ${name === undefined ? "detected from the structure" : "as the names tell"}.`,
      ),
      sideTable(
        ["layers", "types"],
        sides.map((items) => [
          counted(items.length, "layer"),
          typesText(
            items.map((item) => item.type),
            6,
          ),
        ]),
      ),
      ...(links.length
        ? [h("h3", {}, "Differences inside"), h("ul", { class: "nw-plainlist" }, ...links)]
        : []),
    ];
  }

  private itemParts(item: UnionItem, id: number): HTMLElement[] {
    const { model } = this.scene;
    const findings = model.document.kind === "comparison" ? model.document.findings : [];
    const sides = item.members
      .slice(0, model.nets.length)
      .map((members, side) => membersOf(model, side, members));
    return [
      this.head(item, sides),
      ...item.findings.map((number) =>
        findingPart(findings[number]!, item.status, number, this.actions.fixes),
      ),
      ...this.otherPlaces(item, id),
      ...valuesPart(item),
      ...weightsPart(item),
      ...padding(model, item, () => this.actions.openLab(id)),
      ...computed(model, item),
      ...shapes(model, sides),
      ...written(sides),
      ...texts(sides),
      ...stored(model, sides, this.actions.arrays),
      ...costs(sides),
      this.foot(id),
    ];
  }

  /** Links to the other places where what is wrong here was done as well. */
  private otherPlaces(item: UnionItem, id: number): HTMLElement[] {
    const { scene, actions } = this;
    const causes = causeOfFinding(scene.model.document);
    const others = item.findings.flatMap((number) => itemsWith(scene.model, causes.get(number)!));
    const links = [...new Set(others)]
      .filter((other) => other !== id)
      .map((other) => {
        const select = { type: "button", class: "nw-link", onclick: () => actions.select(other) };
        return h("li", {}, h("button", select, scene.itemTitle(other)));
      });
    if (!links.length) return [];
    return [section("Also at", h("ul", { class: "nw-plainlist nw-places" }, ...links))];
  }

  private head(item: UnionItem, sides: Item[][]): HTMLElement {
    const columns = sides.map((items, side) =>
      h(
        "div",
        { class: "nw-side" },
        sides.length > 1 ? h("span", { class: "nw-letter", "aria-hidden": "true" }, "AB"[side]) : null,
        items.length ? null : h("p", { class: "nw-quiet" }, `not in ${"AB"[side]}`),
        ...items.slice(0, MAX_NAMES).map(nameOf),
        items.length > MAX_NAMES ? moreNames(items.slice(MAX_NAMES)) : null,
      ),
    );
    return h("header", { class: "nw-title" }, chips(item), h("div", { class: "nw-sides" }, ...columns));
  }

  private foot(id: number): HTMLElement {
    const parent = this.scene.parents[id]!;
    const fold =
      parent >= 0
        ? h(
            "button",
            { type: "button", class: "nw-button", onclick: () => this.actions.toggleFold(parent) },
            "Collapse its block",
            h("kbd", {}, "f"),
          )
        : null;
    const link = { type: "button", class: "nw-button", onclick: () => this.actions.copyLink() };
    return h("footer", { class: "nw-foot" }, h("button", link, "Copy link"), fold);
  }
}

function nameOf(item: Item): HTMLElement {
  const place = placeOf(item) ? h("span", { class: "nw-place" }, placeOf(item)) : null;
  return h("div", { class: "nw-name" }, h("h2", {}, item.name || item.type), h("p", {}, item.type, place));
}

function moreNames(items: Item[]): HTMLElement {
  return h(
    "details",
    { class: "nw-more" },
    h("summary", {}, `and ${items.length} more`),
    ...items.map(nameOf),
  );
}

function membersOf(model: Model, side: number, members: number[]): Item[] {
  return members.map((index) => model.items[side]![index]!);
}

function chips(item: UnionItem): HTMLElement | null {
  const { words, mark } = LOOKS[item.status];
  if (!words) return null;
  const pairs = item.groups.filter((group) => group.sides[0] && group.sides[1]);
  const evidences = [...new Set(pairs.map(evidenceText))];
  return h(
    "p",
    { class: "nw-chips" },
    h("span", { class: "nw-chip", "data-status": item.status }, h("span", { class: "nw-mark" }, mark), words),
    ...evidences.map((evidence) => h("span", { class: "nw-evidence" }, evidence)),
  );
}

export function findingPart(
  finding: Finding,
  status: ItemStatus,
  number: number,
  fixes: FixActions | null,
): HTMLElement {
  const fixed = finding.error_fixed !== null && finding.error !== null;
  return h(
    "section",
    { class: "nw-finding", "data-status": status, "aria-label": "Finding" },
    h("p", { class: "nw-cause" }, finding.cause),
    finding.fix
      ? h(
          "div",
          { class: "nw-fix" },
          h("span", { class: "nw-label" }, "Fix"),
          h("code", {}, finding.fix),
          finding.places[1] ? h("span", { class: "nw-place" }, `in ${finding.places[1]}`) : null,
        )
      : h("p", { class: "nw-quiet" }, "No known rule explains this difference, so there is no proposed fix."),
    fixed
      ? h(
          "p",
          { class: "nw-proof" },
          ...["Tested: given the same inputs, the outputs of the two layers ", ...apart(finding.error), ". "],
          ...(finding.error_fixed === 0
            ? ["With the fix they are identical."]
            : [
                "With the fix they differ by ",
                h("b", {}, ratioText(finding.error_fixed)),
                " times the rms.",
              ]),
        )
      : null,
    finding.fix && !finding.latent ? patchPart(finding.patch, number, fixes) : null,
  );
}

function apart(error: Real): (HTMLElement | string)[] {
  if (error === "inf") return ["have different sizes, or are not finite"];
  return ["differ by up to ", h("b", {}, ratioText(error)), " times their rms"];
}

function valuesPart(item: UnionItem): HTMLElement[] {
  const groups = item.groups.filter((group) => group.error !== null || group.mapping || group.values);
  return groups.flatMap((group) => [
    section("Values", valuesTable(group), ...(group.values ? valueParts(group.values) : [])),
  ]);
}

/** How the stored arrays of a pair differ, channel by channel. */
function weightsPart(item: UnionItem): HTMLElement[] {
  const differences = item.groups.flatMap((group) => group.weights ?? []);
  return differences.length ? [section("Weights of A against B", ...differences.map(weightPart))] : [];
}

function valuesTable(group: Group): HTMLElement {
  const rows: [string, string][] = [["difference / rms", apartText(group.error)]];
  if (group.isolated_error !== null) rows.push(["given A's inputs", apartText(group.isolated_error)]);
  if (group.rounding_error != null) rows.push(["rounding explains", ratioText(group.rounding_error)]);
  if (group.mapping) rows.push(["A becomes B by", group.mapping]);
  return h(
    "table",
    { class: "nw-table nw-two" },
    h("tbody", {}, ...rows.map(([name, value]) => row(name, [value], false))),
  );
}

function padding(model: Model, item: UnionItem, openLab: () => void): HTMLElement[] {
  const pictures = model.nets.map((net, side) => {
    const found = nodesOf(model, item, side).map((node) => windowsOf(net, node));
    return found.find((windows) => windows !== null && windows.axes.some((axis) => axis.kernel > 1));
  });
  if (!pictures.some(Boolean)) return [];
  const cells = pictures.map((windows) =>
    windows
      ? h(
          "figure",
          { class: "nw-figure" },
          paddingPicture(windows),
          h("figcaption", {}, paddingWords(windows)),
        )
      : h("figure", { class: "nw-figure" }),
  );
  const button = h("button", { type: "button", class: "nw-button", onclick: openLab }, "Padding lab");
  return [section("Windows on the border", h("div", { class: "nw-sides" }, ...cells), button)];
}

function computed(model: Model, item: UnionItem): HTMLElement[] {
  const pairs = pairNodes(nodesOf(model, item, 0), nodesOf(model, item, 1));
  const tables = pairs.slice(0, 12).map((pair) => computedTable(pair, model.nets.length));
  return pairs.length ? [section("As computed", ...tables)] : [];
}

function shapes(model: Model, sides: Item[][]): HTMLElement[] {
  const ends = (key: "inputs" | "outputs"): string[] =>
    sides.map((items, side) => {
      const made = new Set(items.flatMap((item) => item.outputs));
      const read = new Set(items.flatMap((item) => item.inputs));
      const values =
        key === "inputs" ? [...read].filter((v) => !made.has(v)) : [...made].filter((v) => !read.has(v));
      const known = values.length || key === "inputs" ? values : [...made];
      return known.map((value) => sizesText(model.nets[side]!.values[value]?.[1])).join("\n");
    });
  return [section("Shapes", table([row("in", ends("inputs"), false), row("out", ends("outputs"), false)]))];
}

function written(sides: Item[][]): HTMLElement[] {
  const count = Math.max(...sides.map((items) => items.length));
  const tables = Array.from({ length: Math.min(count, 8) }, (_, index) =>
    writtenTable(sides[0]?.[index], sides[1]?.[index], sides.length),
  ).filter((part) => part !== null);
  const areLayers = sides.some((items) => items.some((item) => isLayer(item)));
  return areLayers && tables.length ? [section("As written", ...tables)] : [];
}

/** The lines of both files, one below the other: code has long lines. */
function texts(sides: Item[][]): HTMLElement[] {
  const parts = sides.flatMap((items, side) =>
    items.slice(0, MAX_NAMES).flatMap((item) => {
      const { text, line } = item as Partial<Layer>;
      if (!text || !line) return [];
      const letter = sides.length > 1 ? h("span", { class: "nw-letter" }, "AB"[side]) : null;
      const caption = h("figcaption", {}, letter, h("span", { class: "nw-place" }, placeOf(item)));
      const numbers = text.split("\n").map((_, index) => String(line + index));
      const gutter = h("span", { class: "nw-gutter", "aria-hidden": "true" }, numbers.join("\n"));
      return [
        h("figure", { class: "nw-source" }, caption, h("pre", { tabindex: 0 }, gutter, h("code", {}, text))),
      ];
    }),
  );
  return parts.length ? [section("In the files", ...parts)] : [];
}

function stored(model: Model, sides: Item[][], arrays: ArrayAddress | null): HTMLElement[] {
  const numbers = sides.map((items) => [...new Set(items.flatMap((item) => item.parameters))]);
  const parts = parameterParts(model.nets, numbers, arrays);
  return parts.length ? [section("Stored arrays", ...parts)] : [];
}

function costs(sides: Item[][]): HTMLElement[] {
  const totals = sides.map((items) => {
    const known = items.flatMap((item) => (item.cost ? [item.cost] : []));
    if (!known.length) return ["", "", ""];
    const total = known.reduce((sum, cost) => ({
      parameters: sum.parameters + cost.parameters,
      multiply_adds: sum.multiply_adds + cost.multiply_adds,
      activation_bytes: sum.activation_bytes + cost.activation_bytes,
      exact: sum.exact && cost.exact,
    }));
    return [
      amountText(total.parameters),
      costText(total, "multiply_adds"),
      costText(total, "activation_bytes"),
    ];
  });
  if (!totals.some(([first]) => first)) return [];
  return [
    section("Costs at batch size 1", sideTable(["parameters", "multiply-adds", "activations"], totals)),
  ];
}

function sideTable(names: string[], sides: string[][]): HTMLElement {
  return table(
    names.map((name, index) =>
      row(
        name,
        sides.map((values) => values[index] ?? ""),
        false,
      ),
    ),
  );
}

function table(rows: HTMLElement[]): HTMLElement {
  return h("table", { class: "nw-table" }, h("tbody", {}, ...rows));
}

function section(title: string, ...parts: (HTMLElement | null)[]): HTMLElement {
  return h("section", { class: "nw-section" }, h("h3", {}, title), ...parts);
}
