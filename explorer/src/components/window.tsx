// Which stretch of a call a timeline shows: kept in the address as shares (?from=0.2&to=0.4), chosen by dragging over
// the chart or with buttons.
import { useRef } from "preact/hooks";
import { isLive } from "../api";
import { setQuery, useRoute } from "../router";
import { Chart, type Spec } from "./chart";

export interface Stretch {
  start: number;
  end: number;
}

const SHORTEST = 0.0005;

export function useStretch(): Stretch {
  const { query } = useRoute();
  const share = (name: string, usual: number) => {
    const value = Number(query.get(name) ?? usual);
    return value >= 0 && value <= 1 ? value : usual;
  };
  const start = share("from", 0);
  const end = share("to", 1);
  return end > start ? { start, end } : { start: 0, end: 1 };
}

export function showStretch(start: number, end: number): void {
  const width = Math.min(1, Math.max(end - start, SHORTEST));
  const first = Math.min(Math.max(start, 0), 1 - width);
  const digits = (value: number) => String(Number(value.toFixed(5)));
  setQuery({ from: first > 0 ? digits(first) : "", to: first + width < 1 ? digits(first + width) : "" }, true);
}

interface TimelineProps {
  spec: Spec;
  title: string;
  stretch: Stretch;
  /** Called with the band and the number of the span that is clicked. */
  onPick: (band: number, span: number) => void;
}

const PAUSE = 350; // milliseconds after the last movement of a drag

export function TimelineChart({ spec, title, stretch, onPick }: TimelineProps) {
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const { start, end } = stretch;
  const width = end - start;
  const chosen = (_: string, value: unknown) => {
    clearTimeout(timer.current);
    const range = (value as { x?: [number, number] } | null)?.x;
    const shown = domain(spec);
    if (!range || !shown) return;
    const [low, high] = shown;
    const share = (at: number) => start + (width * (at - low)) / (high - low);
    const [first, last] = [Math.min(...range), Math.max(...range)];
    if (last - first < (high - low) * 0.005) return;
    timer.current = setTimeout(() => showStretch(share(first), share(last)), PAUSE);
  };
  if (!isLive()) return <Chart spec={spec} title={title} />; // a part of it is drawn by the server
  return (
    <>
      <div class="bar zoom" role="group" aria-label="The part of the call that is shown">
        <button type="button" onClick={() => showStretch(start + width / 4, end - width / 4)}>
          Zoom in
        </button>
        <button type="button" disabled={width >= 1} onClick={() => showStretch(start - width / 2, end + width / 2)}>
          Zoom out
        </button>
        <button type="button" disabled={start <= 0} onClick={() => showStretch(start - width / 2, end - width / 2)}>
          ← Earlier
        </button>
        <button type="button" disabled={end >= 1} onClick={() => showStretch(start + width / 2, end + width / 2)}>
          Later →
        </button>
        <button type="button" disabled={width >= 1} onClick={() => showStretch(0, 1)}>
          Whole call
        </button>
        <span class="dim">Drag over the timeline to see a part of it; click a bar to see what it is.</span>
      </div>
      <Chart
        spec={spec}
        title={title}
        signals={["window"]}
        onSignal={chosen}
        onPick={(datum) => typeof datum.number === "number" && onPick(Number(datum.band), datum.number)}
      />
    </>
  );
}

/** The times that the chart shows, in its own unit. */
function domain(spec: Spec): [number, number] | undefined {
  const [bars] = (spec.layer ?? []) as { encoding?: { x?: { scale?: { domain?: [number, number] } } } }[];
  return bars?.encoding?.x?.scale?.domain;
}
