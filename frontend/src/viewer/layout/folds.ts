/**
 * What folds: the modules that names tell, and where they tell none branches, blocks, and runs of equal blocks, found
 * in the structure alone.
 *
 * In an order of the union graph, an item is a *waist* if every path passes through it. Between two waists lies
 * a *region*, whose connected parts are branches. Waists and regions in turn are a sequence, in which tandem
 * repeats are runs of equal blocks. Everything that folds is an interval of the order, or a part of a region
 * that nothing else of the region touches, so that folding never makes a cycle.
 */

import { type Content, type Scope, scopesOf } from "./scopes.ts";

/** The union graph as numbers, fit to be sent to a worker. */
export interface Shape {
  count: number;
  /** Items so that none comes before one that it reads. */
  order: Int32Array;
  /** Edges that follow the order, and one more array with their sides (bits). */
  sources: Int32Array;
  targets: Int32Array;
  /** Equal numbers for items of equal types on both sides. */
  kinds: Int32Array;
  /** 1 where an item has stored arrays. */
  stores: Uint8Array;
  /** The modules that each item is in, the outermost first, as scopes.ts joins them. */
  scopes: string[];
  /** 1 where an item must not be hidden at first. */
  matters: Uint8Array;
}

export type FoldKind = "run" | "block" | "branch" | "section" | "scope";

/** A fold; its number is `count` plus its place in the list, and children below `count` are items. */
export interface Fold {
  kind: FoldKind;
  children: number[];
  parent: number;
  /** What names call it: a module, or what the modules of a run have in common. */
  name?: string;
}

/** Folds with their children, and what is at the top. */
export interface FoldTree {
  folds: Fold[];
  roots: number[];
}

const MIN_BRANCH = 3;
const MIN_BLOCK = 4;
const MIN_RUN = 6;
/** Inside a block only long runs fold, or there would be more frames than layers. */
const MIN_INNER_RUN = 30;
const MAX_PERIOD = 160;
const MAX_ROOTS = 150;
/** Equal modules in a row from which on they are a run. */
const MIN_REPEATS = 3;
/** Items of a module without modules in it from which on its structure is looked at. */
const MAX_FLAT = 24;

interface Element {
  children: number[];
  size: number;
  signature: number;
  isRegion: boolean;
  stores: boolean;
}

export function foldTree(shape: Shape): FoldTree {
  return new Folder(shape).fold();
}

class Folder {
  private readonly folds: Fold[] = [];
  private readonly outgoing: number[][];
  private readonly stamp: Int32Array;
  private readonly local: Int32Array;
  private readonly signatures = new Map<string, number>();
  private stamps = 0;

  constructor(private readonly shape: Shape) {
    this.outgoing = Array.from({ length: shape.count }, () => []);
    shape.sources.forEach((source, edge) => this.outgoing[source]?.push(shape.targets[edge]!));
    this.stamp = new Int32Array(shape.count);
    this.local = new Int32Array(shape.count);
  }

  fold(): FoldTree {
    const contents = scopesOf(this.shape, this.outgoing);
    const isNamed = contents.some((content) => typeof content === "object");
    const roots = this.sections(
      isNamed ? this.contents(contents) : this.sequence([...this.shape.order], MIN_RUN),
    );
    this.folds.forEach((fold, index) => {
      for (const child of fold.children) {
        if (child >= this.shape.count)
          this.folds[child - this.shape.count]!.parent = index + this.shape.count;
      }
    });
    return { folds: this.folds, roots };
  }

  private add(kind: FoldKind, children: number[], name?: string): number {
    this.folds.push(
      name === undefined ? { kind, children, parent: -1 } : { kind, children, parent: -1, name },
    );
    return this.shape.count + this.folds.length - 1;
  }

  /** Fold what is directly in a module, or in the whole: its modules, and long stretches of items by structure. */
  private contents(contents: Content[]): number[] {
    const found: number[] = [];
    let items: number[] = [];
    let alike: Scope[] = [];
    const endItems = (): void => {
      found.push(...(items.length > MAX_FLAT ? this.sequence(items, MIN_RUN) : items));
      items = [];
    };
    const endAlike = (): void => {
      found.push(...this.repeated(alike));
      alike = [];
    };
    let last = "";
    for (const content of contents) {
      if (typeof content === "number") {
        endAlike();
        items.push(content);
        continue;
      }
      endItems();
      const likeness = this.likeness(content);
      if (likeness !== last) endAlike();
      last = likeness;
      alike.push(content);
    }
    endItems();
    endAlike();
    return found;
  }

