// Alarms that a reader has seen and hidden, by the digests of what they are about: in this browser, and in no store.
import { useState } from "preact/hooks";

const KEY = "zoolens-hidden-alarms";
const MOST = 200; // the newest count

export function hiddenAlarms(): string[] {
  try {
    const kept: unknown = JSON.parse(window.localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(kept) ? kept.filter((one) => typeof one === "string") : [];
  } catch {
    return []; // this browser keeps nothing, or somebody else wrote it
  }
}

/** What is hidden, how one more is, and how all are shown again. Where the browser keeps nothing, until the page is left. */
export function useHiddenAlarms(): [string[], (about: string) => void, () => void] {
  const [hidden, setHidden] = useState(hiddenAlarms);
  const keep = (next: string[]) => {
    setHidden(next);
    try {
      window.localStorage.setItem(KEY, JSON.stringify(next));
    } catch {
      // It is hidden on this page alone.
    }
  };
  return [hidden, (about) => keep([...hidden, about].slice(-MOST)), () => keep([])];
}
