// Where the time of models goes: the list of traces, and one trace with its timeline, layers, roofline and comparison.
import { useState } from "preact/hooks";
import type { Job, LayerItem, PhaseItem, TraceDetail, TraceItem } from "../answers";
import { isLive, resourceUrl, useAnswer } from "../api";
import { Chart } from "../components/chart";
import { CopyLink } from "../components/copylink";
import { FigureCell, Moment, Tile } from "../components/figure";
import { Facets, SearchBox } from "../components/filters";
import { JobCard } from "../components/job";
import { JobForm } from "../components/jobform";
import { PageLink } from "../components/link";
import { Filtered, NothingFits, Part, useOffset } from "../components/listing";
import { SpanTimeline } from "../components/spans";
import { EmptyState, ErrorState, Loading, Sentences } from "../components/states";
import { type Column, Table } from "../components/table";
import { type Tab, Tabs } from "../components/tabs";
import { showStretch, TimelineChart, useStretch } from "../components/window";
import { WordTable } from "../components/words";
import { namesIn, useStartedJob } from "../jobs";
import { address, setQuery, useQueryState, useRoute } from "../router";
import type { PageProps } from ".";

const LIMIT = 20;
const LAYERS = 100;
const LEVELS = ["layer", "library", "system", "model", "pipeline"];

export function TracesPage({ rest }: PageProps) {
  return rest ? <TracePage key={rest} run={rest} /> : <TraceList />;
}

// --- the list

function TraceList() {
  const { query } = useRoute();
  const offset = useOffset();
  const runtime = query.getAll("runtime");
  const q = query.get("q") ?? "";
  const { answer, error, loading, again } = useAnswer("/traces", { q, runtime, offset, limit: LIMIT });
  return (
    <>
      <h1>Traces</h1>
      <p>
        Where the time of a model goes, from a request down to the kernel. The times of each level come from calls in which
        nothing deeper was observed.
      </p>
      {isLive() && <TraceForm model={query.get("model") ?? ""} onEnd={again} />}
      <div class="bar">
        <SearchBox
          label="Search traces"
          hint="Search by model, runtime or id …"
          value={q}
          onSearch={(value) => setQuery({ q: value, offset: "" }, true)}
        />
      </div>
      {error && <ErrorState error={error} again={again} />}
      {!answer && !error && <Loading what="Reading the store" />}
      {answer && (
        <Filtered
          label="Traces"
          filters={
            <Facets
              facets={answer.facets}
              names={{ titles: { runtime: "Runtime" } }}
              chosen={() => runtime}
              onChoose={(_, values) => setQuery({ runtime: values, offset: "" })}
            />
          }
        >
          <p class="found" role="status">
            {answer.total.toLocaleString("en")} {answer.total === 1 ? "trace" : "traces"}.
          </p>
          <Part part={answer} limit={LIMIT} nothing={q || runtime.length ? <NothingFits what="trace" /> : <NoTraces />}>
            <Table label="Traces" columns={COLUMNS} rows={answer.rows} rowKey={(row) => row.id} busy={loading} />
          </Part>
        </Filtered>
      )}
    </>
  );
}

function NoTraces() {
  return (
    <EmptyState title="No traces yet.">
      Run <code>zoolens trace MODEL</code>, for example <code>zoolens trace demo:lenet-wide</code>.
    </EmptyState>
  );
}

