// One model: what its source says beside what was measured, what its layers cost, the network itself, namesakes, runs.
import type { ClaimItem, ModelDetail, Namesake, RunItem } from "../answers";
import { isLive, useAnswer } from "../api";
import { Chart, type Spec } from "../components/chart";
import { CopyLink } from "../components/copylink";
import { FigureCell, Moment, judgedTitle } from "../components/figure";
import { PageLink } from "../components/link";
import { Measured } from "../components/measured";
import { NetworkPicture } from "../components/network";
import { NetworkDiff } from "../components/networkdiff";
import { ReadNetwork } from "../components/readnetwork";
import { EmptyState, ErrorState, Loading } from "../components/states";
import { type Column, Table } from "../components/table";
import { Tabs } from "../components/tabs";
import { address, chosen, useQueryState } from "../router";
import type { PageProps } from "./index";

export function ModelPage({ rest }: PageProps) {
  const { answer, error, again } = useAnswer(rest ? "/model/{ref}" : null, { ref: rest });
  if (!rest) return <EmptyState title="No model is named." />;
  if (!answer) {
    return (
      <>
        <h1>Model</h1>
        {error ? <ErrorState error={error} again={again} /> : <Loading what="Reading the model" />}
      </>
    );
  }
  return (
    <>
      <h1>
        <bdi>
          <span class="dim">{answer.zoo}:</span>
          {answer.name}
        </bdi>
      </h1>
      {answer.description && (
        <p class="dim">
          <bdi>{answer.description}</bdi>
        </p>
      )}
      <Measured model={answer} />
      <p class="facts-line">
        <span>
          <bdi>{answer.task || "unknown task"}</bdi>
        </span>
        <span>{answer.params_words} parameters, as its source says</span>
        <span>
          {answer.runs.toLocaleString("en")} {answer.runs === 1 ? "run here" : "runs here"}
        </span>
        <span>
          <bdi>{answer.formats.join(", ") || "unknown format"}</bdi>
        </span>
        <span>
          licence <bdi>{answer.licence || "unknown"}</bdi>
        </span>
      </p>
      <div class="bar">
        {answer.replacement && isLive() && (
          <a class="button" href={address("choose", { q: answer.replacement })}>
            Replace this model
          </a>
        )}
        {answer.runs > 0 && (
          <PageLink page="runs" query={{ model: answer.ref }}>
            All its runs
          </PageLink>
        )}
        <CopyLink />
      </div>
      <Tabs
        label="About the model"
        tabs={[
          { key: "network", title: "Network", content: () => <Network model={answer} /> },
          { key: "claims", title: "Claims", content: () => <Claims model={answer} /> },
          { key: "history", title: "Over time", content: () => <History model={answer} /> },
          { key: "namesakes", title: "Namesakes", content: () => <Namesakes model={answer} /> },
          { key: "manifest", title: "Manifest", content: () => <Manifest model={answer} /> },
        ]}
      />
    </>
  );
}

function Network({ model }: { model: ModelDetail }) {
  const { answer, error, again } = useAnswer("/network/{ref}", { ref: model.ref });
  if (error) return <ErrorState error={error} again={again} />;
  if (!answer) return <Loading what="Reading the network" />;
  const { network } = answer;
  if (!network) {
    return <ReadNetwork model={model.ref} reason={answer.reason} readable={answer.readable} parameter="reading" onRead={again} />;
  }
  return (
    <>
      <p class="found">
        {network.macs_words} multiply-accumulates, {network.parameters_words} parameters, counted from the network of{" "}
        {network.layers.toLocaleString("en")} layers.
        {network.unknown.length > 0 && (
          <>
            {" "}
            Not counted, because nobody knows what they compute: <bdi>{network.unknown.join(", ")}</bdi>.
          </>
        )}
      </p>
      <NetworkPicture network={network} name={model.name} />
      <Chart spec={network.chart as Spec} title={`Cost by layer of ${model.name}`} />
    </>
  );
}

function Claims({ model }: { model: ModelDetail }) {
  if (!model.claims.length) return <EmptyState title="Its source claims nothing." />;
  return (
    <>
      {model.claims_chart && <Chart spec={model.claims_chart as Spec} title="Claimed and measured accuracy" />}
      <Table label="Claims" columns={CLAIMS} rows={model.claims} rowKey={(claim) => `${claim.metric} ${claim.dataset}`} />
    </>
  );
}

