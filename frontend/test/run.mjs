// Bundles the tests of this folder and runs them with Node's own runner.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";

import * as esbuild from "esbuild";

const here = path.dirname(fileURLToPath(import.meta.url));
const outdir = mkdtempSync(path.join(tmpdir(), "netweave-frontend-"));
const tests = readdirSync(here).filter((name) => name.endsWith(".test.ts"));
await esbuild.build({
  entryPoints: tests.map((name) => path.join(here, name)),
  outdir,
  bundle: true,
  platform: "node",
  format: "esm",
  outExtension: { ".js": ".mjs" },
  logLevel: "error",
});
const files = tests.map((name) => path.join(outdir, name.replace(/\.ts$/, ".mjs")));
const done = spawnSync(process.execPath, ["--test", ...files], { stdio: "inherit" });
rmSync(outdir, { recursive: true });
process.exit(done.status ?? 1);
