// The state of every view lives in the address, behind the #: "#/models?zoo=timm&q=resnet". Behind the # it works on any
// server, below any path and from a disk.
import { useEffect, useState } from "preact/hooks";

export interface Route {
  /** The path without its leading slash, such as "models" or "runs/1a2b". */
  path: string;
  query: URLSearchParams;
}

const listeners = new Set<() => void>();

export function currentRoute(): Route {
  const [path = "", query = ""] = split(window.location.hash.replace(/^#\/?/, ""));
  return { path: decode(path), query: new URLSearchParams(query) };
}

function split(text: string): [string, string] {
  const at = text.indexOf("?");
  return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + 1)];
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The dataset and the task that are chosen once, at the head of every page; empty: all. They go along into every
 * address that says nothing else of them. */
export function chosen(): { data: string; task: string } {
  const { query } = currentRoute();
  return { data: query.get("data") ?? "", task: query.get("task") ?? "" };
}

/** The address of a view. Parameters that are empty or absent are left out. */
export function address(path: string, query: Record<string, string | number | string[] | undefined> = {}): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(chosen())) if (value && !(name in query)) parameters.set(name, value);
  for (const [name, value] of Object.entries(query)) {
    if (Array.isArray(value)) value.forEach((one) => parameters.append(name, one));
    else if (value !== undefined && value !== "") parameters.set(name, String(value));
  }
  const text = parameters.toString();
  return `#/${path.split("/").map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

function go(path: string, query: URLSearchParams, replace: boolean): void {
  const text = query.toString();
  const hash = `#/${path.split("/").map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
  if (replace) window.history.replaceState(null, "", hash);
  else window.history.pushState(null, "", hash);
  listeners.forEach((listener) => listener());
}

/** The route, and again whenever it changes. */
export function useRoute(): Route {
  const [route, setRoute] = useState(currentRoute);
  useEffect(() => {
    const update = () => setRoute(currentRoute());
    listeners.add(update);
    window.addEventListener("hashchange", update);
    window.addEventListener("popstate", update);
    return () => {
      listeners.delete(update);
      window.removeEventListener("hashchange", update);
      window.removeEventListener("popstate", update);
    };
  }, []);
  return route;
}

/** Change several parameters of the address at once; an empty value removes one. `replace` adds nothing to the history. */
export function setQuery(changes: Record<string, string | string[]>, replace = false): void {
  const { path, query } = currentRoute();
  for (const [name, value] of Object.entries(changes)) {
    query.delete(name);
    if (Array.isArray(value)) value.forEach((one) => query.append(name, one));
    else if (value !== "") query.set(name, value);
  }
  go(path, query, replace);
}

/** One parameter of the address as state: its value, and how to change it. What equals `initial` is not written. */
export function useQueryState(name: string, initial = ""): [string, (value: string, replace?: boolean) => void] {
  const { query } = useRoute();
  const value = query.get(name) ?? initial;
  return [value, (next, replace = false) => setQuery({ [name]: next === initial ? "" : next }, replace)];
}

/** A parameter that may occur several times, as state. */
export function useQueryList(name: string): [string[], (values: string[]) => void] {
  const { query } = useRoute();
  return [query.getAll(name), (values) => setQuery({ [name]: values })];
}
