import assert from "node:assert/strict";
import { test } from "node:test";

import { type ComparisonDocument, type Document, VERSION } from "../src/viewer/model/document.ts";
import { ofToday } from "../src/viewer/model/version1.ts";

const group = { nodes: [[0], [0]], layers: [[0], [0]], sides: [true, true], evidence: "VALUES", error: 0.4 };
const finding = { cause: "eps", fix: "set eps", places: ["a:1", "b:1"], layers: ["bn", "bn"] };
const old = {
  version: 1,
  kind: "comparison",
  verdict: "equal, as stated",
  groups: [
    { ...group, status: "CARRIED", graft_error: 1e-7, mapping: "", finding: null },
    { ...group, status: "DIFFERENT", graft_error: 0.4, mapping: "", finding: 0 },
  ],
  findings: [{ ...finding, trap: "epsilon" }],
};

test("a comparison of version 1 is shown in the names of today", () => {
  const { verdicts, ...shown } = ofToday(old as unknown as Document) as ComparisonDocument;
  assert.deepEqual(
    verdicts.map(({ key }) => key),
    ["identical", "equal", "structure", "different", "undecided"],
  );
  assert.deepEqual(shown, {
    version: VERSION,
    kind: "comparison",
    verdict: "equal under a mapping",
    groups: [
      { ...group, status: "PROPAGATED", isolated_error: 1e-7, mapping: "", finding: null },
      { ...group, status: "DIFFERENT", isolated_error: 0.4, mapping: "", finding: 0 },
    ],
    findings: [{ ...finding, mismatch: "epsilon" }],
  });
});

test("a net of version 1 and a document of another version stay as they are", () => {
  const net = { version: 1, kind: "net", title: "a", nets: [] } as unknown as Document;
  assert.deepEqual(ofToday(net), { ...net, version: VERSION });
  const later = { version: VERSION + 1, kind: "net" } as unknown as Document;
  assert.equal(ofToday(later), later);
});
