// Which model to take: accuracy, latency and size of all of them, the query language over them, and why others do not fit.
import { useMemo, useRef } from "preact/hooks";
import type { ChoiceAnswer, ChosenRow, MetricChoice } from "../answers";
import { holdsAnswer, isLive, subjectsOf, useAnswer } from "../api";
import { Chart, type Spec } from "../components/chart";
import { PageLink } from "../components/link";
import { Part, useOffset } from "../components/listing";
import { QueryInput } from "../components/queryinput";
import { EmptyState, ErrorState, Loading, Notes } from "../components/states";
import { type Column, Table, useColumns } from "../components/table";
import { type Tab, Tabs } from "../components/tabs";
import { capital } from "../figures";
import { address, chosen, setQuery, useRoute } from "../router";

const LIMIT = 25;
const SETTLED = 250; // milliseconds after the last move of the brush
const BRUSH = ["x_low", "x_high", "y_low", "y_high"] as const;
const NONE = "none"; // in the address: points are all of one size
const NO_BRUSH = Object.fromEntries(BRUSH.map((name) => [name, ""]));

export function ChoosePage() {
  const { query } = useRoute();
  const q = query.get("q") ?? "";
  const sized = (isLive() && query.get("size")) || "size"; // bundles have one picture of each two figures
  const choice = chosen();
  const axes = { x: query.get("x") ?? "latency", y: query.get("y") ?? "accuracy", size: sized === NONE ? "" : sized };
  const { answer, error, loading, again } = useAnswer("/choose", { q, ...axes, ...choice });
  return (
    <>
      <h1>Choose</h1>
      {isLive() ? (
        <QueryInput
          value={q}
          problem={answer?.problem ?? null}
          onAsk={(value) => setQuery({ q: value.trim(), offset: "", ...NO_BRUSH })}
        />
      ) : (
        <KeptQueries q={q} />
      )}
      {!q && isLive() && answer && <Examples examples={ofTexts(answer) ? EXAMPLES_OF_TEXTS : EXAMPLES} />}
      {error && <ErrorState error={error} again={again} />}
      {!answer && !error && <Loading what="Reading what was measured" />}
      {answer && (answer.rows + answer.never_run ? <Found answer={answer} q={q} axes={{ ...axes, ...choice }} busy={loading} /> : <Nothing />)}
    </>
  );
}

function Nothing() {
  return (
    <EmptyState title="Nothing was measured yet.">
      <p>
        Evaluate models with <code>zoolens eval</code>, or try <code>zoolens demo</code>.
      </p>
    </EmptyState>
  );
}

const EXAMPLES = [
  ["the most accurate that are small", "ON size <= 1 MB ORDER BY accuracy DESC"],
  ["the quickest with enough accuracy", "ON accuracy >= 80% ORDER BY latency"],
  ["all that answer within a millisecond", "ON latency <= 1 ms ORDER BY accuracy DESC LIMIT 50"],
] as const;

const EXAMPLES_OF_TEXTS = [
  ["the fewest bits per byte", "TASK language-model ORDER BY bits_per_byte LIMIT 10"],
  ["the best that are small", "TASK language-model ON size <= 500 MB ORDER BY bits_per_byte"],
] as const;

/** Whether it is about language models, whose texts have no accuracy in percent. */
function ofTexts({ metrics }: ChoiceAnswer): boolean {
  return metrics.some(({ name }) => name === "bits_per_byte");
}

/** The queries that whoever wrote a bundle chose. */
function KeptQueries({ q }: { q: string }) {
  const kept = subjectsOf("choose") ?? [];
  return (
    <>
      <p>Chosen from the runs in this bundle; the store that they come from may have more.</p>
      {kept.length > 0 && (
        <nav aria-label="Queries">
          <ul class="said">
            {["", ...kept].map((text) => (
              <li>
                <a href={address("choose", { q: text })} aria-current={text === q ? "true" : undefined}>
                  {text ? <code>{text}</code> : "All runs"}
                </a>
              </li>
            ))}
          </ul>
        </nav>
      )}
    </>
  );
}

function Examples({ examples }: { examples: readonly (readonly [string, string])[] }) {
  return (
    <p class="suggested">
      Try{" "}
      {examples.map(([words, text], place) => (
        <>
          {place > 0 && ", "}
          <a href={address("choose", { q: text })}>{words}</a>
        </>
      ))}
      .
    </p>
  );
}

/** What the page is asked beside the query. */
interface Axes {
  x: string;
  y: string;
  size: string;
  data: string;
  task: string;
}

