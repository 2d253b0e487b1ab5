import { beforeEach, expect, test } from "vitest";
import { ApiError, type Source } from "../src/api";
import { bundleSource } from "../src/bundle";

// data/0.js of a bundle: one table of five runs in two pieces, its two variants (as sorted by the server), and a part.
const ROWS = [
  [{ id: "a", model: "timm:resnet18@1.0" }, { id: "b", model: "timm:resnet50@1.0" }, { id: "c", model: "onnx:vgg16@2.0" }],
  [{ id: "d", model: "onnx:resnet18@1.0" }, { id: "e", model: "keras:VGG16@1.0" }],
];
const TABLE = {
  count: 5,
  size: 3,
  rows: [[0, 1], [0, 2]],
  search: ["timm resnet18", "timm resnet50", "onnx vgg16", "onnx resnet18", "keras vgg16"],
  fields: {
    model: ROWS.flat().map((row) => row.model),
    size: [11, 25, 138, 11, 138],
    created: ["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z", "2026-01-04T00:00:00Z", "2026-01-05T00:00:00Z"],
  },
  facets: [
    { name: "zoo", values: [{ value: "timm", places: [0, 1] }, { value: "onnx", places: [2, 3] }, { value: "keras", places: [4] }], usual: [] },
  ],
  parts: { group: { "1": [0, 5] } },
  variants: { "{}": [0, 3], '{"order":"size"}': [0, 4], '{"order":"latency"}': { error: "No run has a latency.", status: 400 } },
};
const PACK = [
  TABLE,
  ...ROWS,
  { rest: { unit: "MB", unsized: 1 }, places: 5, patches: { rank: { "0": "first" } } },
  { rest: { unit: "MB" }, places: [2, 4, 1, 0, 3], patches: {} },
  { places: [0, 3], rest: { title: "resnet18" } },
  { rows: [{ index: 1 }, { index: 2 }], sentence: "Some inputs are not in this bundle." },
];
const LIST = {
  narrowing: ["q", "zoo", "model", "size_low", "size_high", "since", "until", "group"],
  variants: ["order"],
  patterns: { model: "model" },
  equals: {},
  ranges: { size_low: "size", size_high: "size" },
  since: "created",
  last: ["unsized"],
};
const INDEX = {
  format: 1,
  subjects: { run: ["a"], audit: [] },
  endpoints: {
    "/runs": { defaults: { order: "newest" }, list: LIST, tables: { "{}": [0, 0] } },
    "/inputs": { defaults: {}, picked: "index", answers: { "{}": [0, 6] } },
    "/picture": { defaults: {}, files: { '{"index":"1"}': "files/1.png" } },
    "/broken": { defaults: {}, answers: { "{}": { error: "The model is gone.", status: 410 } } },
  },
};
type Index = Parameters<typeof bundleSource>[0];
interface Rows {
  total: number;
  rows: { id: string }[];
  facets: { name: string; values: { value: string; count: number }[] }[];
  [name: string]: unknown;
}
let source: Source;

// A page from a disk loads data as scripts: this one runs data/0.js when it is appended.
const document = {
  createElement: () => ({ src: "" }),
  head: {
    append: (script: { src: string; onload?: () => void }) => {
      expect(script.src).toBe("data/0.js");
      (globalThis as unknown as { zoolensPack: (number: number, values: unknown[]) => void }).zoolensPack(0, PACK);
      script.onload?.();
    },
  },
};

beforeEach(() => {
  Object.assign(globalThis, { document });
  source = bundleSource(INDEX as unknown as Index);
});

const runs = async (parameters: Record<string, string | number | string[]>) => (await source.get("/runs", parameters)) as Rows;
const found = async (parameters: Record<string, string | number | string[]>) => (await runs(parameters)).rows.map((row) => row.id).join("");

test("a list without filters has all rows, and a page of them where it is limited", async () => {
  expect(await found({})).toBe("abcde");
  expect(await found({ offset: 2, limit: 2 })).toBe("cd");
  expect((await runs({ offset: 2, limit: 2 })).total).toBe(5);
});

