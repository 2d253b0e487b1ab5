// All runs of the store: search, facets, a stretch of time, and sorted by any figure.
import { useMemo } from "preact/hooks";
import type { RunItem, SortChoice } from "../answers";
import { useAnswer } from "../api";
import { useChosenDatasets } from "../datasets";
import { FigureCell, Moment, judgedTitle } from "../components/figure";
import { Facets, type FacetNames, SearchBox } from "../components/filters";
import { PageLink } from "../components/link";
import { Filtered, NothingFits, Part, useOffset } from "../components/listing";
import { EmptyState, ErrorState, Loading } from "../components/states";
import { type Column, Table, useColumns } from "../components/table";
import { address, setQuery, useRoute } from "../router";

const LIMIT = 30; // two screens; more take longer to lay out than to find
const NEWEST = "-created";
const SINGLE = "batch=1";
const USUAL = ["created", "top1", "latency_p50@batch=1"]; // which columns of their own show
const STATES: Record<string, string> = { measured: "Measured", failed: "A stage failed", begun: "Nothing finished yet" };
const FACETS: FacetNames = {
  titles: { state: "State", runtime: "Runtime", dataset: "Data", kind: "Kind" },
  label: (facet, value) => (facet === "state" ? (STATES[value] ?? value) : value || "unknown"),
};

const { dataset: _, ...titles } = FACETS.titles;
const WITHOUT_DATA: FacetNames = { ...FACETS, titles }; // the head of the page has the dataset

export function RunsPage() {
  const { query } = useRoute();
  const offset = useOffset();
  const sort = query.get("sort") ?? NEWEST;
  const inFacet = (facet: string) => query.getAll(facet);
  const facets = Object.fromEntries(Object.keys(FACETS.titles).map((name) => [name, inFacet(name)]));
  const datasets = useChosenDatasets();
  const model = query.getAll("model");
  const since = query.get("since") ?? "";
  const until = query.get("until") ?? "";
  const { answer, error, loading, again } = useAnswer("/runs", {
    ...facets,
    ...(datasets ? { dataset: datasets } : {}),
    model,
    q: query.get("q") ?? "",
    since: since ? moment(since) : undefined,
    until: until ? moment(until, 1) : undefined,
    sort,
    offset,
    limit: LIMIT,
  });
  const sorts = useAnswer("/figures").answer?.rows ?? [];
  const by = sort.replace(/^-/, "");
  const own = USUAL.includes(by) ? "" : by;
  const ownTitle = sorts.find((choice) => choice.value === own)?.title ?? own;
  const picked = query.getAll("picked");
  const judged = judgedTitle(answer?.rows ?? []);
  const [columns, chooser] = useColumns(useMemo(() => COLUMNS(own, ownTitle, picked, judged), [own, ownTitle, picked.join(), judged]));
  const filtered = Boolean(query.get("q") || since || until || model.length) || Object.values(facets).some((one) => one.length);
  return (
    <>
      <h1>Runs</h1>
      <div class="bar">
        <SearchBox
          label="Search runs"
          hint="Search by model, dataset, runtime or id …"
          value={query.get("q") ?? ""}
          onSearch={(value) => setQuery({ q: value, offset: "" }, true)}
        />
        <Sorting sort={sort} choices={sorts} />
        {chooser}
        {filtered && (
          <button
            type="button"
            onClick={() => setQuery({ q: "", offset: "", model: "", since: "", until: "", ...empty(facets) })}
          >
            Clear filters
          </button>
        )}
      </div>
      {error && <ErrorState error={error} again={again} />}
      {!answer && !error && <Loading what="Reading the store" />}
      {answer && (
        <Filtered
          label="Runs"
          filters={
            <>
              <Days since={since} until={until} />
              <Facets
                facets={answer.facets}
                names={datasets ? WITHOUT_DATA : FACETS}
                chosen={inFacet}
                onChoose={(facet, values) => setQuery({ [facet]: values, offset: "" })}
              />
            </>
          }
        >
          <p class="found" role="status">
            {found(answer.total, facets.kind ?? [])}
            {model.length > 0 && (
              <>
                {" Of "}
                <bdi>{model.join(", ")}</bdi>.
              </>
            )}
            {answer.lacking > 0 && ` ${answer.lacking.toLocaleString("en")} without this figure come last.`}
          </p>
          <Picked picked={picked} rows={answer.rows} />
          <Part
            part={answer}
            limit={LIMIT}
            nothing={filtered || facets.kind?.length ? <NothingFits what="run" /> : <NoRuns />}
          >
            <Table
              label="Runs"
              columns={columns}
              rows={answer.rows}
              rowKey={(row) => row.id}
              sort={sort}
              onSort={(next) => setQuery({ sort: next === NEWEST ? "" : next, offset: "" })}
              leastLines={(row) => (row.judged || row.latency_p50 ? 2 : 1)}
              busy={loading}
            />
          </Part>
        </Filtered>
      )}
    </>
  );
}

function NoRuns() {
  return (
    <EmptyState title="No evaluations yet.">
      Run <code>zoolens eval MODEL --data DATA</code>, or <code>zoolens demo</code>.
    </EmptyState>
  );
}

/** The runs that were chosen, and the way to their comparison. */
function Picked({ picked, rows }: { picked: string[]; rows: RunItem[] }) {
  if (!picked.length) return null;
  const [a, b] = picked;
  const data = new Set(picked.map((id) => rows.find((row) => row.id === id)?.dataset).filter(Boolean));
  return (
    <p class="picked-runs" role="status">
      {picked.length === 1 && "One run is chosen: choose another one on the same dataset to compare them."}
      {picked.length === 2 && (
        <a class="button" href={address("compare", { a, b })}>
          Compare these two
        </a>
      )}
      {picked.length > 2 && `${picked.length} runs are chosen: only two can be compared.`}
      {picked.length === 2 && data.size > 1 && <span class="problem"> They ran on different data.</span>}{" "}
      <button type="button" class="more" onClick={() => setQuery({ picked: "" })}>
        Choose none
      </button>
    </p>
  );
}

