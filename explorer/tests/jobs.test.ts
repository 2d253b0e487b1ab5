import { expect, test } from "vitest";
import type { Job } from "../src/answers";
import { hasEnded, namesIn } from "../src/jobs";

test("names may have commas, spaces and lines between them", () => {
  expect(namesIn(" demo:mlp-small, timm:resnet18\nfile:a.onnx ,")).toEqual(["demo:mlp-small", "timm:resnet18", "file:a.onnx"]);
  expect(namesIn("  ")).toEqual([]);
});

test("a job that waits or runs has not ended", () => {
  const states = ["queued", "running", "done", "failed", "cancelled"];
  expect(states.filter((state) => hasEnded({ state } as Job))).toEqual(["done", "failed", "cancelled"]);
});
