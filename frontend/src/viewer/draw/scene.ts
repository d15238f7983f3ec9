/** What is to be drawn: boxes of items and closed folds, frames of open folds, edges; and finding them by place. */

import type { FoldKind, FoldTree } from "../layout/folds.ts";
import { BOX_WIDTH, LABEL_HEIGHT, type LaidEdge, type Layout, parentsOf } from "../layout/layout.ts";
import type { Item } from "../model/document.ts";
import { type Category, categoryOf } from "../model/categories.ts";
import { functionOf } from "../model/causes.ts";
import { leafName, modulesOf } from "../model/scopes.ts";
import { LOOKS, type ItemStatus } from "../model/looks.ts";
import { BOTH, type Model, type UnionItem } from "../model/model.ts";
import { counted, differingNames, shortSettings, sizesText, typesText } from "../model/wording.ts";

export const ROW = 36;
export const MAX_ROWS = 4;
const PADDING = 5;
/** From a box to the frame around it, and from a frame to the one around it. */
const MARGIN = 7;
const NESTED = 3;
/** Width of a letter of a frame's label, about. */
const LETTER = 5.8;

/** One layer or node in a box. */
export interface Row {
  /** The operator, or what a fold is called. */
  title: string;
  category: Category;
  /** What it is called inside the frame around it; how many layers a fold has. */
  name: string;
  /** Behind the title and behind the name; each is written whole or, where there is no room, not at all. */
  settings: string[];
  types: string[];
  /** Sizes of the largest stored array, and of the output. */
  weights: string;
  shape: string;
  /** All of it, for whoever points at it. */
  words: string;
}

export interface Box {
  /** The union item, or the fold from `model.union.length` on. */
  id: number;
  x: number;
  y: number;
  width: number;
  height: number;
  status: ItemStatus;
  isFold: boolean;
  /** Whether the nets have something in it. */
  present: [boolean, boolean];
  /** Of a fold, how many of its items stand how; the gravest first. */
  shares: [ItemStatus, number][];
  /** Names of values that many read and this box as well, by side. */
  stubs: [string[], string[]];
}

export interface Frame {
  id: number;
  kind: FoldKind;
  depth: number;
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface SceneEdge extends LaidEdge {
  points: number[];
  top: number;
  bottom: number;
  /** One net joins what the other has as well and does not join. */
  isOnlyHere: boolean;
}

/** Height of a box with so many layers or nodes on its larger side. */
export function boxHeight(members: number): number {
  return 2 * PADDING + ROW * Math.max(1, Math.min(members, MAX_ROWS)) + (members > MAX_ROWS ? 16 : 0);
}

/** How many rows an item has on a side: several layers with a name for what they compute are one. */
export function numRows(item: UnionItem, side: number): number {
  return functionOf(item, side) ? 1 : item.members[side]!.length;
}

/** Whether a pane shows a box: the overlay shows those of both nets. */
export function isPresent(box: Box, side: number): boolean {
  return side === BOTH || box.present[side]!;
}

/** Whether a pane shows an edge. */
export function isDrawn(edge: { sides: number }, side: number): boolean {
  return side === BOTH || Boolean(edge.sides & (1 << side));
}

export class Scene {
  readonly boxes: Box[];
  readonly byId = new Map<number, Box>();
  readonly frames: Frame[];
  readonly edges: SceneEdge[];
  readonly parents: Int32Array;
  private readonly frameById: Map<number, Frame>;
  private readonly rowCache = new Map<string, Row[]>();
  private readonly titleCache = new Map<string, string>();
  private readonly leafCache = new Map<number, number[]>();
  private readonly tallest: number;

  constructor(
    readonly model: Model,
    readonly tree: FoldTree,
    readonly layout: Layout,
  ) {
    this.parents = parentsOf(tree, model.union.length);
    this.boxes = [...layout.ids].map((id, index) => this.box(id, index)).sort((a, b) => a.y - b.y);
    for (const box of this.boxes) this.byId.set(box.id, box);
    this.tallest = this.boxes.reduce((most, box) => Math.max(most, box.height), 0);
    this.edges = this.placed(layout.edges);
    this.frames = this.findFrames();
    this.frameById = new Map(this.frames.map((frame) => [frame.id, frame]));
    this.takeStubs();
  }

