import { expect, test } from "vitest";
import { count, counted, figure, figureWithEnds } from "../src/figures";
import examples from "./figures.json";

test.each(examples)("$value in '$unit' reads as on the terminal and in reports", (example) => {
  const { value, low, high, unit } = example;
  expect(figure(value, unit)).toBe(example.words);
  expect(figureWithEnds(value, low, high, unit)).toBe(example.with_ends);
});

test("a figure that is not known is a dash", () => {
  expect(figure(null, "s")).toBe("–");
  expect(figure(Number.NaN)).toBe("–");
});

test("large counts are shortened, and counts have their word", () => {
  expect([0, 10, 61_706, 2_270_000].map(count)).toEqual(["0", "10", "61.7k", "2.27M"]);
  expect(counted(1, "run")).toBe("1 run");
  expect(counted(24_000, "run")).toBe("24,000 runs");
  expect(counted(2, "entry", "entries")).toBe("2 entries");
});
