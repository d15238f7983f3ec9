/** Which of two nets is the original: the one whose files were given first. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { inGivenOrder } from "../src/web/front.ts";
import type { Net } from "../src/web/http.ts";

const net = (...names: string[]): Net =>
  ({ id: names[0], files: names.map((name) => ({ name, num_bytes: 1 })) }) as Net;
const ordered = (nets: Net[], ...given: string[]): string[] =>
  inGivenOrder(
    nets,
    given.map((name) => ({ name })),
  ).map(({ id }) => id);

test("the order of the files decides, whatever was read first", () => {
  const nets = [net("tf.onnx"), net("caffe.onnx")];
  assert.deepEqual(ordered(nets, "caffe.onnx", "tf.onnx"), ["caffe.onnx", "tf.onnx"]);
  assert.deepEqual(ordered(nets, "tf.onnx", "caffe.onnx"), ["tf.onnx", "caffe.onnx"]);
});

test("the first file of a net counts, also its weights", () => {
  const nets = [net("b.json", "b.params"), net("a.prototxt", "a.caffemodel")];
  const given = ["a.caffemodel", "b.json", "b.params", "a.prototxt"];
  assert.deepEqual(ordered(nets, ...given), ["a.prototxt", "b.json"]);
});

test("a name that the workbench made safe comes last, and one in the other form of Unicode is found", () => {
  assert.deepEqual(ordered([net("made_safe"), net("b.onnx")], "made safe", "b.onnx"), [
    "b.onnx",
    "made_safe",
  ]);
  assert.deepEqual(ordered([net("b"), net("\u00e9")], "e\u0301", "b"), ["\u00e9", "b"]);
});
