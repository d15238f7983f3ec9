/**
 * Positions across: U. Brandes and B. Köpf, "Fast and Simple Horizontal Coordinate Assignment", 2001, as an
 * operator for d3-dag, whose own are quick and crooked (greedy) or straight and slow (simplex).
 *
 * Chains stay straight, whatever runs beside them; time is linear.
 */

import type { SugiNode, SugiSeparation } from "d3-dag";

interface Cells {
  layers: number[][];
  layerOf: Int32Array;
  place: Int32Array;
  above: number[][];
  below: number[][];
  isBend: Uint8Array;
}

export function straight<N, L>(layers: SugiNode<N, L>[][], separation: SugiSeparation<N, L>): number {
  const nodes = layers.flat();
  const cells = cellsOf(layers, nodes);
  const gap = (left: number, right: number): number => separation(nodes[left], nodes[right]);
  const conflicts = findConflicts(cells);
  const candidates: Float64Array[] = [];
  for (const down of [true, false]) {
    for (const right of [false, true]) candidates.push(assign(cells, conflicts, gap, down, right));
  }
  align(
    candidates,
    nodes.map((node) => separation(undefined, node)),
  );
  let left = Infinity;
  let end = -Infinity;
  const x = nodes.map((_, index) => {
    const sorted = candidates.map((candidate) => candidate[index]!).sort((a, b) => a - b);
    return (sorted[1]! + sorted[2]!) / 2;
  });
  centreWaists(cells, x);
  nodes.forEach((node, index) => {
    left = Math.min(left, x[index]! - separation(undefined, node));
    end = Math.max(end, x[index]! + separation(node, undefined));
  });
  nodes.forEach((node, index) => (node.x = x[index]! - left));
  return end - left;
}

/**
 * Put all waists below one another: rows of one cell that everything around passes through.
 *
 * Between two waists a net hangs on nothing else, so that whole rows can be moved. Without it a long net of
 * equal blocks drifts aside, a little with each block.
 */
function centreWaists(cells: Cells, x: number[]): void {
  const { layers, above, below } = cells;
  const isWaist = (row: number): boolean =>
    layers[row]!.length === 1 &&
    (layers[row - 1] ?? []).every((cell) => below[cell]!.length) &&
    (layers[row + 1] ?? []).every((cell) => above[cell]!.length);
  let last: number | undefined;
  let waiting: number[] = [];
  const move = (rows: number[], by: number): void => {
    for (const row of rows) for (const cell of layers[row]!) x[cell]! -= by;
  };
  layers.forEach((cells_, row) => {
    if (!isWaist(row)) {
      waiting.push(row);
      return;
    }
    const at = x[cells_[0]!]!;
    move(waiting, last === undefined ? at : (last + at) / 2);
    move([row], at);
    last = at;
    waiting = [];
  });
  if (last !== undefined) move(waiting, last);
}

function cellsOf<N, L>(layers: SugiNode<N, L>[][], nodes: SugiNode<N, L>[]): Cells {
  const number = new Map(nodes.map((node, index) => [node, index]));
  const cells: Cells = {
    layers: layers.map((layer) => layer.map((node) => number.get(node)!)),
    layerOf: new Int32Array(nodes.length),
    place: new Int32Array(nodes.length),
    above: nodes.map(() => []),
    below: nodes.map(() => []),
    isBend: new Uint8Array(nodes.length),
  };
  cells.layers.forEach((layer, row) => {
    layer.forEach((index, place) => {
      cells.layerOf[index] = row;
      cells.place[index] = place;
    });
  });
  nodes.forEach((node, index) => {
    cells.isBend[index] = node.data.role === "link" ? 1 : 0;
    for (const child of node.children()) {
      const other = number.get(child)!;
      cells.below[index]!.push(other);
      cells.above[other]!.push(index);
    }
  });
  const byPlace = (a: number, b: number): number => cells.place[a]! - cells.place[b]!;
  for (const list of [...cells.above, ...cells.below]) list.sort(byPlace);
  return cells;
}

/** Edges that cross a stretch between two bends of a long edge; they give way to it. */
function findConflicts(cells: Cells): Set<string> {
  const found = new Set<string>();
  for (const layer of cells.layers.slice(1)) {
    let scanned = 0;
    let low = 0;
    layer.forEach((cell, place) => {
      const upper = cells.isBend[cell] ? cells.above[cell]?.find((other) => cells.isBend[other]) : undefined;
      if (upper === undefined && place < layer.length - 1) return;
      const high = upper === undefined ? Infinity : cells.place[upper]!;
      for (; scanned <= place; scanned++) {
        const other = layer[scanned]!;
        for (const parent of cells.above[other]!) {
          const at = cells.place[parent]!;
          const isInner = cells.isBend[parent] && cells.isBend[other];
          if ((at < low || at > high) && !isInner) found.add(`${parent} ${other}`);
        }
      }
      low = high;
    });
  }
  return found;
}

