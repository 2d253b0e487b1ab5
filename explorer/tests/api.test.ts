import { afterEach, expect, test } from "vitest";
import { ApiError, get, resourceUrl, send } from "../src/api";
import { isLost } from "../src/connection";

const real = globalThis.fetch;
afterEach(() => {
  globalThis.fetch = real;
});

function answering(answer: () => Response): [string, RequestInit | undefined][] {
  const asked: [string, RequestInit | undefined][] = [];
  globalThis.fetch = async (url, settings) => {
    asked.push([String(url), settings]);
    return answer();
  };
  return asked;
}

test("names in a path are escaped, but for their slashes, and other parameters are the query", () => {
  expect(resourceUrl("/runs/{id}/inputs", { id: "a b/c?", index: 3 })).toBe("api/v1/runs/a%20b/c%3F/inputs?index=3");
  expect(resourceUrl("/models", { zoo: ["timm", "onnx"], q: "a&b", since: undefined })).toBe("api/v1/models?zoo=timm&zoo=onnx&q=a%26b");
});

test("an answer is its JSON", async () => {
  const asked = answering(() => Response.json({ total: 1 }));
  expect(await get("/runs", { q: "x" })).toEqual({ total: 1 });
  expect(asked[0]?.[0]).toBe("api/v1/runs?q=x");
});

test("an error is the server's own sentence, or says its status where there is none", async () => {
  answering(() => Response.json({ error: "No run has this id." }, { status: 404 }));
  await expect(get("/runs")).rejects.toMatchObject({ message: "No run has this id.", status: 404 });
  answering(() => new Response("<html>", { status: 502 }));
  await expect(get("/runs")).rejects.toMatchObject({ message: "The server answered 502.", status: 502 });
});

test("a server that does not answer is lost until it does", async () => {
  globalThis.fetch = async () => {
    throw new TypeError("fetch failed");
  };
  await expect(get("/runs")).rejects.toMatchObject({ status: 0 });
  expect(isLost()).toBe(true);
  answering(() => Response.json({}));
  await get("/runs");
  expect(isLost()).toBe(false);
});

test("a question that was given up is no silence of the server", async () => {
  globalThis.fetch = async () => {
    throw new DOMException("aborted", "AbortError");
  };
  await expect(get("/runs")).rejects.not.toBeInstanceOf(ApiError);
  expect(isLost()).toBe(false);
});

test("a change sends JSON, and nothing where nothing is said", async () => {
  const asked = answering(() => Response.json({}));
  await send("POST", "/jobs", { kind: "compare" });
  await send("DELETE", "/jobs/1");
  expect(asked[0]?.[1]).toMatchObject({ method: "POST", body: '{"kind":"compare"}', headers: { "Content-Type": "application/json" } });
  expect(asked[1]?.[1]).toMatchObject({ method: "DELETE", headers: {} });
  expect(asked[1]?.[1]?.body).toBeUndefined();
});
