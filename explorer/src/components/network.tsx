// The network of a model: blocks fold and unfold, what costs much is warm, and the picture can be zoomed and moved.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Network } from "../answers";
import { type Box, everything, type Found, findLayers, type Plan, plan } from "../networkplan";
import { setQuery, useQueryState } from "../router";
import { listenToGestures } from "./gestures";

const LEAST = 0.1;
const MOST = 3;
const STEP = 1.25;

export function NetworkPicture({ network, name }: { network: Network; name: string }) {
  const [opened] = useQueryState("open");
  const [measure, setMeasure] = useQueryState("heat", "0");
  const open = useMemo(() => new Set(opened.split(".").filter(Boolean)), [opened]);
  const drawn = useMemo(() => plan(network, open), [network, open]);
  const view = useZoom(drawn.width, drawn.height);
  const at = Math.min(Math.max(Number(measure) || 0, 0), network.measures.length - 1);
  const legend = `Share of ${network.unknown.length ? "the counted" : "the network's"} ${network.measures[at]}`;
  const show = (keys: Iterable<string>) => setQuery({ open: [...keys].join(".") }, true);
  const [wide, setWide] = useState(false);
  const search = useSearch(network, open, drawn.boxes, view);
  const toggle = (key: string) => {
    const next = new Set(open);
    if (!next.delete(key)) next.add(key);
    show(next);
  };
  return (
    <div class={wide ? "network-window" : ""} onKeyDown={(event) => event.key === "Escape" && setWide(false)}>
      <div class="bar" role="group" aria-label="How the picture is shown">
        <button type="button" aria-label="Smaller" onClick={() => view.by(1 / STEP)}>
          −
        </button>
        <span aria-live="polite">{Math.round(view.zoom * 100)} %</span>
        <button type="button" aria-label="Larger" onClick={() => view.by(STEP)}>
          +
        </button>
        <button type="button" onClick={view.fit}>
          Fit
        </button>
        <button type="button" disabled={!network.whole} onClick={() => show(everything(network))}>
          Unfold all
        </button>
        <button type="button" onClick={() => show([])}>
          Fold all
        </button>
        <button type="button" aria-pressed={wide} onClick={() => setWide(!wide)}>
          Whole window
        </button>
        <label class="sorting">
          Colour by{" "}
          <select value={String(at)} onChange={(event) => setMeasure(event.currentTarget.value)}>
            {network.measures.map((title, place) => (
              <option value={String(place)}>{title}</option>
            ))}
          </select>
        </label>
      </div>
      <Search search={search} />
      <ul class="legend" aria-label={legend}>
        <li class="dim">{legend}:</li>
        {network.heats.map((words, heat) => (
          <li>
            <span class={`swatch heat-${heat}`} aria-hidden="true" /> {words}
          </li>
        ))}
      </ul>
      <p class="dim">
        Click a block to unfold it, and a stage to fold it. Ctrl and the wheel, two fingers, or the keys + − 0 zoom; drag to
        move.
        {drawn.undrawn > 0 && ` ${drawn.undrawn.toLocaleString("en")} connections that skip parts are not drawn.`}
        {!network.whole && ` It has ${network.layers.toLocaleString("en")} layers, too many to be shown one by one: blocks stay folded.`}
      </p>
      <div class="network-place">
      <div class="network" ref={view.frame} tabIndex={0} role="group" aria-label={`The network of ${name}`} onKeyDown={view.keys}>
        <div class="canvas" style={{ width: `${drawn.width * view.zoom}px`, height: `${drawn.height * view.zoom}px` }}>
          <div style={{ width: `${drawn.width}px`, height: `${drawn.height}px`, transform: `scale(${view.zoom})`, transformOrigin: "0 0" }}>
            {drawn.boxes.filter((box) => box.kind === "frame").map((box) => <Frame key={box.key} box={box} measure={at} onToggle={toggle} />)}
            <svg width={drawn.width} height={drawn.height} aria-hidden="true">
              {drawn.lines.map((line) => (
                <path d={line} />
              ))}
            </svg>
            {drawn.boxes.filter((box) => box.kind !== "frame").map((box) => <Card key={box.key} box={box} measure={at} found={search.key} onToggle={toggle} />)}
          </div>
        </div>
      </div>
      <Minimap drawn={drawn} view={view} found={search.key} />
      </div>
    </div>
  );
}

// --- search

