// How numbers read: the rules of src/zoolens/base/present/figures.py, for numbers that a page makes itself. What the
// server gives in words is shown as it is. Both are tested by the examples in tests/figures.json.

const NOTHING = "–"; // where there is no figure
const PREFIXES: Record<string, [number, string][]> = {
  s: [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]],
  J: [[1, "J"], [1e-3, "mJ"], [1e-6, "µJ"]],
  B: [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]],
};
const COUNTS: [number, string][] = [[1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]];

/** 91.0 %, 41.5 µs, 4.39 MB, 21,531 inputs/s: three digits, in the prefix that fits. */
export function figure(value: number | null | undefined, unit = ""): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return NOTHING;
  const [factor, name] = scale(value, unit);
  const digits = inScale(value, unit, factor);
  return name ? `${digits} ${name}` : digits;
}

/** 91.0 % [89.7, 92.2]: the ends in the unit of the figure, which is written once. */
export function figureWithEnds(value: number, low: number | null, high: number | null, unit = ""): string {
  const text = figure(value, unit);
  if (low === null || high === null) return text;
  const [factor] = scale(value, unit);
  return `${text} [${inScale(low, unit, factor)}, ${inScale(high, unit, factor)}]`;
}

/** A count in full, with commas: 24,000. */
export function whole(value: number): string {
  return value.toLocaleString("en");
}

/** A large count, shortened: 61.7k. */
export function count(value: number): string {
  const [factor, name] = COUNTS.find(([least]) => Math.abs(value) >= least) ?? [1, ""];
  return value === 0 ? "0" : `${threeDigits(value / factor)}${name}`;
}

/** "1 run", "24 runs": a count with its word. */
export function counted(value: number, one: string, several = `${one}s`): string {
  return `${whole(value)} ${value === 1 ? one : several}`;
}

function scale(value: number, unit: string): [number, string] {
  if (unit === "fraction") return [0.01, "%"];
  const prefixes = PREFIXES[unit];
  return prefixes?.find(([least]) => Math.abs(value) >= least) ?? prefixes?.at(-1) ?? [1, unit];
}

function inScale(value: number, unit: string, factor: number): string {
  return unit === "fraction" ? (100 * value).toFixed(1) : threeDigits(value / factor);
}

function threeDigits(value: number): string {
  const size = Math.abs(value);
  const nearest = Math.round(value);
  if (size < 1000 && Math.abs(value - nearest) <= 1e-9 * Math.max(size, Math.abs(nearest))) return String(nearest);
  if (size >= 1000) return nearest.toLocaleString("en");
  if (size < 0.1) return String(Number(value.toPrecision(2)));
  return value.toFixed(size < 10 ? 2 : size < 100 ? 1 : 0);
}
