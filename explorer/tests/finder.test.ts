import { expect, test } from "vitest";
import { type Found, local, together } from "../src/components/finder";
import { taskFor, tasksOf, optionOf } from "../src/components/header";
import { kept, moved } from "../src/pages/reports";
import { isSafe } from "../src/components/markdown";

const PAGES = [
  { path: "runs", link: "Runs", about: "all evaluations", group: "Look" as const },
  { path: "traces", link: "Traces", about: "where the time goes, run by run", group: "Understand" as const },
];

globalThis.window ??= { location: { hash: "" } } as Window & typeof globalThis;

test("pages are found by what they are called and by what they are about, and commands by both", () => {
  expect(local("run", PAGES)[0]?.title).toBe("Runs");
  expect(local("time", PAGES).map((one) => one.title)).toContain("Traces");
  expect(local("", PAGES).map((one) => one.kind)).toEqual(["page", "page"]);
  const compare = local("compare two", PAGES).find((one) => one.kind === "command");
  expect(compare?.copies).toBe("zoolens compare");
});

test("what was found by name stands between pages and commands", () => {
  const one = (kind: string): Found => ({ kind, title: kind, detail: "", href: "" });
  expect(together([one("page"), one("command")], [one("model")]).map((found) => found.kind)).toEqual(["page", "model", "command"]);
});

const row = (name: string, ...tasks: string[]) => ({ name, tasks, inputs: 1, runs: 1, models: 1, newest: "" });

test("the address names the task only where the dataset does not say it", () => {
  const rows = [row("digits", "classification"), row("streets", "detection", "segmentation")];
  expect(tasksOf(rows)).toEqual(["classification", "detection", "segmentation"]);
  expect(taskFor(rows[0]!, "classification")).toBe("");
  expect(taskFor(rows[1]!, "segmentation")).toBe("segmentation");
  expect(optionOf(rows, "digits", "")).toBe('["","digits"]');
  expect(optionOf(rows, "digits", "classification")).toBe('["","digits"]');
  expect(optionOf(rows, "streets", "")).toBe('["detection","streets"]');
  expect(optionOf(rows, "", "detection")).toBe('["detection",""]');
  expect(optionOf(rows, "gone", "")).toBe('["","gone"]');
});

test("pieces of a report change places and never leave it", () => {
  const parts = kept({ pieces: [{}, {}, {}] as never });
  expect(moved(parts, 0, 1)).toEqual([{ keep: 1 }, { keep: 0 }, { keep: 2 }]);
  expect(moved(parts, 0, -1)).toEqual(parts);
  expect(moved(parts, 2, 1)).toEqual(parts);
});

test("links of notes lead to pages, and run nothing", () => {
  expect(["https://a.b", "#/runs", "mailto:a@b"].every(isSafe)).toBe(true);
  expect(["javascript:alert(1)", " JavaScript:x", "data:text/html,x", "vbscript:x"].some(isSafe)).toBe(false);
});
