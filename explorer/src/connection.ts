// Whether the server of the explorer answers. While it does not, the page says so and looks for it, and when it is back
// everything on the page is asked again.
import { useEffect, useState } from "preact/hooks";

const PAUSE = 2000; // milliseconds between two looks for the server
const LOOKED_FOR = "api/v1/about";

let lost = false;
let returns = 0; // how often the server came back
const listeners = new Set<() => void>();

function change(): void {
  listeners.forEach((listener) => listener());
}

/** The server has answered, whatever it said. */
export function noteAnswer(): void {
  if (!lost) return;
  lost = false;
  returns += 1;
  change();
}

/** The server was asked and did not answer. */
export function noteSilence(): void {
  if (lost) return;
  lost = true;
  change();
  look();
}

function look(): void {
  setTimeout(() => {
    if (lost) fetch(LOOKED_FOR, { cache: "no-store" }).then(noteAnswer, look);
  }, PAUSE);
}

export function isLost(): boolean {
  return lost;
}

/** Whether the server does not answer, and again whenever that changes. */
export function useLost(): boolean {
  return useFollowed(() => lost);
}

/** How often the server came back: what depends on it is asked again each time. */
export function useReturns(): number {
  return useFollowed(() => returns);
}

function useFollowed<Value>(read: () => Value): Value {
  const [value, setValue] = useState(read);
  useEffect(() => {
    const update = () => setValue(read);
    listeners.add(update);
    update();
    return () => void listeners.delete(update);
  }, []);
  return value;
}
