// Charts: Vega-Lite specs that the server makes, drawn by the same vega as in reports. It is fetched with the first chart.
import type { RefObject } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { type Spec, fills, fitted, headingOf, untitled } from "../chartwidth";
import { useReturns } from "../connection";
import type { Source } from "./addtoreport";
import { ChartMenu } from "./chartmenu";

export type { Spec };

interface View {
  addSignalListener(name: string, handler: (name: string, value: unknown) => void): void;
  addEventListener(type: string, handler: (event: unknown, item: { datum?: Record<string, unknown> } | null) => void): void;
  finalize(): void;
}
type Embed = (place: HTMLElement, spec: Spec, options: Spec) => Promise<{ view: View }>;

// Our content security policy forbids code and styles that are made of text: `ast` is how vega does without the former.
const OPTIONS = {
  ast: true,
  renderer: "svg",
  actions: false,
  mode: "vega-lite",
  defaultStyle: false,
  tooltip: { disableDefaultStyle: true },
};

let loading: Promise<Embed> | undefined;

function vegaEmbed(): Promise<Embed> {
  loading ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = "vega.js";
    script.onload = () => resolve((window as unknown as { vegaEmbed: Embed }).vegaEmbed);
    script.onerror = () => {
      loading = undefined; // the next chart tries again
      reject(new Error("vega.js cannot be loaded"));
    };
    document.head.append(script);
  });
  return loading;
}

interface ChartProps {
  spec: Spec;
  /** What the chart shows, for who cannot see it. */
  title: string;
  /** Called with the datum of the mark that is clicked. */
  onPick?: (datum: Record<string, unknown>) => void;
  /** Names of the spec's parameters (selections) to follow, and what is called with their values. */
  signals?: string[];
  /** The question whose answer it is: with it, the chart can be added to a report. */
  source?: Source;
  onSignal?: (name: string, value: unknown) => void;
}

/** A spec that fills its place is drawn as wide as the page is; any other says its own width. Its title is text above it. */
export function Chart({ spec, title, onPick, signals = [], onSignal, source }: ChartProps) {
  const place = useRef<HTMLDivElement>(null);
  const scrolls = useScrolling(place);
  const [error, setError] = useState("");
  const filling = fills(spec);
  const width = useWidth(place, filling);
  const text = JSON.stringify(filling ? fitted(spec, width) : untitled(spec));
  const again = useReturns() && error ? 1 : 0; // what could not be drawn without the server is drawn when it is back
  const handlers = useRef({ onPick, onSignal });
  handlers.current = { onPick, onSignal };
  useEffect(() => {
    let view: View | undefined;
    let gone = false;
    if (filling && !width) return; // the place is not laid out yet
    setError("");
    vegaEmbed()
      .then((embed) => {
        return gone || !place.current ? undefined : embed(place.current, JSON.parse(text) as Spec, OPTIONS);
      })
      .then((result) => {
        view = result?.view;
        if (gone) view?.finalize();
        // Nothing is said of the empty rectangles with which a reader selects.
        place.current?.querySelectorAll('g[class*="_brush"]').forEach((mark) => mark.setAttribute("aria-hidden", "true"));
        view?.addEventListener("click", (_, item) => item?.datum && handlers.current.onPick?.(item.datum));
        for (const name of signals) {
          view?.addSignalListener(name, (known, value) => handlers.current.onSignal?.(known, value));
        }
      })
      .catch((problem: unknown) => setError(String(problem)));
    return () => {
      gone = true;
      view?.finalize();
    };
  }, [text, again]);
  return (
    <figure class={`chart ${onPick ? "pickable" : ""} ${filling ? "" : "of-its-own-width"}`} aria-label={title} tabIndex={scrolls ? 0 : undefined}>
      <Heading spec={spec} />
      {/* Thousands of marks say nothing to who hears them: the title and the tables do. */}
      <div ref={place} aria-hidden="true" />
      {!error && <ChartMenu place={place} spec={spec} title={title} source={source} />}
      {error && <p role="alert">The chart cannot be drawn: {error}</p>}
    </figure>
  );
}

function Heading({ spec }: { spec: Spec }) {
  const [title, subtitle] = headingOf(spec);
  const unbroken = subtitle.replace(/(\d) (?=(%|[µmn]?s|[kMG]?B)(?![\w]))/g, "$1\u00a0"); // a figure and its unit stay on one line
  return (
    <figcaption>
      {title && <b>{title}</b>}
      {subtitle && <span class="dim">{unbroken}</span>}
    </figcaption>
  );
}

const WIDTH_STEP = 16; // pixels by which a place must change before what is in it is drawn again

/** How wide the place of a chart is; 0 until it is known. */
function useWidth(place: RefObject<HTMLDivElement | null>, wanted: boolean): number {
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const box = place.current?.parentElement;
    if (!box || !wanted) return;
    const measure = () => setWidth((known) => (Math.abs(box.clientWidth - known) < WIDTH_STEP ? known : box.clientWidth));
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(box);
    return () => observer.disconnect();
  }, [wanted]);
  return width;
}

/** Whether what is drawn is wider than its place: on narrow screens it is not made so small that nobody can read it, and
 * whoever has no mouse scrolls it with the arrow keys. */
function useScrolling(place: RefObject<HTMLDivElement | null>): boolean {
  const [scrolls, setScrolls] = useState(false);
  useEffect(() => {
    const figure = place.current?.parentElement;
    if (!figure) return;
    const observer = new ResizeObserver(() => setScrolls(figure.scrollWidth > figure.clientWidth));
    observer.observe(figure);
    return () => observer.disconnect();
  }, []);
  return scrolls;
}
