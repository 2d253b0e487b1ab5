// The datasets that lists are narrowed to: the one that is chosen at the head of every page, or those of a task.
import { useAnswer } from "./api";
import { chosen } from "./router";

const NO_DATASET = ""; // no dataset has this name

/** Names for a filter; undefined where everything is wanted. */
export function useChosenDatasets(): string[] | undefined {
  const { data, task } = chosen();
  const { answer } = useAnswer(task && !data ? "/datasets" : null);
  if (data) return [data];
  if (!task) return undefined;
  const names = (answer?.rows ?? []).filter((row) => row.tasks.includes(task)).map((row) => row.name);
  return names.length ? names : [NO_DATASET];
}

/** A name out of an address as a page may show it. Addresses are written by others: signs that turn the direction of what
 * follows, or hide it, become �, as in all that the server answers. */
export function shownName(name: string): string {
  return name.replace(/[\p{Cc}\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu, "\ufffd");
}
