// One run: what ran, what it found, which classes it confuses, how sure it is, how long it takes, and input by input.
import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import type { ClassItem, ClassList, Figure, ObservationItem, RunDetail } from "../answers";
import { isLive, resourceUrl, useAnswer } from "../api";
import { AddToReport } from "../components/addtoreport";
import { Chart } from "../components/chart";
import { CopyLink } from "../components/copylink";
import { Facts } from "../components/facts";
import { FigureCell, Moment, Tile } from "../components/figure";
import { Gallery } from "../components/gallery";
import { Glance } from "../components/glance";
import { Calibration, Confusion } from "../components/judged";
import { PageLink } from "../components/link";
import { Part, useOffset } from "../components/listing";
import { EmptyState, ErrorState, Loading, Sentences } from "../components/states";
import { type Column, Table } from "../components/table";
import { Tabs } from "../components/tabs";
import { WordTable } from "../components/words";
import { setQuery, useQueryState, useRoute } from "../router";
import type { PageProps } from "./index";

const STATES: Record<string, string> = { measured: "Measured", failed: "A stage failed", begun: "Nothing finished yet" };
const LISTED = 50; // observations

export function RunPage({ rest }: PageProps) {
  const { answer, error, again } = useAnswer(rest ? "/runs/{run}" : null, { run: rest });
  if (!rest) {
    return (
      <EmptyState title="No run is named.">
        <PageLink page="runs">All runs</PageLink>
      </EmptyState>
    );
  }
  if (error) return <ErrorState error={error} again={again} />;
  if (!answer) return <Loading what="Reading the run" />;
  return <OneRun key={answer.run.id} detail={answer} />;
}

function OneRun({ detail }: { detail: RunDetail }) {
  const { run } = detail;
  const { query } = useRoute();
  const other = query.get("other") ?? "";
  const show = (changes: Record<string, string>) =>
    setQuery({ tab: "inputs", shown: "", order: "", label: "", answer: "", bin: "", offset: "", ...changes });
  return (
    <>
      <p class="crumbs">
        <PageLink page="runs">Runs</PageLink> / <code>{run.id}</code>
        <span class={`mark ${run.state}`}>{STATES[run.state] ?? run.state}</span>
        {run.kind !== "evaluation" && <span class="mark">{run.kind}</span>}
        {detail.task && detail.task !== "classification" && (
          <span class="mark">
            <bdi>{detail.task}</bdi>
          </span>
        )}
      </p>
      <h1>
        <bdi>{run.model}</bdi>
      </h1>
      <p class="dim">
        {run.inputs.toLocaleString("en")} {run.inputs === 1 ? "input" : "inputs"} of <bdi>{run.dataset}</bdi> in <bdi>{run.stack}</bdi>, <Moment at={run.created} />.
      </p>
      <Trouble detail={detail} />
      {detail.tiles.length > 0 && (
        <div class="tiles">
          {detail.tiles.map((tile) => (
            <Tile figure={tile.figure} title={tile.title} />
          ))}
        </div>
      )}
      <Sentences sentences={detail.notes} />
      <div class="bar">
        {detail.answered && (
          <PageLink page="compare" query={{ a: run.id }}>
            Compare with another run
          </PageLink>
        )}
        {run.kind === "verification" && (
          <PageLink page="endpoints" rest={run.id}>
            The endpoint, with its evidence
          </PageLink>
        )}
        <PageLink page="model" rest={run.model}>
          Its model
        </PageLink>
        <PageLink page="runs" query={{ model: run.model }}>
          All runs of this model
        </PageLink>
        {isLive() && <a href={resourceUrl("/runs/{run}/json", { run: run.id })}>Download as JSON</a>}
        <CopyLink />
      </div>
      <Tabs
        label="About the run"
        tabs={[
          ...(detail.answered
            ? [
                {
                  key: "glance",
                  title: "At a glance",
                  content: () => <Glance run={run.id} ofClasses={detail.of_classes} onShow={show} />,
                },
              ]
            : []),
          { key: "figures", title: "Figures", content: () => <Figures detail={detail} /> },
          {
            key: "inputs",
            title: "Inputs",
            content: () => (detail.answered ? <Answers run={run.id} other={other} /> : <Unanswered detail={detail} />),
          },
          ...(detail.of_classes
            ? [
                {
                  key: "confusion",
                  title: "Confusion",
                  content: () => (
                    <Confusion run={run.id} onPick={(label, answer) => show({ label: String(label), answer: String(answer) })} />
                  ),
                },
                {
                  key: "calibration",
                  title: "Calibration",
                  content: () => <Calibration run={run.id} onPick={(bin) => show({ bin: String(bin) })} />,
                },
              ]
            : []),
          ...(detail.has_classes
            ? [
                {
                  key: "classes",
                  title: "Classes",
                  content: () => <Classes run={run.id} onPick={(label) => show({ label: String(label) })} />,
                },
              ]
            : []),
          { key: "latency", title: "Latency", content: () => <Latency run={run.id} /> },
          { key: "observations", title: "Observations", content: () => <Observations run={run.id} /> },
          { key: "stack", title: "Stack", content: () => <Stack detail={detail} /> },
        ]}
      />
    </>
  );
}

