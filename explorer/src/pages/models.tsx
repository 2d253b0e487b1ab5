// All models of all zoos and of the store: search, facets, columns that one chooses.
import { useMemo, useState } from "preact/hooks";
import type { ModelItem, ModelPage } from "../answers";
import { ApiError, isLive, send, useAgain, useAnswer } from "../api";
import { FigureCell, Moment, Sparkline, judgedTitle } from "../components/figure";
import { Facets, type FacetNames, SearchBox } from "../components/filters";
import { PageLink } from "../components/link";
import { Filtered, NothingFits, Part, useOffset } from "../components/listing";
import { ErrorState, Loading, Notes } from "../components/states";
import { type Column, Table, useColumns } from "../components/table";
import { chosen, setQuery, useRoute } from "../router";

const LIMIT = 30; // two screens; more take longer to lay out than to find
const LISTING_AGAIN = 1500; // milliseconds until the next look while zoos are still being listed
const FACETS: FacetNames = {
  titles: { measured: "Measured here", zoo: "Zoo", task: "Task", format: "Format", size: "Parameters", licence: "Licence" },
  label: (facet, value) => {
    if (facet === "measured") return value === "yes" ? "Yes" : "Not yet";
    if (facet === "size") return value.replace("-", " to ").replace("<", "below ").replace(">", "above ") || "unknown";
    return value || "unknown";
  },
};

export function ModelsPage() {
  const { query } = useRoute();
  const offset = useOffset();
  const sort = query.get("sort") ?? "best";
  const inFacet = (facet: string) => query.getAll(facet);
  const facets = Object.fromEntries(Object.keys(FACETS.titles).map((name) => [name, inFacet(name)]));
  const { data } = chosen();
  const { answer, error, loading, again } = useAnswer("/models", {
    ...facets,
    data,
    q: query.get("q") ?? "",
    sort,
    offset,
    limit: LIMIT,
  });
  useAgain(answer?.complete === false, again, answer, LISTING_AGAIN);
  const judged = judgedTitle((answer?.rows ?? []).flatMap(({ latest }) => (latest ? [latest] : [])));
  const [columns, chooser] = useColumns(useMemo(() => COLUMNS(judged, answer?.since, answer?.until), [judged, answer?.since, answer?.until]));
  const filtered = Boolean(query.get("q")) || Object.values(facets).some((values) => values.length);
  return (
    <>
      <h1>Models</h1>
      <div class="bar">
        <SearchBox
          label="Search models"
          hint="Search by name, description, format, runtime …"
          value={query.get("q") ?? ""}
          onSearch={(value) => setQuery({ q: value, offset: "" }, true)}
        />
        {chooser}
        {filtered && (
          <button type="button" onClick={() => setQuery({ q: "", offset: "", ...empty(facets) })}>
            Clear filters
          </button>
        )}
      </div>
      {error && <ErrorState error={error} again={again} />}
      {!answer && !error && <Loading what="Reading the zoos and the store" />}
      {answer && (
        <Filtered
          label="Models"
          filters={
            <Facets
              facets={answer.facets}
              names={FACETS}
              chosen={inFacet}
              onChoose={(facet, values) => setQuery({ [facet]: values, offset: "" })}
            />
          }
        >
          <p class="found" role="status">
            {words(answer)}
            {answer.complete ? <ListAgain onStart={again} /> : " Zoos are being listed …"}
          </p>
          <Part part={answer} limit={LIMIT} nothing={<NothingFits what="model" />}>
            <Table
              label="Models"
              columns={columns}
              rows={answer.rows}
              rowKey={(row) => row.ref}
              sort={sort}
              onSort={(next) => setQuery({ sort: next, offset: "" })}
              leastLines={(row) => (row.latest ? 2 : 1)}
              busy={loading}
            />
          </Part>
          <Notes title="Zoos that are not listed in full" notes={answer.notes} />
        </Filtered>
      )}
    </>
  );
}

/** After a model or a zoo was added while the server runs. */
function ListAgain({ onStart }: { onStart: () => void }) {
  const [problem, setProblem] = useState("");
  if (!isLive()) return null;
  const refresh = () => {
    setProblem("");
    send("POST", "/models/refresh", {}).then(onStart, (failure: unknown) =>
      setProblem(failure instanceof ApiError ? failure.message : String(failure)),
    );
  };
  return (
    <>
      {" "}
      <button type="button" class="more" onClick={refresh}>
        List the zoos again
      </button>
      {problem && <span role="alert"> {problem}</span>}
    </>
  );
}

