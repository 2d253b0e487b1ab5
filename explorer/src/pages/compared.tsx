// What two runs found on the same inputs, on one screen: the verdict, the difference with its interval, who is right where,
// and ten inputs that they answer differently. Everything else is folded.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { ComparedClass, ComparedFigure, ComparedRun, Comparison, StackChange } from "../answers";
import { ApiError, isLive, useAnswer } from "../api";
import { AddToReport } from "../components/addtoreport";
import { Chart } from "../components/chart";
import { CopyLink } from "../components/copylink";
import { Difference, Outcomes } from "../components/difference";
import { FigureCell, Moment, Tile } from "../components/figure";
import { Fold } from "../components/fold";
import { Gallery } from "../components/gallery";
import { JobCard } from "../components/job";
import { Calibration, Confusion } from "../components/judged";
import { PageLink } from "../components/link";
import { ErrorState, Loading, Sentences } from "../components/states";
import { InputStrip } from "../components/strip";
import { type Column, Table } from "../components/table";
import { Tabs } from "../components/tabs";
import { VerdictLine } from "../components/verdict";
import { capital, counted } from "../figures";
import { startJob } from "../jobs";
import { address, setQuery, useQueryState } from "../router";

const CLASSES_SHOWN = 5;
const CHANGE_HELP = "In points for shares, in percent of A for everything else";

export function Compared({ a, b }: { a: string; b: string }) {
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
    <div class="compared">
      <h1>
        <bdi>{answer.a.model}</bdi> and <bdi>{answer.b.model}</bdi>
      </h1>
      <div class="sides">
        <Side letter="A" run={answer.a} />
        <Side letter="B" run={answer.b} />
      </div>
      {answer.judged ? <VerdictLine verdict={answer.judged} /> : <p class="verdict">{answer.verdict}</p>}
      <Sentences sentences={answer.cautions} />
      <div class="board">
        <Measured answer={answer} />
        <Winners answer={answer} />
      </div>
      {answer.answered && answer.a.id !== answer.b.id && <Contested answer={answer} />}
      <p class="dim under">
        {answer.inputs.toLocaleString("en")} inputs of <bdi>{answer.dataset}</bdi>.{" "}
        <a href={address("compare", { a: answer.b.id, b: answer.a.id })}>Swap A and B</a>.{" "}
        <a href={address("compare", { a: answer.a.id })}>Compare A with another run</a>. <CopyLink />
      </p>
      <Cause answer={answer} />
      <Figures answer={answer} />
      {answer.answered && <Inputs answer={answer} />}
      <Classes answer={answer} />
      <Environment answer={answer} />
      <Notes answer={answer} />
    </div>
  );
}

/** The difference that was tested, and the few figures that decide. */
function Measured({ answer }: { answer: Comparison }) {
  const { difference } = answer;
  return (
    <section aria-label="Difference">
      <h2>{difference ? `B less A: ${difference.metric}` : "Difference"}</h2>
      {difference ? (
        <Difference difference={difference} />
      ) : (
        <p class="dim">No difference was tested (both runs must be judged on the same inputs, for some figures on 30 or more): whether one is better is not known.</p>
      )}
      {answer.key_figures.length > 0 && (
        <>
          <Table label="Figures that decide" columns={KEY_FIGURES} rows={answer.key_figures} rowKey={(row) => row.title + row.part} />
          <AddToReport
            source={{ path: "/comparison", parameters: { a: answer.a.id, b: answer.b.id }, field: "key_figures" }}
            title={`${answer.a.model} and ${answer.b.model}`}
          />
        </>
      )}
    </section>
  );
}

const KEY_FIGURES: Column<ComparedFigure>[] = [
  { key: "title", title: "Figure", cell: (row) => <bdi title={row.part}>{row.title}</bdi> },
  { key: "a", title: "A", number: true, cell: (row) => <FigureCell figure={row.a} /> },
  { key: "b", title: "B", number: true, cell: (row) => <FigureCell figure={row.b} /> },
  { key: "change", title: "B vs A", number: true, help: CHANGE_HELP, cell: (row) => <Change row={row} /> },
];

function Change({ row }: { row: ComparedFigure }) {
  return (
    <span class="figure">
      {row.change || <span class="dim">–</span>}
      {row.overlap && <span class="interval">intervals overlap</span>}
    </span>
  );
}

/** On how many inputs who is right, and on which classes. */
function Winners({ answer }: { answer: Comparison }) {
  const classes = answer.classes.slice(0, CLASSES_SHOWN);
  const title = answer.outcomes.length || classes.length ? "Who is right where" : "How far the two agree";
  return (
    <section aria-label={title}>
      <h2>{title}</h2>
      {answer.outcomes.length > 0 ? <Outcomes outcomes={answer.outcomes} /> : <AgreementTiles answer={answer} />}
      {classes.length > 0 && (
        <>
          <h3>Classes with the largest change of {answer.class_metric}</h3>
          <Table label="Classes with the largest change" columns={classColumns(answer)} rows={classes} rowKey={(row) => row.name} />
        </>
      )}
    </section>
  );
}

function AgreementTiles({ answer }: { answer: Comparison }) {
  if (!answer.tiles.length) return <p class="dim">There are no answers to compare, input by input.</p>;
  return (
    <div class="tiles">
      {answer.tiles.map((tile) => (
        <Tile figure={tile.figure} title={tile.title} />
      ))}
    </div>
  );
}

