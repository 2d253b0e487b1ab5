// Copies what is not compiled, and writes which sources the build was made of: a test compares it with what is there.
import { createHash } from "node:crypto";
import { copyFileSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";

const HERE = import.meta.dirname;
const TARGET = join(HERE, "..", "src", "zoolens", "faces", "ui", "assets");
const files = ["index.html", "favicon.svg", "package-lock.json", "tsconfig.json", "vite.config.js"];
for (const entry of readdirSync(join(HERE, "src"), { recursive: true, withFileTypes: true })) {
  if (entry.isFile()) files.push(relative(HERE, join(entry.parentPath, entry.name)).split("\\").join("/"));
}
const hash = createHash("sha256");
for (const name of files.sort()) {
  hash.update(`${name}\n`);
  hash.update(readFileSync(join(HERE, name)));
}
for (const name of ["index.html", "favicon.svg"]) copyFileSync(join(HERE, name), join(TARGET, name));
writeFileSync(join(TARGET, "sources.sha256"), `${hash.digest("hex")}\n`);
