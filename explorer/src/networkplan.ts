// Where everything of a network stands in the picture, in pixels, given what is unfolded. The layout itself (what is a
// block, which row and column a layer has, who uses whose values) comes from the server.
import type { CostWords, Network, NetworkBlock, NetworkPart, NetworkStage } from "./answers";

export interface Box {
  key: string;
  /** "stage" heads what follows; "frame" lies behind the boxes inside it; the others stand for themselves. */
  kind: "stage" | "frame" | "card" | "layer";
  x: number;
  y: number;
  width: number;
  height: number;
  title: string;
  detail: string;
  costs: (CostWords | null)[];
  /** Whether it can be folded or unfolded, and what it is now. */
  folds: boolean;
  open: boolean;
}

export interface Plan {
  boxes: Box[];
  /** Paths of an SVG. */
  lines: string[];
  /** Connections that skip parts and are not drawn, because there are too many. */
  undrawn: number;
  width: number;
  height: number;
}

const WIDTH = 300; // of a box
const COLUMN = 336;
const TALL = 44;
const GAP = 18;
const INSET = 12; // of a frame
const TITLE = 34; // of a frame
const HEADING = 40; // of a stage
const LANE = 9;
const LANES = 6;
const MOST_SKIPS = 60;
const LEFT = LANE * LANES + 3 * INSET;
const MIDDLE = LEFT + WIDTH / 2;

/** Keys of everything that can be unfolded. */
export function everything(network: Network): string[] {
  return network.stages.flatMap((stage) =>
    stage.parts.flatMap((part) =>
      part.single || !part.blocks.some((block) => block.layers.length)
        ? []
        : [partKey(part), ...(part.blocks.length > 1 ? part.blocks.map((_, place) => blockKey(part, place)) : [])],
    ),
  );
}

/** Something that a search found: its box, and what must be unfolded for it to be seen. */
export interface Found {
  key: string;
  title: string;
  unfold: string[];
  /** The stage that must not be folded. */
  stage: string;
}

/** Layers, and parts that are not shown layer by layer, whose words, source or shape have all of these words. */
export function findLayers(network: Network, text: string): Found[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return [];
  const found: Found[] = [];
  const look = (candidate: Found, ...texts: string[]) => {
    const all = [candidate.title, ...texts].join(" ").toLowerCase();
    if (words.every((word) => all.includes(word))) found.push(candidate);
  };
  network.stages.forEach((stage, at) => {
    for (const part of stage.parts) {
      const key = partKey(part);
      const inside = part.single ? [] : part.blocks.flatMap((block, place) => block.layers.map((layer, number) => ({ layer, place, number })));
      if (!inside.length) look({ key, title: part.title, unfold: [], stage: stageKey(at) }, part.shape, ...part.blocks.flatMap((block) => block.layers.map((layer) => layer.source)));
      for (const { layer, place, number } of inside) {
        const series = part.blocks.length > 1;
        const own = series ? blockKey(part, place) : key;
        look({ key: `${own}-${number}`, title: layer.words, unfold: series ? [key, own] : [key], stage: stageKey(at) }, layer.source, layer.shape);
      }
    }
  });
  return found;
}

export function stageKey(place: number): string {
  return `s${place}`;
}

function partKey(part: NetworkPart): string {
  return `p${part.place}`;
}

function blockKey(part: NetworkPart, place: number): string {
  return `b${part.place}-${place}`;
}

/** `open`: keys of parts and blocks that are unfolded, and of stages that are folded. */
export function plan(network: Network, open: Set<string>): Plan {
  const drawing = new Drawing(open);
  network.stages.forEach((stage, place) => drawing.stage(stage, place));
  return drawing.finish();
}

interface Port {
  box: string;
  top: number;
  bottom: number;
}

class Drawing {
  private boxes: Box[] = [];
  private lines: string[] = [];
  private ports = new Map<number, Port>(); // by the place of a part
  private wanted: [number, number][] = []; // which part uses which
  private y = 8;
  private right = LEFT + WIDTH;

  constructor(private open: Set<string>) {}

