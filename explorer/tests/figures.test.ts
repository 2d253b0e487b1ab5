import { expect, test } from "vitest";
import { capital, counted } from "../src/figures";

test("a count has its word, in full", () => {
  expect(counted(1, "run")).toBe("1 run");
  expect(counted(24_000, "run")).toBe("24,000 runs");
  expect(counted(0, "switch", "switches")).toBe("0 switches");
  expect(capital("median latency")).toBe("Median latency");
});
