/** Documents of version 1 in the names of today: the workbench keeps what it compared before. */

import { type Document, type Finding, type Group, type Status, VERSION } from "./document.ts";

interface OldGroup extends Omit<Group, "status" | "isolated_error"> {
  status: Status | "CARRIED";
  graft_error: Group["isolated_error"];
}

interface OldFinding extends Omit<Finding, "mismatch"> {
  trap: Finding["mismatch"];
}

/** The document of today for one of version 1; any other one stays as it is. */
export function ofToday(shown: Document): Document {
  if (shown.version !== 1) return shown;
  if (shown.kind === "net") return { ...shown, version: VERSION };
  return {
    ...shown,
    version: VERSION,
    groups: (shown.groups as unknown as OldGroup[]).map(groupOfToday),
    findings: (shown.findings as unknown as OldFinding[]).map(findingOfToday),
  };
}

function groupOfToday({ status, graft_error, ...rest }: OldGroup): Group {
  return { ...rest, status: status === "CARRIED" ? "PROPAGATED" : status, isolated_error: graft_error };
}

function findingOfToday({ trap, ...rest }: OldFinding): Finding {
  return { ...rest, mismatch: trap };
}
