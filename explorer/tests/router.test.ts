import { beforeEach, expect, test } from "vitest";
import { address, currentRoute, setQuery } from "../src/router";

// Of a browser's window, what an address needs.
const location = { hash: "" };
const shown: string[] = [];
const history = {
  pushState: (_state: unknown, _title: string, hash: string) => {
    shown.push(`push ${hash}`);
    location.hash = hash;
  },
  replaceState: (_state: unknown, _title: string, hash: string) => {
    shown.push(`replace ${hash}`);
    location.hash = hash;
  },
};

beforeEach(() => {
  Object.assign(globalThis, { window: { location, history } });
  location.hash = "";
  shown.length = 0;
});

test("an address leaves out parameters that are empty or absent", () => {
  expect(address("models", { q: "", zoo: undefined })).toBe("#/models");
  expect(address("models", { q: "resnet", limit: 0 })).toBe("#/models?q=resnet&limit=0");
});

test("an address repeats a parameter for each value of a list", () => {
  expect(address("models", { zoo: ["timm", "onnx"] })).toBe("#/models?zoo=timm&zoo=onnx");
});

test("what is special in an address is escaped, but for the slashes of a path", () => {
  const name = "models/file:my model?.onnx";
  const written = address(name, { q: "a&b=c#d" });
  expect(written).toBe("#/models/file%3Amy%20model%3F.onnx?q=a%26b%3Dc%23d");
  location.hash = written;
  expect(currentRoute().path).toBe(name);
  expect(currentRoute().query.get("q")).toBe("a&b=c#d");
});

test("a route may have no path, no query, or a path that nobody escaped", () => {
  expect(currentRoute().path).toBe("");
  location.hash = "#models";
  expect(currentRoute().path).toBe("models");
  location.hash = "#/runs/100%";
  expect(currentRoute().path).toBe("runs/100%");
  location.hash = "#/runs?a=1?2";
  expect(currentRoute().query.get("a")).toBe("1?2");
});

test("a changed parameter keeps the others, and an empty value removes one", () => {
  location.hash = "#/models?q=resnet&zoo=timm&offset=50";
  setQuery({ zoo: ["onnx", "keras"], offset: "" });
  expect(location.hash).toBe("#/models?q=resnet&zoo=onnx&zoo=keras");
  setQuery({ q: "vgg" }, true);
  expect(shown.map((entry) => entry.split(" ")[0])).toEqual(["push", "replace"]);
});