interface FoundProps {
  answer: ChoiceAnswer;
  q: string;
  axes: Axes;
  busy: boolean;
}

function Found({ answer, q, axes, busy }: FoundProps) {
  const { query } = useRoute();
  const timer = useRef<number | undefined>(undefined);
  const brushed = BRUSH.some((name) => query.get(name));
  // The rectangle of the address is drawn once; afterwards the chart has the one that the reader draws.
  const spec = useMemo(() => withBrush(answer, query), [answer]);
  const brush = (_: string, value: unknown) => {
    window.clearTimeout(timer.current);
    timer.current = window.setTimeout(() => setQuery({ ...rectangle(answer, value), offset: "" }, true), SETTLED);
  };
  const offered = (name: "x" | "y") =>
    answer.metrics.filter((metric) => holdsAnswer("/choose", { q, ...axes, [name]: metric.name }));
  const asked = { q, ...axes };
  const tabs: Tab[] = [
    { key: "models", title: "Models", content: () => <Rows answer={answer} q={q} axes={axes} brushed={brushed} /> },
  ];
  if (answer.funnel) tabs.push({ key: "why", title: "Why", content: () => <Why answer={answer} /> });
  return (
    <>
      {answer.verdict && (
        <p class="verdict" role="status">
          <bdi>{answer.verdict}</bdi>
        </p>
      )}
      <p class="found">
        {answer.problem && "The query was not answered, so that this is all there is: "}
        {answer.rows.toLocaleString("en")} {answer.rows === 1 ? "row" : "rows"}, each a model in a runtime; judged on {answer.inputs.toLocaleString("en")} inputs of{" "}
        <bdi>{answer.dataset}</bdi>.
        {answer.never_run > 0 &&
          ` ${answer.never_run.toLocaleString("en")} ${answer.never_run === 1 ? "model was" : "models were"} never run here: only claims, and what their files say, are known of ${answer.never_run === 1 ? "it" : "them"}.`}
      </p>
      <div class="bar">
        <Axis name="x" title="Across" value={axes.x} metrics={offered("x")} />
        <Axis name="y" title="Upwards" value={axes.y} metrics={offered("y")} />
        {isLive() && <Axis name="size" title="Size of points" value={axes.size || NONE} metrics={answer.metrics} none />}
        {brushed && (
          <button type="button" onClick={() => setQuery({ offset: "", ...NO_BRUSH })}>
            Take all again
          </button>
        )}
      </div>
      <div aria-busy={busy}>
        <Chart spec={spec} title={answer.title} source={{ path: "/choose", parameters: asked, field: "chart" }} signals={answer.x && answer.y ? ["brush"] : []} onSignal={brush} />
      </div>
      <p class="dim">
        Draw a rectangle in the chart to see only the models in it
        {isLive() && (
          <>
            ; with the keyboard, say the same in a query:{" "}
            <code>{ofTexts(answer) ? "TASK language-model ON latency <= 2 s AND bits_per_byte <= 1" : "ON latency <= 2 ms AND accuracy >= 80%"}</code>
          </>
        )}
        .
      </p>
      <Tabs tabs={tabs} label="Answer" />
      <Notes title="What to know about this picture" notes={answer.notes} />
    </>
  );
}

interface AxisProps {
  name: "x" | "y" | "size";
  title: string;
  value: string;
  metrics: MetricChoice[];
  none?: boolean;
}

function Axis({ name, title, value, metrics, none }: AxisProps) {
  const known = metrics.some((metric) => metric.name === value) || value === NONE ? metrics : [{ name: value, title: value }, ...metrics];
  return (
    <label class="axis">
      {title}{" "}
      <select value={value} onChange={(event) => setQuery({ [name]: event.currentTarget.value, offset: "", ...NO_BRUSH })}>
        {none && <option value={NONE}>nothing</option>}
        {known.map((metric) => (
          <option value={metric.name}>{metric.title}</option>
        ))}
      </select>
    </label>
  );
}

/** A rectangle of the chart as parameters of the address, in the store's units. */
function rectangle(answer: ChoiceAnswer, value: unknown): Record<string, string> {
  const ranges = (value ?? {}) as { x?: [number, number]; y?: [number, number] };
  const changes: Record<string, string> = { ...NO_BRUSH };
  for (const name of ["x", "y"] as const) {
    const range = ranges[name];
    const factor = answer[name]?.factor;
    if (!range || factor === undefined) continue;
    changes[`${name}_low`] = String(Math.min(...range) * factor);
    changes[`${name}_high`] = String(Math.max(...range) * factor);
  }
  return changes;
}

