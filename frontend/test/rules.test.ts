/** The rules for windows, against sizes that the frameworks' own documents and sources give. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { axisOf, rulesOf } from "../src/viewer/model/rules.ts";

const choice = { size: 0, kernel: 1, stride: 1, dilation: 1, begin: 0, end: 0 };

const ROWS: [rule: string, changes: object, wanted: [count: number, begin: number, end: number]][] = [
  // AlexNet in PyTorch: 224, kernel 11, stride 4, padding 2
  ["floor", { size: 224, kernel: 11, stride: 4, begin: 2, end: 2 }, [55, 2, 2]],
  // GoogLeNet in Caffe: pool1 of 112 with kernel 3, stride 2 is 56; rounded down 55
  ["caffe", { size: 112, kernel: 3, stride: 2 }, [56, 0, 0]],
  ["floor", { size: 112, kernel: 3, stride: 2 }, [55, 0, 0]],
  // a window that begins in the padding is left out by Caffe and PyTorch, and kept by MXNet's full
  ["caffe", { size: 4, kernel: 2, stride: 3, begin: 1, end: 1 }, [2, 1, 1]],
  ["ceil", { size: 5, kernel: 1, stride: 5, begin: 0, end: 1 }, [1, 0, 1]],
  ["full", { size: 5, kernel: 1, stride: 5, begin: 0, end: 1 }, [2, 0, 1]],
  // tf.nn: SAME of 5 with kernel 2, stride 2 is 3, with one element after
  ["same", { size: 5, kernel: 2, stride: 2 }, [3, 0, 1]],
  ["same-lower", { size: 5, kernel: 2, stride: 2 }, [3, 1, 0]],
  ["same", { size: 6, kernel: 3, stride: 2, dilation: 2 }, [3, 1, 2]],
  ["valid", { size: 5, kernel: 2, stride: 2, begin: 3, end: 3 }, [2, 0, 0]],
];

for (const [rule, changes, wanted] of ROWS)
  test(`${rule} of ${JSON.stringify(changes)}`, () => {
    const axis = axisOf(rule, { ...choice, ...changes });
    assert.deepEqual([axis?.count, axis?.begin, axis?.end], wanted);
    assert.ok(rulesOf(axis!).includes(rule));
  });

test("of rules that agree, the one that the layer's framework has is shown", () => {
  const axis = { ...choice, size: 24, kernel: 3, count: 22 }; // k3 s1: rounding up and down are the same
  assert.equal(rulesOf(axis, "Caffe", true)[0], "caffe");
  assert.equal(rulesOf(axis, "Caffe", false)[0], "floor"); // Caffe's convolutions round down
  assert.equal(rulesOf(axis, "TensorFlow", false)[0], "valid");
  assert.equal(rulesOf(axis, "MXNet", true)[0], "floor");
});

test("where not one window fits there is no axis", () => {
  assert.equal(axisOf("floor", { ...choice, size: 2, kernel: 5 }), null);
});

test("every rule that rounds up has at least as many windows as one that rounds down", () => {
  for (let size = 1; size < 40; size += 1)
    for (let kernel = 1; kernel <= Math.min(size, 7); kernel += 1)
      for (let stride = 1; stride < 5; stride += 1) {
        const of = (rule: string): number => axisOf(rule, { ...choice, size, kernel, stride })!.count;
        assert.ok(of("floor") <= of("caffe") && of("caffe") <= of("full"));
        assert.equal(of("same"), Math.ceil(size / stride));
      }
});