const COLUMNS: Column<TraceItem>[] = [
  {
    key: "model",
    title: "Trace of",
    cell: (row) => (
      <span class="name">
        <a href={address(`traces/${row.id}`)}>
          <bdi>{row.model}</bdi>
        </a>
        {row.recording && <span class="mark">recording</span>}
        {row.state === "begun" && <span class="mark">nothing finished yet</span>}
        {row.failed.map((failure) => (
          <span class="failure">
            No level <bdi>{failure.stage}</bdi>: <bdi>{failure.error}</bdi>
          </span>
        ))}
      </span>
    ),
  },
  { key: "stack", title: "Stack", cell: (row) => <bdi class="wide">{row.stack}</bdi> },
  { key: "batch", title: "Batch", number: true, cell: (row) => (row.recording ? "" : row.batch.toLocaleString("en")) },
  {
    key: "predict",
    title: "Prediction",
    number: true,
    help: "Median of undisturbed calls with its 95 % interval",
    cell: (row) => <FigureCell figure={row.predict} />,
  },
  {
    key: "run",
    title: "Run",
    cell: (row) => (
      <>
        <code class="id">{row.id.slice(0, 8)}</code>
        {row.attempt > 0 && ` #${row.attempt}`}
      </>
    ),
  },
  { key: "when", title: "Begun", cell: (row) => <Moment at={row.created} /> },
];

function TraceForm({ model, onEnd }: { model: string; onEnd: () => void }) {
  const [job, setJob] = useState<Job>();
  return (
    <details class="starter" open={Boolean(model) || undefined}>
      <summary>Trace a model</summary>
      <JobForm
        label="Trace a model"
        button="Trace"
        kind="trace"
        fields={[
          { name: "model", title: "Model", hint: "demo:lenet-wide", initial: model, required: true },
          { name: "runtimes", title: "Runtimes", hint: "all that can" },
          { name: "batch", title: "Batch", initial: "1", most: 1024 },
          { name: "level", title: "Down to", initial: LEVELS[0], choices: LEVELS },
        ]}
        parameters={({ model: named = "", runtimes = "", batch, level }) => ({
          model: named.trim(),
          runtimes: namesIn(runtimes),
          batch: Number(batch) || 1,
          level,
        })}
        onStart={setJob}
      />
      {job && <JobCard job={job} onEnd={onEnd} />}
    </details>
  );
}

// --- one trace