/** One of the four assignments: layers taken downwards or upwards, cells pressed to the left or the right. */
function assign(
  cells: Cells,
  conflicts: Set<string>,
  gap: (left: number, right: number) => number,
  down: boolean,
  right: boolean,
): Float64Array {
  const count = cells.place.length;
  const rows = (down ? cells.layers : [...cells.layers].reverse()).map((row) =>
    right ? [...row].reverse() : row,
  );
  const at = (cell: number): number =>
    right ? cells.layers[cells.layerOf[cell]!]!.length - 1 - cells.place[cell]! : cells.place[cell]!;
  const root = verticalBlocks(cells, rows, at, conflicts, down, right);
  const before = new Int32Array(count).fill(-1);
  for (const row of rows) row.forEach((cell, index) => (before[cell] = index ? row[index - 1]! : -1));
  const distance = (left: number, cell: number): number => (right ? gap(cell, left) : gap(left, cell));
  const x = compact(rows, root, before, distance);
  if (right) for (let cell = 0; cell < count; cell++) x[cell] = -x[cell]!;
  return x;
}

function verticalBlocks(
  cells: Cells,
  rows: number[][],
  at: (cell: number) => number,
  conflicts: Set<string>,
  down: boolean,
  right: boolean,
): Int32Array {
  const root = new Int32Array(cells.place.length).map((_, index) => index);
  const next = Int32Array.from(root);
  for (const row of rows) {
    let reached = -1;
    for (const cell of row) {
      const listed = (down ? cells.above : cells.below)[cell]!;
      const near = right ? [...listed].reverse() : listed;
      const middle = (near.length - 1) / 2;
      for (let index = Math.floor(middle); index <= Math.ceil(middle) && near.length; index++) {
        const other = near[index]!;
        const key = down ? `${other} ${cell}` : `${cell} ${other}`;
        if (next[cell] !== cell || at(other) <= reached || conflicts.has(key)) continue;
        next[other] = cell;
        root[cell] = root[other]!;
        next[cell] = root[cell]!;
        reached = at(other);
      }
    }
  }
  return root;
}

/** Press blocks together: each as near as its left neighbours allow, then back towards its right ones. */
function compact(
  rows: number[][],
  root: Int32Array,
  before: Int32Array,
  distance: (left: number, cell: number) => number,
): Float64Array {
  const count = root.length;
  const lefts: [number, number][][] = Array.from({ length: count }, () => []);
  const rights: [number, number][][] = Array.from({ length: count }, () => []);
  for (const row of rows) {
    for (const cell of row) {
      const left = before[cell]!;
      if (left < 0) continue;
      const needed = distance(left, cell);
      lefts[root[cell]!]!.push([root[left]!, needed]);
      rights[root[left]!]!.push([root[cell]!, needed]);
    }
  }
  const x = new Float64Array(count);
  const order = blockOrder(root, lefts);
  for (const block of order) {
    for (const [left, needed] of lefts[block]!) x[block] = Math.max(x[block]!, x[left]! + needed);
  }
  for (const block of order.reverse()) {
    let most = Infinity;
    for (const [other, needed] of rights[block]!) most = Math.min(most, x[other]! - needed);
    if (most !== Infinity) x[block] = Math.max(x[block]!, most);
  }
  for (let cell = 0; cell < count; cell++) x[cell] = x[root[cell]!]!;
  return x;
}

/** Blocks so that each comes after those on its left. */
function blockOrder(root: Int32Array, lefts: [number, number][][]): number[] {
  const state = new Uint8Array(root.length);
  const order: number[] = [];
  for (let start = 0; start < root.length; start++) {
    if (root[start] !== start || state[start]) continue;
    const stack = [start];
    while (stack.length) {
      const block = stack[stack.length - 1]!;
      state[block] = Math.max(state[block]!, 1);
      const open = lefts[block]!.find(([left]) => !state[left]);
      if (open) {
        stack.push(open[0]);
      } else {
        stack.pop();
        if (state[block] !== 2) order.push(block);
        state[block] = 2;
      }
    }
  }
  return order;
}

/** Shift the four assignments over the narrowest one: those pressed left by their left ends, the others right. */
function align(candidates: Float64Array[], halves: number[]): void {
  const spans = candidates.map((x) => {
    let low = Infinity;
    let high = -Infinity;
    x.forEach((value, index) => {
      low = Math.min(low, value - halves[index]!);
      high = Math.max(high, value + halves[index]!);
    });
    return { low, high };
  });
  const narrowest = spans.reduce((best, span) => (span.high - span.low < best.high - best.low ? span : best));
  candidates.forEach((x, index) => {
    const span = spans[index]!;
    const shift = index % 2 === 0 ? narrowest.low - span.low : narrowest.high - span.high;
    for (let cell = 0; cell < x.length; cell++) x[cell]! += shift;
  });
}
