// One call as a timeline that is zoomed and moved without steps: the wheel, a drag, two fingers, keys, or the buttons. What
// is shown is kept in the address once the hand rests.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { TraceTimeline } from "../answers";
import { fitted, moved, ticks, type View, visibleBars, zoomed } from "../spanplan";
import { listenToGestures } from "./gestures";
import { showStretch, type Stretch } from "./window";

const ROW = 24;
const AXIS = 26;
const PAUSE = 300; // milliseconds until the address is written
const STEP = 1.4; // of a key or a button
const DRAGGED = 4; // pixels from which on a click is a drag
const TICK = 110; // pixels between two times
const EDGE = 50; // pixels that the last of them may need

interface SpanTimelineProps {
  call: TraceTimeline;
  title: string;
  stretch: Stretch;
  picked: number | null;
  onPick: (number: number) => void;
}

export function SpanTimeline({ call, title, stretch, picked, onPick }: SpanTimelineProps) {
  const [view, setView] = useView(stretch);
  const [frame, width] = useWidth();
  const bars = useMemo(() => visibleBars(call, view, width), [call, view, width]);
  const scale = ticks(call.seconds, view, Math.max(2, width / TICK));
  const whole = view.end - view.start >= 1;
  useGestures(frame, setView);
  const keys = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const change = KEYS[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!change) return;
    setView(change);
    event.preventDefault();
  };
  const height = AXIS + call.lanes * ROW;
  return (
    <>
      <div class="bar zoom" role="group" aria-label="The part of the call that is shown">
        <button type="button" onClick={() => setView((now) => zoomed(now, 1 / STEP))}>
          Zoom in
        </button>
        <button type="button" disabled={whole} onClick={() => setView((now) => zoomed(now, STEP))}>
          Zoom out
        </button>
        <button type="button" disabled={view.start <= 0} onClick={() => setView((now) => moved(now, -0.5))}>
          ← Earlier
        </button>
        <button type="button" disabled={view.end >= 1} onClick={() => setView((now) => moved(now, 0.5))}>
          Later →
        </button>
        <button type="button" disabled={whole} onClick={() => setView(() => ({ start: 0, end: 1 }))}>
          Whole call
        </button>
        <span class="dim">
          Click into it, then the wheel or W and S zoom, a drag or A and D move, 0 shows the whole call. Ctrl and the wheel zoom
          at once.
        </span>
      </div>
      <ul class="legend" aria-label="Colours">
        {call.categories.map(({ name, colour }) => (
          <li>
            <svg class="swatch" width="16" height="12" aria-hidden="true">
              <rect width="16" height="12" fill={colour} />
            </svg>{" "}
            <bdi>{name}</bdi>
          </li>
        ))}
      </ul>
      <figure class="spans" aria-label={title}>
        <div ref={frame} class="spans-frame" role="application" aria-label={`${title}: zoom with W and S, move with A and D`} tabIndex={0} onKeyDown={keys}>
          <svg width={width} height={height} aria-hidden="true">
            {scale.ticks.map(({ share, words }) => (
              <>
                <line x1={share * width} x2={share * width} y1={AXIS - 6} y2={height} class="grid" />
                <text x={share * width > width - EDGE ? width - 3 : share * width + 3} y={14} class={share * width > width - EDGE ? "tick last" : "tick"}>
                  {words} {scale.unit}
                </text>
              </>
            ))}
            {bars.map((bar) => (
              <g class={bar.number === picked ? "span picked" : "span"} data-span={bar.number}>
                <rect x={bar.x} y={AXIS + bar.lane * ROW} width={bar.width} height={ROW - 3} rx={bar.width > 6 ? 2 : 0} fill={bar.colour} class={bar.laidOut ? "laid-out" : ""}>
                  <title>{bar.name}</title>
                </rect>
                {bar.width > 40 && (
                  <text x={bar.textX} y={AXIS + bar.lane * ROW + 15} class="span-name">
                    {fitted(bar.name, bar.width)}
                  </text>
                )}
              </g>
            ))}
          </svg>
        </div>
        <figcaption class="dim">
          {call.words} in all, {call.spans.toLocaleString("en")} spans
          {call.left_out > 0 && `; ${call.left_out.toLocaleString("en")} of the shortest are not drawn`}
          {call.laid_out.some(Boolean) && ". Of bars with a dashed edge only the duration was measured, and not when they began"}.
        </figcaption>
      </figure>
      <PickedByClick frame={frame} onPick={onPick} />
    </>
  );
}