function TracePage({ run }: { run: string }) {
  const { answer, error, again } = useAnswer("/traces/{run}", { run });
  const [other] = useQueryState("with");
  if (error) {
    return (
      <>
        <h1>Trace</h1>
        <ErrorState error={error} again={again} />
      </>
    );
  }
  if (!answer) {
    return (
      <>
        <h1>Trace</h1>
        <Loading what="Reading the trace" />
      </>
    );
  }
  const { trace } = answer;
  const tabs: Tab[] = [];
  if (answer.timelines.length) {
    tabs.push({ key: "timeline", title: "Timeline", content: () => <TimelinePanel run={trace.id} levels={answer.timelines} /> });
  }
  if (answer.phases.length) {
    tabs.unshift({ key: "phases", title: "Prompt and token", content: () => <PhasesPanel phases={answer.phases} /> });
  }
  tabs.push({ key: "levels", title: trace.recording ? "Steps" : "Levels", content: () => <LevelsPanel detail={answer} /> });
  if (answer.layers) {
    tabs.push({ key: "layers", title: "Layers", content: () => <LayersPanel run={trace.id} /> });
  }
  if (!trace.recording) {
    tabs.push({ key: "roofline", title: "Roofline", content: () => <RooflinePanel run={trace.id} /> });
    tabs.push({ key: "compare", title: "Compare", content: () => <ComparePanel trace={trace} other={other} /> });
  }
  return (
    <>
      <p class="crumbs">
        <a href={address("traces")}>Traces</a>
      </p>
      <h1>
        <bdi>{answer.title}</bdi>
      </h1>
      <p class="dim">
        Run <code>{trace.id.slice(0, 8)}</code>, <Moment at={trace.created} />
        {!trace.recording && (
          <>
            {`, batch ${trace.batch}, of `}
            <PageLink page="model" rest={trace.model}>
              <bdi>{trace.model}</bdi>
            </PageLink>
          </>
        )}
      </p>
      <div class="tiles">
        {answer.tiles.map((tile) => (
          <Tile figure={tile.figure} title={tile.title} />
        ))}
      </div>
      <Tabs tabs={tabs} label="Parts of the trace" />
      <Sentences sentences={answer.notes} />
      {isLive() && (
        <p>
          <a href={resourceUrl("/traces/{run}/chrome", { run: trace.id })} download>
            Download for Perfetto
          </a>{" "}
          <span class="dim">(trace events, JSON: open the file in Perfetto or chrome://tracing)</span> <CopyLink />
        </p>
      )}
    </>
  );
}

/** What a language model does while it writes: its prompt and its next token apart. */
function PhasesPanel({ phases }: { phases: PhaseItem[] }) {
  return (
    <>
      <Table label="Prompt and token" columns={PHASES} rows={phases} rowKey={(row) => row.title} />
      {phases.map((phase) => (
        <section aria-label={phase.title}>
          <h2>{phase.title}</h2>
          <h3>Layers by kind</h3>
          {phase.kinds ? <WordTable table={phase.kinds} label={`Layers by kind, ${phase.title}`} /> : <p class="dim">Its layers are not known.</p>}
          <Sentences sentences={phase.notes} />
          <h3>What observing adds</h3>
          <WordTable table={phase.levels} label={`What observing adds, ${phase.title}`} />
        </section>
      ))}
    </>
  );
}

const PHASES: Column<PhaseItem>[] = [
  { key: "title", title: "What", cell: (row) => <bdi>{row.title}</bdi> },
  { key: "time", title: "Median [95 %]", number: true, cell: (row) => row.time },
  { key: "share", title: "Share of the requests", number: true, cell: (row) => row.share },
];

function LevelsPanel({ detail }: { detail: TraceDetail }) {
  return (
    <>
      <WordTable table={detail.levels} label={detail.trace.recording ? "Steps" : "Levels"} />
      {detail.counters && (
        <>
          <h2>What the system did in one call</h2>
          <WordTable table={detail.counters} label="What the system did in one call" />
        </>
      )}
      {detail.facts.length > 0 && (
        <>
          <h2>Traced with</h2>
          <dl>
            {detail.facts.map((fact) => (
              <div>
                <dt>{fact.name}</dt>
                <dd>
                  <bdi>{fact.value}</bdi>
                </dd>
              </div>
            ))}
          </dl>
        </>
      )}
    </>
  );
}

function TimelinePanel({ run, levels }: { run: string; levels: string[] }) {
  const stretch = useStretch();
  const [level] = useQueryState("level", levels[0]);
  const [span] = useQueryState("span");
  const { answer, error, again } = useAnswer("/traces/{run}/timeline", { run, level });
  const asked = useAnswer(span ? "/traces/{run}/span" : null, { run, level, number: span });
  const picked = span ? asked.answer : undefined;
  return (
    <>
      {levels.length > 1 && (
        <p role="group" aria-label="Level" class="choice">
          Observed:{" "}
          {levels.map((name) => (
            <button
              type="button"
              aria-pressed={name === level}
              onClick={() => setQuery({ level: name === levels[0] ? "" : name, span: "", from: "", to: "" })}
            >
              {name}
            </button>
          ))}
        </p>
      )}
      {error && <ErrorState error={error} again={again} />}
      {!answer && !error && <Loading what="Reading the spans" />}
      {answer && (
        <SpanTimeline
          call={answer}
          title={`Timeline of one call with ${answer.spans.toLocaleString("en")} spans`}
          stretch={stretch}
          picked={span ? Number(span) : null}
          onPick={(number) => isLive() && setQuery({ span: String(number) })}
        />
      )}
      {asked.error && <ErrorState error={asked.error} again={asked.again} />}
      {picked && (
        <section class="about-span" aria-label="The span that was picked">
          <h2>
            <bdi>{picked.name}</bdi>
          </h2>
          <dl>
            <Fact name="Kind" value={picked.kind} />
            <Fact name="Took" value={`${picked.words}, ${picked.share} of the call`} />
            <Fact name="Began" value={picked.start} />
            <Fact name="Kernel" value={picked.kernel} />
            <Fact name="Precision" value={picked.precision} />
            <Fact name="Output" value={picked.shapes.join(", ")} />
            <Fact name="Operators of the file" value={picked.operators.join(", ")} />
          </dl>
          <p class="bar">
            <button type="button" onClick={() => showStretch(picked.from_share, picked.to_share)}>
              Zoom to it
            </button>
            <button type="button" disabled={picked.number === 0} onClick={() => setQuery({ span: String(picked.number - 1) }, true)}>
              ← Span before
            </button>
            <button
              type="button"
              disabled={picked.number + 1 >= (answer?.spans ?? 0)}
              onClick={() => setQuery({ span: String(picked.number + 1) }, true)}
            >
              Span after →
            </button>
            <button type="button" onClick={() => setQuery({ span: "" })}>
              Close
            </button>
          </p>
        </section>
      )}
      {answer && !span && isLive() && (
        <p>
          <button type="button" onClick={() => setQuery({ span: "0" })}>
            Go through the spans
          </button>
        </p>
      )}
    </>
  );
}

function Fact({ name, value }: { name: string; value: string }) {
  if (!value) return null;
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        <bdi>{value}</bdi>
      </dd>
    </div>
  );
}