  /** Fold equal modules in a row. */
  private repeated(scopes: Scope[]): number[] {
    const folds = scopes.map((scope) => {
      const children = this.contents(scope.children);
      const [only] = children;
      // a module that holds nothing but a run of others is that run
      return children.length === 1 && only! >= this.shape.count
        ? only!
        : this.add("scope", children, scope.name);
    });
    if (folds.length < MIN_REPEATS) return folds;
    return [this.add("run", folds, stemOf(scopes[0]!.name))];
  }

  /** Equal texts for modules of one structure and one name up to its number, all or none of which matter. */
  private likeness({ name, members }: Scope): string {
    const stamp = this.mark(members);
    const parts = members.map((member) => {
      // what reads it behind the module is no part of the module
      const targets = this.outgoing[member]!.filter((target) => this.stamp[target] === stamp);
      return `${this.shape.kinds[member]}>${targets.map((target) => this.local[target]).join()}`;
    });
    const matters = members.some((member) => this.shape.matters[member]);
    return `${stemOf(name)} ${matters} ${this.signature(parts.join(";"))}`;
  }

  /** Fold a list of items, in order; return what is at its top. */
  private sequence(members: number[], minRun: number): number[] {
    return this.withRuns(this.elements(members), minRun);
  }

  private elements(members: number[]): Element[] {
    const stamp = this.mark(members);
    const reading = new Int32Array(members.length);
    for (const member of members) {
      for (const target of this.outgoing[member]!) {
        if (this.stamp[target] === stamp) reading[this.local[target]!]! += 1;
      }
    }
    const pieces: { members: number[]; isRegion: boolean }[] = [];
    let open = 0;
    let inner: number[] = [];
    const endRegion = (): void => {
      if (inner.length) pieces.push({ members: inner, isRegion: true });
      inner = [];
    };
    for (const member of members) {
      open -= reading[this.local[member]!]!;
      const leaving = this.outgoing[member]!.filter((target) => this.stamp[target] === stamp).length;
      if (open === 0) {
        endRegion();
        pieces.push({ members: [member], isRegion: false });
      } else {
        inner.push(member);
      }
      open += leaving;
    }
    endRegion();
    return pieces.map((piece) =>
      piece.isRegion ? this.region(piece.members) : this.waist(piece.members[0]!),
    );
  }

  private mark(members: number[]): number {
    this.stamps += 1;
    members.forEach((member, index) => {
      this.stamp[member] = this.stamps;
      this.local[member] = index;
    });
    return this.stamps;
  }

  private waist(member: number): Element {
    const { kinds, stores } = this.shape;
    const signature = this.signature(`w${kinds[member]}`);
    return { children: [member], size: 1, signature, isRegion: false, stores: stores[member] === 1 };
  }

  private region(inner: number[]): Element {
    const stamp = this.mark(inner);
    const texts = inner.map((member) => {
      const targets = this.outgoing[member]!.map((t) => (this.stamp[t] === stamp ? this.local[t] : "out"));
      return `${this.shape.kinds[member]}>${targets.join()}`;
    });
    const parts = this.parts(inner, stamp);
    const children = parts.flatMap((part) => this.branch(part, parts.length));
    const signature = this.signature(texts.join(";"));
    return { children, size: inner.length, signature, isRegion: true, stores: true };
  }

  private branch(part: number[], numParts: number): number[] {
    if (part.length < MIN_BRANCH) return part;
    const inner = part.length > 2 * MIN_BLOCK ? this.sequence(part, MIN_INNER_RUN) : part;
    return numParts > 1 ? [this.add("branch", inner)] : this.sections(inner);
  }

  /** The connected parts of a region, each in order. */
  private parts(inner: number[], stamp: number): number[][] {
    const parent = inner.map((_, index) => index);
    const find = (index: number): number => {
      let root = index;
      while (parent[root] !== root) root = parent[root]!;
      while (parent[index] !== root) [parent[index], index] = [root, parent[index]!];
      return root;
    };
    inner.forEach((member, index) => {
      for (const target of this.outgoing[member]!) {
        if (this.stamp[target] === stamp) parent[find(this.local[target]!)] = find(index);
      }
    });
    const found = new Map<number, number[]>();
    inner.forEach((member, index) => {
      const part = found.get(find(index));
      if (part) part.push(member);
      else found.set(find(index), [member]);
    });
    return [...found.values()];
  }

  private signature(text: string): number {
    let number = this.signatures.get(text);
    if (number === undefined) {
      number = this.signatures.size;
      this.signatures.set(text, number);
    }
    return number;
  }

  private withRuns(elements: Element[], minRun: number): number[] {
    const found: number[] = [];
    let from = 0;
    for (const run of tandemRuns(elements, minRun)) {
      found.push(...this.withBlocks(elements.slice(from, run.start)));
      const blocks: number[] = [];
      for (let index = 0; index < run.times; index++) {
        const start = run.start + index * run.period;
        const parts = elements.slice(start, start + run.period);
        const children = parts.flatMap((element) => element.children);
        blocks.push(children.length === 1 ? children[0]! : this.add("block", children));
      }
      found.push(this.add("run", blocks));
      from = run.start + run.times * run.period;
    }
    found.push(...this.withBlocks(elements.slice(from)));
    return found;
  }

