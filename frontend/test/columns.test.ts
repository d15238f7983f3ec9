/** A tall picture becomes columns, cut between boxes. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { columnsOf, perPage } from "../src/viewer/model/columns.ts";

const boxes = (count: number): [number, number][] =>
  Array.from({ length: count }, (_, index) => [index * 60, index * 60 + 40]);

test("a short picture stays one column", () => {
  assert.deepEqual(columnsOf(2000, 700, boxes(33)), [[0, 2000]]);
});

for (const count of [100, 1000, 20_000])
  test(`columns of ${count} boxes join to the whole, and no box is cut`, () => {
    const height = count * 60;
    const columns = columnsOf(height, 700, boxes(count));
    assert.ok(columns.length > 1);
    assert.equal(columns[0]![0], 0);
    assert.equal(columns.at(-1)![1], height);
    columns.slice(1).forEach(([top], index) => assert.equal(top, columns[index]![1]));
    for (const [, bottom] of columns.slice(0, -1)) assert.ok(bottom % 60 >= 40, String(bottom));
    const [width, tallest] = [columns.length * 700, Math.max(...columns.map(([top, end]) => end - top))];
    assert.ok(tallest / width < 2 && width / tallest < 4, `${width} x ${tallest}`);
  });

test("boxes that leave no gap are cut all the same", () => {
  const columns = columnsOf(9000, 700, [[0, 9000]]);
  assert.ok(columns.length > 1);
});

test("a page holds what a browser can make, and one column at least", () => {
  assert.equal(perPage(12, 700, 4000, null), 12);
  assert.equal(perPage(100, 700, 3600, { side: 16_000, area: 60_000_000 }), 22);
  assert.equal(perPage(100, 700, 60_000, { side: 16_000, area: 60_000_000 }), 1);
});
