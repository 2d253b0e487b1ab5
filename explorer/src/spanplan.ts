// Which part of a call a timeline shows and what of it can be seen: plain functions, so that they can be tested.
import type { TraceTimeline } from "./answers";

/** A part of a call, as shares of its time. */
export interface View {
  start: number;
  end: number;
}

export interface Bar {
  /** The number of the span. */
  number: number;
  name: string;
  colour: string;
  lane: number;
  x: number;
  width: number;
  laidOut: boolean;
  /** Where its name begins: bars that begin before the window are named inside it. */
  textX: number;
}

const SHORTEST = 1e-6; // of the call
const NARROWEST = 1; // pixel of a bar

/** The same view with this much of the call in it, kept where `at` (a share of the view) points. */
export function zoomed(view: View, factor: number, at = 0.5): View {
  const width = view.end - view.start;
  const next = Math.min(1, Math.max(SHORTEST, width * factor));
  const kept = view.start + width * at;
  return moved({ start: kept - next * at, end: kept + next * (1 - at) }, 0);
}

/** Moved by a share of its own width, and never out of the call. */
export function moved(view: View, by: number): View {
  const width = Math.min(1, view.end - view.start);
  const start = Math.min(Math.max(0, view.start + width * by), 1 - width);
  return { start, end: start + width };
}

/** The bars of a view that is `pixels` wide. Where several are narrower than a pixel, one stands for all of them. */
export function visibleBars(call: TraceTimeline, view: View, pixels: number): Bar[] {
  const [from, to] = [view.start * call.seconds, view.end * call.seconds];
  const scale = pixels / (to - from || 1);
  const last = new Map<number, number>(); // of each lane: where its last bar ends
  const bars: Bar[] = [];
  for (let place = 0; place < call.number.length; place++) {
    const [start, time, lane] = [call.start[place]!, call.time[place]!, call.lane[place]!];
    if (start + time < from || start > to) continue;
    const x = (Math.max(start, from) - from) * scale;
    const end = Math.max((Math.min(start + time, to) - from) * scale, x + NARROWEST);
    if (end - x <= NARROWEST && x < (last.get(lane) ?? -1)) continue;
    last.set(lane, end);
    bars.push({
      number: call.number[place]!,
      name: call.names[call.name[place]!]!,
      colour: call.categories[call.category[place]!]!.colour,
      lane,
      x,
      width: end - x,
      laidOut: call.laid_out[place]!,
      textX: x + 4,
    });
  }
  return bars;
}

const UNITS: [string, number][] = [
  ["s", 1],
  ["ms", 1e-3],
  ["µs", 1e-6],
  ["ns", 1e-9],
];

export interface Tick {
  share: number;
  words: string;
}

/** Round times in a view, at most so many, in the unit that fits its width. */
export function ticks(seconds: number, view: View, most: number): { unit: string; ticks: Tick[] } {
  const [from, to] = [view.start * seconds, view.end * seconds];
  const width = to - from || 1;
  const [unit, size] = UNITS.find(([, known]) => width >= known) ?? UNITS[UNITS.length - 1]!;
  const rough = width / size / Math.max(most, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((digit) => digit * power).find((known) => known >= rough) ?? 10 * power;
  const digits = Math.max(0, -Math.floor(Math.log10(step)));
  const found: Tick[] = [];
  for (let place = Math.ceil(from / size / step - 1e-9); place * step <= to / size + 1e-9 * step; place++) {
    found.push({ share: (place * step * size - from) / width, words: (place * step + 0).toLocaleString("en", { maximumFractionDigits: digits }) });
  }
  return { unit, ticks: found };
}

/** The end of a name tells layers apart: the beginning is cut. */
export function fitted(name: string, pixels: number, letter = 6.6): string {
  const room = Math.floor((pixels - 8) / letter);
  if (name.length <= room) return name;
  return room > 5 ? `…${name.slice(name.length - room + 1)}` : "";
}
