// Crosstrain: one recipe in several frameworks. Studies, their trials in the space of hyperparameters, how both sides
// learnt, and which hidden defaults make the difference.
import { useEffect, useRef } from "preact/hooks";
import type { ExplanationItem, StudyDetail, StudyItem, TrialItem } from "../answers";
import { useAnswer } from "../api";
import { Chart } from "../components/chart";
import { Tile } from "../components/figure";
import { SearchBox } from "../components/filters";
import { useFocusInView } from "../components/focus";
import { JobButton } from "../components/jobbutton";
import { PageLink } from "../components/link";
import { NothingFits, Part, useOffset } from "../components/listing";
import { EmptyState, ErrorState, Loading } from "../components/states";
import { type Column, Table } from "../components/table";
import { type Tab, Tabs } from "../components/tabs";
import { address, setQuery, useQueryState, useRoute } from "../router";
import type { PageProps } from ".";

const LIMIT = 20;
const TRIALS = 50;
const LARGEST_FIRST = "-delta";

export function StudiesPage({ rest }: PageProps) {
  return rest ? <StudyPage key={rest} name={rest} /> : <StudyList />;
}

function StudyList() {
  const { query } = useRoute();
  const q = query.get("q") ?? "";
  const offset = useOffset();
  const { answer, error, loading, again } = useAnswer("/studies", { q, offset, limit: LIMIT });
  return (
    <>
      <h1>Crosstrain</h1>
      <p>
        One recipe trained in several frameworks. Δ is the absolute difference of test accuracy between two sides of a trial.
      </p>
      <div class="bar">
        <SearchBox label="Search studies" value={q} onSearch={(value) => setQuery({ q: value, offset: "" }, true)} />
      </div>
      {error && <ErrorState error={error} again={again} />}
      {!answer && !error && <Loading what="Reading the studies" />}
      {answer && (
        <>
          <p class="found" role="status">
            {answer.total.toLocaleString("en")} {answer.total === 1 ? "study" : "studies"}.
          </p>
          <Part part={answer} limit={LIMIT} nothing={q ? <NothingFits what="study" /> : <NoStudies />}>
            <Table label="Studies" columns={STUDIES} rows={answer.rows} rowKey={(row) => row.name} busy={loading} />
          </Part>
        </>
      )}
    </>
  );
}

function NoStudies() {
  return (
    <EmptyState title="No studies yet.">
      Run <code>zoolens crosstrain train RECIPE</code> or <code>zoolens crosstrain run PLAN</code>.
    </EmptyState>
  );
}

const STUDIES: Column<StudyItem>[] = [
  {
    key: "name",
    title: "Study",
    cell: (row) => (
      <span class="name">
        <a href={address(`studies/${row.name}`)}>
          <bdi>{row.name}</bdi>
        </a>
      </span>
    ),
  },
  { key: "sides", title: "Sides", cell: (row) => <bdi>{row.frameworks.join(", ")}</bdi> },
  { key: "trials", title: "Trials", number: true, cell: (row) => row.trials_words },
  {
    key: "apart",
    title: "Δ ≥ 5 %",
    number: true,
    help: "Trials whose accuracies differ by five points or more, of those that have both accuracies",
    cell: (row) => (row.with_delta ? `${row.apart.toLocaleString("en")} of ${row.with_delta.toLocaleString("en")}` : "–"),
  },
  { key: "median", title: "Median Δ", number: true, cell: (row) => row.median_delta },
  { key: "largest", title: "Largest Δ", number: true, cell: (row) => row.largest_delta },
  { key: "source", title: "Source", cell: (row) => <bdi>{row.source}</bdi> },
];

// --- one study

function StudyPage({ name }: { name: string }) {
  const { answer, error, again } = useAnswer("/study", { name });
  if (!answer) {
    return (
      <>
        <h1>
          <bdi>{name}</bdi>
        </h1>
        {error ? <ErrorState error={error} again={again} /> : <Loading what="Reading the study" />}
      </>
    );
  }
  const tabs: Tab[] = [
    { key: "space", title: "Space", content: () => <SpacePanel name={name} detail={answer} /> },
    { key: "trials", title: "Trials", content: () => <TrialsPanel name={name} /> },
    { key: "distributions", title: "Distributions", content: () => <DistributionsPanel detail={answer} /> },
    { key: "explanations", title: "Explanations", content: () => <ExplanationsPanel name={name} found={answer.explanations} /> },
  ];
  return (
    <>
      <p class="crumbs">
        <a href={address("studies")}>Crosstrain</a>
      </p>
      <h1>
        <bdi>{answer.study.name}</bdi>
      </h1>
      <p>
        <bdi>{answer.lead}</bdi>
        {answer.study.source && (
          <>
            {" Source: "}
            <bdi>{answer.study.source}</bdi>
          </>
        )}
      </p>
      <div class="tiles">
        {answer.tiles.map((tile) => (
          <Tile figure={tile.figure} title={tile.title} kind={tile.kind} />
        ))}
      </div>
      <Tabs tabs={tabs} label="Parts of the study" />
      <PickedTrial name={name} onExplained={again} />
    </>
  );
}