const KEYS: Record<string, (view: View) => View> = {
  w: (view) => zoomed(view, 1 / STEP),
  "+": (view) => zoomed(view, 1 / STEP),
  "=": (view) => zoomed(view, 1 / STEP),
  s: (view) => zoomed(view, STEP),
  "-": (view) => zoomed(view, STEP),
  a: (view) => moved(view, -0.15),
  ArrowLeft: (view) => moved(view, -0.15),
  d: (view) => moved(view, 0.15),
  ArrowRight: (view) => moved(view, 0.15),
  Home: (view) => moved(view, -1e9),
  End: (view) => moved(view, 1e9),
  "0": () => ({ start: 0, end: 1 }),
};

type Change = (change: (view: View) => View) => void;

/** The view follows the hand at once, and the address a moment later; an address that somebody else wrote is followed. */
function useView(stretch: Stretch): [View, Change] {
  const [view, setView] = useState<View>(stretch);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const { start, end } = stretch;
  useEffect(() => {
    clearTimeout(timer.current);
    setView({ start, end });
  }, [start, end]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const change: Change = (by) =>
    setView((before) => {
      const next = by(before);
      clearTimeout(timer.current);
      timer.current = setTimeout(() => showStretch(next.start, next.end), PAUSE);
      return next;
    });
  return [view, change];
}

function useWidth(): [{ current: HTMLDivElement | null }, number] {
  const frame = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(1000);
  useEffect(() => {
    const element = frame.current;
    if (!element) return;
    const observer = new ResizeObserver(() => setWidth(Math.max(element.clientWidth, 100)));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return [frame, width];
}

function useGestures(frame: { current: HTMLDivElement | null }, change: Change): void {
  const latest = useRef(change);
  latest.current = change;
  useEffect(() => {
    const element = frame.current;
    if (!element) return;
    const fingers = new Map<number, PointerEvent>();
    const share = (x: number) => (x - element.getBoundingClientRect().left) / element.clientWidth;
    const wheel = (event: WheelEvent) => {
      const sideways = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
      if (!event.ctrlKey && !event.metaKey && !sideways && document.activeElement !== element) return;
      event.preventDefault();
      if (sideways) latest.current((view) => moved(view, (event.deltaX || event.deltaY) / element.clientWidth));
      else latest.current((view) => zoomed(view, Math.exp(event.deltaY / 250), share(event.clientX)));
    };
    const down = (event: PointerEvent) => fingers.set(event.pointerId, event);
    const move = (event: PointerEvent) => {
      const before = fingers.get(event.pointerId);
      if (!before) return;
      const other = [...fingers.values()].find((finger) => finger.pointerId !== event.pointerId);
      fingers.set(event.pointerId, event);
      if (!other) {
        latest.current((view) => moved(view, (before.clientX - event.clientX) / element.clientWidth));
        return;
      }
      const [apart, now] = [Math.abs(before.clientX - other.clientX), Math.abs(event.clientX - other.clientX)];
      if (apart > 8 && now > 8) latest.current((view) => zoomed(view, apart / now, share((event.clientX + other.clientX) / 2)));
    };
    const up = (event: PointerEvent) => fingers.delete(event.pointerId);
    return listenToGestures(element, { wheel, down, move, up });
  }, []);
}

/** A click on a bar picks it; the end of a drag is no click. */
function PickedByClick({ frame, onPick }: { frame: { current: HTMLDivElement | null }; onPick: (number: number) => void }) {
  const latest = useRef(onPick);
  latest.current = onPick;
  useEffect(() => {
    const element = frame.current;
    if (!element) return;
    let from = 0;
    const down = (event: PointerEvent) => {
      from = event.clientX;
    };
    const click = (event: MouseEvent) => {
      const bar = (event.target as Element).closest("[data-span]");
      if (bar && Math.abs(event.clientX - from) < DRAGGED) latest.current(Number(bar.getAttribute("data-span")));
    };
    element.addEventListener("pointerdown", down);
    element.addEventListener("click", click);
    return () => {
      element.removeEventListener("pointerdown", down);
      element.removeEventListener("click", click);
    };
  }, []);
  return null;
}
