// What of a call is seen: zooming keeps what the pointer is on, moving ends at the ends, and nothing that took time is lost.
import { expect, test } from "vitest";
import type { TraceTimeline } from "../src/answers";
import { fitted, moved, ticks, visibleBars, zoomed } from "../src/spanplan";

const CALL = {
  seconds: 1,
  names: ["predict", "conv"],
  categories: [
    { name: "calls and steps", colour: "#444" },
    { name: "Conv", colour: "#111" },
  ],
  number: [0, 1, 2, 3],
  start: [0, 0.1, 0.5, 0.5001],
  time: [1, 0.2, 0.0001, 0.0001],
  lane: [0, 1, 1, 1],
  name: [0, 1, 1, 1],
  category: [0, 1, 1, 1],
  laid_out: [false, false, false, true],
} as unknown as TraceTimeline;

test("zooming keeps what the pointer is on", () => {
  const view = zoomed({ start: 0, end: 1 }, 0.5, 0.25);
  expect(view).toEqual({ start: 0.125, end: 0.625 });
  expect(zoomed(view, 100)).toEqual({ start: 0, end: 1 });
  const close = zoomed({ start: 0.5, end: 0.5001 }, 1e-9);
  expect(close.end - close.start).toBeGreaterThanOrEqual(1e-6 * 0.999);
});

test("moving ends at the ends of the call", () => {
  expect(moved({ start: 0.2, end: 0.4 }, 1)).toEqual({ start: 0.4, end: 0.6000000000000001 });
  expect(moved({ start: 0.2, end: 0.4 }, -9)).toEqual({ start: 0, end: 0.2 });
  expect(moved({ start: 0.9, end: 1.1 }, 0).end).toBe(1);
});

test("bars narrower than a pixel are drawn once, and each of them alone when one comes near", () => {
  const whole = visibleBars(CALL, { start: 0, end: 1 }, 1000);
  expect(whole.map((bar) => bar.number)).toEqual([0, 1, 2]);
  expect(whole[2]!.width).toBe(1);
  const near = visibleBars(CALL, { start: 0.4999, end: 0.5004 }, 1000);
  expect(near.map((bar) => bar.number)).toEqual([0, 2, 3]);
  expect(near[0]).toMatchObject({ x: 0, width: 1000, name: "predict" });
  expect(near[2]!.laidOut).toBe(true);
});

test("ticks are round, and in the unit that fits", () => {
  const { unit, ticks: found } = ticks(1, { start: 0.1, end: 0.1021 }, 8);
  expect(unit).toBe("ms");
  expect(found.map((tick) => tick.words)).toEqual(["100", "100.5", "101", "101.5", "102"]);
  expect(found[0]!.share).toBeCloseTo(0);
  expect(ticks(239e-6, { start: 0, end: 1 }, 8).unit).toBe("µs");
});

test("the beginning of a name is cut", () => {
  expect(fitted("conv", 100)).toBe("conv");
  expect(fitted("features/layer_12/conv2d", 74)).toBe("…12/conv2d");
  expect(fitted("features/layer_12/conv2d", 20)).toBe("");
});