  isFold(id: number): boolean {
    return id >= this.model.union.length;
  }

  /** The union items in a fold, or the item itself. */
  leaves(id: number): number[] {
    if (!this.isFold(id)) return [id];
    let found = this.leafCache.get(id);
    if (!found) {
      found = this.tree.folds[id - this.model.union.length]!.children.flatMap((child) => this.leaves(child));
      this.leafCache.set(id, found);
    }
    return found;
  }

  /** The box that shows an item: its own, or that of the closed fold that it is in. */
  shown(id: number): Box | undefined {
    for (let at = id; at >= 0; at = this.parents[at]!) {
      const box = this.byId.get(at);
      if (box) return box;
    }
    return undefined;
  }

  /** The boxes between two heights. */
  *between(top: number, bottom: number): Generator<Box> {
    let low = 0;
    let high = this.boxes.length;
    const first = top - this.tallest;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.boxes[middle]!.y < first) low = middle + 1;
      else high = middle;
    }
    for (let index = low; index < this.boxes.length; index++) {
      const box = this.boxes[index]!;
      if (box.y > bottom) return;
      if (box.y + box.height >= top) yield box;
    }
  }

  /** The box or the label of a frame at a point. */
  at(x: number, y: number, side = 0): Box | Frame | undefined {
    for (const box of this.between(y, y)) {
      if (x >= box.x && x <= box.x + box.width && y >= box.y && y <= box.y + box.height) return box;
    }
    return this.frames.findLast((frame) => {
      const { left, width } = this.label(frame, side);
      return Math.abs(y - frame.y) <= 9 && x >= left - 4 && x <= left + width;
    });
  }

  /** Where the label of a frame is written: to the right of that of a frame around it which begins here too. */
  label(frame: Frame, side: number, unit = 1): { title: string; left: number; width: number } {
    const title = this.foldTitle(frame.id, side);
    let left = frame.x + 9;
    for (let id = this.parents[frame.id]!; id >= 0; id = this.parents[id]!) {
      const around = this.frameById.get(id);
      if (!around) continue;
      if (Math.abs(around.y - frame.y) > 14 * unit) break;
      const { left: begin, width } = this.label(around, side, unit);
      left = Math.max(left, begin + width + 3 * unit);
      break;
    }
    const room = frame.x + frame.width - left - 4;
    const wanted = title.length * LETTER * unit + 24 * unit;
    return { title, left, width: room < 40 * unit ? 0 : Math.min(wanted, room) };
  }

  /** The lines of a box on one side; only what is drawn is ever written. */
  rows(box: Box, side: number): Row[] {
    const key = `${box.id} ${side}`;
    let found = this.rowCache.get(key);
    if (!found) {
      if (side === BOTH) found = merged(this.rows(box, 0), this.rows(box, 1));
      else if (!box.present[side]!) found = [];
      else found = box.isFold ? [this.foldRow(box.id, side)] : this.itemRows(box.id, side);
      this.rowCache.set(key, found);
    }
    return found;
  }

  /** What a fold is called: what the names in it begin with, or what it is. */
  foldTitle(id: number, side: number): string {
    if (side === BOTH) return this.foldTitle(id, this.members(id, 0).length ? 0 : 1);
    const key = `${id} ${side}`;
    let found = this.titleCache.get(key);
    if (found === undefined) {
      found = this.madeTitle(id, side);
      this.titleCache.set(key, found);
    }
    return found;
  }

  private madeTitle(id: number, side: number): string {
    const fold = this.tree.folds[id - this.model.union.length]!;
    if (fold.name !== undefined && fold.kind === "scope" && this.isNamedBy(id, fold.name, side))
      return fold.name;
    const members = this.members(id, side);
    const names = members.map((item) => item.name);
    const prefix = commonPrefix(names);
    if (fold.kind === "run") {
      const inner =
        fold.name ||
        prefix ||
        (this.isFold(fold.children[0]!) ? "block" : this.types(fold.children[0]!, side));
      return `${fold.children.length} × ${inner}`;
    }
    if (prefix) return prefix;
    const stem = commonStem(names);
    if (stem) return stem;
    const ends = [members[0], members.at(-1)].map((item) =>
      item ? leafName(item, () => false) || item.name : "",
    );
    return names.length > 1 ? ends.join(" – ") : fold.kind;
  }

  /** A name without what the frame around the box says already. */
  private shortName(id: number, side: number, name: string): string {
    const parent = this.parents[id]!;
    if (parent < 0) return name;
    const frame = this.foldTitle(parent, side);
    const rest = name.startsWith(frame) ? name.slice(frame.length).replace(/^[/_.:\-]+/, "") : "";
    return /[A-Za-z]/.test(rest) ? rest : name;
  }

  /** Whether an item is in a fold of a name. */
  private isInside(id: number, module: string): boolean {
    for (let at = this.parents[id]!; at >= 0; at = this.parents[at]!)
      if (this.tree.folds[at - this.model.union.length]!.name === module) return true;
    return false;
  }

  /** Whether the names of a side tell a module: the two nets may call it differently. */
  private isNamedBy(id: number, module: string, side: number): boolean {
    return this.members(id, side).some((item) => modulesOf(item.name).includes(module));
  }

  members(id: number, side: number): Item[] {
    const items = this.model.items[side] ?? [];
    return this.leaves(id).flatMap((leaf) =>
      this.model.union[leaf]!.members[side]!.map((index) => items[index]!),
    );
  }

  private types(id: number, side: number): string {
    return typesText(this.members(id, side).map((item) => item.type));
  }

  private foldRow(id: number, side: number): Row {
    const members = this.members(id, side);
    const noun = this.model.view === "layers" ? "layer" : "operator";
    const title = this.foldTitle(id, side);
    const types = typesText(members.map((item) => item.type));
    const { kind, name, children } = this.tree.folds[id - this.model.union.length]!;
    const isNamedRun = kind === "run" && name !== undefined;
    const layers = counted(members.length, noun);
    return {
      title: this.shortName(id, side, title),
      category: "other",
      name: layers,
      settings: [],
      types: isNamedRun
        ? [`${this.foldTitle(children[0]!, side)} to ${this.foldTitle(children.at(-1)!, side)}`]
        : types.split(" · ").filter((type) => type !== "…"),
      weights: "",
      shape: this.foldShape(members, side),
      words: `${title}\n${layers}: ${types}`,
    };
  }

  /** The sizes of what a fold gives: what its last layer computes that none of its own reads. */
  private foldShape(members: Item[], side: number): string {
    const read = new Set(members.flatMap((item) => item.inputs));
    const last = members.findLast((item) => item.outputs.some((value) => !read.has(value)));
    return last ? this.shapeOf(last, side) : "";
  }

  /** What an item is called: on A's side, or on B's if A has nothing there. */
  itemTitle(id: number): string {
    const side = this.model.union[id]!.members[0].length ? 0 : 1;
    const [first] = this.model.union[id]!.members[side];
    const item = first === undefined ? undefined : this.model.items[side]![first];
    return item?.name || item?.type || "";
  }

  private itemRows(id: number, side: number): Row[] {
    const rows = this.memberRows(id, side);
    const name = functionOf(this.model.union[id]!, side);
    if (!name) return rows;
    const words = [name, ...rows.map((row) => row.words)].join("\n");
    const types = typesText(rows.map((row) => row.title));
    const category = categoryOf(name);
    return [{ ...rows.at(-1)!, title: name, category, name: types, settings: [], weights: "", words }];
  }

  private memberRows(id: number, side: number): Row[] {
    const net = this.model.nets[side]!;
    return this.model.union[id]!.members[side]!.map((index) => {
      const item = this.model.items[side]![index]!;
      const settings = shortSettings(item.settings, this.differing(id, item));
      const shape = this.shapeOf(item, side);
      const weights = largest(item.parameters.map((number) => net.parameters[number]?.shape ?? []));
      return {
        title: item.type || item.name,
        category: categoryOf(item.type),
        name: leafName(item, (module) => this.isInside(id, module)),
        settings,
        types: [],
        weights,
        shape,
        words: [
          item.name,
          `${item.type} ${settings.join(" ")}`.trim(),
          weights && `weights ${weights}`,
          shape,
        ]
          .filter(Boolean)
          .join("\n"),
      };
    });
  }

  /** The sizes of what an item gives, without an open batch. */
  private shapeOf(item: Item, side: number): string {
    const output = item.outputs[0] ?? item.inputs[0];
    const sizes = output === undefined ? undefined : this.model.nets[side]!.values[output]?.[1];
    return sizesText(sizes).replace(/^N×(?=.)/, "");
  }

  /** The settings that make a layer another one than its counterpart, if it has one. */
  private differing(id: number, item: Item): ReadonlySet<string> {
    const { members, status } = this.model.union[id]!;
    const [a, b] = members.map((indices, side) => this.model.items[side]?.[indices[0] ?? -1]);
    const isPair = members.every((indices) => indices.length === 1) && a && b && LOOKS[status].isDifference;
    return isPair ? differingNames(item.settings, (item === a ? b : a).settings) : new Set();
  }

  private box(id: number, index: number): Box {
    const { layout, model } = this;
    const height = layout.heights[index]!;
    const items = this.leaves(id).map((leaf) => model.union[leaf]!);
    return {
      id,
      x: layout.x[index]! - BOX_WIDTH / 2,
      y: layout.y[index]! - height / 2,
      width: BOX_WIDTH,
      height,
      status: gravest(items),
      isFold: this.isFold(id),
      present: [
        items.some(({ members }) => members[0].length),
        items.some(({ members }) => members[1].length),
      ],
      shares: this.isFold(id) ? shares(items) : [],
      stubs: [[], []],
    };
  }

  private placed(edges: LaidEdge[]): SceneEdge[] {
    const leaving = new Map<number, LaidEdge[]>();
    for (const edge of edges) leaving.set(edge.source, [...(leaving.get(edge.source) ?? []), edge]);
    return edges.map((edge) => {
      const source = this.byId.get(edge.source)!;
      const target = this.byId.get(edge.target)!;
      const from = [source.x + source.width / 2, source.y + source.height];
      const to = [target.x + target.width / 2, target.y];
      return {
        ...edge,
        points: [...from, ...edge.bends, ...to],
        top: Math.min(from[1]!, to[1]!),
        bottom: Math.max(from[1]!, to[1]!),
        isOnlyHere: this.isOnlyHere(edge, source, target, leaving),
      };
    });
  }

  private isOnlyHere(edge: LaidEdge, source: Box, target: Box, leaving: Map<number, LaidEdge[]>): boolean {
    if (this.model.nets.length < 2 || edge.sides === 3) return false;
    if (![source, target].every((box) => box.present[0] && box.present[1])) return false;
    const here = edge.sides === 1 ? 0 : 1;
    const passes = (step: LaidEdge): boolean =>
      ((step.sides >> (1 - here)) & 1) === 1 && !this.byId.get(step.target)!.present[here];
    return !leaving.get(edge.source)!.some(passes);
  }

  private findFrames(): Frame[] {
    const count = this.model.union.length;
    const found = new Map<number, Frame>();
    for (const box of this.boxes) {
      for (let id = this.parents[box.id]!; id >= 0; id = this.parents[id]!) {
        const { kind } = this.tree.folds[id - count]!;
        const frame = found.get(id);
        if (!frame) {
          const right = box.x + box.width;
          found.set(id, { id, kind, depth: 0, x: box.x, y: box.y, width: right, height: box.y + box.height });
          continue;
        }
        frame.x = Math.min(frame.x, box.x);
        frame.width = Math.max(frame.width, box.x + box.width);
        frame.height = Math.max(frame.height, box.y + box.height);
      }
    }
    const frames = [...found.values()].filter((frame) => frame.kind !== "branch");
    for (const frame of frames) {
      for (let id = this.parents[frame.id]!; id >= 0; id = this.parents[id]!) frame.depth += 1;
      frame.x -= MARGIN;
      frame.y -= MARGIN;
      frame.width += MARGIN;
      frame.height += MARGIN;
    }
    frames.sort((a, b) => a.depth - b.depth);
    for (const frame of [...frames].reverse()) {
      this.widen(found.get(this.parents[frame.id]!), frame);
      frame.width -= frame.x;
      frame.height -= frame.y;
    }
    return frames.filter((frame) => !this.holdsOthers(frame));
  }

  /** Whether boxes of others stand in a frame: drawn, it would say that they belong to it. */
  private holdsOthers(frame: Frame): boolean {
    for (const box of this.between(frame.y, frame.y + frame.height)) {
      if (box.x >= frame.x + frame.width || box.x + box.width <= frame.x) continue;
      let id = box.id;
      while (id >= 0 && id !== frame.id) id = this.parents[id]!;
      if (id < 0) return true;
    }
    return false;
  }

  /** Let a frame hold another with its label; until then width and height are the right and the lower end. */
  private widen(around: Frame | undefined, frame: Frame): void {
    if (!around) return;
    around.x = Math.min(around.x, frame.x - NESTED);
    around.y = Math.min(around.y, frame.y - LABEL_HEIGHT);
    around.width = Math.max(around.width, frame.width + NESTED);
    around.height = Math.max(around.height, frame.height + NESTED);
  }

  private takeStubs(): void {
    for (const stub of this.model.stubs) {
      const box = this.shown(stub.target);
      const names = box?.stubs[stub.side];
      if (names && !names.includes(stub.value) && this.shown(stub.source) !== box) names.push(stub.value);
    }
  }
}

