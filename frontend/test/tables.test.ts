import assert from "node:assert/strict";
import { test } from "node:test";

import type { ComparisonDocument } from "../src/viewer/model/document.ts";
import { type StoredDocument, entriesOf, withRows } from "../src/viewer/model/tables.ts";

test("a column is a list, values with places, or one value for all rows", () => {
  assert.deepEqual(entriesOf(["a", "b"], 2), ["a", "b"]);
  assert.deepEqual(entriesOf({ values: ["a", "b"], at: [1, 0, 1] }, 3), ["b", "a", "b"]);
  assert.deepEqual(entriesOf({ values: [null] }, 2), [null, null]);
  assert.deepEqual(entriesOf(undefined, 2), []);
});

const cost = { parameters: [9], multiply_adds: { values: [81] }, activation_bytes: [4], exact: [true] };

function net(name: string): unknown {
  return {
    name,
    inputs: [0],
    outputs: [1],
    layers: {
      count: 2,
      columns: {
        key: ["conv", "conv#1"],
        name: [null, "conv"],
        type: { values: ["Conv"] },
        settings: { values: [[["pad", "1"]]] },
        inputs: [[0], [1]],
        outputs: [[1], [2]],
        parameters: [[0], []],
        file: { values: ["a.prototxt"] },
        line: [3, 9],
        text: { values: [null] },
        call: { values: [0, 1], at: [0, 1] },
        cost: { values: [null] },
      },
    },
    nodes: {
      count: 1,
      columns: {
        name: ["conv"],
        type: ["Conv"],
        settings: [[]],
        inputs: [[0]],
        outputs: [[1]],
        parameters: [[0]],
        constants: [[2]],
        layers: [[0]],
        cost: { count: 1, columns: cost },
      },
    },
    values: {
      count: 3,
      columns: { name: ["x", "y", "w"], sizes: { values: [["N", 3], null], at: [0, 0, 1] } },
    },
    parameters: {
      count: 2,
      columns: {
        key: ["conv/0", "conv/1"],
        shape: [[3], [null]],
        role: ["weight", "bias"],
        loaded: [true, true],
      },
    },
    statistics: {
      count: 2,
      columns: {
        parameter: [1, 0],
        size: { values: [3] },
        non_finite: [3, 0],
        min: [null, -1],
        max: [null, 1],
        mean: [null, 0],
        std: [null, 0.5],
        zeros: [null, 1],
        histogram: [null, [1, 1, 1]],
      },
    },
  };
}

const stored = {
  version: 3,
  kind: "comparison",
  title: "a and b",
  nets: [net("a"), net("b")],
  groups: {
    count: 1,
    columns: {
      nodes: [[[0], [0]]],
      layers: [[[0], [0]]],
      sides: { values: [[true, true]] },
      status: ["EQUAL"],
      evidence: ["VALUES"],
      error: [0],
      isolated_error: { values: [null] },
      rounding_error: { values: [null] },
      mapping: [""],
      finding: { values: [null] },
      values: { values: [null] },
    },
  },
  weights: {
    count: 1,
    columns: {
      group: [0],
      role: ["weight"],
      keys: [[0, 1]],
      channels: [[0.5]],
      num_channels: [1],
      transposed: [false],
    },
  },
};

test("each row of a stored document becomes an object", async () => {
  const shown = (await withRows(stored as unknown as StoredDocument)) as ComparisonDocument;
  const [a] = shown.nets;
  assert.deepEqual(
    a.layers.map(({ key, name, type, line, call, cost: own }) => [key, name, type, line, call, own]),
    [
      ["conv", "conv", "Conv", 3, 0, null],
      ["conv#1", "conv", "Conv", 9, 1, null],
    ],
  );
  assert.deepEqual(a.values, [
    ["x", ["N", 3]],
    ["y", ["N", 3]],
    ["w", null],
  ]);
  const [node] = a.nodes;
  assert.deepEqual(node!.constants, [["w", null]]);
  assert.deepEqual(node!.cost, { parameters: 9, multiply_adds: 81, activation_bytes: 4, exact: true });
  assert.deepEqual(
    a.parameters.map(({ statistics }) => statistics),
    [
      { size: 3, non_finite: 0, min: -1, max: 1, mean: 0, std: 0.5, zeros: 1, histogram: [1, 1, 1] },
      { size: 3, non_finite: 3 },
    ],
  );
  const weights = {
    role: "weight",
    keys: ["conv/0", "conv/1"],
    channels: [0.5],
    num_channels: 1,
    transposed: false,
  };
  assert.deepEqual(shown.groups[0]!.weights, [weights]);
  assert.equal(shown.groups[0]!.status, "EQUAL");
  assert.equal(shown.groups[0]!.functions, null); // documents of earlier releases have no such column
  assert.deepEqual(Object.keys(shown), ["version", "kind", "title", "nets", "groups"]);
});

test("a net of which only the layers are known has no nodes", async () => {
  const rest: Record<string, unknown> = { ...stored };
  delete rest["groups"];
  delete rest["weights"];
  const empty = { count: 0, columns: {} };
  const only = { ...(net("a") as object), nodes: empty, statistics: empty };
  const shown = await withRows({ ...rest, kind: "net", nets: [only] } as unknown as StoredDocument);
  assert.deepEqual(shown.nets[0].nodes, []);
  assert.equal(shown.nets[0].layers.length, 2);
  assert.equal(shown.nets[0].parameters[0]!.statistics, null);
});
