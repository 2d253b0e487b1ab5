// Builds two classic scripts and one style sheet into the Python package: `explorer.js` has what every page needs and the
// pages that are opened first, `pages.js` the others, which it loads with the first of them. Classic scripts, unlike
// modules, also work when a browser opens the page from a disk, which is how exported bundles are read.
// `vite build` makes the first, `vite build --mode pages` the second.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { defineConfig } from "vite";

const SOURCES = join(import.meta.dirname, "src");
const IMPORT = /^import \* as (\w+) from "(.+)";$/gm;
const PREFIX = "shared:";

/** The modules that `pages.js` takes from `explorer.js`: of each specifier or file its name in `SHARED`. */
function sharedModules() {
  const text = readFileSync(join(SOURCES, "shared.ts"), "utf8");
  const found = [...text.matchAll(IMPORT)].map(([, name, from]) => [from.startsWith(".") ? join(SOURCES, from) : from, name]);
  return new Map(found);
}

/** Leaves shared modules to the other script. */
function takenFromTheOther() {
  const shared = sharedModules();
  return {
    name: "shared-modules",
    enforce: "pre",
    async resolveId(source, importer) {
      const own = shared.get(source);
      if (own) return { id: PREFIX + own, external: true };
      if (!source.startsWith(".")) return null;
      const resolved = await this.resolve(source, importer, { skipSelf: true });
      const name = resolved && shared.get(resolved.id.replace(/\.tsx?$/, ""));
      return name ? { id: PREFIX + name, external: true } : null;
    },
  };
}

export default defineConfig(({ mode }) => {
  const further = mode === "pages";
  return {
    base: "./",
    plugins: further ? [takenFromTheOther()] : [],
    build: {
      outDir: "../src/zoolens/faces/ui/assets",
      emptyOutDir: false,
      target: "es2022",
      modulePreload: false,
      reportCompressedSize: false,
      cssCodeSplit: false,
      rollupOptions: {
        input: further ? "src/pages/further.ts" : "src/main.tsx",
        preserveEntrySignatures: further ? "strict" : false,
        output: {
          format: "iife",
          name: further ? "zoolensPages" : undefined,
          globals: (id) => (id.startsWith(PREFIX) ? `zoolensShared.${id.slice(PREFIX.length)}` : id),
          entryFileNames: further ? "pages.js" : "explorer.js",
          assetFileNames: "explorer[extname]",
        },
      },
    },
  };
});
