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

/** A drawn chart as an SVG file on white, which needs no style sheet. */
export function svgText(drawn: SVGSVGElement): string {
  const copy = drawn.cloneNode(true) as SVGSVGElement;
  const { width, height } = drawn.viewBox.baseVal;
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", String(width));
  copy.setAttribute("height", String(height));
  const ground = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  for (const [name, value] of [["width", "100%"], ["height", "100%"], ["fill", "#fff"]] as const) ground.setAttribute(name, value);
  copy.prepend(ground);
  return lightColours(new XMLSerializer().serializeToString(copy));
}

export function lightColours(svg: string): string {
  return svg.replace(ROLE, "$1");
}

const SHARP = 2; // pixels of a PNG for each of the drawing

export async function pngOf(svg: string, width: number, height: number): Promise<Blob> {
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
