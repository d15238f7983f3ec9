/** Own data, in the forms that Model Explorer's documentation of custom node data shows, and as tables. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { ownHeat, parseOwnData } from "../src/viewer/model/owndata.ts";

const numbers = (text: string): [string, number | null][] =>
  [...parseOwnData(text, "mine").values].map(([name, { number }]) => [name, number]);

test("the data of one graph, as Model Explorer has them", () => {
  const text = JSON.stringify({
    results: { conv1: { value: 0.5 }, "conv2/Conv": { value: 2, bgColor: "red" }, conv3: { value: "int8" } },
    thresholds: [
      { value: 1, bgColor: "#00ff00" },
      { value: 9, bgColor: "blue" },
    ],
  });
  const data = parseOwnData(text, "mine.json");
  assert.equal(data.values.get("conv1")!.colour, "rgba(0, 255, 0, 0.5)");
  assert.equal(data.values.get("conv2/Conv")!.colour, "rgba(255, 0, 0, 0.5)");
  assert.deepEqual([data.values.get("conv3")!.number, data.values.get("conv3")!.text], [null, "int8"]);
  assert.deepEqual([data.least, data.most], [0.5, 2]);
  assert.equal(ownHeat(1.25, data), 0.5);
});

test("the data of several graphs by name", () => {
  assert.deepEqual(
    numbers('{"main": {"results": {"a": {"value": 1}}}, "b": {"results": {"c": {"value": 2}}}}'),
    [
      ["a", 1],
      ["c", 2],
    ],
  );
});

test("a plain object", () => {
  assert.deepEqual(numbers('{"a": 1, "b": -2.5}'), [
    ["a", 1],
    ["b", -2.5],
  ]);
});

test("tables with and without a head, with quotes, semicolons and tabs", () => {
  const wanted = [
    ["a", 1],
    ["b,c", 2],
  ];
  assert.deepEqual(numbers('node,value\na,1\n"b,c",2\n'), wanted);
  assert.deepEqual(numbers('a,1\r\n"b,c",2\r\n'), wanted);
  assert.deepEqual(numbers('a\t1\n"b,c"\t2'), wanted);
  assert.deepEqual(numbers("a;1\nb;2e3"), [
    ["a", 1],
    ["b", 2000],
  ]);
});

test("what is neither is refused with the line and what was expected", () => {
  assert.throws(() => parseOwnData("a,1\nnothing here\n", "x"), /Line 2 has no value: “nothing here”.*CSV/);
  assert.throws(() => parseOwnData('{"a": ', "x"), /not valid JSON/);
  assert.throws(() => parseOwnData("[1, 2]", "x"), /not an object/);
  assert.throws(() => parseOwnData('{"results": {}}', "x"), /has no values/);
});

test("hostile names and colours stay texts and colours", () => {
  const text = '{"__proto__": {"value": 1}, "<img src=x>": {"value": 2, "bgColor": "url(http://x)"}}';
  const data = parseOwnData(`{"results": ${text}}`, "x".repeat(500));
  assert.equal(({} as { value?: number }).value, undefined);
  assert.equal(data.values.get("<img src=x>")!.colour, undefined);
  assert.equal(data.name.length, 60);
});
