// Two runs on the same inputs: what changed, whether that is more than chance, the likely cause, and input by input.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { ComparedClass, ComparedFigure, ComparedRun, Comparison, RunItem, StackChange } from "../answers";
import { ApiError, isLive, useAnswer } from "../api";
import { Chart } from "../components/chart";
import { FigureCell, Moment, Tile, judgedTitle } from "../components/figure";
import { SearchBox } from "../components/filters";
import { Gallery } from "../components/gallery";
import { JobCard } from "../components/job";
import { Calibration, Confusion } from "../components/judged";
import { PageLink } from "../components/link";
import { EmptyState, ErrorState, Loading } from "../components/states";
import { type Column, Pager, Table } from "../components/table";
import { Tabs } from "../components/tabs";
import { startJob } from "../jobs";
import { address, setQuery, useQueryState, useRoute } from "../router";
import { VerdictLine } from "../components/verdict";

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

// --- which two

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
  const { answer, error, again } = useAnswer("/runs", { q, dataset: dataset ? [dataset] : [], offset, limit: LISTED });
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

// --- the two

function Compared({ a, b }: { a: string; b: string }) {
  const { answer, error, again } = useAnswer("/comparison", { a, b });
  if (!answer) {
    return (
      <>
        <h1>Compare</h1>
        {error ? <ErrorState error={error} again={again} /> : <Loading what="Comparing" />}
        <p>
          <a href={address("compare")}>Choose other runs</a>
        </p>
      </>
    );
  }
  return (
    <>
      <h1>
        <bdi>{answer.a.model}</bdi> and <bdi>{answer.b.model}</bdi>
      </h1>
      <div class="sides">
        <Side letter="A" run={answer.a} />
        <Side letter="B" run={answer.b} />
      </div>
      <p class="dim">
        {answer.inputs.toLocaleString("en")} inputs of <bdi>{answer.dataset}</bdi>.{" "}
        <a href={address("compare", { a: answer.b.id, b: answer.a.id })}>Swap A and B</a>.{" "}
        <a href={address("compare", { a: answer.a.id })}>Compare A with another run</a>.
      </p>
      {answer.judged ? <VerdictLine verdict={answer.judged} /> : <p class="verdict">{answer.verdict}</p>}
      {answer.tiles.length > 0 && (
        <div class="tiles">
          {answer.tiles.map((tile) => (
            <Tile figure={tile.figure} title={tile.title} />
          ))}
        </div>
      )}
      {answer.notes.length > 0 && (
        <ul>
          {answer.notes.map((note) => (
            <li>
              <bdi>{note}</bdi>
            </li>
          ))}
        </ul>
      )}
      <Cause answer={answer} />
      <Figures answer={answer} />
      {answer.answered && <Inputs answer={answer} />}
      <Classes answer={answer} />
      <Environment answer={answer} />
    </>
  );
}

function Side({ letter, run }: { letter: string; run: ComparedRun }) {
  return (
    <div class="side">
      <b class="letter">{letter}</b>
      <div>
        <PageLink page="model" rest={run.model}>
          <bdi>{run.model}</bdi>
        </PageLink>
        <div class="dim">
          <bdi>{run.stack}</bdi>, precision <bdi>{run.precision || "not known"}</bdi>
        </div>
        <div class="dim">
          Run{" "}
          <PageLink page="run" rest={run.id}>
            <code>{run.id.slice(0, 8)}</code>
          </PageLink>{" "}
          of <Moment at={run.created} />
        </div>
      </div>
    </div>
  );
}

