// A chart as a file of its own: what its marks are drawn from as CSV, and its picture as SVG and PNG in light colours.
import type { Spec } from "./components/chart";

type Row = Record<string, unknown>;

/** The rows of all marks of a chart, each set of them once. */
export function rowsOf(spec: Spec): Row[] {
  const found = new Map<string, Row[]>();
  const walk = (value: unknown) => {
    if (Array.isArray(value)) value.forEach(walk);
    else if (typeof value === "object" && value !== null) {
      const rows = (value as { values?: unknown }).values;
      if ("values" in value && Array.isArray(rows) && rows.every((row) => typeof row === "object" && row !== null)) {
        found.set(JSON.stringify(rows), rows as Row[]);
      } else Object.values(value).forEach(walk);
    }
  };
  const parts = (part: Spec) => {
    walk(part.data);
    for (const name of ["layer", "vconcat", "hconcat", "concat"]) for (const inner of (part[name] as Spec[] | undefined) ?? []) parts(inner);
    if (part.spec) parts(part.spec as Spec);
  };
  parts(spec);
  return [...found.values()].flat();
}

const STEERS = /^[=+\-@\t\r]/; // a spreadsheet would compute what begins so

function cell(value: unknown): string {
  if (value === null || value === undefined) return "";
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  const text = typeof value === "string" ? value : JSON.stringify(value);
  const safe = STEERS.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** Rows as RFC 4180 has them, with every column that a row has. Texts that would be formulas are quoted. */
export function csvOf(rows: Row[]): string {
  const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  return [columns, ...rows.map((row) => columns.map((name) => row[name]))].map((line) => `${line.map(cell).join(",")}\r\n`).join("");
}

const ROLE = /var\(--[\w-]+, ?(#\w+)\)/g; // charts.py writes roles of colours with their light value

interface Line {
  text: string;
  y: number;
  size: number;
  weight: number;
}

const EDGE = 8; // pixels around what stands above a chart

/** What stands above a chart on its page, in lines that are no wider than its picture. */
export function headLines(heading: [string, string], width: number): Line[] {
  const lines: Line[] = [];
  let y = EDGE;
  for (const [words, size, weight] of [[heading[0], 15, 600], [heading[1], 12, 400]] as const) {
    const most = Math.max(20, Math.floor((width - 2 * EDGE) / (0.56 * size))); // letters: a usual one is half as wide as high
    for (const text of wrapped(words, most)) {
      y += Math.round(1.35 * size);
      lines.push({ text, y, size, weight });
    }
  }
  return lines;
}

function wrapped(text: string, most: number): string[] {
  const lines: string[] = [];
  for (const word of text.split(/\s+/).filter(Boolean)) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + 1 + word.length <= most) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word);
  }
  return lines;
}

const SVG = "http://www.w3.org/2000/svg";

export interface Picture {
  svg: string;
  width: number;
  height: number;
}

/** A drawn chart with its title and subtitle as an SVG file on white, which needs no style sheet and no page around it. */
export function pictureOf(drawn: SVGSVGElement, heading: [string, string]): Picture {
  const copy = drawn.cloneNode(true) as SVGSVGElement;
  const { width, height } = drawn.viewBox.baseVal;
  const lines = headLines(heading, width);
  const rise = lines.length ? lines.at(-1)!.y + EDGE : 0;
  const made = (name: string, attributes: Record<string, string | number>, text = "") => {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
    element.textContent = text;
    return element;
  };
  const chart = made("g", { transform: `translate(0,${rise})` });
  chart.append(...copy.childNodes);
  const words = lines.map(({ text, y, size, weight }) =>
    made("text", { x: EDGE, y, fill: "#1b1f24", "font-family": "system-ui, sans-serif", "font-size": size, "font-weight": weight }, text),
  );
  copy.append(made("rect", { width: "100%", height: "100%", fill: "#fff" }), ...words, chart);
  const attributes = { xmlns: SVG, width, height: height + rise, viewBox: `0 0 ${width} ${height + rise}` };
  for (const [key, value] of Object.entries(attributes)) copy.setAttribute(key, String(value));
  return { svg: lightColours(new XMLSerializer().serializeToString(copy)), width, height: height + rise };
}

export function lightColours(svg: string): string {
  return svg.replace(ROLE, "$1");
}

const SHARP = 2; // pixels of a PNG for each of the drawing

export async function pngOf({ svg, width, height }: Picture): Promise<Blob> {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [width * SHARP, height * SHARP];
  canvas.getContext("2d")!.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve, reject) =>
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("the browser made no picture"))), "image/png"),
  );
}

/** A name that every file system takes. */
export function fileName(title: string, ending: string): string {
  const plain = title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 60);
  return `${plain || "chart"}.${ending}`;
}

export function save(content: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