function LayersPanel({ run }: { run: string }) {
  const offset = useOffset("layers");
  const [order] = useQueryState("order", "time");
  const setOrder = (next: string) => setQuery({ order: next === "time" ? "" : next, layers: "" });
  const { answer, error, loading, again } = useAnswer("/traces/{run}/layers", { run, order, offset, limit: LAYERS });
  return (
    <>
      <p role="group" aria-label="Order" class="choice">
        Order:{" "}
        <button type="button" aria-pressed={order === "time"} onClick={() => setOrder("time")}>
          hottest first
        </button>
        <button type="button" aria-pressed={order === "call"} onClick={() => setOrder("call")}>
          as computed
        </button>
      </p>
      {error && <ErrorState error={error} again={again} />}
      {!answer && !error && <Loading what="Reading the layers" />}
      {answer && (
        <Part part={answer} limit={LAYERS} parameter="layers" nothing={<EmptyState title="There are no layers." />}>
          <Table label="Layers" columns={LAYER_COLUMNS} rows={answer.rows} rowKey={(row) => String(row.number)} busy={loading} />
        </Part>
      )}
    </>
  );
}

const LAYER_COLUMNS: Column<LayerItem>[] = [
  {
    key: "name",
    title: "Layer",
    cell: (row) => (
      <span class="name">
        {row.depth > 0 && <span class="dim">{`└${"──".repeat(Math.min(row.depth, 8) - 1)} `}</span>}
        <bdi>{row.name}</bdi>
      </span>
    ),
  },
  { key: "kind", title: "Kind", cell: (row) => <bdi>{row.kind}</bdi> },
  { key: "time", title: "Median", number: true, help: "With its 95 % interval", cell: (row) => <FigureCell figure={row.time} /> },
  {
    key: "share",
    title: "Share",
    number: true,
    help: "Of the time of all outermost layers together",
    cell: (row) => (
      <span class="share">
        <span class="gauge" aria-hidden="true">
          <span style={{ width: `${Math.min(100, 100 * row.share)}%` }} />
        </span>
        {row.share_words}
      </span>
    ),
  },
  { key: "kernel", title: "Kernel", cell: (row) => <bdi>{row.kernel}</bdi> },
  { key: "precision", title: "Precision", cell: (row) => <bdi>{row.precision}</bdi> },
  { key: "output", title: "Output", cell: (row) => <bdi>{row.output}</bdi> },
];