const pickTrial = (trial: string) => setQuery({ trial, explaining: "" });

function SpacePanel({ name, detail }: { name: string; detail: StudyDetail }) {
  const [x] = useQueryState("x");
  const [y] = useQueryState("y");
  const { answer, error, again } = useAnswer(detail.study.trials ? "/study/plane" : null, { name, x, y });
  if (!detail.study.trials) return <EmptyState title="This study has no trials yet." />;
  const axis = (label: string, parameter: string, value: string) => (
    <label class="sorting">
      {label}{" "}
      <select value={value} onChange={(event) => setQuery({ [parameter]: event.currentTarget.value })}>
        {detail.axes.map((choice) => (
          <option value={choice}>{choice}</option>
        ))}
      </select>
    </label>
  );
  return (
    <>
      {error && <ErrorState error={error} again={again} />}
      {!answer && !error && <Loading />}
      {answer && (
        <>
          <div class="bar">
            {axis("To the right", "x", answer.x)}
            {axis("Upwards", "y", answer.y)}
            <span class="dim">Click a point to see the learning curves of its sides.</span>
          </div>
          <Chart
            spec={answer.chart}
            title={`Trials by ${answer.x} and ${answer.y}, coloured by Δ`}
            onPick={(datum) => typeof datum.trial === "string" && pickTrial(datum.trial)}
          />
        </>
      )}
      {detail.space && detail.varied.length > 1 && (
        <>
          <h2>The whole space</h2>
          <Chart spec={detail.space} title="Every hyperparameter against every other one, coloured by Δ" />
        </>
      )}
    </>
  );
}

function DistributionsPanel({ detail }: { detail: StudyDetail }) {
  if (!detail.distributions.length) return <EmptyState title="No trial has an accuracy yet." />;
  return (
    <>
      {detail.distributions.map((spec) => (
        <Chart spec={spec} title={String(spec.description ?? "Distribution")} />
      ))}
    </>
  );
}

function TrialsPanel({ name }: { name: string }) {
  const offset = useOffset("trials");
  const [sort] = useQueryState("sort", LARGEST_FIRST);
  const { answer, error, loading, again } = useAnswer("/study/trials", { name, sort, offset, limit: TRIALS });
  return (
    <>
      {error && <ErrorState error={error} again={again} />}
      {!answer && !error && <Loading />}
      {answer && (
        <Part part={answer} limit={TRIALS} parameter="trials" nothing={<EmptyState title="This study has no trials yet." />}>
          <Table
            label="Trials"
            columns={COLUMNS}
            rows={answer.rows}
            rowKey={(row) => row.trial}
            sort={sort}
            onSort={(next) => setQuery({ sort: next === LARGEST_FIRST ? "" : next, trials: "" })}
            busy={loading}
          />
        </Part>
      )}
    </>
  );
}

const COLUMNS: Column<TrialItem>[] = [
  {
    key: "trial",
    title: "Trial",
    sort: "trial",
    cell: (row) => (
      <span class="name">
        <button type="button" class="more" onClick={() => pickTrial(row.trial)}>
          <bdi>{row.trial}</bdi>
        </button>
        {row.notes.map((note) => (
          <span class="failure">
            <bdi>{note}</bdi>
          </span>
        ))}
      </span>
    ),
  },
  { key: "delta", title: "Δ", sort: "delta", descending: true, number: true, cell: (row) => row.delta },
  {
    key: "sides",
    title: "Accuracy of each side",
    cell: (row) => (
      <span class="wide">
        {row.sides.map((side) => (
          <span class="trial-side">
            <bdi>{side.framework}</bdi> {side.status === "finished" ? side.accuracy : <bdi>{side.status}</bdi>}
          </span>
        ))}
      </span>
    ),
  },
  {
    key: "hyperparameters",
    title: "Hyperparameters",
    cell: (row) => <bdi class="prose">{row.hyperparameters.map((one) => `${one.name} ${one.value}`).join(", ")}</bdi>,
  },
];

