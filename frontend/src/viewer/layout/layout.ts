/** Where everything stands: both nets as one layered graph, so that what belongs together has one height. */

import {
  decrossTwoLayer,
  graph,
  layeringLongestPath,
  layeringSimplex,
  sugiyama,
  twolayerAgg,
  twolayerGreedy,
} from "d3-dag";

import { straight } from "./coordinates.ts";
import { type Fold, type FoldTree, type Shape, foldTree } from "./folds.ts";

/** What the worker is given once. */
export interface LayoutGraph extends Shape {
  /** Bits of the nets that an edge is in. */
  sides: Uint8Array;
  /** Edges against the order; drawn, not laid out. */
  backSources: Int32Array;
  backTargets: Int32Array;
  backSides: Uint8Array;
  heights: Float32Array;
}

/** Where the visible items and folds stand: centres and sizes. */
export interface Layout {
  width: number;
  height: number;
  /** Items, and folds from `count` on. */
  ids: Int32Array;
  x: Float32Array;
  y: Float32Array;
  heights: Float32Array;
  edges: LaidEdge[];
}

export interface LaidEdge {
  source: number;
  target: number;
  sides: number;
  back: boolean;
  /** Corners between the two, x and y in turn. */
  bends: number[];
}

export const BOX_WIDTH = 184;
export const FOLD_HEIGHT = 46;
const GAP_ACROSS = 20;
const GAP_DOWN = 20;
/** Room above a box for the label of a frame that begins with it. */
export const LABEL_HEIGHT = 14;

/** Rows and columns of boxes up to which folds are opened without being asked for: a screen of legible boxes. */
const ROWS_AT_FIRST = 18;
const COLUMNS_AT_FIRST = 5;
/** Rows for a net of which less than so many boxes would be shown: smaller, but more than its name. */
const MORE_ROWS_AT_FIRST = 24;
const FEW_BOXES = 8;
/** Visible items up to which unfolding goes on to show differences. */
const SHOWN_FOR_DIFFERENCES = 260;
/** Visible items up to which rows are chosen so that edges are as short as can be. */
const MAX_EXACT_ROWS = 1200;

export class Layouter {
  readonly tree: FoldTree;

  constructor(private readonly net: LayoutGraph) {
    this.tree = foldTree(net);
  }

  /** The folds that are open at first: those with differences in them, then as many as one screen has room for. */
  openAtFirst(): Set<number> {
    const { count } = this.net;
    const open = this.openWhenFolded();
    let shown = this.tree.roots.length;
    const unfold = (id: number): void => {
      open.add(id);
      shown += this.fold(id).children.length - 1;
    };
    const holding = this.holding();
    const queue = [...this.tree.roots];
    for (let index = 0; index < queue.length; index++) {
      const id = queue[index]!;
      if (id < count || !holding.has(id) || shown > SHOWN_FOR_DIFFERENCES) continue;
      unfold(id);
      queue.push(...this.fold(id).children);
    }
    return this.openWhileRoom(open, () => true);
  }

  /** What stays open when everything is folded: what only joins the net's modules, while one screen holds them. */
  openWhenFolded(): Set<number> {
    return this.openWhileRoom(new Set(), (id) => this.fold(id).kind === "run");
  }

  /** Open folds of one level after the other, those of a level together, while the whole fits on a screen. */
  private openWhileRoom(open: Set<number>, mayOpen: (id: number) => boolean): Set<number> {
    const { count } = this.net;
    let level = this.tree.roots;
    while (level.length) {
      const folds = level.filter((id) => id >= count);
      const closed = folds.filter((id) => !open.has(id) && mayOpen(id));
      const together = new Set([...open, ...closed]);
      const most = this.numShown(open) < FEW_BOXES ? MORE_ROWS_AT_FIRST : ROWS_AT_FIRST;
      if (closed.length && this.fitsScreen(together, most)) for (const id of closed) open.add(id);
      else for (const id of closed) if (closed.length > 1 && this.isSmallEnough(open, id)) open.add(id);
      level = folds.filter((id) => open.has(id)).flatMap((id) => this.fold(id).children);
    }
    return open;
  }