function Cause({ answer }: { answer: Comparison }) {
  if (!answer.cause && !answer.cause_in_files && !answer.parts_by_stack) return null;
  const { a, b } = answer;
  return (
    <section aria-label="Likely cause">
      <h2>Likely cause</h2>
      {answer.cause && (
        <p>
          <bdi>{answer.cause}</bdi>
        </p>
      )}
      {!answer.cause && !answer.cause_in_files && <p>Nothing that was recorded about the two runs explains it.</p>}
      {answer.cause_in_files && (
        <Explained
          answer={answer}
          kind="compare"
          text={`${a.model === b.model ? "These are two files of one model." : "These are two models."} What differs between them stands in their files.`}
          button="Look into both models"
          command={`zoolens compare ${a.id.slice(0, 8)} ${b.id.slice(0, 8)}`}
        />
      )}
      {answer.parts_by_stack && (
        <Explained
          answer={answer}
          kind="diverge"
          text="One model answers differently in the two runs."
          button="Find the layer where they diverge"
          command={`zoolens diverge ${a.id.slice(0, 8)} ${b.id.slice(0, 8)}`}
        />
      )}
    </section>
  );
}

/** A job that says more about the two. Its id is in the address, so that what it found can be linked. */
function Explained(props: { answer: Comparison; kind: string; text: string; button: string; command: string }) {
  const { kind, text, button, command } = props;
  const [id, setId] = useQueryState(kind);
  const [problem, setProblem] = useState("");
  const parameters = { a: props.answer.a.id, b: props.answer.b.id };
  const { answer: job, error, again } = useAnswer(id ? "/jobs/{id}" : null, { id });
  const done = Boolean(id) && job?.state === "done";
  const finding = useAnswer(done ? "/comparison/finding" : null, { ...parameters, job: id });
  const start = () =>
    startJob(kind, parameters)
      .then((started) => setId(started.id))
      .catch((failure: unknown) => setProblem(failure instanceof ApiError ? failure.message : String(failure)));
  return (
    <>
      <p>
        {text} {isLive() ? "A job finds out; the same on the command line: " : "On the command line: "}
        <code>{command}</code>
      </p>
      {isLive() && !id && (
        <button type="button" onClick={start}>
          {button}
        </button>
      )}
      {problem && <p role="alert">{problem}</p>}
      {error && <ErrorState error={error} again={again} />}
      {id && job && <JobCard job={job} onEnd={again} />}
      {done && finding.error && <ErrorState error={finding.error} />}
      {done && finding.answer && (
        <ul>
          {finding.answer.sentences.map((sentence) => (
            <li>
              <bdi>{sentence}</bdi>
            </li>
          ))}
        </ul>
      )}
      {done && kind === "diverge" && (
        <p>
          <PageLink page="diverge" rest={id}>
            How the difference grows, layer by layer
          </PageLink>
        </p>
      )}
    </>
  );
}

function Figures({ answer }: { answer: Comparison }) {
  const columns: Column<ComparedFigure>[] = [
    { key: "metric", title: "Metric", cell: (row) => <bdi>{row.metric}</bdi> },
    { key: "scope", title: "Scope", cell: (row) => <bdi>{row.scope}</bdi> },
    { key: "a", title: "A", number: true, cell: (row) => <FigureCell figure={row.a} /> },
    { key: "b", title: "B", number: true, cell: (row) => <FigureCell figure={row.b} /> },
    {
      key: "change",
      title: "B vs A",
      number: true,
      help: "In points for shares, in percent of A for everything else",
      cell: (row) => (
        <span class="figure">
          {row.change || <span class="dim">–</span>}
          {row.overlap && <span class="interval">intervals overlap</span>}
        </span>
      ),
    },
  ];
  return (
    <section aria-label="Figures">
      <h2>Figures</h2>
      {answer.figures_chart && <Chart spec={answer.figures_chart} title="Figures of both runs" />}
      {answer.figures.length > 0 ? (
        <Table label="Figures of both runs" columns={columns} rows={answer.figures} rowKey={(row) => `${row.metric}@${row.scope}`} />
      ) : (
        <p>Neither run has figures yet.</p>
      )}
    </section>
  );
}