/** Why the run is not what it should be, and what to do. */
function Trouble({ detail }: { detail: RunDetail }) {
  const { run } = detail;
  if (run.state === "measured" && !run.note) return null;
  return (
    <div class="state error" role="status">
      {run.failed.map((failure) => (
        <p>
          <b>
            <bdi>{failure.stage}</bdi> failed:
          </b>{" "}
          <bdi>{failure.error}</bdi>
        </p>
      ))}
      {run.state === "begun" && <p class="lead">Nothing of this run is finished yet.</p>}
      {run.note && <p>{run.note}</p>}
      {detail.advice && <p>{detail.advice}</p>}
    </div>
  );
}

function Unanswered({ detail }: { detail: RunDetail }) {
  return (
    <EmptyState title="It has no answers, input by input.">
      <p>
        {detail.run.failed.some((failure) => failure.stage === "predictions") || detail.run.state === "begun"
          ? "They were not finished."
          : "It was measured without them (--no-accuracy), or holds other facts than answers."}{" "}
        {detail.advice}
      </p>
    </EmptyState>
  );
}

function Answers({ run, other }: { run: string; other: string }) {
  return (
    <>
      {other && (
        <p>
          A is this run, B is{" "}
          <PageLink page="run" rest={other}>
            <code>{other.slice(0, 8)}</code>
          </PageLink>
          .{" "}
          <button type="button" class="more" onClick={() => setQuery({ other: "", shown: "", order: "", offset: "" })}>
            Show this run alone
          </button>
        </p>
      )}
      <Gallery run={run} other={other || undefined} />
    </>
  );
}

// --- figures

const FIGURES: Column<Figure>[] = [
  { key: "metric", title: "Figure", cell: (row) => <bdi title={`${row.metric}${row.scope && `@${row.scope}`}`}>{row.title}</bdi> },
  { key: "scope", title: "Of", cell: (row) => <bdi>{row.part}</bdi> },
  { key: "value", title: "Value [95 %]", number: true, cell: (row) => <FigureCell figure={row} /> },
  { key: "n", title: "n", number: true, cell: (row) => (row.n === null ? "" : row.n.toLocaleString("en")) },
  {
    key: "provenance",
    title: "Where from",
    cell: (row) => (
      <>
        {row.provenance}
        {row.reason && (
          <span class="dim prose">
            <bdi>{row.reason}</bdi>
          </span>
        )}
      </>
    ),
  },
];

function Figures({ detail }: { detail: RunDetail }) {
  if (!detail.figures.length) {
    return <EmptyState title="It has no figures yet.">{detail.advice && <p>{detail.advice}</p>}</EmptyState>;
  }
  return (
    <>
      <Table label="Figures" columns={FIGURES} rows={detail.figures} rowKey={(row) => `${row.metric}@${row.scope}`} />
      <AddToReport source={{ path: "/runs/{run}", parameters: { run: detail.run.id }, field: "figures" }} title={`Figures of ${detail.run.model}`} />
    </>
  );
}

// --- classes

const ORDERS: Record<string, string> = { recall: "recall", inputs: "-inputs", answered: "-answered", number: "number" };