function found(total: number, kinds: string[]): string {
  const what = kinds.length && kinds.join() !== "evaluation" ? "run" : "evaluation";
  return `${total.toLocaleString("en")} ${what}${total === 1 ? "" : "s"}.`;
}

/** A day of the reader's calendar as a moment; `later` so many days after. */
function moment(day: string, later = 0): string | undefined {
  const [year = 0, month = 1, date = 1] = day.split("-").map(Number);
  const at = new Date(year, month - 1, date + later);
  return Number.isNaN(at.getTime()) ? undefined : at.toISOString();
}

function empty(facets: Record<string, string[]>): Record<string, string> {
  return Object.fromEntries(Object.keys(facets).map((name) => [name, ""]));
}

function Days({ since, until }: { since: string; until: string }) {
  return (
    <fieldset class="days">
      <legend>Begun</legend>
      <label>
        from
        <input type="date" value={since} onChange={(event) => setQuery({ since: event.currentTarget.value, offset: "" })} />
      </label>
      <label>
        to
        <input type="date" value={until} onChange={(event) => setQuery({ until: event.currentTarget.value, offset: "" })} />
      </label>
    </fieldset>
  );
}

/** Sorting by figures that have no column of their own. */
function Sorting({ sort, choices }: { sort: string; choices: Pick<SortChoice, "value" | "title">[] }) {
  const by = sort.replace(/^-/, "");
  const known = by === "created" || choices.some((choice) => choice.value === by);
  const listed = known ? choices : [{ value: by, title: by }, ...choices];
  return (
    <label class="sorting">
      Sort by{" "}
      <select value={by} onChange={(event) => setQuery({ sort: first(event.currentTarget.value), offset: "" })}>
        <option value="created">time</option>
        {listed.map(({ value, title }) => (
          <option value={value}>{title}</option>
        ))}
      </select>
    </label>
  );
}

const LEAST_FIRST =
  /^(latency|roundtrip_p|cold|ece|brier|nll|bits_per_byte|perplexity|mae|rmse|wer|cer|file_size|parameters|memory|peak_|energy|flops|macs)/;

/** What is best or newest first: times, sizes and errors are best when they are small. */
function first(by: string): string {
  if (by === "created") return "";
  return LEAST_FIRST.test(by) ? by : `-${by}`;
}

function pick(id: string, picked: string[]): void {
  setQuery({ picked: picked.includes(id) ? picked.filter((other) => other !== id) : [...picked, id] }, true);
}

const COLUMNS = (by: string, ownTitle: string, picked: string[], judged: string): Column<RunItem>[] => [
  {
    key: "model",
    title: "Model",
    cell: (row) => (
      <span class="name">
        <PageLink page="model" rest={row.model}>
          <bdi>{row.model}</bdi>
        </PageLink>
        {row.kind !== "evaluation" && <span class="mark">{row.kind}</span>}
        {row.state === "begun" && <span class="mark">nothing finished yet</span>}
        {row.failed.map((failure) => (
          <span class="failure">
            <bdi>{failure.stage}</bdi> failed: <bdi>{failure.error}</bdi>
          </span>
        ))}
        {row.note && <span class="failure">{row.note}</span>}
      </span>
    ),
  },
  {
    key: "run",
    title: "Run",
    cell: (row) => (
      <span class="id">
        <input
          type="checkbox"
          aria-label={`Choose run ${row.id.slice(0, 8)} to compare it`}
          checked={picked.includes(row.id)}
          onChange={() => pick(row.id, picked)}
        />{" "}
        <PageLink page="run" rest={row.id}>
          <code>{row.id.slice(0, 8)}</code>
          {row.attempt > 0 && ` #${row.attempt}`}
        </PageLink>
      </span>
    ),
  },
  { key: "when", title: "Begun", sort: "created", descending: true, cell: (row) => <Moment at={row.created} /> },
  { key: "data", title: "Data", cell: (row) => <bdi class="wide">{row.dataset}</bdi> },
  { key: "stack", title: "Stack", cell: (row) => <bdi class="wide">{row.stack}</bdi> },
  ...(by
    ? [
        {
          key: "sorted",
          title: ownTitle,
          sort: by,
          number: true,
          help: "The figure that the list is sorted by",
          cell: (row: RunItem) => <FigureCell figure={row.sorted_by} />,
        },
      ]
    : []),
  {
    key: "judged",
    title: judged,
    sort: "top1",
    descending: true,
    number: true,
    help: "Top-1 of a classifier, AP of a detector and so on, on the run's own data, with its 95 % interval; sorted by top-1",
    cell: (row) => <FigureCell figure={row.judged} named />,
  },
  {
    key: "latency",
    title: "Median latency",
    sort: "latency_p50@batch=1",
    number: true,
    help: "Median latency of one input, or else of the smallest batch that was timed; sorted by that of one input",
    cell: (row) => (
      <>
        <FigureCell figure={row.latency_p50} />
        {row.latency_p50 && row.latency_p50.scope !== SINGLE && <span class="mark">{row.latency_p50.part}</span>}
      </>
    ),
  },
  { key: "inputs", title: "Inputs", number: true, cell: (row) => row.inputs.toLocaleString("en"), extra: true },
  { key: "format", title: "Format", cell: (row) => <bdi>{row.format}</bdi>, extra: true },
];