/** The rows of both sides as one: what they share once, and what differs with both. */
function merged(a: Row[], b: Row[]): Row[] {
  return Array.from({ length: Math.max(a.length, b.length) }, (_, index) => {
    const [x, y] = [a[index], b[index]];
    if (!x || !y) return (x ?? y)!;
    return {
      title: either(x.title, y.title, " · "),
      category: x.category,
      name: either(x.name, y.name, " · "),
      settings: bothOf(x.settings, y.settings),
      types: bothOf(x.types, y.types),
      weights: either(x.weights, y.weights, " ≠ "),
      shape: either(x.shape, y.shape, " ≠ "),
      words: either(x.words, y.words, "\n\n"),
    };
  });
}

/** The words of both sides, where they differ in one. */
function bothOf(a: string[], b: string[]): string[] {
  const [first, second] = [a.join(" "), b.join(" ")];
  return first === second ? a : [either(first, second, " ≠ ")].filter(Boolean);
}

/** Sizes of the array with the most elements; of those without sizes, nothing. */
function largest(shapes: number[][]): string {
  const size = (shape: number[]): number => shape.reduce((product, length) => product * length, 1);
  const found = shapes.filter((shape) => shape.length).sort((a, b) => size(b) - size(a))[0];
  return found?.join("×") ?? "";
}

