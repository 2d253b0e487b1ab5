// The range of a small history holds the intervals, and is never empty.
import { expect, test } from "vitest";
import type { MeasuredPoint } from "../src/answers";
import { rangeOf } from "../src/components/measured";

function point(value: number | null, low: number | null = null, high: number | null = null): MeasuredPoint {
  return { figure: { value, low, high } } as MeasuredPoint;
}

test("the range holds values and intervals", () => {
  expect(rangeOf([point(0.5, 0.4, 0.6), point(0.7)])).toEqual({ low: 0.4, high: 0.7 });
  expect(rangeOf([point(null)])).toEqual({ low: 0, high: 1 });
  const { low, high } = rangeOf([point(2)]);
  expect(low).toBeLessThan(2);
  expect(high).toBeGreaterThan(2);
});