function Classes({ run, onPick }: { run: string; onPick: (label: number) => void }) {
  const [by, setBy] = useQueryState("by", "recall");
  const { answer, error, loading, again } = useAnswer("/runs/{run}/classes", { run, order: ORDERS[by] ? by : "recall" });
  const columns = useMemo(() => (answer ? CLASSES(answer, onPick) : []), [run, answer?.metric]);
  if (error) return <ErrorState error={error} again={again} />;
  if (!answer) return <Loading what="Reading the answers" />;
  if (answer.reason) {
    return (
      <EmptyState title="It answers no classes that could be listed.">
        <p>{answer.reason}</p>
      </EmptyState>
    );
  }
  return (
    <>
      <p class="found">
        {answer.total.toLocaleString("en")} classes {answer.metric === RECALL ? "occur as a label or as an answer" : "have a figure of their own"}
        {answer.rows.length < answer.total && `; the first ${answer.rows.length.toLocaleString("en")} are listed`}.{" "}
        {answer.metric === RECALL && "The recall of a class is stored where at least five inputs have its label."}
      </p>
      <Table
        label="Classes"
        columns={columns}
        rows={answer.rows}
        rowKey={(row) => String(row.number)}
        sort={ORDERS[by] ?? ""}
        onSort={(next) => setBy(next.replace(/^-/, ""))}
        busy={loading}
        virtual
      />
    </>
  );
}

const RECALL = "recall"; // the figure of each class of a classifier; other tasks have other figures, and no labels to pick

const CLASSES = ({ metric }: ClassList, onPick: (label: number) => void): Column<ClassItem>[] => [
  {
    key: "name",
    title: "Class",
    sort: "number",
    cell: (row) =>
      metric === RECALL ? (
        <button type="button" class="more" onClick={() => onPick(row.number)}>
          <bdi>{row.name}</bdi>
        </button>
      ) : (
        <bdi>{row.name}</bdi>
      ),
  },
  ...(metric === RECALL ? COUNTS : []),
  {
    key: "figure",
    title: metric === RECALL ? "Recall" : metric,
    sort: "recall",
    number: true,
    help:
      metric === RECALL
        ? "Of the inputs of this class, the share that was classified correctly, with its 95 % interval"
        : "What the task tells of this class alone, with its 95 % interval",
    cell: (row) => <FigureCell figure={row.figure} />,
  },
];

const COUNTS: Column<ClassItem>[] = [
  { key: "inputs", title: "Inputs", sort: "inputs", descending: true, number: true, cell: (row) => row.inputs?.toLocaleString("en") },
  {
    key: "answered",
    title: "Answered",
    sort: "answered",
    descending: true,
    number: true,
    help: "How many inputs were given this class",
    cell: (row) => row.answered?.toLocaleString("en"),
  },
];

// --- latency

function Latency({ run }: { run: string }) {
  const { answer, error, again } = useAnswer("/runs/{run}/latency", { run });
  if (error) return <ErrorState error={error} again={again} />;
  if (!answer) return <Loading what="Reading the timings" />;
  if (!answer.charts.length && !answer.writing) {
    return (
      <EmptyState title="Its calls were not timed individually.">
        <p>
          {answer.writes ? (
            <>
              <code>zoolens eval MODEL --context 128,512</code> times how it reads and writes at these context lengths.
            </>
          ) : (
            <>
              <code>zoolens eval MODEL --batch 1,8</code> times calls of these batch sizes.
            </>
          )}
        </p>
      </EmptyState>
    );
  }
  return (
    <>
      {answer.writing && (
        <>
          <h2>Reading and writing, by context length</h2>
          <WordTable table={answer.writing} label="Reading and writing, by context length" />
        </>
      )}
      {answer.charts.length > 0 && <WordTable table={answer.table} label="Quantiles of the latency" />}
      {answer.charts.map((chart, place) => (
        <Chart spec={chart.chart} title={chart.title} source={{ path: "/runs/{run}/latency", parameters: { run }, field: `charts.${place}.chart` }} />
      ))}
    </>
  );
}

// --- everything

