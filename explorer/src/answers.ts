// Written by scripts/make_ui_types.py from the endpoints that src/zoolens/ui/resources declares: do not edit.

/** `store`: its file name or address. `runs`: evaluations in it. */
export interface About {
  version: string;
  store: string;
  runs: number;
}

export interface Facet {
  name: string;
  values: (FacetValue)[];
}

/** How many rows have this value, counted among those that fit all other facets and the search. */
export interface FacetValue {
  value: string;
  count: number;
}

/** `words` is the value with its unit, and marks where it is a claim or was disturbed; `interval` is the value with the interval in the same unit. `value` is null where it could not be had, and `reason` says why. */
export interface Figure {
  metric: string;
  scope: string;
  value: number | null;
  low: number | null;
  high: number | null;
  unit: string;
  n: number | null;
  provenance: Provenance;
  words: string;
  interval: string;
  reason: string;
}

/** The newest evaluation of a model, and what it found. */
export interface LatestRun {
  id: string;
  created: string;
  dataset: string;
  runtime: string;
  top1: Figure | null;
  latency_p50: Figure | null;
}

/** One model. `listed`: a zoo of this machine has it; otherwise only the store knows it. `params`, `bytes` and `claimed_top1` are what its source says. `activity`: runs in equal stretches of time from `since` until `until`. */
export interface ModelItem {
  ref: string;
  zoo: string;
  name: string;
  version: string;
  listed: boolean;
  task: string;
  formats: (string)[];
  licence: string;
  weights: string;
  params: number | null;
  params_words: string;
  bytes: number | null;
  bytes_words: string;
  claimed_top1: number | null;
  claimed_top1_words: string;
  description: string;
  runs: number;
  runtimes: (string)[];
  datasets: (string)[];
  activity: (number)[];
  latest: LatestRun | null;
}

/** `total` models fit, of `all` there are. `complete`: every zoo was listed; otherwise ask again. `notes`: what could not be listed, and why. */
export interface ModelPage {
  total: number;
  all: number;
  offset: number;
  rows: (ModelItem)[];
  facets: (Facet)[];
  since: string | null;
  until: string | null;
  complete: boolean;
  notes: (string)[];
}

/** Where a number comes from; never absent, never guessed. */
export type Provenance = "measured" | "estimated" | "claimed" | "unavailable";

/** What a GET of each path answers. */
export interface Answers {
  "/about": About;
  "/models": ModelPage;
}
