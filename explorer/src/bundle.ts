// A second source of answers: the files of an exported bundle. They are scripts, because a page that is opened from a
// disk may load scripts and nothing else. What is searched, chosen and sorted in lists is found here, among rows that
// the server's own functions gave.
import { ApiError, type Parameters, type Source } from "./api";

type Row = Record<string, unknown>;
type Place = [pack: number, place: number];
interface Failure {
  error: string;
  status: number;
}
interface ListAbout {
  /** Fields of a request that narrow a list, and those that choose one of its variants; others say what it is about. */
  narrowing: string[];
  variants?: string[];
  patterns: Record<string, string>;
  equals: Record<string, string>;
  /** Fields of a request that end in _low or _high, and the number of a row that they limit. */
  ranges: Record<string, string>;
  since: string;
  /** Numbers of the answer that say how many rows come last, because what they are sorted by is not known. */
  last: string[];
}
interface Kept {
  defaults: Record<string, string>;
  answers?: Record<string, Place | Failure>;
  files?: Record<string, string>;
  /** A field of the rows by which a request names those that it wants. */
  picked?: string;
  list?: ListAbout;
  tables?: Record<string, Place>;
}
interface BundleIndex {
  format: number;
  subjects: Record<string, string[]>;
  endpoints: Record<string, Kept>;
}
interface KeptTable {
  count: number;
  size: number;
  rows: Place[];
  search: string[] | null;
  fields: Record<string, unknown[]>;
  facets: { name: string; values: { value: string; places: number[] }[]; usual: string[] }[];
  parts: Record<string, Record<string, Place>>;
  variants: Record<string, Place | Failure>;
}
interface Part {
  places: number[];
  rest: Row;
}
interface Variant {
  rest: Row;
  /** The places of the rows in their order, or how many of the first rows there are. */
  places: number[] | number;
  patches: Record<string, Record<string, unknown>>;
}

const NOT_HERE = "This is not in this bundle: whoever made it chose other runs. The explorer itself (zoolens ui) has all of them.";
const NO_PICTURE =
  "data:image/svg+xml," +
  encodeURIComponent(
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 160 60" width="160" height="60"><rect width="160" height="60" fill="#888" opacity=".15"/>' +
      '<text x="80" y="34" text-anchor="middle" font-family="sans-serif" font-size="11" fill="#888">not in this bundle</text></svg>',
  );

const packs = new Map<number, Promise<unknown[]>>();
const arrived = new Map<number, unknown[]>();

export function bundleIndex(): BundleIndex | undefined {
  return (globalThis as { zoolensBundle?: BundleIndex }).zoolensBundle;
}

function loadPack(number: number): Promise<unknown[]> {
  let pack = packs.get(number);
  if (!pack) {
    pack = new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = `data/${number}.js`;
      script.onload = () => {
        const values = arrived.get(number);
        if (values) resolve(values);
        else reject(new ApiError(`The file data/${number}.js of this bundle is damaged.`, 0));
      };
      script.onerror = () => {
        packs.delete(number);
        reject(new ApiError(`The file data/${number}.js of this bundle is missing.`, 0));
      };
      document.head.append(script);
    });
    packs.set(number, pack);
  }
  return pack;
}

async function load<Value>([pack, place]: Place): Promise<Value> {
  return (await loadPack(pack))[place] as Value;
}

function failed(kept: unknown): kept is Failure {
  return typeof kept === "object" && kept !== null && "error" in kept;
}

/** How a bundle names a request: the parameters that are not the defaults, in the order of their names. */
function keyOf(kept: Kept, parameters: Parameters, names: string[]): string {
  const told: Record<string, string> = {};
  for (const name of [...names].sort()) {
    const value = parameters[name];
    if (value === undefined || value === null || value === "" || Array.isArray(value)) continue;
    if (String(value) !== (kept.defaults[name] ?? "")) told[name] = String(value);
  }
  return JSON.stringify(told);
}