  stage(stage: NetworkStage, place: number): void {
    const key = stageKey(place);
    const folded = this.open.has(key);
    const layers = `${stage.layers.toLocaleString("en")} ${stage.layers === 1 ? "layer" : "layers"}`;
    const top = this.y;
    this.add({ key, kind: "stage", x: LEFT, y: top, width: WIDTH, height: HEADING - 8, title: stage.name, detail: layers, costs: stage.costs, folds: true, open: !folded });
    this.y += folded ? HEADING - 8 + GAP : HEADING;
    for (const part of stage.parts) {
      if (folded) this.ports.set(part.place, { box: key, top, bottom: top + HEADING - 8 });
      else this.part(part);
      part.inputs.forEach((source) => this.wanted.push([source, part.place]));
    }
  }

  private part(part: NetworkPart): void {
    const key = partKey(part);
    const top = this.y;
    const [only] = part.blocks;
    if (part.single || !this.open.has(key)) {
      const folds = !part.single && part.blocks.some((block) => block.layers.length > 0);
      const own = part.single && only?.layers[0];
      this.add({ key, kind: part.single ? "layer" : "card", x: LEFT, y: top, width: WIDTH, height: TALL, title: part.title, detail: details(own ? own.source : layersOf(part), part.shape), costs: part.costs, folds, open: false });
      this.y += TALL;
    } else if (part.blocks.length === 1 && only) {
      this.block(only, key, INSET);
    } else {
      this.series(part, key);
    }
    this.ports.set(part.place, { box: key, top, bottom: this.y });
    this.y += GAP;
  }

  /** Equal blocks behind one another, each of which can be unfolded. */
  private series(part: NetworkPart, key: string): void {
    const frame = this.add({ key, kind: "frame", x: LEFT - 2 * INSET, y: this.y, width: 0, height: 0, title: part.title, detail: details(layersOf(part), part.shape), costs: part.costs, folds: true, open: true });
    const entry = this.y + TITLE;
    const bottoms: number[] = [];
    let lane = 0;
    this.y += TITLE + GAP;
    part.blocks.forEach((block, place) => {
      for (const source of block.inputs) {
        const start = source < 0 ? entry : bottoms[source]!;
        const aside = LEFT - 2 * INSET + 5 + 6 * (lane % 3);
        if (source === place - 1) this.lines.push(`M${MIDDLE} ${start} V${this.y}`);
        else {
          this.lines.push(`M${MIDDLE} ${start} v5 H${aside} V${this.y - 5} H${MIDDLE} V${this.y}`);
          lane += 1;
        }
      }
      const own = blockKey(part, place);
      if (this.open.has(own)) this.block(block, own, INSET);
      else {
        this.add({ key: own, kind: "card", x: LEFT, y: this.y, width: WIDTH, height: TALL, title: block.title, detail: details(layerCount(block.count), block.shape), costs: block.costs, folds: block.layers.length > 0, open: false });
        this.y += TALL;
      }
      bottoms.push(this.y);
      this.y += GAP;
    });
    const last = bottoms[bottoms.length - 1]!;
    this.y += INSET - GAP;
    if (part.blocks[part.blocks.length - 1]!.ends.length) this.lines.push(`M${MIDDLE} ${last} V${this.y}`);
    this.close(frame, 2 * INSET);
  }

