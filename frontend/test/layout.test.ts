/** Folds and layouts of graphs drawn at random hold what is promised of every graph. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { BOX_WIDTH, type Layout, type LayoutGraph, Layouter } from "../src/viewer/layout/layout.ts";
import { drawn, graphOf, random, residual } from "./graphs.ts";

const SEEDS = Array.from({ length: 60 }, (_, seed) => seed);

function leavesOf(layouter: Layouter, count: number, id: number): number[] {
  if (id < count) return [id];
  return layouter.tree.folds[id - count]!.children.flatMap((child) => leavesOf(layouter, count, child));
}

/** The folds that are open: all of which the parents are, too, with a chance of one half each. */
function someOpen(layouter: Layouter, count: number, seed: number): Set<number> {
  const next = random(seed);
  const open = new Set<number>();
  const visit = (id: number): void => {
    if (id < count || next() < 0.5) return;
    open.add(id);
    layouter.tree.folds[id - count]!.children.forEach(visit);
  };
  layouter.tree.roots.forEach(visit);
  return open;
}

function check(graph: LayoutGraph, layout: Layout): void {
  const place = new Map([...layout.ids].map((id, index) => [id, index]));
  const box = (id: number): [number, number, number] => {
    const index = place.get(id)!;
    return [layout.x[index]!, layout.y[index]!, layout.heights[index]!];
  };
  for (const edge of layout.edges) {
    const [, from, height] = box(edge.source);
    const [, to, other] = box(edge.target);
    assert(from + height / 2 <= to - other / 2, `edge ${edge.source} to ${edge.target} goes up`);
  }
  const ids = [...layout.ids];
  ids.forEach((a, index) => {
    for (const b of ids.slice(index + 1)) {
      const [xa, ya, ha] = box(a);
      const [xb, yb, hb] = box(b);
      const isApart = Math.abs(xa - xb) >= BOX_WIDTH - 0.01 || Math.abs(ya - yb) >= (ha + hb) / 2 - 0.01;
      assert(isApart, `${a} and ${b} of ${graph.count} overlap`);
    }
  });
}

test("every item is in the tree of folds once", () => {
  for (const seed of SEEDS) {
    const graph = drawn(seed);
    const layouter = new Layouter(graph);
    const leaves = layouter.tree.roots.flatMap((root) => leavesOf(layouter, graph.count, root));
    assert.deepEqual(
      leaves.sort((a, b) => a - b),
      [...graph.order],
    );
  }
});

test("whatever is folded, edges go down and boxes do not overlap", () => {
  for (const seed of SEEDS) {
    const graph = drawn(seed);
    const layouter = new Layouter(graph);
    check(graph, layouter.layout(new Set()));
    check(graph, layouter.layout(someOpen(layouter, graph.count, seed)));
    check(graph, layouter.layout(new Set(layouter.tree.folds.map((_, index) => graph.count + index))));
  }
});

test("equal blocks are one run, and each begins where the way around it does", () => {
  const graph = residual(20);
  const { tree } = new Layouter(graph);
  const [stem, run, head] = tree.roots as [number, number, number];
  assert.equal(tree.roots.length, 3);
  assert.deepEqual([stem, head], [0, graph.count - 1]);
  const fold = tree.folds[run - graph.count]!;
  assert.equal(fold.kind, "run");
  assert.equal(fold.children.length, 20);
  const second = tree.folds[fold.children[1]! - graph.count]!;
  assert.equal(second.kind, "block");
  assert.deepEqual(leavesOf(new Layouter(graph), graph.count, fold.children[1]!), [5, 6, 7, 8]);
});

test("a chain stays straight beside the way around it", () => {
  const graph = residual(3);
  const layout = new Layouter(graph).layout(new Set(Array.from({ length: 99 }, (_, index) => index)));
  const x = (id: number): number => layout.x[[...layout.ids].indexOf(id)]!;
  for (const first of [1, 5, 9]) {
    assert.equal(x(first), x(first + 1));
    assert.equal(x(first + 1), x(first + 2));
  }
});

test("a long net of equal blocks does not drift aside", () => {
  const graph = residual(100);
  const layout = new Layouter(graph).layout(new Set(Array.from({ length: 999 }, (_, index) => index)));
  const x = (id: number): number => layout.x[[...layout.ids].indexOf(id)]!;
  for (let block = 0; block < 100; block++) assert(Math.abs(x(4 * block) - x(0)) < 0.01);
});

test("branches of a block fold by themselves", () => {
  const chain = (from: number): [number, number][] => [
    [0, from],
    [from, from + 1],
    [from + 1, from + 2],
    [from + 2, 10],
  ];
  const { tree } = new Layouter(graphOf(11, [1, 4, 7].flatMap(chain)));
  assert.equal(tree.folds.filter((fold) => fold.kind === "branch").length, 3);
});

test("a long chain without structure is cut into sections", () => {
  const count = 20_000;
  const next = random(1);
  const edges = Array.from({ length: count - 1 }, (_, index): [number, number] => [index, index + 1]);
  const layouter = new Layouter(graphOf(count, edges, edges.map(() => Math.floor(next() * 1e6)).concat(1)));
  const start = performance.now();
  const layout = layouter.layout(layouter.openAtFirst());
  assert(layout.ids.length < 200);
  assert(performance.now() - start < 5000);
});

test("what matters is not hidden at first", () => {
  const graph = residual(200);
  graph.matters[401] = 1;
  const layouter = new Layouter(graph);
  const layout = layouter.layout(layouter.openAtFirst());
  assert([...layout.ids].includes(401));
  assert(layout.ids.length < 260);
});

test("what one net lacks stands in the column of what both have, and the other's edge leads through the gap", () => {
  // 2 and 3 are in A alone; B's edge leads from 1 to 4, and a way around from 0 to 5 is in both
  const edges: [number, number][] = [[0, 1], [1, 2], [2, 3], [3, 4], [1, 4], [4, 5], [0, 5]]; // prettier-ignore
  const graph = { ...graphOf(6, edges), sides: Uint8Array.from([3, 1, 1, 1, 2, 3, 3]) };
  const layouter = new Layouter(graph);
  const layout = layouter.layout(new Set(layouter.tree.folds.map((_, index) => graph.count + index)));
  check(graph, layout);
  const place = new Map([...layout.ids].map((id, index) => [id, index]));
  const column = layout.x[place.get(1)!]!;
  for (const id of [2, 3, 4]) assert(Math.abs(layout.x[place.get(id)!]! - column) < 1, `${id} is beside`);
  const past = layout.edges.find(({ source, target }) => source === 1 && target === 4)!;
  assert.equal(past.sides, 2);
  assert.equal(past.bends.length, 8);
  past.bends.forEach((at, index) => index % 2 || assert(Math.abs(at - column) < 1));
  const heights = past.bends.filter((_, index) => index % 2);
  assert.deepEqual(
    heights,
    [...heights].sort((a, b) => a - b),
  );
});

test("edges of one net alone are laid out, or lead through boxes of the other", () => {
  for (const seed of SEEDS) {
    const next = random(seed);
    const graph = drawn(seed);
    graph.sides.forEach((_, edge) => (graph.sides[edge] = 1 + Math.floor(next() * 3)));
    const layouter = new Layouter(graph);
    const layout = layouter.layout(someOpen(layouter, graph.count, seed));
    check(graph, layout);
    assert(layout.edges.every(({ bends }) => bends.every(Number.isFinite)));
  }
});