function RooflinePanel({ run }: { run: string }) {
  const { answer, error, again } = useAnswer("/traces/{run}/roofline", { run });
  const { job, problem, start } = useStartedJob();
  if (error) return <ErrorState error={error} again={again} />;
  if (!answer) return <Loading what="Counting the operations of the model" />;
  if (!answer.chart || !answer.table) {
    return (
      <>
        <EmptyState title={answer.reason}>
          {answer.unmeasured && (
            <>
              <p>
                Measuring takes half a minute and wants the machine for itself: <code>zoolens machine peaks</code>.
              </p>
              {isLive() && !job && (
                <button type="button" class="primary" onClick={() => start("peaks", { threads: answer.threads, device: answer.device })}>
                  Measure the peaks
                </button>
              )}
            </>
          )}
          {problem && (
            <p class="problem" role="alert">
              {problem}
            </p>
          )}
        </EmptyState>
        {job && <JobCard job={job} onEnd={again} />}
      </>
    );
  }
  return (
    <>
      {answer.notes.map((note) => (
        <p>
          <bdi>{note}</bdi>
        </p>
      ))}
      <Chart spec={answer.chart} title="Roofline: each layer against the peaks of the machine" />
      <WordTable table={answer.table} label="Layers against the peaks" />
    </>
  );
}

function ComparePanel({ trace, other }: { trace: TraceItem; other: string }) {
  const { query } = useRoute();
  const stretch = useStretch();
  const choices = useAnswer("/traces", { q: trace.model, limit: 100 }).answer?.rows ?? [];
  const listed = choices.filter((row) => row.id !== trace.id && !row.recording);
  const parameters = {
    run: trace.id,
    other,
    ...stretch,
    picked: query.get("difference") ?? undefined,
    span: query.get("bar") ?? undefined,
    band: query.get("band") ?? undefined,
  };
  const { answer, error, again } = useAnswer(other ? "/traces/{run}/compared/{other}" : null, parameters);
  const choose = (id: string) => setQuery({ with: id, difference: "", bar: "", band: "", from: "", to: "" });
  const pick = (place: number) =>
    setQuery({ difference: place === answer?.picked ? "" : String(place), bar: "", band: "" }, true);
  return (
    <>
      <label class="sorting">
        Compare with{" "}
        <select value={other} onChange={(event) => choose(event.currentTarget.value)}>
          <option value="">choose a trace …</option>
          {other && !listed.some((row) => row.id === other) && <option value={other}>{other.slice(0, 8)}</option>}
          {listed.map((row) => (
            <option value={row.id}>{`${row.stack}, batch ${row.batch} (${row.id.slice(0, 8)}): ${row.model}`}</option>
          ))}
        </select>
      </label>
      {!other && !listed.length && (
        <EmptyState title="There is no other trace of this model.">
          Trace it in another runtime: <code>zoolens trace {trace.model} --runtime RUNTIME</code>.
        </EmptyState>
      )}
      {error && <ErrorState error={error} again={again} />}
      {other && !answer && !error && <Loading what="Aligning the layers of both" />}
      {other && answer && (
        <>
          <ul class="said">
            {answer.notes.map((note) => (
              <li>
                <bdi>{note}</bdi>
              </li>
            ))}
          </ul>
          {answer.calls && (
            <TimelineChart
              spec={answer.calls}
              title="One call of each trace on the same scale of time"
              stretch={stretch}
              onPick={(band, number) => setQuery({ difference: "", bar: String(number), band: String(band) }, true)}
            />
          )}
          <Chart
            spec={answer.differences}
            title="The largest differences between both traces"
            onPick={(datum) => isLive() && typeof datum.place === "number" && pick(datum.place)}
          />
          <h2>All differences</h2>
          <WordTable table={answer.table} label="All differences" picked={answer.picked} onPick={isLive() ? pick : undefined} />
          {isLive() && (
            <p>
              <a href={resourceUrl("/traces/{run}/chrome", { run: trace.id, other })} download>
                Download both for Perfetto
              </a>
            </p>
          )}
        </>
      )}
    </>
  );
}
