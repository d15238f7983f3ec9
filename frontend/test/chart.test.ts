/** Numbers at a logarithmic axis do not overprint each other. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { scaleLog } from "d3";

import { nearest, type Point, usesLog, valueAt } from "../src/web/chart.ts";
import { apart } from "../src/web/ticks.ts";

for (const [low, high] of [
  [1e-9, 3],
  [0.02, 2.5],
  [0.9, 95],
  [1, 1e12],
] as [number, number][])
  test(`from ${low} to ${high}`, () => {
    const y = scaleLog([low, high], [210, 10]);
    const kept = apart(y.ticks(), y);
    assert.ok(kept.length >= 2, String(kept));
    const places = kept.map(y).sort((a, b) => a - b);
    for (const [index, place] of places.slice(1).entries()) assert.ok(place - places[index]! >= 22);
  });

test("a logarithmic axis is taken for a wide range, and where it is asked for", () => {
  assert.equal(usesLog([0.001, 2], "automatic"), true);
  assert.equal(usesLog([0.1, 2], "automatic"), false);
  assert.equal(usesLog([0.001, 2], "linear"), false);
  assert.equal(usesLog([0, 2], "logarithmic"), true);
  assert.equal(usesLog([-2, 0], "logarithmic"), false);
  assert.equal(usesLog([], "automatic"), false);
});

test("a curve says its value at its own iterations only", () => {
  const points: Point[] = [
    [0, 2],
    [10, null],
    [20, 0.5],
  ];
  assert.deepEqual(
    [0, 10, 20, 15].map((at) => valueAt(points, at)),
    [2, null, 0.5, undefined],
  );
  assert.deepEqual(
    [-5, 4, 6, 999].map((at) => nearest([0, 10, 20], at)),
    [0, 0, 1, 2],
  );
});
