/** The order that both nets share, also where they contradict each other. */

import assert from "node:assert/strict";
import { test } from "node:test";

import type { ComparisonDocument, Layer, Net } from "../src/viewer/model/document.ts";
import type { Model } from "../src/viewer/model/model.ts";
import { buildModel } from "../src/viewer/model/union.ts";
import { random } from "./graphs.ts";

/** A net of named layers, each with the names of those that it reads. */
function net(layers: [name: string, reads: string[]][]): Net {
  const number = new Map(layers.map(([name], index) => [name, index]));
  const made = layers.map(([name, reads], index): Layer => ({
    ...{
      key: name,
      name,
      type: "Conv",
      settings: [],
      parameters: [],
      cost: null,
      file: null,
      line: null,
      call: 0,
    },
    inputs: reads.map((read) => number.get(read)!),
    outputs: [index],
  }));
  return {
    ...{
      name: "net",
      format: "caffe",
      files: [],
      loaded: true,
      notes: [],
      inputs: [],
      outputs: [],
      nodes: [],
    },
    ...{ layers: made, values: layers.map(([name]) => [name, null]), parameters: [], totals: null },
  };
}

/** A comparison in which layers of one name, and of the groups given, are paired. */
function compared(a: Net, b: Net, groups: [string[], string[]][] = []): ComparisonDocument {
  const taken = [0, 1].map((side) => new Set(groups.flatMap((group) => group[side]!)));
  const names = a.layers
    .map((layer) => layer.key)
    .filter((key) => b.layers.some((layer) => layer.key === key));
  const pairs = names.filter((key) => !taken[0]!.has(key) && !taken[1]!.has(key));
  const all = [...groups, ...pairs.map((key): [string[], string[]] => [[key], [key]])];
  const numbers = (side: Net, keys: string[]): number[] =>
    keys.map((key) => side.layers.findIndex((layer) => layer.key === key));
  return {
    ...{
      version: 1,
      kind: "comparison",
      title: "",
      nets: [a, b],
      verdicts: [],
      verdict: "",
      exit_status: 0,
      sentence: "",
    },
    ...{ error: null, inputs: [], outputs: [], probes: [], notes: [], findings: [] },
    groups: all.map(([keysA, keysB]) => ({
      nodes: [[], []],
      layers: [numbers(a, keysA), numbers(b, keysB)],
      sides: [keysA.length > 0, keysB.length > 0],
      ...{ status: "EQUAL", evidence: "VALUES", error: 0, isolated_error: null, mapping: "", finding: null },
    })),
  };
}

function checkOrder(model: Model): void {
  const place = new Map(model.order.map((id, index) => [id, index]));
  assert.equal(place.size, model.union.length);
  for (const edge of model.edges) assert.equal(edge.back, place.get(edge.source)! > place.get(edge.target)!);
}

test("nets that agree have no edge that goes back", async () => {
  for (let seed = 0; seed < 40; seed++) {
    const next = random(seed);
    const names = Array.from({ length: 30 }, (_, index) => `l${index}`);
    const reads = names.map((_, index) =>
      names.slice(Math.max(0, index - 3), index).filter(() => next() < 0.6),
    );
    const layers = names.map((name, index): [string, string[]] => [name, reads[index]!]);
    // B lacks some layers, and lists the others in another order
    const gone = new Set(names.filter(() => next() < 0.2));
    const other = layers.filter(([name]) => !gone.has(name));
    const kept = other.map(([name, from]): [string, string[]] => [
      name,
      from.filter((read) => !gone.has(read)),
    ]);
    kept.sort(() => next() - 0.5);
    const model = await buildModel(compared(net(layers), net(kept)), "layers");
    checkOrder(model);
    assert.equal(model.edges.filter((edge) => edge.back).length, 0);
  }
});

test("a contradiction costs one edge, not all that come after", async () => {
  const chain = Array.from({ length: 40 }, (_, index): [string, string[]] => [
    `l${index}`,
    index ? [`l${index - 1}`] : [],
  ]);
  // layers 5 and 7 of A, with 6 between them, are one group: a cycle of two items
  const groups: [string[], string[]][] = [
    [
      ["l5", "l7"],
      ["l5", "l7"],
    ],
  ];
  const model = await buildModel(compared(net(chain), net(chain), groups), "layers");
  checkOrder(model);
  assert.equal(model.edges.filter((edge) => edge.back).length, 1);
});

test("a view between the nodes of a group belongs to its item", async () => {
  const a = net([
    ["conv", []],
    ["next", ["conv"]],
  ]);
  const b = net([
    ["conv", []],
    ["view", ["conv"]],
    ["turn", ["view"]],
    ["bias", ["turn"]],
    ["next", ["bias"]],
  ]);
  const model = await buildModel(compared(a, b, [[["conv"], ["conv", "bias"]]]), "layers");
  checkOrder(model);
  assert.equal(model.union.length, 2);
  assert.deepEqual(model.union[0]!.members, [[0], [0, 1, 2, 3]]);
  assert.equal(model.edges.filter((edge) => edge.back).length, 0);
});
