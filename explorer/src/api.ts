// The client of the JSON API. Answers are typed by the path that is asked; the types come from the server's code.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Answers } from "./answers";

export type Parameters = Record<string, string | number | boolean | string[] | undefined | null>;

/** Where answers come from: the server, or the files of an exported bundle. */
export interface Source {
  get(path: string, parameters: Parameters, signal?: AbortSignal): Promise<unknown>;
  /** The address of something that is no JSON, such as an image. */
  url(path: string, parameters: Parameters): string;
  /** Whether a path can be asked at all, and whether a page has something of this name to show. */
  holds(path: string): boolean;
  holdsView(page: string, rest?: string): boolean;
  /** Whether anything can be started or changed. */
  readonly live: boolean;
}

export class ApiError extends Error {
  constructor(message: string, readonly status: number) {
    super(message);
  }
}

const BASE = "api/v1";

function serverUrl(path: string, parameters: Parameters): string {
  const rest: Parameters = { ...parameters };
  const filled = path.replace(/{(\w+)}/g, (_, name: string) => {
    const value = rest[name];
    delete rest[name];
    return String(value).split("/").map(encodeURIComponent).join("/");
  });
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(rest)) {
    if (Array.isArray(value)) value.forEach((one) => query.append(name, one));
    else if (value !== undefined && value !== null) query.set(name, String(value));
  }
  const text = query.toString();
  return `${BASE}${filled}${text ? `?${text}` : ""}`;
}

async function read(response: Response): Promise<unknown> {
  const data: unknown = await response.json().catch(() => null);
  if (response.ok) return data;
  const sentence = (data as { error?: string } | null)?.error;
  throw new ApiError(sentence ?? `The server answered ${response.status}.`, response.status);
}

const server: Source = {
  live: true,
  async get(path, parameters, signal) {
    try {
      return await read(await fetch(serverUrl(path, parameters), { signal }));
    } catch (error) {
      if (error instanceof TypeError) throw new ApiError("The server of the explorer does not answer.", 0);
      throw error;
    }
  },
  url: serverUrl,
  holds: () => true,
  holdsView: () => true,
};

let source: Source = server;

/** Take answers from somewhere else, before anything is shown. */
export function setSource(other: Source): void {
  source = other;
}

export function isLive(): boolean {
  return source.live;
}

/** The address of something that is no JSON, such as an image. */
export function resourceUrl(path: string, parameters: Parameters = {}): string {
  return source.url(path, parameters);
}

/** Whether a path can be asked: of a bundle, only what was chosen for it. */
export function holds(path: string): boolean {
  return source.holds(path);
}

/** Whether a page has something of this name to show. */
export function holdsView(page: string, rest?: string): boolean {
  return source.holdsView(page, rest);
}

export async function get<Path extends keyof Answers>(
  path: Path,
  parameters: Parameters = {},
  signal?: AbortSignal,
): Promise<Answers[Path]> {
  return (await source.get(path, parameters, signal)) as Answers[Path];
}

/** Ask for a change. Only the server of the explorer can do it, never a bundle. */
export async function send<Answer>(method: "POST" | "DELETE", path: string, body?: unknown): Promise<Answer> {
  const response = await fetch(`${BASE}${path}`, {
    method,
    headers: body === undefined ? {} : { "Content-Type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  return (await read(response)) as Answer;
}

/** Send the bytes of a file, and what is asked of it as the query. */
export async function upload<Answer>(path: string, parameters: Parameters, content: Blob): Promise<Answer> {
  const response = await fetch(resourceUrl(path, parameters), { method: "POST", body: content });
  return (await read(response)) as Answer;
}

export interface Asked<Answer> {
  /** The last answer about the same thing; that of another filter stays until the next is here, and none after an error. */
  answer?: Answer;
  error?: ApiError;
  loading: boolean;
  again: () => void;
}

/** The answer of a path, asked anew when the parameters change. `null` as path asks nothing. */
export function useAnswer<Path extends keyof Answers>(path: Path | null, parameters: Parameters = {}): Asked<Answers[Path]> {
  type State = { key: string; subject: string; answer?: Answers[Path]; error?: ApiError };
  const [state, setState] = useState<State>({ key: "", subject: "" });
  const [count, setCount] = useState(0);
  const key = path === null ? "" : JSON.stringify([path, parameters, count]);
  const subject = path === null ? "" : subjectOf(path, parameters);
  const latest = useRef(key);
  latest.current = key;
  // In a layout effect, so that the question is on its way before the page is painted.
  useLayoutEffect(() => {
    if (path === null) return;
    const controller = new AbortController();
    get(path, parameters, controller.signal)
      .then((answer) => latest.current === key && setState({ key, subject, answer }))
      .catch((error: unknown) => {
        if (controller.signal.aborted) return;
        const known = error instanceof ApiError ? error : new ApiError(String(error), 0);
        setState({ key, subject, error: known });
      });
    return () => controller.abort();
  }, [key]);
  return {
    answer: state.subject === subject ? state.answer : undefined,
    error: state.key === key ? state.error : undefined,
    loading: state.key !== key,
    again: () => setCount((before) => before + 1),
  };
}

/** The path with the names in it: what is asked about, whatever is asked of it. */
function subjectOf(path: string, parameters: Parameters): string {
  return path.replace(/{(\w+)}/g, (_, name: string) => encodeURIComponent(String(parameters[name])));
}