function Observations({ run }: { run: string }) {
  const { query } = useRoute();
  const metric = query.get("metric") ?? "";
  const offset = useOffset("first");
  const { answer, error, loading, again } = useAnswer("/runs/{run}/observations", {
    run,
    metric: metric ? [metric] : [],
    offset,
    limit: LISTED,
  });
  if (error) return <ErrorState error={error} again={again} />;
  if (!answer) return <Loading what="Reading the observations" />;
  if (!answer.total && !metric) return <EmptyState title="Nothing was observed yet." />;
  return (
    <>
      <div class="bar">
        <label class="sorting">
          Metric{" "}
          <select value={metric} onChange={(event) => setQuery({ metric: event.currentTarget.value, first: "" })}>
            <option value="">all</option>
            {answer.metrics.map((known) => (
              <option value={known.value}>
                {known.value} ({known.count.toLocaleString("en")})
              </option>
            ))}
          </select>
        </label>
      </div>
      <p class="found" role="status">
        {answer.total.toLocaleString("en")} observation{answer.total === 1 ? "" : "s"}.
      </p>
      <Part part={answer} limit={LISTED} parameter="first" nothing={<EmptyState title="It has no such metric." />}>
        <Table
          label="Observations"
          columns={OBSERVATIONS}
          rows={answer.rows}
          rowKey={(row) => `${row.stage} ${row.figure.metric}@${row.figure.scope}`}
          busy={loading}
        />
      </Part>
    </>
  );
}

const OBSERVATIONS: Column<ObservationItem>[] = [
  ...FIGURES.map((column) => ({ ...column, cell: (row: ObservationItem) => column.cell(row.figure) })),
  { key: "stage", title: "Stage", cell: (row) => <bdi class="id">{row.stage}</bdi> },
  {
    key: "details",
    title: "Details",
    cell: (row) => (
      <span class="prose">
        {row.details.map((fact, place) => (
          <>
            {place > 0 && ", "}
            <span class="dim">
              <bdi>{fact.name}</bdi>
            </span>{" "}
            <bdi>{fact.value}</bdi>
          </>
        ))}
      </span>
    ),
  },
];

// --- what ran

function Stack({ detail }: { detail: RunDetail }) {
  const { run } = detail;
  return (
    <>
      <dl>
        <Line name="Run">
          <code>{run.id}</code>
          {run.attempt > 0 && `, attempt ${run.attempt}`}
        </Line>
        <Line name="Model">
          <bdi>{run.model}</bdi> (<bdi>{run.format}</bdi>, <code>{detail.model_fingerprint.slice(0, 12)}</code>)
        </Line>
        <Line name="Data">
          <bdi>{run.dataset}</bdi> ({run.inputs.toLocaleString("en")} inputs, <code>{detail.data_fingerprint.slice(0, 12)}</code>)
        </Line>
        <Line name="Runtime">
          <bdi>{run.stack}</bdi>
        </Line>
        <Line name="Precision">{detail.precision ? <bdi>{detail.precision}</bdi> : "not reported by the runtime"}</Line>
        {detail.attempts.length > 0 && (
          <Line name="Attempts">
            {detail.attempts.map((attempt, place) => (
              <>
                {place > 0 && ", "}
                {attempt.id === run.id ? (
                  <b>#{attempt.attempt}</b>
                ) : (
                  <PageLink page="run" rest={attempt.id}>
                    #{attempt.attempt}
                  </PageLink>
                )}
              </>
            ))}
          </Line>
        )}
      </dl>
      <h2>Stages</h2>
      {detail.stages.length ? (
        <ul class="plain">
          {detail.stages.map((stage) => (
            <li>
              <bdi>{stage.stage}</bdi>: {stage.done ? "done" : <span class="problem">failed: {stage.error}</span>}{" "}
              <span class="dim">
                <Moment at={stage.updated} />
              </span>
            </li>
          ))}
        </ul>
      ) : (
        <p>No stage is finished.</p>
      )}
      <Facts title="What can change an answer or a time" facts={detail.environment} />
      <Facts title="What only the open model knew" facts={detail.resolved} />
      <Facts title="Where model and dataset were found" facts={detail.origin} />
    </>
  );
}

function Line({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div>
      <dt class="dim">{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}
