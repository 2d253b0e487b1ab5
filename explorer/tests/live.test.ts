// What several classifiers say is counted by the names of classes, and what is pasted is taken only where it is an image.
import { expect, test } from "vitest";
import { imageIn } from "../src/components/camera";
import { votes } from "../src/pages/live";

test("votes are counted by the names of classes, in any case", () => {
  const said = (label: string) => ({ label, named: true, words: "", took: "" });
  expect(votes([["a", said("Bag")], ["b", said("Shirt")], ["c", said("shirt")]])).toEqual([
    { label: "Shirt", models: ["b", "c"] },
    { label: "Bag", models: ["a"] },
  ]);
});

test("the first image among what is pasted is taken, and no text", () => {
  const file = new File(["x"], "x.png", { type: "image/png" });
  const item = (kind: string, type: string) => ({ kind, type, getAsFile: () => file });
  expect(imageIn([item("string", "text/plain"), item("file", "image/png")])).toBe(file);
  expect(imageIn([item("string", "text/html"), item("file", "application/pdf")])).toBe(null);
});