function words(answer: ModelPage): string {
  const total = answer.total.toLocaleString("en");
  return answer.total === answer.all ? `${total} ${answer.all === 1 ? "model" : "models"}.` : `${total} of ${answer.all.toLocaleString("en")} models.`;
}

function empty(facets: Record<string, string[]>): Record<string, string> {
  return Object.fromEntries(Object.keys(facets).map((name) => [name, ""]));
}

const COLUMNS = (judged: string, since?: string | null, until?: string | null): Column<ModelItem>[] => [
  {
    key: "ref",
    title: "Model",
    sort: "ref",
    cell: (row) => (
      <span class="name">
        <PageLink page="model" rest={row.ref}>
          <bdi>
            <span class="dim">{row.zoo}:</span>
            {row.name}
          </bdi>
        </PageLink>
        {!row.listed && <span class="mark">only in the store</span>}
        {row.weights === "structure only" && <span class="mark">no weights</span>}
      </span>
    ),
  },
  { key: "task", title: "Task", cell: (row) => row.task || <span class="dim">unknown</span> },
  {
    key: "params",
    title: "Parameters",
    sort: "params",
    descending: true,
    number: true,
    help: "As the model's source states it",
    cell: (row) => row.params_words,
  },
  {
    key: "bytes",
    title: "Size",
    sort: "bytes",
    descending: true,
    number: true,
    help: "Of its files, as the manifest states it",
    cell: (row) => row.bytes_words,
    extra: true,
  },
  {
    key: "claimed",
    title: "Claimed top-1",
    sort: "claimed_top1",
    descending: true,
    number: true,
    help: "What the model's source says, on the source's own data",
    cell: (row) => row.claimed_top1_words,
  },
  {
    key: "top1",
    title: `Measured ${judged === "Top-1" ? "top-1" : "metric"}`,
    number: true,
    help: "Top-1 of a classifier, AP of a detector and so on: of the newest run, on that run's data, with its 95 % interval",
    cell: (row) =>
      row.latest && !row.latest.judged && !row.latest.latency_p50 ? (
        <span class="dim">nothing finished</span>
      ) : (
        <FigureCell figure={row.latest?.judged ?? null} named />
      ),
  },
  {
    key: "latency",
    title: "Median latency",
    number: true,
    help: "Median latency of one input in the newest run",
    cell: (row) => <FigureCell figure={row.latest?.latency_p50 ?? null} />,
  },
  {
    key: "on",
    title: "Newest run",
    sort: "latest",
    descending: true,
    cell: (row) =>
      row.latest && (
        <span class="pair">
          <PageLink page="run" rest={row.latest.id}>
            <Moment at={row.latest.created} />
          </PageLink>
          <span class="dim">
            <bdi>{row.latest.dataset}</bdi>, <bdi>{row.latest.runtime}</bdi>
          </span>
        </span>
      ),
  },
  {
    key: "runs",
    title: "Runs",
    sort: "runs",
    descending: true,
    cell: (row) =>
      row.runs > 0 && (
        <span class="runs">
          <span class="number">
            <PageLink page="runs" query={{ model: row.ref }}>
              {row.runs.toLocaleString("en")}
            </PageLink>
          </span>
          <Sparkline values={row.activity} label={activity(row.runs, since, until)} />
        </span>
      ),
  },
  { key: "formats", title: "Formats", cell: (row) => <bdi>{row.formats.join(", ")}</bdi>, extra: true },
  { key: "licence", title: "Licence", cell: (row) => <bdi>{row.licence}</bdi>, extra: true },
  { key: "weights", title: "Weights", cell: (row) => row.weights, extra: true },
  { key: "runtimes", title: "Runtimes", cell: (row) => <bdi>{row.runtimes.join(", ")}</bdi>, extra: true },
  { key: "datasets", title: "Data", cell: (row) => <bdi>{row.datasets.join(", ")}</bdi>, extra: true },
  { key: "version", title: "Version", cell: (row) => <bdi>{row.version}</bdi>, extra: true },
  { key: "description", title: "Description", cell: (row) => <bdi class="prose">{row.description}</bdi>, extra: true },
];

function activity(runs: number, since?: string | null, until?: string | null): string {
  const day = (at?: string | null) => (at ? new Date(at).toLocaleDateString("en-CA") : "?");
  return `${runs} ${runs === 1 ? "run" : "runs"} between ${day(since)} and ${day(until)}`;
}
