// Bundles the front end into src/netweave/viewer/static; `node build.mjs --watch` rebuilds on every change.
//
// Each folder of src with a main.ts is one bundle: NAME.js, a script that sets the global `netweave.NAME`, and
// NAME.css. A module imported as "./file.ts?worker" is bundled by itself and imported as its text, so that a
// page can start a Web Worker from it without asking for another file. Beside each file lies the same compressed
// (.gz and .br), which the workbench sends to browsers that take it.
import { existsSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { brotliCompressSync, gzipSync } from "node:zlib";

import * as esbuild from "esbuild";

const here = path.dirname(fileURLToPath(import.meta.url));
const sources = path.join(here, "src");

const target = { target: "es2022", minify: true, legalComments: "none", charset: "utf8" };

const worker = {
  name: "worker",
  setup(build) {
    build.onResolve({ filter: /\?worker$/ }, (found) => ({
      path: path.join(found.resolveDir, found.path.replace(/\?worker$/, "")),
      namespace: "worker",
    }));
    build.onLoad({ filter: /.*/, namespace: "worker" }, async (found) => {
      const options = {
        entryPoints: [found.path],
        bundle: true,
        write: false,
        metafile: true,
        format: "iife",
      };
      const built = await esbuild.build({ ...options, ...target });
      const watchFiles = Object.keys(built.metafile.inputs).map((file) => path.resolve(file));
      return { contents: built.outputFiles[0].text, loader: "text", watchFiles };
    });
  },
};

const compressed = {
  name: "compressed",
  setup(build) {
    build.initialOptions.metafile = true;
    build.onEnd(({ metafile }) => {
      for (const file of Object.keys(metafile?.outputs ?? {})) {
        const content = readFileSync(file);
        writeFileSync(`${file}.gz`, gzipSync(content, { level: 9 }));
        writeFileSync(`${file}.br`, brotliCompressSync(content));
      }
    });
  },
};

const names = readdirSync(sources).filter((name) => existsSync(path.join(sources, name, "main.ts")));
const builds = names.map((name) => ({
  ...target,
  entryPoints: { [name]: path.join(sources, name, "main.ts") },
  outdir: path.join(here, "..", "src", "netweave", "viewer", "static"),
  bundle: true,
  format: "iife",
  globalName: `netweave_${name}`,
  footer: { js: `globalThis.netweave={...globalThis.netweave,${name}:netweave_${name}};` },
  plugins: [worker, compressed],
  loader: { ".woff2": "file", ".svg": "file" },
  logLevel: "info",
}));

if (process.argv.includes("--watch")) {
  for (const options of builds) await (await esbuild.context(options)).watch();
} else {
  await Promise.all(builds.map((options) => esbuild.build(options)));
}
