/** Figures of the heat map, against numbers counted by hand. */

import assert from "node:assert/strict";
import { test } from "node:test";

import type { Document, Item, Net } from "../src/viewer/model/document.ts";
import { heat, measured, secondsText, ticks } from "../src/viewer/model/measures.ts";
import type { Model, UnionItem } from "../src/viewer/model/model.ts";

// a convolution of 3 to 8 channels of 10x10, 3x3 windows, with bias: 224 parameters, 21600 multiply-adds
const conv: Item = {
  name: "conv",
  type: "Convolution",
  settings: [],
  inputs: [0],
  outputs: [1],
  parameters: [],
  cost: { parameters: 224, multiply_adds: 21_600, activation_bytes: 3200, exact: true },
  seconds: 0.002,
};
const net = {
  values: [
    ["data", ["N", 3, 10, 10]],
    ["conv", ["N", 8, 10, 10]],
    ["open", ["N", "?"]],
  ],
} as Partial<Net> as Net;

function modelOf(item: Item): Model {
  const union: UnionItem[] = [{ members: [[0], []], groups: [], status: "PLAIN", findings: [] }];
  const document = { kind: "net", nets: [net] } as Partial<Document> as Document;
  return { document, nets: [net], items: [[item]], union } as Partial<Model> as Model;
}

test("bytes moved are inputs, outputs and parameters in float32", () => {
  const model = modelOf(conv);
  assert.equal(measured(model, model.union, 0, "bytes"), 4 * (300 + 800 + 224));
  assert.equal(measured(model, model.union, 0, "intensity"), 21_600 / (4 * 1324));
  assert.equal(measured(model, model.union, 0, "seconds"), 0.002);
});

test("where a size is not known, nothing is said", () => {
  const model = modelOf({ ...conv, outputs: [2] });
  assert.equal(measured(model, model.union, 0, "bytes"), null);
  assert.equal(measured(model, model.union, 0, "intensity"), null);
});

test("the marks of a scale stand where its heat is 0, a half and 1", () => {
  for (const scale of ["square root", "logarithmic"] as const) {
    const heats = ticks(400, scale).map((value) => heat(value, 400, scale));
    assert.deepEqual(
      heats.map((value) => Number(value.toFixed(9))),
      [0, 0.5, 1],
    );
  }
});

test("times have a unit that suits them", () => {
  assert.deepEqual(
    [secondsText(2.5e-6), secondsText(0.0123), secondsText(1.5)],
    ["2.5 µs", "12.3 ms", "1.5 s"],
  );
});