  /** The layers of a block on its grid, inside a frame. */
  private block(block: NetworkBlock, key: string, inset: number): void {
    const frame = this.add({ key, kind: "frame", x: LEFT - inset, y: this.y, width: 0, height: 0, title: block.title, detail: details(layerCount(block.count), block.shape), costs: block.costs, folds: true, open: true });
    const first = this.y + TITLE + GAP;
    const left = (column: number) => LEFT + column * COLUMN;
    const top = (row: number) => first + row * (TALL + GAP);
    const rows = Math.max(...block.layers.map((layer) => layer.row)) + 1;
    block.layers.forEach((layer, place) =>
      this.add({ key: `${key}-${place}`, kind: "layer", x: left(layer.column), y: top(layer.row), width: WIDTH, height: TALL, title: layer.words, detail: details(layer.source, layer.shape), costs: layer.costs, folds: false, open: false }),
    );
    const taken = new Set(block.layers.map((layer) => `${layer.row} ${layer.column}`));
    const bottom = top(rows) - GAP + INSET;
    let lane = 0;
    const connect = (from: { row: number; column: number } | null, to: { row: number; column: number } | null) => {
      const [row, column] = from ? [from.row, from.column] : [-1, 0];
      const [endRow, endColumn] = to ? [to.row, to.column] : [rows, 0];
      const start = from ? top(row) + TALL : first - GAP;
      const end = to ? top(endRow) : bottom;
      const [x1, x2] = [left(column) + WIDTH / 2, left(endColumn) + WIDTH / 2];
      const above = to ? end - GAP / 2 : bottom - INSET / 2; // between two rows
      const blocked = (at: number) => Array.from({ length: Math.max(0, endRow - row - 1) }, (_, step) => `${row + 1 + step} ${at}`).some((cell) => taken.has(cell));
      if (!blocked(column)) this.lines.push(x1 === x2 ? `M${x1} ${start} V${end}` : `M${x1} ${start} V${above} H${x2} V${end}`);
      else if (x1 !== x2 && !blocked(endColumn)) this.lines.push(`M${x1} ${start} V${start + GAP / 2} H${x2} V${end}`);
      else {
        const aside = left(Math.max(column, endColumn)) + WIDTH + 8 + 8 * (lane++ % 3); // between two columns
        this.right = Math.max(this.right, aside);
        this.lines.push(`M${x1} ${start} V${start + GAP / 2} H${aside} V${above} H${x2} V${end}`);
      }
    };
    block.lines.forEach(([from, to]) => connect(from === -1 ? null : block.layers[from!]!, block.layers[to!]!));
    block.ends.forEach((place) => connect(block.layers[place]!, null));
    this.y = bottom;
    this.close(frame, inset);
  }

  private add(box: Box): Box {
    this.boxes.push(box);
    this.right = Math.max(this.right, box.x + box.width);
    return box;
  }

  /** Give a frame the size of what was put into it. */
  private close(frame: Box, inset: number): void {
    const inside = this.boxes.slice(this.boxes.indexOf(frame) + 1);
    const right = Math.max(...inside.map((box) => box.x + box.width), LEFT + WIDTH);
    frame.width = right + inset + 24 - frame.x;
    frame.height = this.y - frame.y;
    this.right = Math.max(this.right, frame.x + frame.width);
  }

  finish(): Plan {
    const seen = new Set<string>();
    const skips: [Port, Port][] = [];
    for (const [from, to] of this.wanted) {
      const [source, target] = [this.ports.get(from), this.ports.get(to)];
      if (!source || !target || source.box === target.box || seen.has(`${source.box} ${target.box}`)) continue;
      seen.add(`${source.box} ${target.box}`);
      const between = [...this.ports.values()].some((port) => port.top > source.bottom && port.bottom < target.top);
      if (between) skips.push([source, target]);
      else this.lines.push(`M${MIDDLE} ${source.bottom} V${target.top}`);
    }
    const drawn = skips.length <= MOST_SKIPS ? skips : [];
    drawn.forEach(([source, target], place) => {
      const lane = 4 + LANE * (place % LANES);
      this.lines.push(`M${MIDDLE} ${source.bottom} v5 H${lane} V${target.top - 5} H${MIDDLE} V${target.top}`);
    });
    return { boxes: this.boxes, lines: this.lines, undrawn: skips.length - drawn.length, width: this.right + INSET, height: this.y + 8 };
  }
}

function layersOf(part: NetworkPart): string {
  return layerCount(part.blocks.reduce((sum, block) => sum + block.count, 0));
}

function layerCount(count: number): string {
  return `${count.toLocaleString("en")} ${count === 1 ? "layer" : "layers"}`;
}

function details(...words: string[]): string {
  return words.filter(Boolean).join(" · ");
}