/** What a search found, and the way from one to the next. What is searched stands in the address. */
function useSearch(network: Network, open: Set<string>, boxes: Box[], view: Zoomed) {
  const [text, setText] = useQueryState("find");
  const [kept] = useQueryState("found", "0");
  const found = useMemo(() => findLayers(network, text), [network, text]);
  const place = found.length ? (Number(kept) || 0) % found.length : 0;
  const here: Found | undefined = found[place];
  const box = here && boxes.find((known) => known.key === here.key);
  const missing = here && !box; // it is folded
  useEffect(() => {
    if (!here || !missing) return;
    const keys = new Set([...open, ...here.unfold]);
    keys.delete(here.stage);
    setQuery({ open: [...keys].join(".") }, true);
  }, [here, missing]);
  useEffect(() => {
    if (box) view.show(box);
  }, [box?.key, box?.y]);
  const go = (step: number) => setQuery({ found: String((place + step + found.length) % Math.max(found.length, 1)) }, true);
  return { text, found, place, key: box?.key ?? "", go, set: (next: string) => setQuery({ find: next, found: "" }, true), clear: () => setText("", true) };
}

function Search({ search }: { search: ReturnType<typeof useSearch> }) {
  const { text, found, place, go, set, clear } = search;
  const keys = (event: KeyboardEvent) => {
    if (event.key === "Enter") go(event.shiftKey ? -1 : 1);
    else if (event.key === "Escape" && text) clear();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div class="bar network-search" role="search">
      <input type="search" aria-label="Find a layer" placeholder="Find a layer by kind, name or shape …" value={text} onInput={(event) => set(event.currentTarget.value)} onKeyDown={keys} />
      <button type="button" disabled={found.length < 2} onClick={() => go(-1)} aria-label="The layer found before">
        ↑
      </button>
      <button type="button" disabled={found.length < 2} onClick={() => go(1)} aria-label="The next layer found">
        ↓
      </button>
      <span role="status" class="dim">
        {text && (found.length ? `${place + 1} of ${found.length.toLocaleString("en")}` : "No layer has these words.")}
      </span>
    </div>
  );
}

// --- minimap

const MAP_WIDTH = 110;
const MAP_HEIGHT = 190;

/** The whole network in small, with what the frame shows. Who has no mouse scrolls the frame with the arrow keys. */
function Minimap({ drawn, view, found }: { drawn: Plan; view: Zoomed; found: string }) {
  const scale = Math.min(MAP_WIDTH / drawn.width, MAP_HEIGHT / drawn.height);
  const [shown, setShown] = useState<[number, number, number, number]>([0, 0, 0, 0]);
  useEffect(() => {
    const element = view.frame.current;
    if (!element) return;
    const update = () =>
      setShown([element.scrollLeft, element.scrollTop, element.clientWidth, element.clientHeight].map((pixels) => pixels / view.zoom) as [number, number, number, number]);
    update();
    element.addEventListener("scroll", update, { passive: true });
    const observer = new ResizeObserver(update);
    observer.observe(element);
    return () => {
      element.removeEventListener("scroll", update);
      observer.disconnect();
    };
  }, [view.zoom, drawn.height]);
  const [left, top, width, height] = shown;
  if (width >= drawn.width && height >= drawn.height) return null; // all of it is seen
  const move = (event: PointerEvent & { currentTarget: SVGSVGElement }) => {
    if (event.type === "pointermove" && event.buttons !== 1) return;
    const { left: x, top: y } = event.currentTarget.getBoundingClientRect();
    view.frame.current?.scrollTo(((event.clientX - x) / scale - width / 2) * view.zoom, ((event.clientY - y) / scale - height / 2) * view.zoom);
  };
  return (
    <svg class="minimap" width={drawn.width * scale} height={drawn.height * scale} viewBox={`0 0 ${drawn.width} ${drawn.height}`} aria-hidden="true" onPointerDown={move} onPointerMove={move}>
      {drawn.boxes
        .filter((box) => box.kind !== "stage")
        .map((box) => (
          <rect x={box.x} y={box.y} width={box.width} height={box.height} class={box.key === found ? "map-found" : box.kind} />
        ))}
      <rect x={left} y={top} width={Math.min(width, drawn.width)} height={Math.min(height, drawn.height)} class="map-view" />
    </svg>
  );
}

interface BoxProps {
  found: string;
  box: Box;
  measure: number;
  onToggle: (key: string) => void;
}

function place(box: Box) {
  return { left: `${box.x}px`, top: `${box.y}px`, width: `${box.width}px`, height: `${box.height}px` };
}

