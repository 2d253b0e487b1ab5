// Services: which were served when, who answered, how they switched and why; kept up to date while one is being served.
import type { ServiceDetail, ServiceEvents, ServiceSession, WatchedModel } from "../answers";
import { useAgain, useAnswer } from "../api";
import { Chart } from "../components/chart";
import { CopyLink } from "../components/copylink";
import { Moment, Tile } from "../components/figure";
import { EmptyState, ErrorState, Loading, Sentences } from "../components/states";
import { type Column, Pager, Table } from "../components/table";
import { address, setQuery, useRoute } from "../router";

const LIMIT = 20;
const STATES: Record<ServiceSession["state"], string> = {
  active: "Answers now",
  silent: "Silent: idle, or ended without recording it",
  stopped: "Stopped",
};

/** Requests are counted once a minute and at the end: until then there may be more. */
function counted({ requests, state }: ServiceSession): string {
  if (requests === null) return "–";
  return `${state === "stopped" ? "" : "≥ "}${requests.toLocaleString("en")}`;
}

export function ServicesPage({ rest }: { rest: string }) {
  return rest ? <Session session={rest} /> : <Sessions />;
}

function Sessions() {
  const { query } = useRoute();
  const offset = Number(query.get("offset") ?? 0) || 0;
  const { answer, error, again } = useAnswer("/services", { offset, limit: LIMIT });
  useAgain(Boolean(answer?.rows.some((row) => row.state === "active")), again, answer);
  return (
    <>
      <h1>Services</h1>
      <Watched />
      {error && <ErrorState error={error} again={again} />}
      {!answer && !error && <Loading />}
      {answer?.total === 0 && (
        <EmptyState title="No service was served yet.">
          <code>zoolens serve service.yaml</code> serves one that switches between equivalent models.
        </EmptyState>
      )}
      {answer && answer.rows.length > 0 && (
        <Table label="Sessions of services" columns={COLUMNS} rows={answer.rows} rowKey={(row) => row.session} />
      )}
      {answer && (
        <Pager offset={offset} limit={LIMIT} total={answer.total} onOffset={(next) => setQuery({ offset: next ? String(next) : "" })} />
      )}
    </>
  );
}

/** What a running server does right now, where the explorer was told of one. */
function Watched() {
  const { answer, error, again } = useAnswer("/services/server");
  useAgain(Boolean(answer?.address), again, answer);
  if (error) return <ErrorState error={error} again={again} />;
  if (!answer) return null;
  if (!answer.address) {
    return (
      <p class="dim">
        <code>zoolens ui --server http://127.0.0.1:8000</code> shows here what a running server does.
      </p>
    );
  }
  return (
    <section aria-label="Running server">
      <h2>
        <bdi>{answer.address}</bdi>
      </h2>
      {answer.problem && (
        <p class="problem" role="alert">
          {answer.problem}
        </p>
      )}
      {!answer.problem && answer.seconds === 0 && <p class="dim">Looking for the first time: rates come with the next look.</p>}
      {answer.endpoints.map((endpoint) => (
        <article class="endpoint" aria-label={endpoint.name}>
          <h3>
            <bdi>{endpoint.name}</bdi> <span class="mark">{endpoint.ready ? "ready" : "not ready"}</span>
          </h3>
          <div class="tiles">
            <Tile figure={endpoint.rate_words} title="answered" />
            <Tile figure={endpoint.refused_words} title="refused" />
            <Tile figure={endpoint.waiting.toLocaleString("en")} title="wait in the queue" />
            <Tile figure={endpoint.running.toLocaleString("en")} title="in batches that run" />
          </div>
          {endpoint.models.length > 0 && (
            <Table label={`Models of ${endpoint.name}`} columns={WATCHED} rows={endpoint.models} rowKey={(row) => row.model + row.runtime} />
          )}
        </article>
      ))}
      {answer.seconds > 0 && (
        <p class="dim">
          Over the last {answer.seconds.toFixed(0)} s. Times are those in the server, and known up to the bounds of its buckets.
        </p>
      )}
    </section>
  );
}

const WATCHED: Column<WatchedModel>[] = [
  { key: "model", title: "Model", cell: (row) => <bdi>{row.model}</bdi> },
  { key: "runtime", title: "Runtime", cell: (row) => <bdi>{row.runtime}</bdi> },
  { key: "rate", title: "Answers", number: true, cell: (row) => row.rate_words },
  { key: "p50", title: "p50", number: true, cell: (row) => row.p50 },
  { key: "p90", title: "p90", number: true, cell: (row) => row.p90 },
  { key: "p99", title: "p99", number: true, cell: (row) => row.p99 },
];

