// Numbers: with their interval and where they come from. The words are the server's, so that they read the same as in
// reports and on the terminal.
import type { Figure } from "../answers";

const TOP1 = "top1";

/** A figure in a table: the value, and the interval below it in small. `named`: say which metric it is, unless top-1. */
export function FigureCell({ figure, named }: { figure: Figure | null; named?: boolean }) {
  if (!figure) return <span class="dim">–</span>;
  if (figure.value === null) return <span class="dim" title={figure.reason}>{figure.reason ? "not available" : "–"}</span>;
  // What was measured once has none. A range of repeats stands in round brackets, and so does why there is no interval.
  const interval = figure.interval.match(/\[[^\]]*\]|\([^()]+ to [^()]+\)|\(no spread[^()]*\)/)?.[0];
  return (
    <span class="figure">
      {named && figure.metric !== TOP1 && <span class="metric">{figure.title} </span>}
      {figure.words}
      {interval && <span class="interval">{interval}</span>}
    </span>
  );
}

/** What a column of figures that judge runs is called: each task has its own metric. */
export function judgedTitle(rows: { judged: Figure | null }[]): string {
  return rows.every(({ judged }) => !judged || judged.metric === TOP1) ? "Top-1" : "Main metric";
}

/** A large figure with its name, as at the head of a page. */
export function Tile({ figure, title, kind }: { figure: string; title: string; kind?: string }) {
  return (
    <div class={`tile ${kind ?? ""}`}>
      <b>{figure}</b>
      <span>{title}</span>
    </div>
  );
}

const WIDTH = 64;
const HEIGHT = 20;

/** Counts in equal stretches of time as small bars. `label` says in words what they show. */
export function Sparkline({ values, label }: { values: number[]; label: string }) {
  const most = Math.max(...values, 1);
  const step = WIDTH / Math.max(values.length, 1);
  const width = Math.max(1, step - 1);
  const bar = (value: number, place: number) => {
    const height = Math.max(2, (HEIGHT - 2) * (value / most));
    return value ? `M${place * step + 0.5} ${HEIGHT - 1}v${-height}h${width}v${height}z` : "";
  };
  // One path for all bars: a table has thirty of these pictures, and every element of them is laid out again.
  return (
    <svg class="sparkline" width={WIDTH} height={HEIGHT} viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={label}>
      <title>{label}</title>
      <path d={`M0 ${HEIGHT - 0.5}H${WIDTH}`} class="base" />
      <path d={values.map(bar).join("")} />
    </svg>
  );
}

const DAY = new Intl.DateTimeFormat("en-CA"); // to make one for each moment takes longer than everything else in a row
const TIME = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const TIME_WITH_SECONDS = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });

/** A moment as people say it; the exact one is its tooltip. */
export function Moment({ at, seconds }: { at: string; seconds?: boolean }) {
  const date = new Date(at);
  const day = DAY.format(date);
  const time = (seconds ? TIME_WITH_SECONDS : TIME).format(date);
  return (
    <time dateTime={at} title={date.toISOString()}>
      {day} {time}
    </time>
  );
}