export function bundleSource(index: BundleIndex): Source {
  (globalThis as { zoolensPack?: unknown }).zoolensPack = (number: number, values: unknown[]) => arrived.set(number, values);
  return {
    live: false,
    async get(path, parameters) {
      const kept = index.endpoints[path];
      if (!kept) throw new ApiError(NOT_HERE, 404);
      if (kept.list) return listed(kept, kept.list, parameters);
      const answer = kept.answers?.[keyOf(kept, parameters, Object.keys(parameters))];
      if (!answer) throw new ApiError(NOT_HERE, 404);
      if (failed(answer)) throw new ApiError(answer.error, answer.status);
      return kept.picked ? pickedRows(await load<Row>(answer), kept.picked, parameters) : load(answer);
    },
    url(path, parameters) {
      const kept = index.endpoints[path];
      return kept?.files?.[keyOf(kept, parameters, Object.keys(parameters))] ?? NO_PICTURE;
    },
    holdsAnswer(path, parameters) {
      const kept = index.endpoints[path];
      return Boolean(kept?.answers?.[keyOf(kept, parameters, Object.keys(parameters))]);
    },
    subjects(page) {
      return index.subjects[page] ?? [];
    },
    holds(path) {
      return path in index.endpoints;
    },
    holdsView(page, rest) {
      const known = index.subjects[page];
      return rest === undefined || rest === "" ? (known?.length ?? 1) > 0 : (known?.includes(rest) ?? false);
    },
  };
}

/** The rows that a request names; what the answer says of missing ones is said where one is missing. */
function pickedRows(answer: Row, field: string, parameters: Parameters): Row {
  const wanted = [parameters[field] ?? []].flat().map(String);
  const rows = (answer.rows as Row[]).filter((row) => wanted.includes(String(row[field])));
  return { ...answer, rows, sentence: rows.length < wanted.length ? answer.sentence : "" };
}

// --- lists

async function listed(kept: Kept, about: ListAbout, parameters: Parameters): Promise<Row> {
  const names = Object.keys(parameters).filter((name) => name !== "offset" && name !== "limit");
  const varied = about.variants ?? [];
  const subject = names.filter((name) => !about.narrowing.includes(name) && !varied.includes(name));
  const at = kept.tables?.[keyOf(kept, parameters, subject)];
  if (!at) throw new ApiError(NOT_HERE, 404);
  const table = await load<KeptTable>(at);
  const chosen = table.variants[keyOf(kept, parameters, names.filter((name) => varied.includes(name)))];
  if (!chosen) throw new ApiError(NOT_HERE, 404);
  if (failed(chosen)) throw new ApiError(chosen.error, chosen.status);
  const variant = await load<Variant>(chosen);
  const parts: Part[] = [];
  for (const [name, places] of Object.entries(table.parts)) {
    const number = parameters[name] ?? "";
    if (number === "") continue;
    const part = places[String(number)];
    if (!part) throw new ApiError(NOT_HERE, 404);
    parts.push(await load<Part>(part));
  }
  const { fitting, facets } = narrow(table, about, parameters, parts);
  const ordered = typeof variant.places === "number" ? Array.from({ length: variant.places }, (_, place) => place) : variant.places;
  const places = ordered.filter((place) => fitting[place]);
  const offset = Number(parameters.offset ?? 0);
  const shown = places.slice(offset, offset + Number(parameters.limit ?? 50));
  const pieces = new Map<number, Row[]>();
  for (const piece of new Set(shown.map((place) => Math.floor(place / table.size)))) {
    pieces.set(piece, await load<Row[]>(table.rows[piece]!));
  }
  const rows = shown.map((place) => {
    const kept = pieces.get(Math.floor(place / table.size))![place % table.size]!;
    if (typeof kept !== "object") return kept;
    const row: Row = { ...kept };
    for (const [name, values] of Object.entries(variant.patches)) if (String(place) in values) row[name] = values[String(place)];
    return row;
  });
  const answer: Row = Object.assign({ ...variant.rest }, ...parts.map((part) => part.rest));
  for (const name of about.last) {
    answer[name] = ordered.slice(ordered.length - Number(variant.rest[name] ?? 0)).filter((place) => fitting[place]).length;
  }
  if (table.facets.length) answer.facets = facets;
  return { ...answer, total: places.length, offset, rows };
}