  private numShown(open: ReadonlySet<number>): number {
    const shownAs = this.shownAs(open);
    return new Set(Array.from(this.net.order, (item) => shownAs[item]!)).size;
  }

  /** Whether a run may be opened alone: its blocks are what the net is made of. */
  private isSmallEnough(open: ReadonlySet<number>, id: number): boolean {
    return this.fold(id).kind === "run" && this.fitsScreen(new Set([...open, id]));
  }

  /** Whether a screen holds what is visible with folds open, by its longest way and its fullest row. */
  private fitsScreen(open: ReadonlySet<number>, most = ROWS_AT_FIRST): boolean {
    const shownAs = this.shownAs(open);
    const visible = new Set(Array.from(this.net.order, (item) => shownAs[item]!));
    if (visible.size > most * COLUMNS_AT_FIRST) return false;
    const targets = new Map<number, Set<number>>();
    const waiting = new Map<number, number>();
    for (const { source, target, back } of this.edges(shownAs)) {
      if (back) continue;
      targets.set(source, (targets.get(source) ?? new Set()).add(target));
      waiting.set(target, (waiting.get(target) ?? 0) + 1);
    }
    let row = [...visible].filter((id) => !waiting.get(id));
    for (let rows = 0; row.length; rows++) {
      if (rows === most || (rows && row.length > COLUMNS_AT_FIRST)) return false;
      const next: number[] = [];
      for (const id of row) {
        for (const target of targets.get(id) ?? []) {
          const left = waiting.get(target)! - 1;
          waiting.set(target, left);
          if (!left) next.push(target);
        }
      }
      row = next;
    }
    return true;
  }

  /** Folds with something in them that matters. */
  private holding(): Set<number> {
    const { count, matters } = this.net;
    const found = new Set<number>();
    const parents = parentsOf(this.tree, count);
    for (let item = 0; item < count; item++) {
      if (!matters[item]) continue;
      for (let id = parents[item]!; id >= 0 && !found.has(id); id = this.fold(id).parent) found.add(id);
    }
    return found;
  }

  private fold(id: number): Fold {
    return this.tree.folds[id - this.net.count]!;
  }

  layout(open: ReadonlySet<number>): Layout {
    const { count, order, heights } = this.net;
    const shownAs = this.shownAs(open);
    const ids = [...new Set(Array.from(order, (item) => shownAs[item]!))];
    const edges = this.edges(shownAs);
    const place = new Map(ids.map((id, index) => [id, index]));
    const heightOf = (id: number): number => (id < count ? heights[id]! : FOLD_HEIGHT);
    const above = this.labelsAbove(open, shownAs);
    const labelled = (id: number): number => LABEL_HEIGHT * (above.get(id) ?? 0);
    const gaps = gapsOf(edges);
    const dag = graph<number, LaidEdge>();
    const nodes = ids.map((id) => dag.node(id));
    for (const edge of edges) {
      if (!edge.back && !gaps.has(edge))
        dag.link(nodes[place.get(edge.source)!]!, nodes[place.get(edge.target)!]!, edge);
    }
    const lay = sugiyama()
      .layering(ids.length <= MAX_EXACT_ROWS ? layeringSimplex() : layeringLongestPath())
      .decross(
        decrossTwoLayer()
          .passes(ids.length > MAX_EXACT_ROWS ? 2 : 12)
          .order(twolayerGreedy().base(twolayerAgg())),
      )
      .coord(straight)
      .nodeSize((node: { data: number }) => [BOX_WIDTH, heightOf(node.data) + labelled(node.data)] as const)
      .gap([GAP_ACROSS, GAP_DOWN]);
    const { width, height } = ids.length ? lay(dag) : { width: 0, height: 0 };
    for (const link of dag.links()) {
      link.data.bends = link.points.slice(1, -1).flat();
    }
    for (const [edge, boxes] of gaps) {
      edge.bends = boxes.flatMap((id) => {
        const { x, y } = nodes[place.get(id)!]!;
        return [x, y - heightOf(id) / 2, x, y + heightOf(id) / 2];
      });
    }
    return {
      width,
      height,
      ids: Int32Array.from(ids),
      x: Float32Array.from(nodes, (node) => node.x),
      y: Float32Array.from(nodes, (node) => node.y + labelled(node.data) / 2),
      heights: Float32Array.from(ids, heightOf),
      edges,
    };
  }

