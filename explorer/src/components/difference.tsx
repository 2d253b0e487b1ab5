// How much better B is than A, as a point with its interval on a line through "no difference", and who was right on how
// many inputs.
import type { ComparedDifference, OutcomeCount } from "../answers";

const ROOM = 1.15; // of the widest end
const LEAST = 1e-9; // half the width of the line where everything is 0

/** A number with its sign and a true minus; as many digits as the interval can bear. */
export function signed(value: number, digits: number): string {
  const words = Math.abs(value).toFixed(digits);
  const sign = Number(words) === 0 ? "" : value < 0 ? "−" : "+";
  return `${sign}${words}`;
}

const POINTS = "points";

/** Decimals: two of points, as everywhere; otherwise so many that the width of the interval shows two digits. */
export function decimals(low: number, high: number, unit: string): number {
  if (unit === POINTS) return 2;
  const width = high - low;
  return width > 0 ? Math.min(6, Math.max(0, 1 - Math.floor(Math.log10(width)))) : 2;
}

export function Difference({ difference }: { difference: ComparedDifference }) {
  const { metric, value, low, high, unit, clear, p, more_is_better: more } = difference;
  const digits = decimals(low, high, unit);
  const most = Math.max(Math.abs(low), Math.abs(high), Math.abs(value), LEAST) * ROOM;
  const at = (x: number) => `${(50 + (50 * x) / most).toFixed(2)}%`;
  const winner = !clear ? "even" : value > 0 === more ? "b" : "a";
  const words = `${signed(value, digits)} [${signed(low, digits)}, ${signed(high, digits)}]${unit ? ` ${unit}` : ""}`;
  return (
    <div class={`difference ${winner}`}>
      <p class="difference-words">
        <b>{signed(value, digits)}</b> {unit}{" "}
        <span class="dim">
          [{signed(low, digits)}, {signed(high, digits)}]{p && <>, <span class="whole">p = {p}</span></>}
        </span>
      </p>
      <svg class="difference-line" role="img" aria-label={`${metric} of B less that of A: ${words}`} height="34" width="100%">
        <line x1="0" x2="100%" y1="17" y2="17" class="base" />
        <line x1="50%" x2="50%" y1="3" y2="31" class="zero" />
        <line x1={at(low)} x2={at(high)} y1="17" y2="17" class="interval-line" />
        <line x1={at(low)} x2={at(low)} y1="11" y2="23" class="interval-line end" />
        <line x1={at(high)} x2={at(high)} y1="11" y2="23" class="interval-line end" />
        <circle cx={at(value)} cy="17" r="6" />
      </svg>
      <p class="difference-ends" aria-hidden="true">
        <span>← {more ? "A" : "B"} is better</span>
        <span>no difference</span>
        <span>{more ? "B" : "A"} is better →</span>
      </p>
    </div>
  );
}

const KINDS: Record<OutcomeCount["outcome"], string> = {
  "both right": "both",
  "only A right": "a",
  "only B right": "b",
  "both wrong": "neither",
  "same answer": "both",
  "different answers": "neither",
};

/** One bar of all inputs, and what its parts are in words. */
export function Outcomes({ outcomes }: { outcomes: OutcomeCount[] }) {
  const all = outcomes.reduce((sum, one) => sum + one.inputs, 0);
  return (
    <>
      <div class="outcomes" aria-hidden="true">
        {outcomes
          .filter((one) => one.inputs > 0)
          .map((one) => (
            <span class={`outcome-${KINDS[one.outcome]}`} style={{ flexGrow: String(one.inputs / Math.max(all, 1)) }} />
          ))}
      </div>
      <ul class="outcome-list" aria-label="Inputs by who is right">
        {outcomes.map((one) => (
          <li>
            <span class={`swatch outcome-${KINDS[one.outcome]}`} aria-hidden="true" /> {one.outcome}{" "}
            <b>{one.inputs.toLocaleString("en")}</b> <span class="dim">{one.share}</span>
          </li>
        ))}
      </ul>
    </>
  );
}