function Contested({ answer }: { answer: Comparison }) {
  const { a, b, differing } = answer;
  const title = differing === null ? "Inputs on which the two agree least" : "Inputs that the two answer differently";
  return (
    <section aria-label={title}>
      <h2>{title}</h2>
      <InputStrip
        run={a.id}
        other={b.id}
        order="disagreement"
        shown="disagreeing"
        label={`Ten of them, ${differing === null ? "the lowest agreement first" : "the surest first"}`}
        nothing="Both give the same answer to every input."
      />
    </section>
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
  const content = () => (
    <>
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
    </>
  );
  return (
    <Fold name="cause" title="Likely cause" note={<CauseNote answer={answer} />} parameters={["compare", "diverge"]}>
      {content}
    </Fold>
  );
}

function CauseNote({ answer }: { answer: Comparison }) {
  if (answer.cause) return <bdi>{answer.cause}</bdi>;
  if (answer.cause_in_files) return <>{answer.a.model === answer.b.model ? "These are two files of one model." : "These are two models."}</>;
  return <>Nothing that was recorded explains it.</>;
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
    { key: "metric", title: "Figure", cell: (row) => <bdi>{row.title}</bdi> },
    { key: "scope", title: "Of", cell: (row) => <bdi>{row.part}</bdi> },
    { key: "a", title: "A", number: true, cell: (row) => <FigureCell figure={row.a} /> },
    { key: "b", title: "B", number: true, cell: (row) => <FigureCell figure={row.b} /> },
    { key: "change", title: "B vs A", number: true, help: CHANGE_HELP, cell: (row) => <Change row={row} /> },
  ];
  const { figures, figures_chart: chart } = answer;
  return (
    <Fold name="figures" title="Figures" note={figures.length ? `all ${figures.length.toLocaleString("en")}, with intervals` : "none yet"}>
      {() => (
        <>
          {chart && <Chart spec={chart} title="Figures of both runs" source={{ path: "/comparison", parameters: { a: answer.a.id, b: answer.b.id }, field: "figures_chart" }} />}
          {figures.length > 0 ? (
            <Table label="Figures of both runs" columns={columns} rows={figures} rowKey={(row) => `${row.metric}@${row.scope}`} />
          ) : (
            <p>Neither run has figures yet.</p>
          )}
        </>
      )}
    </Fold>
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
  const content = () => (
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
  );
  return (
    <Fold name="answers" title="Answers" note={ofClasses ? "input by input, confusion, calibration" : "input by input"} parameters={ANSWERED_BY}>
      {content}
    </Fold>
  );
}

/** What the gallery keeps in the address. */
const ANSWERED_BY = ["part", "shown", "order", "label", "answer", "bin", "offset"];

function classColumns(answer: Comparison): Column<ComparedClass>[] {
  const tested = answer.classes.some((row) => row.p);
  return [
    { key: "name", title: "Class", cell: (row) => <bdi class="wide">{row.name}</bdi> },
    ...(tested ? [{ key: "inputs", title: "Inputs", number: true, cell: (row: ComparedClass) => row.inputs?.toLocaleString("en") }] : []),
    { key: "a", title: `${capital(answer.class_metric)} of A`, number: true, cell: (row) => row.a },
    { key: "b", title: `${capital(answer.class_metric)} of B`, number: true, cell: (row) => row.b },
    { key: "change", title: "B vs A", number: true, cell: (row) => row.change },
    ...(tested ? [{ key: "p", title: "p", number: true, help: "Exact McNemar test of this class alone", cell: (row: ComparedClass) => row.p }] : []),
  ];
}

function Classes({ answer }: { answer: Comparison }) {
  if (answer.classes.length <= CLASSES_SHOWN) return null;
  const tested = answer.classes.some((row) => row.p);
  return (
    <Fold name="classes" title="Classes that change most" note={`${answer.changed_classes.toLocaleString("en")} classes changed`}>
      {() => (
        <>
          <p class="dim">
            {tested
              ? "Each p is for itself: of many classes, some are small by chance."
              : "Each interval is of one run by itself: how far two classes differ by chance was not tested."}
            {answer.changed_classes > answer.classes.length &&
              ` The first ${answer.classes.length} of ${answer.changed_classes.toLocaleString("en")}.`}
          </p>
          <Table label="Classes that change most" columns={classColumns(answer)} rows={answer.classes} rowKey={(row) => row.name} />
        </>
      )}
    </Fold>
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
  const { environment } = answer;
  const telling = environment.filter((row) => row.telling).length;
  const note = environment.length ? `${counted(environment.length, "fact differs", "facts differ")}, ${telling} of them can change answers` : "none is recorded";
  return (
    <Fold name="environment" title="Environment difference" note={note}>
      {() =>
        environment.length > 0 ? (
          <Table label="Environment difference" columns={columns} rows={environment} rowKey={(row) => row.what} />
        ) : (
          <p>Both ran in the same environment, as far as it is recorded.</p>
        )
      }
    </Fold>
  );
}

function Notes({ answer }: { answer: Comparison }) {
  if (!answer.notes.length && !answer.tiles.length) return null;
  return (
    <Fold name="notes" title="Agreement in more detail" note={answer.tiles[0] && `${answer.tiles[0].figure} ${answer.tiles[0].title}`}>
      {() => (
        <>
          <AgreementTiles answer={answer} />
          <Sentences sentences={answer.notes} />
        </>
      )}
    </Fold>
  );
}