  /** How many open folds begin with a box: their labels stand above it. */
  private labelsAbove(open: ReadonlySet<number>, shownAs: Int32Array): Map<number, number> {
    const found = new Map<number, number>();
    const firstLeaf = (id: number): number =>
      id < this.net.count ? id : firstLeaf(this.fold(id).children[0]!);
    const isSeen = (id: number): boolean => id < 0 || (open.has(id) && isSeen(this.fold(id).parent));
    for (const [index, { kind }] of this.tree.folds.entries()) {
      const id = this.net.count + index;
      if (kind === "branch" || !isSeen(id)) continue;
      const box = shownAs[firstLeaf(id)]!;
      found.set(box, (found.get(box) ?? 0) + 1);
    }
    return found;
  }

  /** For each item, itself or the outermost closed fold that it is in. */
  private shownAs(open: ReadonlySet<number>): Int32Array {
    const { count } = this.net;
    const found = new Int32Array(count);
    const visit = (id: number, as: number): void => {
      if (id < count) {
        found[id] = as < 0 ? id : as;
        return;
      }
      const inside = as >= 0 ? as : open.has(id) ? -1 : id;
      for (const child of this.fold(id).children) visit(child, inside);
    };
    for (const root of this.tree.roots) visit(root, -1);
    return found;
  }

  private edges(shownAs: Int32Array): LaidEdge[] {
    const { sources, targets, sides, backSources, backTargets, backSides } = this.net;
    const found = new Map<string, LaidEdge>();
    const take = (source: number, target: number, bits: number, back: boolean): void => {
      if (source === target) return;
      const edge = found.get(`${source} ${target}`);
      if (edge) edge.sides |= bits;
      else found.set(`${source} ${target}`, { source, target, sides: bits, back, bends: [] });
    };
    sources.forEach((source, edge) => {
      take(shownAs[source]!, shownAs[targets[edge]!]!, sides[edge]!, false);
    });
    backSources.forEach((source, edge) => {
      take(shownAs[source]!, shownAs[backTargets[edge]!]!, backSides[edge]!, true);
    });
    return [...found.values()];
  }
}

/** Boxes in a row that one net lacks, up to which the edge past them is drawn through the gap that they leave. */
const MAX_GAP = 12;

/**
 * Edges of one net past boxes that only the other has, each with these boxes.
 *
 * They take no part in the layout: what one net lacks then stands in the column of what both have.
 */
function gapsOf(edges: LaidEdge[]): Map<LaidEdge, number[]> {
  const leaving = new Map<number, LaidEdge[]>();
  const sidesOf = new Map<number, number>();
  for (const edge of edges) {
    leaving.set(edge.source, [...(leaving.get(edge.source) ?? []), edge]);
    for (const id of [edge.source, edge.target]) sidesOf.set(id, (sidesOf.get(id) ?? 0) | edge.sides);
  }
  const between = (edge: LaidEdge): number[] | undefined => {
    const other = 3 - edge.sides;
    let ways: number[][] = [[]];
    const seen = new Set<number>();
    while (ways.length) {
      const longer: number[][] = [];
      for (const way of ways) {
        for (const { target, back } of leaving.get(way.at(-1) ?? edge.source) ?? []) {
          if (target === edge.target && way.length) return way;
          if (back || seen.has(target) || sidesOf.get(target) !== other || way.length === MAX_GAP) continue;
          seen.add(target);
          longer.push([...way, target]);
        }
      }
      ways = longer;
    }
    return undefined;
  };
  const found = new Map<LaidEdge, number[]>();
  for (const edge of edges) {
    const boxes = edge.back || edge.sides === 3 ? undefined : between(edge);
    if (boxes) found.set(edge, boxes);
  }
  return found;
}

/** The fold that each item and fold is in, -1 at the top. */
export function parentsOf(tree: FoldTree, count: number): Int32Array {
  const parents = new Int32Array(count + tree.folds.length).fill(-1);
  tree.folds.forEach((fold, index) => {
    for (const child of fold.children) parents[child] = count + index;
  });
  return parents;
}