/** Both answers to every input, and what each run confuses and knows of itself. */
function Inputs({ answer }: { answer: Comparison }) {
  const { a, b } = answer;
  const both = (column: (letter: string, run: ComparedRun) => ComponentChildren) => (
    <div class="sides">
      <div class="column">{column("A", a)}</div>
      <div class="column">{column("B", b)}</div>
    </div>
  );
  const ofClasses = answer.differing !== null;
  /** Inputs of A are on this page; those of B alone are on the page of its run, with A beside it. */
  const show = (letter: string, changes: Record<string, string>) => {
    if (letter === "A") {
      setQuery({ part: "", shown: "all", order: "", label: "", answer: "", bin: "", offset: "", ...changes });
    } else {
      window.location.hash = address(`run/${b.id}`, { tab: "inputs", other: a.id, shown: "all", ...changes });
    }
  };
  return (
    <section aria-label="Answers">
      <h2>Answers</h2>
      <Tabs
        label="Answers of both runs"
        parameter="part"
        tabs={[
          {
            key: "inputs",
            title: "Input by input",
            content: () => (
              <>
                {answer.flips_chart && (
                  <Chart spec={answer.flips_chart} title="Inputs with different answers by the confidence of each run" />
                )}
                <Gallery run={a.id} other={b.id} />
              </>
            ),
          },
          ...(ofClasses
            ? [
                {
                  key: "confusion",
                  title: "Confusion",
                  content: () =>
                    both((letter, run) => (
                      <>
                        <h3>{letter}</h3>
                        <Confusion
                          run={run.id}
                          onPick={(label, given) => show(letter, { label: String(label), answer: String(given) })}
                        />
                      </>
                    )),
                },
                {
                  key: "calibration",
                  title: "Calibration",
                  content: () =>
                    both((letter, run) => (
                      <>
                        <h3>{letter}</h3>
                        <Calibration run={run.id} onPick={(bin) => show(letter, { bin: String(bin) })} />
                      </>
                    )),
                },
              ]
            : []),
        ]}
      />
    </section>
  );
}

function Classes({ answer }: { answer: Comparison }) {
  if (!answer.classes.length) return null;
  const tested = answer.classes.some((row) => row.p);
  const columns: Column<ComparedClass>[] = [
    { key: "name", title: "Class", cell: (row) => <bdi class="wide">{row.name}</bdi> },
    ...(tested ? [{ key: "inputs", title: "Inputs", number: true, cell: (row: ComparedClass) => row.inputs?.toLocaleString("en") }] : []),
    { key: "a", title: `${answer.class_metric} of A`, number: true, cell: (row) => row.a },
    { key: "b", title: `${answer.class_metric} of B`, number: true, cell: (row) => row.b },
    { key: "change", title: "B vs A", number: true, cell: (row) => row.change },
    ...(tested ? [{ key: "p", title: "p", number: true, help: "Exact McNemar test of this class alone", cell: (row: ComparedClass) => row.p }] : []),
  ];
  return (
    <section aria-label="Classes">
      <h2>Classes that change most</h2>
      <p class="dim">
        {tested
          ? "Each p is for itself: of many classes, some are small by chance."
          : "Each interval is of one run by itself: how far two classes differ by chance was not tested."}
        {answer.changed_classes > answer.classes.length &&
          ` The first ${answer.classes.length} of ${answer.changed_classes.toLocaleString("en")}.`}
      </p>
      <Table label="Classes that change most" columns={columns} rows={answer.classes} rowKey={(row) => row.name} />
    </section>
  );
}

function Environment({ answer }: { answer: Comparison }) {
  const columns: Column<StackChange>[] = [
    {
      key: "what",
      title: "What",
      cell: (row) => (
        <>
          <bdi>{row.what}</bdi>
          {row.telling && <span class="mark">can change answers</span>}
        </>
      ),
    },
    { key: "a", title: "A", cell: (row) => <bdi class="wide">{row.a}</bdi> },
    { key: "b", title: "B", cell: (row) => <bdi class="wide">{row.b}</bdi> },
  ];
  return (
    <section aria-label="Environment difference">
      <h2>Environment difference</h2>
      {answer.environment.length > 0 ? (
        <Table label="Environment difference" columns={columns} rows={answer.environment} rowKey={(row) => row.what} />
      ) : (
        <p>Both ran in the same environment, as far as it is recorded.</p>
      )}
    </section>
  );
}
