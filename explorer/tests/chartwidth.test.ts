import { expect, test } from "vitest";
import { fills, fitted, headingOf } from "../src/chartwidth";

const SPEC = {
  usermeta: { fills: true },
  title: { text: "Accuracy and latency", subtitle: "Line: the front." },
  width: 720,
  layer: [
    { mark: "line", data: { values: [{ legend: { columns: 9 } }] }, encoding: { color: { legend: { columns: 5 } } } },
    { name: "labels_left", mark: { type: "text" } },
  ],
};

test("a chart that says so fills its place, and its title becomes text", () => {
  expect(fills(SPEC)).toBe(true);
  expect(fills({ width: 720 })).toBe(false);
  expect(headingOf(SPEC)).toEqual(["Accuracy and latency", "Line: the front."]);
  const wide = fitted(SPEC, 1200);
  expect(wide.width).toBe(1200);
  expect(wide.title).toBeUndefined();
  expect(wide.layer).toHaveLength(2);
});

test("in a narrow place names are left out and legends have fewer columns, but data stay as they are", () => {
  const layers = fitted(SPEC, 360).layer as Record<string, unknown>[];
  expect(layers).toHaveLength(1);
  expect(layers[0]).toEqual({ ...SPEC.layer[0], encoding: { color: { legend: { columns: 1, labelLimit: 242 } } } });
});

test("panels below each other have the same width", () => {
  const { vconcat } = fitted({ vconcat: [{ width: 600 }, { width: 600 }] }, 1000) as { vconcat: { width: number }[] };
  expect(vconcat.map((panel) => panel.width)).toEqual([916, 916]);
});

test("a chart of panels is told how wide they are, so that words in it end where their bar does", () => {
  const spec = { vconcat: [{ width: 600 }], params: [{ name: "room", value: 600 }, { name: "other", value: 1 }] };
  expect(fitted(spec, 400).params).toEqual([{ name: "room", value: 316 }, { name: "other", value: 1 }]);
});

test("panels have no names beside their marks in a narrow place", () => {
  const spec = { vconcat: [{ layer: [{ mark: "rect" }, { name: "labels_macs_0" }] }] };
  expect((fitted(spec, 400).vconcat as { layer: unknown[] }[])[0]!.layer).toEqual([{ mark: "rect" }]);
  expect((fitted(spec, 900).vconcat as { layer: unknown[] }[])[0]!.layer).toHaveLength(2);
});
