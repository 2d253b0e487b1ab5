import { expect, test } from "vitest";
import type { Network, NetworkBlock, NetworkPart } from "../src/answers";
import { everything, findLayers, plan, stageKey } from "../src/networkplan";

function block(rows: number, from: number[]): NetworkBlock {
  const layers = Array.from({ length: rows }, (_, row) => ({ words: `conv ${row}`, source: `conv${row}`, shape: "", row, column: 0, costs: [] }));
  const lines = layers.map((_, place) => [place - 1, place]);
  return { title: "block", shape: "64×56×56", count: rows, costs: [], lines, ends: [rows - 1], inputs: from, layers };
}

function part(place: number, blocks: NetworkBlock[], inputs: number[], single = false): NetworkPart {
  return { place, title: `part ${place}`, shape: "", single, inputs, costs: [], blocks };
}

const NETWORK = {
  stages: [
    { name: "stem", layers: 1, costs: [], parts: [part(0, [block(1, [-1])], [], true)] },
    {
      name: "stage 1",
      layers: 8,
      costs: [],
      parts: [part(1, [block(2, [-1]), block(2, [0])], [0]), part(2, [block(3, [-1])], [1]), part(3, [block(1, [-1])], [2, 0], true)],
    },
  ],
} as unknown as Network;

const inside = (outer: { x: number; y: number; width: number; height: number }, inner: typeof outer) =>
  inner.x >= outer.x && inner.y >= outer.y && inner.x + inner.width <= outer.x + outer.width && inner.y + inner.height <= outer.y + outer.height;

test("all parts but single layers can be unfolded, and blocks where there are several", () => {
  expect(everything(NETWORK)).toEqual(["p1", "b1-0", "b1-1", "p2"]);
});

test("a folded network has one box for each stage and part, none of which overlap", () => {
  const { boxes } = plan(NETWORK, new Set());
  expect(boxes.map((box) => box.kind)).toEqual(["stage", "layer", "stage", "card", "card", "layer"]);
  boxes.slice(1).forEach((box, place) => expect(box.y).toBeGreaterThanOrEqual(boxes[place]!.y + boxes[place]!.height));
});

test("a network that is unfolded shows every layer, inside of its frame and of the picture", () => {
  const drawn = plan(NETWORK, new Set(everything(NETWORK)));
  const frames = drawn.boxes.filter((box) => box.kind === "frame");
  expect(frames).toHaveLength(4);
  expect(drawn.boxes.filter((box) => box.kind === "layer")).toHaveLength(2 + 2 + 2 + 3);
  const of = (key: string) => drawn.boxes.find((box) => box.key === key)!;
  expect(inside(of("p1"), of("b1-1"))).toBe(true);
  expect(inside(of("b1-1"), of("b1-1-0"))).toBe(true);
  expect(drawn.boxes.every((box) => inside({ x: 0, y: 0, width: drawn.width, height: drawn.height }, box))).toBe(true);
});

test("a stage that is folded has none of its parts, and one line to it", () => {
  const folded = plan(NETWORK, new Set([stageKey(1)]));
  expect(folded.boxes.map((box) => box.key)).toEqual(["s0", "p0", "s1"]);
  expect(folded.lines).toHaveLength(1);
});

test("a connection that skips parts goes around them, unless there are too many to see", () => {
  expect(plan(NETWORK, new Set()).lines.some((line) => line.includes("H4"))).toBe(true);
  const many = Array.from({ length: 80 }, (_, place) => part(place, [block(1, [-1])], place > 1 ? [place - 1, place - 2] : [], true));
  const dense = plan({ stages: [{ name: "dense", layers: 80, costs: [], parts: many }] } as unknown as Network, new Set());
  expect(dense.undrawn).toBe(78);
});

test("a search finds layers wherever they are folded, and what must be unfolded leads to their boxes", () => {
  const found = findLayers(NETWORK, "CONV 1");
  expect(found.length).toBeGreaterThan(0);
  for (const { key, unfold } of found) {
    const boxes = plan(NETWORK, new Set(unfold)).boxes;
    expect(boxes.find((box) => box.key === key)?.title).toContain("conv 1");
  }
  expect(findLayers(NETWORK, "conv nothing")).toEqual([]);
  expect(findLayers(NETWORK, "  ")).toEqual([]);
});