const COLUMNS: Column<ServiceSession>[] = [
  {
    key: "service",
    title: "Service",
    cell: (row) => (
      <a href={address(`services/${row.session}`)}>
        <bdi>{row.service}</bdi>
      </a>
    ),
  },
  { key: "begun", title: "Begun", cell: (row) => <Moment at={row.begun} /> },
  { key: "state", title: "State", cell: (row) => STATES[row.state] },
  { key: "answering", title: "Answered at last", cell: (row) => <bdi>{row.answering || "–"}</bdi> },
  { key: "requests", title: "Answered requests", number: true, cell: (row) => counted(row) },
  { key: "switches", title: "Switches", number: true, cell: (row) => row.switches.toLocaleString("en") },
  { key: "in_time", title: "In time", number: true, cell: (row) => row.in_time || "–" },
];

function Session({ session }: { session: string }) {
  const { answer, error, again } = useAnswer("/services/{session}", { session });
  useAgain(answer?.summary.state === "active", again, answer);
  if (!answer) {
    return (
      <>
        <h1>Service</h1>
        {error ? <ErrorState error={error} again={again} /> : <Loading />}
        <p>
          <a href={address("services")}>All services</a>
        </p>
      </>
    );
  }
  const { summary } = answer;
  return (
    <>
      <p>
        <a href={address("services")}>All services</a> <CopyLink />
      </p>
      <h1>
        <bdi>{summary.service}</bdi>
      </h1>
      <div class="tiles" role="status">
        <Tile figure={STATES[summary.state]} title="state" kind={summary.state === "active" ? "good" : ""} />
        <Tile figure={summary.answering || "–"} title={summary.state === "active" ? "answers now" : "answered at last"} />
        <Tile figure={counted(summary)} title={summary.requests === null ? "answered requests: not counted yet" : "answered requests"} />
        <Tile figure={summary.switches.toLocaleString("en")} title="switches" />
        {summary.in_time && <Tile figure={summary.in_time} title="answered in time" />}
      </div>
      <Chart spec={answer.chart} title={answer.chart_title} source={{ path: "/services/{session}", parameters: { session }, field: "chart" }} />
      <p class="dim">
        The time of each request is not stored: of latency over time the share that was answered in time is known. The reason of a
        switch is in its line, and in the list below.
      </p>
      <Sentences sentences={answer.sentences} />
      <Events answer={answer} />
    </>
  );
}

const GROUPS: Column<ServiceEvents>[] = [
  { key: "kind", title: "Event", cell: (row) => row.kind },
  { key: "words", title: "What, and why", cell: (row) => <What row={row} /> },
  { key: "count", title: "Times", number: true, cell: (row) => row.count.toLocaleString("en") },
  { key: "when", title: "When", cell: (row) => <When row={row} /> },
  {
    key: "waiting",
    title: "Queue",
    number: true,
    help: "How many requests waited then",
    cell: ({ least_waiting: least, most_waiting: most }) => (least === most ? most.toLocaleString("en") : `${least}–${most}`),
  },
];

function When({ row }: { row: ServiceEvents }) {
  if (row.count === 1) return <Moment at={row.last} seconds />;
  return (
    <>
      <Moment at={row.first} seconds /> <span class="dim">until</span> <Moment at={row.last} seconds />
    </>
  );
}

/** What happened; events that happened more than once are listed below it. */
function What({ row }: { row: ServiceEvents }) {
  if (row.count === 1) return <bdi class="prose">{row.words}</bdi>;
  return (
    <details class="event-group">
      <summary>
        <bdi>{row.words}</bdi>
      </summary>
      <ul>
        {row.events.map((event) => (
          <li>
            <Moment at={event.time} seconds /> <bdi>{event.words}</bdi>
            {event.waiting > 0 && <span class="dim"> ({event.waiting.toLocaleString("en")} waited)</span>}
          </li>
        ))}
      </ul>
      {row.events.length < row.count && <p class="dim">The newest {row.events.length}.</p>}
    </details>
  );
}

function Events({ answer }: { answer: ServiceDetail }) {
  const { groups, all_groups: all, all_events: events } = answer;
  return (
    <>
      <h2>Events</h2>
      <p class="dim">
        {events.toLocaleString("en")} {events === 1 ? "event" : "events"}, those that differ in numbers alone in one line.
        {groups.length < all && ` The newest ${groups.length} of ${all.toLocaleString("en")} kinds are listed.`}
      </p>
      <Table label="Events" columns={GROUPS} rows={groups} rowKey={(row) => row.first + row.kind + row.words} />
    </>
  );
}
