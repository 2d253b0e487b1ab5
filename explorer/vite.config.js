// Builds one classic script and one style sheet into the Python package. A classic script, unlike a module, also works
// when a browser opens the page from a disk, which is how exported bundles are read.
import { defineConfig } from "vite";

export default defineConfig({
  base: "./",
  build: {
    outDir: "../src/zoolens/faces/ui/assets",
    emptyOutDir: false,
    target: "es2022",
    modulePreload: false,
    reportCompressedSize: false,
    cssCodeSplit: false,
    rollupOptions: {
      input: "src/main.tsx",
      output: {
        format: "iife",
        entryFileNames: "explorer.js",
        assetFileNames: "explorer[extname]",
      },
    },
  },
});