function Card({ box, measure, found, onToggle }: BoxProps) {
  const cost = box.costs[measure];
  const kind = `box ${box.key === found ? "found" : ""} ${box.kind} heat-${box.kind === "stage" && box.open ? "none" : (cost?.heat ?? 0)}`;
  const text = (
    <>
      <bdi class="title">{box.title}</bdi>
      <span class="cost">{cost ? [cost.words, cost.share].filter(Boolean).join(" · ") : ""}</span>
      <bdi class="detail">{box.detail}</bdi>
    </>
  );
  if (!box.folds) {
    return (
      <div class={kind} style={place(box)} title={`${box.title}\n${box.detail}`}>
        {text}
      </div>
    );
  }
  return (
    <button type="button" class={`${kind} fold`} style={place(box)} aria-expanded={box.open} onClick={() => onToggle(box.key)}>
      {text}
    </button>
  );
}

/** Lies behind what is in it; its title folds it. */
function Frame({ box, measure, onToggle }: Omit<BoxProps, "found">) {
  const cost = box.costs[measure];
  return (
    <div class="box frame" style={place(box)}>
      <button type="button" class={`fold heat-${cost?.heat ?? 0}`} aria-expanded={true} onClick={() => onToggle(box.key)}>
        <bdi class="title">{box.title}</bdi>
        <span class="cost">{cost ? [cost.words, cost.share].filter(Boolean).join(" · ") : ""}</span>
      </button>
    </div>
  );
}

// --- zoom

type Zoomed = ReturnType<typeof useZoom>;

/** The zoom of a picture in a frame that scrolls. It is kept in the address; without one the width fits. */
function useZoom(width: number, height: number) {
  const [kept, setKept] = useQueryState("zoom");
  const frame = useRef<HTMLDivElement>(null);
  const room = frame.current?.clientWidth || Math.min(window.innerWidth - 40, 1200);
  const zoom = Number(kept) ? limited(Number(kept) / 100) : limited(Math.min(1, room / width));
  const now = useRef(zoom);
  now.current = zoom;
  /** Zoom, and keep the point (x, y) of the frame where it is. */
  const to = (next: number, x?: number, y?: number) => {
    const element = frame.current;
    const target = limited(next);
    setKept(String(Math.round(target * 100)), true);
    if (!element) return;
    const [left, top] = [x ?? element.clientWidth / 2, y ?? element.clientHeight / 2];
    const [dx, dy] = [(element.scrollLeft + left) / now.current, (element.scrollTop + top) / now.current];
    now.current = target;
    requestAnimationFrame(() => element.scrollTo(dx * target - left, dy * target - top));
  };
  const by = (factor: number) => to(now.current * factor);
  const fit = () => {
    const element = frame.current;
    if (element) to(Math.min(element.clientWidth / width, element.clientHeight / height));
  };
  useGestures(frame, now, to);
  const keys = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const action = { "+": () => by(STEP), "=": () => by(STEP), "-": () => by(1 / STEP), "0": fit }[event.key];
    if (!action) return;
    action();
    event.preventDefault();
  };
  /** Bring a box into the middle of the frame. */
  const show = (box: Box) => {
    const element = frame.current;
    if (!element) return;
    const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
    element.scrollTo(x * now.current - element.clientWidth / 2, y * now.current - element.clientHeight / 2);
  };
  return { frame, zoom, by, fit, keys, show };
}

function limited(zoom: number): number {
  return Math.min(Math.max(zoom, LEAST), MOST);
}

/** The wheel with Ctrl (which is also what a pinch on a touchpad sends), two fingers, and dragging with the mouse. */
function useGestures(
  frame: { current: HTMLDivElement | null },
  now: { current: number },
  to: (next: number, x?: number, y?: number) => void,
) {
  const zoomTo = useRef(to);
  zoomTo.current = to;
  useEffect(() => {
    const element = frame.current;
    if (!element) return;
    const fingers = new Map<number, PointerEvent>();
    let apart = 0; // how far two fingers were apart when they began, at a zoom of 1
    const spread = () => {
      const [one, other] = [...fingers.values()];
      return one && other ? Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY) : 0;
    };
    const wheel = (event: WheelEvent) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const { left, top } = element.getBoundingClientRect();
      zoomTo.current(now.current * Math.exp(-event.deltaY / 300), event.clientX - left, event.clientY - top);
    };
    const down = (event: PointerEvent) => {
      fingers.set(event.pointerId, event);
      if (fingers.size === 2) apart = spread() / now.current;
    };
    const move = (event: PointerEvent) => {
      const before = fingers.get(event.pointerId);
      if (!before) return;
      fingers.set(event.pointerId, event);
      if (fingers.size === 2 && apart) zoomTo.current(spread() / apart);
      else if (event.pointerType === "mouse" && event.buttons === 1) {
        element.scrollBy(before.clientX - event.clientX, before.clientY - event.clientY);
      }
    };
    const up = (event: PointerEvent) => {
      fingers.delete(event.pointerId);
      apart = 0;
    };
    return listenToGestures(element, { wheel, down, move, up });
  }, []);
}
