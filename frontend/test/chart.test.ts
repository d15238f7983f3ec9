/** Numbers at a logarithmic axis do not overprint each other. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { scaleLog } from "d3";

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
