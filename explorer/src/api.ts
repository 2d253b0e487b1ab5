// The client of the JSON API. Answers are typed by the path that is asked; the types come from the server's code.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Answers } from "./answers";
import { noteAnswer, noteSilence, useReturns } from "./connection";

export type Parameters = Record<string, string | number | boolean | string[] | undefined | null>;

/** Where answers come from: the server, or the files of an exported bundle. */
export interface Source {
  get(path: string, parameters: Parameters, signal?: AbortSignal): Promise<unknown>;
  /** The address of something that is no JSON, such as an image. */
  url(path: string, parameters: Parameters): string;
  /** Whether a path can be asked at all, and whether a page has something of this name to show. */
  holds(path: string): boolean;
  holdsView(page: string, rest?: string): boolean;
  /** Whether this very question can be asked. */
  holdsAnswer(path: string, parameters: Parameters): boolean;
  /** What a page has to show, by name; undefined where that is not limited. */
  subjects(page: string): string[] | undefined;
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

/** The answer of the server, whatever it is; ApiError with status 0 where there is none. */
async function asked(url: string, settings: RequestInit): Promise<Response> {
  try {
    const response = await fetch(url, settings);
    noteAnswer();
    return response;
  } catch (error) {
    if (!(error instanceof TypeError)) throw error; // somebody has given the question up
    noteSilence();
    throw new ApiError("The server of the explorer does not answer.", 0);
  }
}

const server: Source = {
  live: true,
  get: async (path, parameters, signal) => read(await asked(serverUrl(path, parameters), { signal })),
  url: serverUrl,
  holds: () => true,
  holdsView: () => true,
  holdsAnswer: () => true,
  subjects: () => undefined,
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

/** Whether this very question can be asked: a bundle has the answers to some. */
export function holdsAnswer<Path extends keyof Answers>(path: Path, parameters: Parameters): boolean {
  return source.holdsAnswer(path, parameters);
}

/** What a bundle has for a page, by name; undefined where there is a server. */
export function subjectsOf(page: string): string[] | undefined {
  return source.subjects(page);
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
  const response = await asked(`${BASE}${path}`, {
    method,
    headers: body === undefined ? {} : { "Content-Type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  return (await read(response)) as Answer;
}

/** Send the bytes of a file, and what is asked of it as the query. */
export async function upload<Answer>(path: string, parameters: Parameters, content: Blob): Promise<Answer> {
  const response = await asked(resourceUrl(path, parameters), { method: "POST", body: content });
  return (await read(response)) as Answer;
}

/** The bytes of something that is no JSON. */
export async function download(path: string, parameters: Parameters): Promise<Blob> {
  const response = await asked(resourceUrl(path, parameters), {});
  if (!response.ok) await read(response);
  return response.blob();
}

/** The description of the API, as OpenAPI has it. */
export async function description<Description>(): Promise<Description> {
  return (await read(await asked(`${BASE}/openapi.json`, {}))) as Description;
}

export interface Asked<Answer> {
  /** The last answer about the same thing; that of another filter stays until the next is here, and none after an error
   * of the server. Where the server does not answer at all, that of the very same question stays, and the page says that
   * it may be old. */
  answer?: Answer;
  error?: ApiError;
  loading: boolean;
  again: () => void;
}

/** The answer of a path, asked again when the parameters change. `null` as path asks nothing. */
export function useAnswer<Path extends keyof Answers>(path: Path | null, parameters: Parameters = {}): Asked<Answers[Path]> {
  type State = { key: string; subject: string; question: string; answer?: Answers[Path]; error?: ApiError };
  const [state, setState] = useState<State>({ key: "", subject: "", question: "" });
  const [count, setCount] = useState(0);
  const returns = useReturns();
  const key = path === null ? "" : JSON.stringify([path, parameters, count, returns]);
  const subject = path === null ? "" : subjectOf(path, parameters);
  const question = JSON.stringify([path, parameters]);
  const latest = useRef(key);
  latest.current = key;
  // In a layout effect, so that the question is on its way before the page is painted.
  useLayoutEffect(() => {
    if (path === null) return;
    const controller = new AbortController();
    get(path, parameters, controller.signal)
      .then((answer) => latest.current === key && setState({ key, subject, question, answer }))
      .catch((error: unknown) => {
        if (controller.signal.aborted) return;
        const known = error instanceof ApiError ? error : new ApiError(String(error), 0);
        setState((before) => {
          const kept = known.status === 0 && before.question === question ? before.answer : undefined;
          return { key, subject, question, error: known, answer: kept };
        });
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

const AGAIN = 2500; // milliseconds: a server of models writes every two seconds at first, and agents give a sign every ten

export const OPENING = 1000; // milliseconds until data that are being opened are asked for again

/** Ask again a while after each answer, as long as something may change. */
export function useAgain(active: boolean, again: () => void, answer: unknown, pause = AGAIN): void {
  useEffect(() => {
    if (!active) return;
    const timer = setTimeout(again, pause);
    return () => clearTimeout(timer);
  }, [active, answer]);
}