/** How the sides of the trial that is picked learnt. `onExplained` is called when a job has explained its gap. */
function PickedTrial({ name, onExplained }: { name: string; onExplained: () => void }) {
  const [trial] = useQueryState("trial");
  const { answer, error, again } = useAnswer(trial ? "/study/trial" : null, { name, trial });
  const ended = () => {
    again();
    onExplained();
  };
  const section = useRef<HTMLElement>(null);
  const before = useRef<HTMLElement | null>(null); // what had the focus
  useEffect(() => {
    const focused = document.activeElement;
    if (focused instanceof HTMLElement && !section.current?.contains(focused)) before.current = focused;
    section.current?.focus({ preventScroll: true });
  }, [trial]);
  useFocusInView(section, trial);
  const close = () => {
    pickTrial("");
    before.current?.focus();
  };
  if (!trial) return null;
  return (
    <section
      ref={section}
      tabIndex={-1}
      class="picked-trial"
      aria-label="The trial that was picked"
      onKeyDown={(event) => event.key === "Escape" && close()}
    >
      <h2>
        Trial <bdi>{trial}</bdi>
        {answer?.trial.trial === trial && `: Δ ${answer.trial.delta}`}
      </h2>
      {error && <ErrorState error={error} again={again} />}
      {!answer && !error && <Loading />}
      {answer && (
        <>
          <dl>
            {answer.trial.sides.map((side) => (
              <div>
                <dt>
                  <bdi>{side.framework}</bdi>
                </dt>
                <dd>
                  {side.accuracy}, <bdi>{side.status}</bdi>
                  {side.seconds !== "–" && `, trained in ${side.seconds}`}
                  {side.run && (
                    <>
                      {", run "}
                      <PageLink page="run" rest={side.run}>
                        <code>{side.run.slice(0, 8)}</code>
                      </PageLink>
                    </>
                  )}
                </dd>
              </div>
            ))}
            {answer.trial.hyperparameters.map((one) => (
              <div>
                <dt>
                  <bdi>{one.name}</bdi>
                </dt>
                <dd>
                  <bdi>{one.value}</bdi>
                </dd>
              </div>
            ))}
          </dl>
          {answer.trial.notes.map((note) => (
            <p class="failure">
              <bdi>{note}</bdi>
            </p>
          ))}
          {answer.curves ? (
            <Chart spec={answer.curves} title="Loss and accuracy of every side over the epochs" />
          ) : (
            <p class="dim">Its epochs were not recorded.</p>
          )}
          {answer.explanations.map((one) => (
            <Explanation found={one} Heading="h3" />
          ))}
          <Explain name={name} trial={trial} unexplained={answer.unexplained} onEnd={ended} />
        </>
      )}
      <p>
        <button type="button" onClick={close}>
          Close
        </button>
      </p>
    </section>
  );
}

/** Offers to find out which hidden default makes the gap, or says why nobody can. */
function Explain({ name, trial, unexplained, onEnd }: { name: string; trial: string; unexplained: string; onEnd: () => void }) {
  if (unexplained) {
    return (
      <p class="dim">
        <bdi>{unexplained}</bdi>
      </p>
    );
  }
  return (
    <>
      <p>
        Which hidden default makes the gap? Both sides are trained again and again, with the defaults of the other one switched
        in: that takes as long as many trainings. On the command line:{" "}
        <code>
          <bdi>{`zoolens crosstrain explain ${name} ${trial}`}</bdi>
        </code>
      </p>
      <JobButton label="Explain this trial" kind="explain" parameters={{ study: name, trial }} name="explaining" onEnd={onEnd} />
    </>
  );
}

function ExplanationsPanel({ name, found }: { name: string; found: ExplanationItem[] }) {
  if (!found.length) {
    return (
      <EmptyState title="No trial of this study was explained yet.">
        Pick a trial and explain it, or run <code>zoolens crosstrain explain {name} TRIAL</code>: it switches every hidden default that two sides have
        differently, and shares the gap out among them.
      </EmptyState>
    );
  }
  return (
    <>
      {found.map((one) => (
        <Explanation found={one} Heading="h2" />
      ))}
    </>
  );
}

function Explanation({ found, Heading }: { found: ExplanationItem; Heading: "h2" | "h3" }) {
  return (
    <article class="explained">
      <Heading>
        Trial <bdi>{found.trial}</bdi>: <bdi>{found.b}</bdi> − <bdi>{found.a}</bdi> is {found.gap}
      </Heading>
      {found.chart ? (
        <Chart spec={found.chart} title="Share of the gap by setting" />
      ) : (
        <p>The gap was not attributed: the text below says why.</p>
      )}
      {found.shares.length > 0 && (
        <Table label="Shares of the gap" columns={SHARES} rows={found.shares} rowKey={(row) => row.name} />
      )}
      <details>
        <summary>All that the command said</summary>
        <pre tabIndex={0}>
          <bdi>{found.lines.join("\n")}</bdi>
        </pre>
      </details>
    </article>
  );
}

const SHARES: Column<ExplanationItem["shares"][number]>[] = [
  { key: "name", title: "Semantic", cell: (row) => <bdi>{row.name}</bdi> },
  { key: "share", title: "Share of the gap", number: true, cell: (row) => row.share },
  { key: "points", title: "Points of accuracy [95 %]", number: true, cell: (row) => row.points },
  { key: "sure", title: "Certain", cell: (row) => (row.sure ? "yes" : <span class="dim">may be none</span>) },
];
