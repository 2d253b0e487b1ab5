// Numbers of a difference: the sign stands, the minus is a true one, and 0 has none.
import { expect, test } from "vitest";
import { decimals, signed } from "../src/components/difference";

test("a difference has its sign", () => {
  expect(signed(1.284, 2)).toBe("+1.28");
  expect(signed(-0.1, 2)).toBe("−0.10");
  expect(signed(-0.001, 2)).toBe("0.00");
});

test("digits follow the width of the interval, and points have two", () => {
  expect(decimals(-1.3, 1.1, "points")).toBe(2);
  expect(decimals(0.01, 0.034, "")).toBe(3);
  expect(decimals(-120, 80, "ms")).toBe(0);
  expect(decimals(1, 1, "")).toBe(2);
});
