// Endpoints that were asked which model they have: the verdicts, the evidence prompt by prompt, and how it was over time.
import type { EndpointDetail, EndpointItem, VerificationItem } from "../answers";
import { useAnswer } from "../api";
import { Chart } from "../components/chart";
import { CopyLink } from "../components/copylink";
import { Facts } from "../components/facts";
import { Moment, Tile } from "../components/figure";
import { PageLink } from "../components/link";
import { Part, useOffset } from "../components/listing";
import { EmptyState, ErrorState, Loading, Sentences } from "../components/states";
import { type Column, Table } from "../components/table";
import { VerdictLine } from "../components/verdict";
import { WordTable } from "../components/words";
import { address } from "../router";
import type { PageProps } from "./index";

const LIMIT = 20;
const OUTCOMES: Record<VerificationItem["outcome"], string> = { same: "It is the model", different: "It is not", "not known": "Not known" };

export function EndpointsPage({ rest }: PageProps) {
  return rest ? <OneEndpoint key={rest} run={rest} /> : <EndpointList />;
}

function EndpointList() {
  const offset = useOffset();
  const { answer, error, loading, again } = useAnswer("/endpoints", { offset, limit: LIMIT });
  return (
    <>
      <h1>Endpoints</h1>
      <p>Which model answers behind an address: each endpoint that was asked, with the newest verdict on it.</p>
      {error && <ErrorState error={error} again={again} />}
      {!answer && !error && <Loading what="Reading the store" />}
      {answer && (
        <Part part={answer} limit={LIMIT} nothing={<NoEndpoints />}>
          <Table label="Endpoints" columns={COLUMNS} rows={answer.rows} rowKey={(row) => row.newest.address} busy={loading} />
          {answer.older && <p class="dim">Only the newest verifications were counted.</p>}
        </Part>
      )}
    </>
  );
}

function NoEndpoints() {
  return (
    <EmptyState title="No endpoint was asked yet.">
      <code>zoolens verify-endpoint URL --is MODEL</code> asks one whether it has the model that it is said to have.
    </EmptyState>
  );
}

const COLUMNS: Column<EndpointItem>[] = [
  {
    key: "address",
    title: "Endpoint",
    cell: ({ newest }) => (
      <a href={address(`endpoints/${newest.run}`)}>
        <bdi>{newest.address}</bdi>
      </a>
    ),
  },
  { key: "claimed", title: "Said to be", cell: ({ newest }) => <bdi>{newest.claimed}</bdi> },
  { key: "outcome", title: "Newest verdict", cell: ({ newest }) => OUTCOMES[newest.outcome] },
  { key: "prompts", title: "Prompts", number: true, cell: ({ newest }) => newest.prompts.toLocaleString("en") },
  { key: "times", title: "Times asked", number: true, cell: (row) => row.verifications.toLocaleString("en") },
  { key: "when", title: "Asked last", cell: ({ newest }) => <Moment at={newest.created} /> },
];

function OneEndpoint({ run }: { run: string }) {
  const { answer, error, again } = useAnswer("/endpoints/{run}", { run });
  return (
    <>
      <p class="crumbs">
        <a href={address("endpoints")}>Endpoints</a>
      </p>
      {!answer && <h1>Endpoint</h1>}
      {error && <ErrorState error={error} again={again} />}
      {!answer && !error && <Loading what="Reading the evidence" />}
      {answer && <Found answer={answer} />}
    </>
  );
}

function Found({ answer }: { answer: EndpointDetail }) {
  const { verification } = answer;
  const source = (field: string) => ({ path: "/endpoints/{run}" as const, parameters: { run: verification.run }, field });
  return (
    <>
      <h1>
        <bdi>{verification.address}</bdi>
      </h1>
      <p class="dim">
        Said to be <bdi>{verification.claimed}</bdi>; asked <Moment at={verification.created} />, run{" "}
        <PageLink page="run" rest={verification.run}>
          <code>{verification.run.slice(0, 8)}</code>
        </PageLink>
        . <CopyLink />
      </p>
      <VerdictLine verdict={answer.verdict} />
      <Sentences sentences={answer.limits} />
      <div class="tiles">
        {answer.tiles.map((tile) => (
          <Tile figure={tile.figure} title={tile.title} />
        ))}
      </div>
      <h2>Evidence</h2>
      <Chart spec={answer.evidence} title="Evidence, prompt by prompt" source={source("evidence")} />
      {!answer.evidence_known && (
        <p class="dim">
          How much speaks against models that are not named is not known: {answer.distances ? "it was not kept." : "tokens alone do not tell it."}
        </p>
      )}
      {answer.distances && <Chart spec={answer.distances} title="Distance of what was told, prompt by prompt" source={source("distances")} />}
      <h3>Models that were considered</h3>
      <WordTable table={answer.models} label="Models that were considered" />
      <Facts title="What it told" facts={answer.told} />
      <Facts title="What it states of its model, unchecked" facts={answer.stated} />
      <Facts title="Asked with" facts={answer.settings} />
      <h2>Over time</h2>
      {answer.verdicts && <Chart spec={answer.verdicts} title="Verdicts over time" source={source("verdicts")} />}
      <Table label="Verdicts over time" columns={HISTORY(verification.run)} rows={answer.history} rowKey={(row) => row.run} />
      {answer.history.length < answer.history_total && (
        <p class="dim">
          The newest {answer.history.length} of {answer.history_total.toLocaleString("en")}.
        </p>
      )}
    </>
  );
}

const HISTORY = (shown: string): Column<VerificationItem>[] => [
  {
    key: "when",
    title: "Asked",
    cell: (row) =>
      row.run === shown ? (
        <b>
          <Moment at={row.created} />
        </b>
      ) : (
        <a href={address(`endpoints/${row.run}`)}>
          <Moment at={row.created} />
        </a>
      ),
  },
  { key: "outcome", title: "Verdict", cell: (row) => OUTCOMES[row.outcome] },
  { key: "claimed", title: "Said to be", cell: (row) => <bdi>{row.claimed}</bdi> },
  { key: "prompts", title: "Prompts", number: true, cell: (row) => row.prompts.toLocaleString("en") },
  {
    key: "words",
    title: "In words",
    cell: (row) => <bdi class="prose">{row.sentence}</bdi>,
  },
];
