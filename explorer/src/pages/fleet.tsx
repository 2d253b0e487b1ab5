// The fleet: machines that agents offer, what runs where, and what every model does on every kind of machine.
import type { FleetJob, MachineItem } from "../answers";
import { useAgain, useAnswer } from "../api";
import { Moment, Tile } from "../components/figure";
import { KindGrid } from "../components/kindgrid";
import { PageLink } from "../components/link";
import { Part, useOffset } from "../components/listing";
import { EmptyState, ErrorState, Loading, Prose, Sentences } from "../components/states";
import { type Column, Table } from "../components/table";
import { Tabs } from "../components/tabs";
import { address, useRoute } from "../router";

const MACHINES = 50;
const STATES: Record<MachineItem["state"], string> = { idle: "Idle", works: "Works", lost: "Lost" };

export function FleetPage() {
  return (
    <>
      <h1>Fleet</h1>
      <Tabs
        label="Parts of the fleet"
        tabs={[
          { key: "machines", title: "Machines", content: () => <Machines /> },
          { key: "jobs", title: "What runs where", content: () => <Jobs /> },
          { key: "grid", title: "Models × kinds", content: () => <KindGrid /> },
        ]}
      />
    </>
  );
}

// --- machines

function Machines() {
  const offset = useOffset();
  const { answer, error, again } = useAnswer("/fleet/machines", { offset, limit: MACHINES });
  useAgain(Boolean(answer?.total), again, answer);
  if (!answer) return error ? <ErrorState error={error} again={again} /> : <Loading />;
  return (
    <>
      {error && <ErrorState error={error} again={again} />}
      {answer.total > 0 && (
        <div class="tiles" role="group" aria-label="Machines together">
          <Tile figure={(answer.total - answer.lost).toLocaleString("en")} title="machines are there" />
          <Tile figure={answer.kinds.toLocaleString("en")} title={answer.kinds === 1 ? "kind of machine" : "kinds of machine"} />
          <Tile figure={answer.working.toLocaleString("en")} title="work" kind={answer.working ? "good" : ""} />
          <Tile figure={answer.lost.toLocaleString("en")} title="lost" kind={answer.lost ? "high" : ""} />
        </div>
      )}
      <Part part={answer} limit={MACHINES} nothing={<NoMachines />}>
        <Table label="Machines" columns={MACHINE_COLUMNS} rows={answer.rows} rowKey={(row) => row.id} />
      </Part>
    </>
  );
}

function NoMachines() {
  return (
    <EmptyState title="No agents.">
      Start <code>zoolens agent</code> on each machine, with the store that this explorer shows. The grid of models × kinds
      needs no agents.
    </EmptyState>
  );
}

const MACHINE_COLUMNS: Column<MachineItem>[] = [
  {
    key: "name",
    title: "Machine",
    cell: (row) => (
      <span class="pair">
        <b>
          <bdi>{row.name}</bdi>
        </b>
        <span class="dim">kind {row.kind}</span>
        {row.environment && (
          <span class="dim">
            with <bdi>{row.environment}</bdi>
          </span>
        )}
      </span>
    ),
  },
  {
    key: "state",
    title: "State",
    cell: (row) => (
      <span class="machine-state">
        <span class={`mark ${row.state === "lost" ? "failed" : row.state === "works" ? "measured" : ""}`}>{STATES[row.state]}</span>
        {row.doing.map((job) => (
          <bdi class="doing">{job}</bdi>
        ))}
      </span>
    ),
  },
  { key: "seen", title: "Seen", number: true, cell: (row) => row.seen },
  {
    key: "machine",
    title: "Processor",
    cell: (row) =>
      row.readable ? (
        <span class="pair">
          <bdi>{row.machine}</bdi>
          {row.gpus.map((gpu) => (
            <bdi>{gpu}</bdi>
          ))}
          {row.node && <span class="dim">in a Ray cluster</span>}
        </span>
      ) : (
        <span class="problem">What it published cannot be read. Start it again with the same version of zoolens as here.</span>
      ),
  },
  { key: "cores", title: "Cores", number: true, cell: (row) => row.cores ?? "–" },
  { key: "load", title: "Load", number: true, cell: (row) => row.load?.toFixed(1) ?? "–", help: "Processes that want to run, over the last minute" },
  { key: "memory", title: "Memory", number: true, cell: (row) => row.memory || "–" },
  { key: "disk", title: "Free disk", number: true, cell: (row) => row.free_disk || "–" },
  { key: "runtimes", title: "Runtimes", cell: (row) => <bdi class="runtimes">{row.runtimes.join(", ") || "–"}</bdi> },
];

// --- what runs where

const JOB_STATES: Record<FleetJob["state"], string> = {
  waiting: "Waits",
  running: "Runs",
  done: "Done",
  failed: "Failed",
  lost: "Lost",
  cancelled: "Cancelled",
};
const JOB_TONES: Partial<Record<FleetJob["state"], string>> = { running: "measured", failed: "failed", lost: "failed" };