function withBrush(answer: ChoiceAnswer, query: URLSearchParams): Spec {
  const numbers = BRUSH.map((name) => Number(query.get(name) || NaN));
  const [xLow, xHigh, yLow, yHigh] = numbers as [number, number, number, number];
  if (numbers.some((value) => !Number.isFinite(value)) || !answer.x || !answer.y) return answer.chart;
  const value = {
    x: [xLow / answer.x.factor, xHigh / answer.x.factor],
    y: [yLow / answer.y.factor, yHigh / answer.y.factor],
  };
  const spec = structuredClone(answer.chart) as { layer?: { params?: { name: string; value?: unknown }[] }[] };
  for (const layer of spec.layer ?? []) {
    const own = layer.params?.find((param) => param.name === "brush");
    if (own) own.value = value;
  }
  return spec as Spec;
}

interface RowsProps {
  answer: ChoiceAnswer;
  q: string;
  axes: Axes;
  brushed: boolean;
}

function Rows({ answer, q, axes, brushed }: RowsProps) {
  const { query } = useRoute();
  const offset = useOffset();
  const sort = query.get("sort") ?? "best";
  const limits = Object.fromEntries(BRUSH.map((name) => [name, query.get(name) ?? undefined]));
  const asked = useAnswer("/choose/rows", { q, ...axes, ...limits, sort, offset, limit: LIMIT });
  const [columns, chooser] = useColumns(COLUMNS(answer));
  const rows = asked.answer;
  if (asked.error) return <ErrorState error={asked.error} again={asked.again} />;
  if (!rows) return <Loading what="Reading the models" />;
  return (
    <>
      <div class="bar">
        <p class="found" role="status">
          {rows.total.toLocaleString("en")} {rows.total === 1 ? "row" : "rows"}
          {brushed && " in the rectangle"}.
        </p>
        {chooser}
      </div>
      <Part
        part={rows}
        limit={LIMIT}
        nothing={<EmptyState title={brushed ? "No model is in the rectangle." : q ? "No model is left." : "No model has both figures."} />}
      >
        <Table
          label="Models"
          columns={columns}
          rows={rows.rows}
          rowKey={(row) => row.key}
          sort={sort}
          onSort={(next) => setQuery({ sort: next, offset: "" })}
          busy={asked.loading}
        />
      </Part>
    </>
  );
}

const COLUMNS = (answer: ChoiceAnswer): Column<ChosenRow>[] => [
  {
    key: "ref",
    title: "Model",
    sort: "ref",
    cell: (row) => (
      <span class="name">
        <PageLink page="model" rest={row.ref}>
          <bdi>{row.ref}</bdi>
        </PageLink>
        {row.standing && <span class="mark">{row.standing}</span>}
        {row.front && <span class="mark">front</span>}
        {!row.measured && <span class="mark">not measured</span>}
      </span>
    ),
  },
  {
    key: "runtime",
    title: "Runtime",
    cell: (row) =>
      row.run ? (
        <PageLink page="run" rest={row.run}>
          <bdi>{row.runtime}</bdi>
        </PageLink>
      ) : (
        <span class="dim">never run here</span>
      ),
  },
  ...(answer.funnel ? [{ key: "equal", title: "Equal answers", number: true, cell: (row: ChosenRow) => row.equal || "–" }] : []),
  { key: "y", title: capital(answer.y?.title ?? "y"), sort: "y", descending: true, number: true, cell: (row) => row.y },
  { key: "x", title: capital(answer.x?.title ?? "x"), sort: "x", number: true, cell: (row) => row.x },
  ...(answer.size ? [{ key: "size", title: capital(answer.size.title), sort: "size", number: true, cell: (row: ChosenRow) => row.size }] : []),
  ...(answer.misses ? [{ key: "why", title: "Why not", cell: (row: ChosenRow) => <bdi class="prose">{row.why_not}</bdi> }] : []),
];

function Why({ answer }: { answer: ChoiceAnswer }) {
  return (
    <>
      {answer.funnel && <Chart spec={answer.funnel as Spec} title="Rows left after each condition" />}
      {answer.misses && <Chart spec={answer.misses as Spec} title="What the nearest misses lack" />}
      <details>
        <summary>EXPLAIN</summary>
        <pre class="explanation" tabIndex={0}>
          {answer.explanation.join("\n")}
        </pre>
      </details>
    </>
  );
}