  /** Fold each region with the waists behind it that only join it. */
  private withBlocks(elements: Element[]): number[] {
    const found: number[] = [];
    for (let index = 0; index < elements.length; index++) {
      const element = elements[index]!;
      const parts = [element];
      if (element.isRegion) {
        while (index + 1 < elements.length && parts.length < 3) {
          const next = elements[index + 1]!;
          if (next.isRegion || (parts.length > 1 && next.stores)) break;
          parts.push(next);
          index += 1;
        }
      }
      const children = parts.flatMap((part) => part.children);
      const size = parts.reduce((sum, part) => sum + part.size, 0);
      if (element.isRegion && size >= MIN_BLOCK) found.push(this.add("block", children));
      else found.push(...children);
    }
    return found;
  }

  /** Cut a list that is too long to be seen at once into sections. */
  private sections(list: number[]): number[] {
    if (list.length <= MAX_ROOTS) return list;
    const size = Math.max(12, Math.ceil(list.length / 60));
    const found: number[] = [];
    for (let from = 0; from < list.length; from += size) {
      found.push(this.add("section", list.slice(from, from + size)));
    }
    return found;
  }
}

interface Run {
  start: number;
  period: number;
  times: number;
}

/** Tandem repeats from left to right, at each place the one that covers most, of these the shortest period. */
function tandemRuns(elements: Element[], minRun: number): Run[] {
  const count = elements.length;
  const sizes = new Int32Array(count + 1);
  elements.forEach((element, index) => (sizes[index + 1] = sizes[index]! + element.size));
  const periods = Math.min(MAX_PERIOD, count >> 1);
  const same: Int32Array[] = [];
  for (let period = 1; period <= periods; period++) same.push(equalRuns(elements, period));
  const runs: Run[] = [];
  for (let index = 0; index < count;) {
    const run = bestRun(elements, same, sizes, index, minRun);
    if (run) runs.push(run);
    index = run ? run.start + run.period * run.times : index + 1;
  }
  return runs;
}

/** For each place, how many elements from there on equal the one a period later. */
function equalRuns(elements: Element[], period: number): Int32Array {
  const found = new Int32Array(elements.length + 1);
  for (let index = elements.length - 1 - period; index >= 0; index--) {
    const isSame = elements[index]!.signature === elements[index + period]!.signature;
    found[index] = isSame ? found[index + 1]! + 1 : 0;
  }
  return found;
}

function bestRun(
  elements: Element[],
  same: Int32Array[],
  sizes: Int32Array,
  index: number,
  minRun: number,
): Run | null {
  let best: Run | null = null;
  let covered = minRun - 1;
  for (let period = 1; period <= same.length; period++) {
    const length = same[period - 1]![index]!;
    if (length < period || repeatsRegion(elements, index, period)) continue;
    const run = aligned(elements, index, period, length + period);
    const size = sizes[run.start + run.times * run.period]! - sizes[run.start]!;
    const isEnough = run.times >= 2 && (run.period > 1 || run.times >= 4 || size > run.times);
    if (isEnough && size > covered) {
      covered = size;
      best = run;
    }
  }
  return best;
}

/** Whether a stretch holds two equal regions: then it is several blocks, not one. */
function repeatsRegion(elements: Element[], start: number, period: number): boolean {
  const seen = new Set<number>();
  for (let index = start; index < start + period; index++) {
    const { isRegion, signature } = elements[index]!;
    if (isRegion && seen.has(signature)) return true;
    if (isRegion) seen.add(signature);
  }
  return false;
}

/** Turn a run so that its blocks begin with a region, or else with something that has stored arrays. */
function aligned(elements: Element[], start: number, period: number, length: number): Run {
  const wanted = (test: (element: Element) => boolean): number => {
    for (let shift = 0; shift < period; shift++) {
      const before = elements[start + shift - 1];
      if (test(elements[start + shift]!) && !(before && shift === 0 && test(before))) return shift;
    }
    return -1;
  };
  for (const shift of [wanted((element) => element.isRegion), wanted((element) => element.stores), 0]) {
    const times = Math.floor((length - shift) / period);
    if (shift >= 0 && times >= 2) return { start: start + shift, period, times };
  }
  return { start, period, times: Math.floor(length / period) };
}

/** A name without the number that it ends in: b of b.17, encoder_layer of encoder_layer_3. */
function stemOf(name: string): string {
  return name.replace(/[._\-]?\d+$/, "") || name;
}