test("a variant orders rows as the server did, and patches them", async () => {
  expect(await found({ order: "size" })).toBe("cebad");
  expect((await runs({})).rows[0]).toEqual({ id: "a", model: "timm:resnet18@1.0", rank: "first" });
  expect((await runs({ order: "newest" })).unit).toBe("MB");
  await expect(runs({ order: "latency" })).rejects.toThrow("No run has a latency.");
  await expect(runs({ order: "colour" })).rejects.toMatchObject({ status: 404 });
});

test("all words that are searched for must be there, in any case", async () => {
  expect(await found({ q: "VGG" })).toBe("ce");
  expect(await found({ q: "vgg  onnx" })).toBe("c");
  expect(await found({ q: "nothing" })).toBe("");
});

test("names may have * and ?, with and without a version, and are no regular expressions", async () => {
  expect(await found({ model: "*:resnet??" })).toBe("abd");
  expect(await found({ model: "*@2.0" })).toBe("c");
  expect(await found({ model: "keras:vgg16" })).toBe("e");
  expect(await found({ model: "timm.resnet18" })).toBe("");
});

test("limits include their ends, and a limit that is no number is none", async () => {
  expect(await found({ size_low: 25, size_high: 138 })).toBe("bce");
  expect(await found({ size_low: "", size_high: "much" })).toBe("abcde");
});

test("a stretch of time begins with its first moment and ends before its last", async () => {
  expect(await found({ since: "2026-01-02T00:00:00Z", until: "2026-01-04T00:00:00Z" })).toBe("bc");
});

test("a facet counts what its other values would give, and keeps a chosen value that gives none", async () => {
  const [zoo] = (await runs({ zoo: "onnx", q: "resnet" })).facets;
  expect(await found({ zoo: "onnx", q: "resnet" })).toBe("d");
  expect(zoo?.values).toEqual([{ value: "timm", count: 2 }, { value: "onnx", count: 1 }]);
  const [chosen] = (await runs({ zoo: "slim" })).facets;
  expect(chosen?.values).toContainEqual({ value: "slim", count: 0 });
});

test("a part narrows a list and adds what is said of it; one that is not kept is refused", async () => {
  expect(await found({ group: 1 })).toBe("ad");
  expect((await runs({ group: 1 })).title).toBe("resnet18");
  await expect(runs({ group: 2 })).rejects.toBeInstanceOf(ApiError);
});

test("the count of rows that come last is that of the rows that fit", async () => {
  expect((await runs({})).unsized).toBe(1);
  expect((await runs({ zoo: "timm" })).unsized).toBe(0);
});

test("picked rows are those that are asked for, with the sentence only where one is missing", async () => {
  expect(await source.get("/inputs", { index: ["2"] })).toEqual({ rows: [{ index: 2 }], sentence: "" });
  expect(await source.get("/inputs", { index: ["2", "9"] })).toMatchObject({ sentence: "Some inputs are not in this bundle." });
});

test("what is not in the bundle is said, and pictures have a replacement", async () => {
  await expect(source.get("/models", {})).rejects.toThrow("This is not in this bundle");
  await expect(source.get("/broken", {})).rejects.toMatchObject({ message: "The model is gone.", status: 410 });
  expect(source.url("/picture", { index: 1 })).toBe("files/1.png");
  expect(source.url("/picture", { index: 2 })).toMatch(/^data:image\/svg/);
});

test("a page is there if the bundle has something for it", () => {
  expect(source.holdsView("run")).toBe(true);
  expect(source.holdsView("run", "a")).toBe(true);
  expect(source.holdsView("run", "z")).toBe(false);
  expect(source.holdsView("audit")).toBe(false);
  expect(source.holdsAnswer("/inputs", {})).toBe(true);
  expect(source.holdsAnswer("/inputs", { run: "a" })).toBe(false);
  expect(source.holds("/models")).toBe(false);
});
