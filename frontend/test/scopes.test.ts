/** Modules that names tell, and what layers are called inside them. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { Layouter } from "../src/viewer/layout/layout.ts";
import { BETWEEN } from "../src/viewer/layout/scopes.ts";
import type { Item } from "../src/viewer/model/document.ts";
import { bypassed } from "../src/viewer/model/idle.ts";
import { leafName, modulesOf } from "../src/viewer/model/scopes.ts";
import { graphOf, residual } from "./graphs.ts";

test("names tell modules", () => {
  assert.deepEqual(modulesOf("/layer1/layer1.0/conv1/Conv"), ["layer1", "layer1.0", "conv1"]);
  assert.deepEqual(modulesOf("layer1.0.conv1"), ["layer1", "layer1.0"]);
  assert.deepEqual(modulesOf("/b.0/attn/Softmax"), ["b.0", "attn"]);
  assert.deepEqual(modulesOf("features.12"), ["features"]);
  assert.deepEqual(modulesOf("res2a_branch1"), []);
});

test("a layer is called what its module does not say", () => {
  const named = (name: string, type: string, ...shown: string[]): string =>
    leafName({ name, type } as Item, (module) => shown.includes(module));
  assert.equal(named("/layer1/layer1.0/conv1/Conv", "Conv", "layer1", "layer1.0"), "conv1");
  assert.equal(named("/layer1/layer1.0/relu_1/Relu", "Relu", "layer1", "layer1.0"), "relu_1");
  assert.equal(named("/b.0/Add_1", "Add", "b.0"), "Add_1");
  assert.equal(named("/b.0/Add", "Add", "b.0"), "");
  assert.equal(named("layer1.0.conv1", "Conv2d", "layer1.0"), "conv1");
  assert.equal(named("features.12", "ReLU", "features"), "features.12");
  assert.equal(named("conv1", "Convolution"), "conv1");
});

/** Blocks of four items as modules, each with the first two of its items in a module of its own. */
function modules(numBlocks: number): ReturnType<typeof residual> {
  const graph = residual(numBlocks);
  const path = (id: number): string => {
    const block = `b.${Math.floor((id - 1) / 4)}`;
    return (id - 1) % 4 < 2 ? [block, "inner"].join(BETWEEN) : block;
  };
  return {
    ...graph,
    scopes: Array.from({ length: graph.count }, (_, id) => (id && id < graph.count - 1 ? path(id) : "")),
  };
}

test("equal modules in a row are one, with their number, and hold their own", () => {
  const graph = modules(20);
  const { tree } = new Layouter(graph);
  assert.equal(tree.roots.length, 3);
  const run = tree.folds[tree.roots[1]! - graph.count]!;
  assert.deepEqual([run.kind, run.name, run.children.length], ["run", "b", 20]);
  const block = tree.folds[run.children[7]! - graph.count]!;
  assert.deepEqual([block.kind, block.name, block.children.length], ["scope", "b.7", 3]);
  assert.equal(tree.folds[block.children[0]! - graph.count]!.name, "inner");
});

test("a module that matters is not among its equals", () => {
  const graph = modules(20);
  graph.matters[4 * 7 + 1] = 1;
  const { tree } = new Layouter(graph);
  const told = tree.roots.slice(1, -1).map((id) => tree.folds[id - graph.count]!);
  assert.deepEqual(
    told.map(({ kind, name, children }) => [kind, name, children.length]),
    [
      ["run", "b", 7],
      ["scope", "b.7", 3],
      ["run", "b", 12],
    ],
  );
});

test("a module through which others pass is cut, and nothing goes up", () => {
  const graph = graphOf(4, [
    [0, 1],
    [1, 2],
    [2, 3],
  ]);
  graph.scopes = ["m", "n", "m", "n"];
  const { tree } = new Layouter(graph);
  assert.deepEqual(tree, { folds: [], roots: [0, 1, 2, 3] });
});

test("what is left out is passed by", () => {
  const edge = (source: number, target: number, sides = 3): Parameters<typeof bypassed>[0][0] => ({
    source,
    target,
    sides,
    back: false,
  });
  const edges = [edge(0, 1), edge(1, 2), edge(2, 3, 1), edge(2, 4, 2), edge(5, 4)];
  assert.deepEqual(bypassed(edges, new Set([1, 2, 5])), [edge(0, 3, 1), edge(0, 4, 2)]);
});