function either(a: string, b: string, between: string): string {
  return a === b ? a : [a, b].filter(Boolean).join(between);
}

function gravest(items: UnionItem[]): ItemStatus {
  let worst: ItemStatus = "PLAIN";
  for (const { status } of items) if (LOOKS[status].weight > LOOKS[worst].weight) worst = status;
  return worst;
}

function shares(items: UnionItem[]): [ItemStatus, number][] {
  const counts = new Map<ItemStatus, number>();
  for (const { status } of items) counts.set(status, (counts.get(status) ?? 0) + 1);
  return [...counts].sort((a, b) => LOOKS[b[0]].weight - LOOKS[a[0]].weight);
}

/** The first part of a name (res2a of res2a_branch1) that most names share, if it has a number. */
function commonStem(names: string[]): string {
  const counts = new Map<string, number>();
  for (const name of names) {
    const stem = name.split(/[/_.:\-]/)[0]!;
    if (/[A-Za-z].*\d/.test(stem)) counts.set(stem, (counts.get(stem) ?? 0) + 1);
  }
  const [stem, count] = [...counts].sort((a, b) => b[1] - a[1])[0] ?? ["", 0];
  return names.length > 1 && count * 3 >= names.length ? stem : "";
}

/** What all names begin with, up to a separator: res2a of res2a_branch1 and res2a_branch2. */
export function commonPrefix(names: string[]): string {
  if (names.length < 2) return "";
  let prefix = names[0]!;
  for (const name of names) {
    while (prefix && !name.startsWith(prefix)) prefix = prefix.slice(0, -1);
    if (!prefix) return "";
  }
  if (names.some((name) => /[A-Za-z0-9]/.test(name[prefix.length] ?? ""))) {
    prefix = /[/_.:\-]$/.test(prefix)
      ? prefix
      : prefix.replace(/(?<=[/_.:\-]|\d)[A-Za-z]+$|[/_.:\-]\d+$/, "");
  }
  prefix = prefix.replace(/[/_.:\-]+$/, "");
  return prefix.length >= 2 ? prefix : "";
}
