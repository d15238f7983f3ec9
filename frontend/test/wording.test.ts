/** Costs of nets with open sizes, settings in a box, and why layers are a pair. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { boxHeight, numRows } from "../src/viewer/draw/scene.ts";
import { functionOf } from "../src/viewer/model/causes.ts";
import type { Group } from "../src/viewer/model/document.ts";
import type { UnionItem } from "../src/viewer/model/model.ts";
import { evidenceText } from "../src/viewer/model/looks.ts";
import { costText, differingNames, shortSettings } from "../src/viewer/model/wording.ts";

test("what is not known of a cost is not said to be nothing", () => {
  const cost = { parameters: 10, multiply_adds: 0, activation_bytes: 4096, exact: false };
  assert.equal(costText(cost, "multiply_adds"), "depends on the input size");
  assert.equal(costText(cost, "activation_bytes"), "at least 4.10 kB, the rest depends on the input size");
  assert.equal(costText({ ...cost, exact: true }, "multiply_adds"), "0");
});

test("values of a rounded net agree within its rounding, or before it", () => {
  const group = { evidence: "VALUES", status: "DIFFERENT", rounding_error: 0.01 } as unknown as Group;
  assert.equal(evidenceText(group), "paired because their values agree before rounding");
  const equal = { ...group, status: "EQUAL" } as Group;
  assert.equal(evidenceText(equal), "paired because their values agree within rounding");
  assert.equal(
    evidenceText({ ...group, status: "PROPAGATED" }),
    "paired because their values agree before rounding",
  );
  assert.equal(evidenceText({ ...group, rounding_error: null }), "paired because their values agree");
});

test("a box shows the settings that differ first, also those that it leaves out otherwise", () => {
  const a: [string, string][] = [["kernel", "(3, 3)"], ["stride", "1"], ["pad", "1"], ["alpha", "0.1"]]; // prettier-ignore
  const b: [string, string][] = [["kernel", "3"], ["stride", "(2, 2)"], ["pad", "1"], ["alpha", "0.2"]]; // prettier-ignore
  const names = differingNames(a, b);
  assert.deepEqual([...names], ["stride", "alpha"]);
  assert.deepEqual(shortSettings(a, names), ["s1", "alpha 0.1", "k3", "p1"]);
  assert.deepEqual(shortSettings(b, names), ["s2", "alpha 0.2", "k3", "p1"]);
  assert.deepEqual(shortSettings(a), ["k3", "p1"]);
});

test("several layers with a name for what they compute are one row, a single one is called what it is", () => {
  const group = { functions: ["GELU", "SiLU"] } as unknown as Group;
  const item = { groups: [group], members: [[4, 5, 6], [2]] } as unknown as UnionItem;
  assert.deepEqual(
    [0, 1].map((side) => functionOf(item, side)),
    ["GELU", ""],
  );
  assert.deepEqual(
    [0, 1].map((side) => numRows(item, side)),
    [1, 1],
  );
  const unnamed = { ...item, groups: [{ ...group, functions: null }] };
  assert.equal(numRows(unnamed, 0), 3);
  assert.ok(boxHeight(numRows(unnamed, 0)) > boxHeight(numRows(item, 0)));
  assert.equal(functionOf({ ...item, groups: [group, group] }, 0), "");
});
