// Which two runs are compared: choose run A, then one of the runs on the same data.
import type { RunItem } from "../answers";
import { useAnswer } from "../api";
import { useChosenDatasets } from "../datasets";
import { FigureCell, Moment, judgedTitle } from "../components/figure";
import { SearchBox } from "../components/filters";
import { EmptyState, ErrorState, Loading } from "../components/states";
import { type Column, Pager, Table } from "../components/table";
import { address, setQuery, useRoute } from "../router";
import { Compared } from "./compared";

const LISTED = 10; // runs to choose from

export function ComparePage() {
  const { query } = useRoute();
  const a = query.get("a") ?? "";
  const b = query.get("b") ?? "";
  if (a && b) return <Compared key={`${a} ${b}`} a={a} b={b} />;
  return (
    <>
      <h1>Compare</h1>
      {a ? <ChooseSecond a={a} /> : <ChooseFirst />}
    </>
  );
}

function ChooseFirst() {
  return (
    <>
      <p>Choose a run, and then another on the same inputs.</p>
      <Runs title="Run A" pick={(row) => ({ a: row.id })} />
    </>
  );
}

function ChooseSecond({ a }: { a: string }) {
  const { answer, error, again } = useAnswer("/runs/{run}", { run: a });
  if (error) return <ErrorState error={error} again={again} />;
  if (!answer) return <Loading />;
  const { run } = answer;
  return (
    <>
      <p>
        A is <bdi>{run.model}</bdi> in <bdi>{run.stack}</bdi>, run <code>{run.id.slice(0, 8)}</code>, on <bdi>{run.dataset}</bdi>.{" "}
        <a href={address("compare")}>Choose another</a>
      </p>
      <Runs title="Run B" dataset={run.dataset} without={run.id} pick={(row) => ({ a: run.id, b: row.id })} />
    </>
  );
}

function Runs(props: {
  title: string;
  dataset?: string;
  without?: string;
  pick: (row: RunItem) => Record<string, string>;
}) {
  const { title, dataset, without, pick } = props;
  const { query } = useRoute();
  const q = query.get("q") ?? "";
  const offset = Number(query.get("offset") ?? 0) || 0;
  const chosen = useChosenDatasets();
  const { answer, error, again } = useAnswer("/runs", { q, dataset: dataset ? [dataset] : (chosen ?? []), offset, limit: LISTED });
  const columns: Column<RunItem>[] = [
    {
      key: "model",
      title: "Model",
      cell: (row) => (
        <a class="name" href={address("compare", pick(row))}>
          <bdi>{row.model}</bdi>
        </a>
      ),
    },
    { key: "run", title: "Run", cell: (row) => <code class="id">{row.id.slice(0, 8)}</code> },
    { key: "when", title: "Begun", cell: (row) => <Moment at={row.created} /> },
    { key: "data", title: "Data", cell: (row) => <bdi class="wide">{row.dataset}</bdi> },
    { key: "inputs", title: "Inputs", number: true, cell: (row) => row.inputs.toLocaleString("en") },
    { key: "stack", title: "Stack", cell: (row) => <bdi class="wide">{row.stack}</bdi> },
    { key: "judged", title: judgedTitle(answer?.rows ?? []), number: true, cell: (row) => <FigureCell figure={row.judged} named /> },
  ];
  const rows = (answer?.rows ?? []).filter((row) => row.id !== without);
  return (
    <section aria-label={title}>
      <h2>{title}</h2>
      <div class="bar">
        <SearchBox
          label={`Search ${title}`}
          hint="Search by model, dataset, runtime or id …"
          value={q}
          onSearch={(value) => setQuery({ q: value, offset: "" }, true)}
        />
      </div>
      {error && <ErrorState error={error} again={again} />}
      {!answer && !error && <Loading what="Reading the store" />}
      {rows.length > 0 && <Table label={title} columns={columns} rows={rows} rowKey={(row) => row.id} />}
      {answer && rows.length === 0 && (
        <EmptyState title={q ? "No run fits." : without ? "There is no other run on this dataset." : "No evaluations yet."}>
          {q ? (
            "Remove a word of the search."
          ) : (
            <>
              Run <code>zoolens eval MODEL --data DATA</code>
              {without ? " with another model or runtime on the same data." : ", or "}
              {!without && <code>zoolens demo</code>}
              {!without && "."}
            </>
          )}
        </EmptyState>
      )}
      {answer && (
        <Pager
          offset={offset}
          limit={LISTED}
          total={answer.total}
          onOffset={(next) => setQuery({ offset: next ? String(next) : "" })}
        />
      )}
    </section>
  );
}