function Jobs() {
  const { query } = useRoute();
  const chosen = query.get("job");
  const { answer, error, again } = useAnswer(chosen ? null : "/fleet/jobs");
  useAgain(Boolean(answer?.open.length), again, answer);
  if (chosen) return <JobLog id={chosen} />;
  if (!answer) return error ? <ErrorState error={error} again={again} /> : <Loading />;
  if (!answer.open.length && !answer.ended.length) {
    return (
      <EmptyState title="No jobs were given to other machines.">
        <code>zoolens eval … --on ray</code> and <code>--on each-kind</code> give some out. Jobs of this explorer itself are on the page{" "}
        <a href={address("jobs")}>Jobs</a>.
      </EmptyState>
    );
  }
  const ended = Object.entries(answer.counts).filter(([state]) => state !== "running" && state !== "waiting");
  const total = ended.reduce((sum, [, count]) => sum + count, 0);
  return (
    <>
      {error && <ErrorState error={error} again={again} />}
      <div class="tiles" role="group" aria-label="Jobs together">
        {Object.entries(JOB_STATES).map(([state, title]) => (
          <Tile
            figure={(answer.counts[state as FleetJob["state"]] ?? 0).toLocaleString("en")}
            title={title.toLowerCase()}
            kind={answer.counts[state as FleetJob["state"]] && (state === "failed" || state === "lost") ? "high" : ""}
          />
        ))}
      </div>
      {answer.open.length > 0 ? (
        <>
          <h2>Now</h2>
          <Table label="Jobs that wait or run" columns={JOB_COLUMNS} rows={answer.open} rowKey={(row) => row.id} />
          <p class="dim">
            <code>zoolens fleet cancel JOB</code> cancels one; what it has finished is kept.
          </p>
        </>
      ) : (
        <p>Nothing waits or runs.</p>
      )}
      {answer.ended.length > 0 && (
        <>
          <h2>Ended</h2>
          {answer.ended.length < total && (
            <p class="dim">
              The newest {answer.ended.length} of {total.toLocaleString("en")}.
            </p>
          )}
          <Table label="Jobs that ended" columns={JOB_COLUMNS} rows={answer.ended} rowKey={(row) => row.id} />
        </>
      )}
    </>
  );
}

const JOB_COLUMNS: Column<FleetJob>[] = [
  {
    key: "title",
    title: "Job",
    cell: (row) => (
      <span class="pair">
        <a href={address("fleet", { tab: "jobs", job: row.id })}>
          <bdi>{row.title || row.model || row.id}</bdi>
        </a>
        <span class="dim">
          <code>{row.id.slice(0, 12)}</code> of {row.command || "an unknown command"}
        </span>
      </span>
    ),
  },
  {
    key: "state",
    title: "State",
    cell: (row) => (
      <span class="machine-state">
        <span class={`mark ${JOB_TONES[row.state] ?? ""}`}>{JOB_STATES[row.state]}</span>
        {row.error && (
          <span class="failure">
            <Prose text={row.error} />
          </span>
        )}
        {row.cancelled_by && (
          <span class="dim">
            {" "}
            by <bdi>{row.cancelled_by}</bdi>
          </span>
        )}
      </span>
    ),
  },
  { key: "where", title: "Where", cell: (row) => <bdi>{row.where || "–"}</bdi> },
  { key: "seconds", title: "For", number: true, cell: (row) => row.seconds || "–", help: "From the start of its last attempt" },
  { key: "attempts", title: "Attempts", number: true, cell: (row) => row.attempts },
  { key: "given", title: "Given out", cell: (row) => <Moment at={row.given} seconds /> },
  { key: "by", title: "By", cell: (row) => <bdi>{row.given_by}</bdi> },
  {
    key: "runs",
    title: "Runs",
    cell: (row) => row.runs.map((run) => <RunLink run={run} />),
  },
];

function RunLink({ run }: { run: string }) {
  return (
    <span class="id">
      <PageLink page="run" rest={run}>
        {run.slice(0, 8)}
      </PageLink>{" "}
    </span>
  );
}

function JobLog({ id }: { id: string }) {
  const { answer, error, again } = useAnswer("/fleet/jobs/{id}", { id });
  useAgain(answer?.job.state === "running" || answer?.job.state === "waiting", again, answer);
  return (
    <>
      <p>
        <a href={address("fleet", { tab: "jobs" })}>All jobs of the fleet</a>
      </p>
      {error && <ErrorState error={error} again={again} />}
      {!answer && !error && <Loading />}
      {answer && (
        <>
          <h2>
            <bdi>{answer.job.title || answer.job.model || answer.job.id}</bdi>
          </h2>
          <Table label="The job" columns={JOB_COLUMNS} rows={[answer.job]} rowKey={(row) => row.id} />
          <Sentences sentences={answer.attempts} />
          <h3>What it said</h3>
          {answer.lines.length ? (
            <pre class="log" role="group" aria-label="Log" tabIndex={0}>
              {answer.lines.map((line) => (
                <>
                  <Moment at={line.at} seconds /> <bdi>{line.text}</bdi>
                  {"\n"}
                </>
              ))}
            </pre>
          ) : (
            <p class="dim">Nothing.</p>
          )}
          {(answer.job.state === "running" || answer.job.state === "waiting") && (
            <p class="dim">
              <code>zoolens fleet cancel {answer.job.id.slice(0, 12)}</code> cancels it; what it has finished is kept.
            </p>
          )}
        </>
      )}
    </>
  );
}