/** Which rows fit what is searched and chosen, and how many each value of a facet would give. */
function narrow(table: KeptTable, about: ListAbout, parameters: Parameters, parts: Part[]) {
  const { count } = table;
  const all = (names: boolean[][]) => Array.from({ length: count }, (_, place) => names.every((mask) => mask[place]));
  const flags = (places: number[]) => {
    const mask = new Array<boolean>(count).fill(false);
    places.forEach((place) => (mask[place] = true));
    return mask;
  };
  const masks = [...searched(table, about, parameters), ...parts.map((part) => flags(part.places))];
  const byFacet = new Map<string, boolean[]>();
  const values = (name: string) => [parameters[name] ?? []].flat().map(String);
  for (const facet of table.facets) {
    const picked = values(facet.name);
    const meant = picked.length ? picked : facet.usual;
    if (!meant.length) continue;
    byFacet.set(facet.name, flags(facet.values.filter(({ value }) => meant.includes(value)).flatMap(({ places }) => places)));
  }
  const facets = table.facets.map((facet) => {
    const others = all([...masks, ...[...byFacet].filter(([name]) => name !== facet.name).map(([, mask]) => mask)]);
    const picked = values(facet.name);
    const counted = facet.values.map(({ value, places }) => ({ value, count: places.filter((place) => others[place]).length }));
    for (const value of picked) if (!counted.some((one) => one.value === value)) counted.push({ value, count: 0 });
    return { name: facet.name, values: counted.filter((one) => one.count > 0 || [...picked, ...(picked.length ? [] : facet.usual)].includes(one.value)) };
  });
  return { fitting: all([...masks, ...byFacet.values()]), facets };
}

/** Masks of the words that are searched for, of names with * and ?, and of a stretch of time. */
function searched(table: KeptTable, about: ListAbout, parameters: Parameters): boolean[][] {
  const masks: boolean[][] = [];
  const facets = new Set(table.facets.map((facet) => facet.name));
  const words = table.search ? String(parameters.q ?? "").toLowerCase().split(/\s+/).filter(Boolean) : [];
  for (const word of words) {
    masks.push((table.search ?? []).map((text) => text.includes(word)));
  }
  for (const [name, field] of Object.entries(about.ranges)) {
    const limit = parameters[name] === undefined || parameters[name] === "" ? NaN : Number(parameters[name]);
    if (Number.isNaN(limit)) continue;
    const column = (table.fields[field] ?? []).map(Number);
    masks.push(column.map((value) => (name.endsWith("_low") ? value >= limit : value <= limit)));
  }
  for (const [name, field] of Object.entries(about.patterns)) {
    const patterns = [parameters[name] ?? []].flat().map((text) => expression(String(text)));
    if (facets.has(name) || !patterns.length) continue;
    const column = (table.fields[field] ?? []).map(String);
    masks.push(column.map((text) => patterns.some((pattern) => pattern.test(text) || pattern.test(text.replace(/@[^@]*$/, "")))));
  }
  for (const [name, field] of Object.entries(about.equals)) {
    const wanted = [parameters[name] ?? []].flat().map(String).filter(Boolean);
    if (wanted.length) masks.push((table.fields[field] ?? []).map((value) => wanted.includes(String(value))));
  }
  for (const [name, sign] of [["since", 1], ["until", -1]] as const) {
    const limit = parameters[name] ? Date.parse(String(parameters[name])) : NaN;
    if (Number.isNaN(limit)) continue;
    const column = (table.fields[about.since] ?? []).map((text) => Date.parse(String(text)));
    masks.push(column.map((moment) => (sign > 0 ? moment >= limit : moment < limit)));
  }
  return masks;
}

function expression(pattern: string): RegExp {
  const text = pattern.replace(/[.+^${}()|[\]\\]/g, "\\$&").replaceAll("*", ".*").replaceAll("?", ".");
  return new RegExp(`^${text}$`, "is");
}