const CLAIMS: Column<ClaimItem>[] = [
  { key: "metric", title: "Metric", cell: (claim) => <bdi>{claim.metric}</bdi> },
  { key: "claimed", title: "Claimed", number: true, cell: (claim) => claim.words },
  { key: "dataset", title: "On", cell: (claim) => <bdi class="wide">{claim.dataset}</bdi> },
  {
    key: "measured",
    title: "Measured here",
    cell: (claim) =>
      claim.measured.length ? (
        <ul class="plain wide">
          {claim.measured.map((run) => (
            <li title={run.sentence}>
              <PageLink page="run" rest={run.run}>
                {run.words}
              </PageLink>{" "}
              <span class="dim">
                <bdi>{run.dataset}</bdi>, <bdi>{run.stack}</bdi>
              </span>
              {run.judgement && <span class="mark">{run.judgement}</span>}
            </li>
          ))}
        </ul>
      ) : (
        <span class="dim">not yet</span>
      ),
  },
  { key: "source", title: "Who says so", cell: (claim) => <bdi class="prose">{claim.source}</bdi> },
];

const METRICS = { "": "Main metric", latency_p50: "Median latency", ece: "Calibration error", throughput: "Throughput", file_size: "File size" };

function History({ model }: { model: ModelDetail }) {
  const [metric, setMetric] = useQueryState("metric", "");
  const { data } = chosen();
  const { answer, error } = useAnswer(model.runs ? "/history/{ref}" : null, { ref: model.ref, metric, data });
  if (!model.runs) {
    return (
      <EmptyState title="It was not run here yet.">
        <p>
          <code>zoolens eval {model.zoo}:{model.name}</code> measures it.
        </p>
      </EmptyState>
    );
  }
  if (error) return <ErrorState error={error} />;
  return (
    <>
      <label class="axis">
        Figure{" "}
        <select value={metric} onChange={(event) => setMetric(event.currentTarget.value)}>
          {Object.entries(METRICS).map(([name, title]) => (
            <option value={name}>{title}</option>
          ))}
        </select>
      </label>
      {answer ? (
        <Chart
          spec={answer.chart as Spec}
          title={answer.title}
          source={{ path: "/history/{ref}", parameters: { ref: model.ref, metric, data }, field: "chart" }}
          onPick={({ run }) => {
            if (typeof run === "string") window.location.hash = address(`run/${run}`);
          }}
        />
      ) : (
        <Loading what="Reading its runs" />
      )}
      <NewestRuns model={model.ref} />
    </>
  );
}

const NEWEST = 10;

/** Its newest runs, each with the way to its page. */
function NewestRuns({ model }: { model: string }) {
  const { data } = chosen();
  const { answer } = useAnswer("/runs", { model: [model], dataset: data ? [data] : [], limit: NEWEST });
  if (!answer?.rows.length) return null;
  return <Table label="Newest runs" columns={RUNS(judgedTitle(answer.rows))} rows={answer.rows} rowKey={(row) => row.id} />;
}

const RUNS = (judged: string): Column<RunItem>[] => [
  {
    key: "run",
    title: "Run",
    cell: (row) => (
      <PageLink page="run" rest={row.id}>
        <code class="id">{row.id.slice(0, 8)}</code>
      </PageLink>
    ),
  },
  { key: "when", title: "Begun", cell: (row) => <Moment at={row.created} /> },
  { key: "data", title: "Data", cell: (row) => <bdi class="wide">{row.dataset}</bdi> },
  { key: "stack", title: "Stack", cell: (row) => <bdi class="wide">{row.stack}</bdi> },
  { key: "judged", title: judged, number: true, cell: (row) => <FigureCell figure={row.judged} named /> },
  { key: "latency", title: "Median latency", number: true, cell: (row) => <FigureCell figure={row.latency_p50} /> },
];

function Namesakes({ model }: { model: ModelDetail }) {
  const [other] = useQueryState("other");
  return (
    <>
      {model.namesakes.length ? (
        <>
          <p class="found">
            Models of the same name, and of the architecture that the name claims. A name promises nothing: compare the networks.
          </p>
          <Table label="Namesakes" columns={NAMESAKES(model.ref)} rows={model.namesakes} rowKey={(row) => row.ref} />
        </>
      ) : (
        <EmptyState title="No other model here has its name or its architecture." />
      )}
      {other && <NetworkDiff key={other} a={model.ref} b={other} />}
    </>
  );
}

const NAMESAKES = (ref: string): Column<Namesake>[] => [
  {
    key: "ref",
    title: "Model",
    cell: (row) => (
      <PageLink page="model" rest={row.ref}>
        <bdi>{row.ref}</bdi>
      </PageLink>
    ),
  },
  { key: "params", title: "Parameters", number: true, cell: (row) => row.params_words },
  { key: "runs", title: "Runs", number: true, cell: (row) => row.runs.toLocaleString("en") },
  {
    key: "differs",
    title: "Network",
    cell: (row) => (
      <a href={address(`model/${ref}`, { tab: "namesakes", other: row.ref })} aria-label={`How the network of ${row.ref} differs`}>
        how they differ
      </a>
    ),
  },
];

function Manifest({ model }: { model: ModelDetail }) {
  if (!model.manifest.length) return <EmptyState title="No zoo of this machine lists it: only the store knows it." />;
  return (
    <pre class="explanation" tabIndex={0} aria-label="Manifest">
      {model.manifest.join("\n")}
    </pre>
  );
}
