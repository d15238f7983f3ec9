/** Stages are said in plain words, with the time that has passed. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { elapsed, stageWords } from "../src/web/follow.ts";

test("a stage is said in plain words", () => {
  assert.equal(stageWords("comparing: run"), "Running both nets on the same inputs");
  assert.equal(stageWords("reading net B"), "Reading net B");
  assert.equal(stageWords("comparing: something new"), "Something new");
  assert.equal(stageWords(""), "Starting");
});

test("time is said in seconds, then in minutes", () => {
  assert.deepEqual([0, 59_999, 60_000, 125_400].map(elapsed), ["0 s", "59 s", "1 min 0 s", "2 min 5 s"]);
});
