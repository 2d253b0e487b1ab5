// The first page: what there is, what is good, what changed, and what one does next.
import { useRef, useState } from "preact/hooks";
import type { Alarm, BestModel, BestOnDataset, Home, RunItem } from "../answers";
import { useAnswer } from "../api";
import { useDrop } from "../components/drop";
import { FigureCell, Moment, judgedTitle } from "../components/figure";
import { JobCard } from "../components/job";
import { PageLink } from "../components/link";
import { ErrorState, Loading } from "../components/states";
import { type Column, Table } from "../components/table";
import { shownName } from "../datasets";
import { counted, whole } from "../figures";
import { handOver } from "../handover";
import { useHiddenAlarms } from "../hidden";
import { hasEnded, useStartedJob } from "../jobs";
import { address, chosen, setQuery, useRoute } from "../router";

const SPANS = [1, 7, 30]; // days

export function HomePage() {
  const { query } = useRoute();
  const { data, task } = chosen();
  const days = Number(query.get("days")) || 0;
  const { answer, error, again } = useAnswer("/home", { data, task, days });
  return (
    <>
      <h1>{data ? <bdi>{shownName(data)}</bdi> : "Home"}</h1>
      {error && <ErrorState error={error} again={again} />}
      {!answer && !error && <Loading what="Looking through the store" />}
      {answer && (answer.runs === 0 && !data && !task ? <First home={answer} again={again} /> : <Overview home={answer} again={again} />)}
    </>
  );
}

// --- a store with runs

function Overview({ home, again }: { home: Home; again: () => void }) {
  const { data } = chosen();
  const left = home.datasets - new Set(home.best.map((best) => best.dataset)).size;
  return (
    <div class="home">
      <p class="found" role="status">
        {counted(home.runs, "evaluation")} on {counted(home.datasets, "dataset")}.
      </p>
      <section class="home-best" aria-label="The best models">
        {home.best.map((best) => (
          <Best key={`${best.dataset} ${best.title}`} best={best} alone={Boolean(data)} />
        ))}
        {!home.best.length && <p class="dim">Nothing says how good these models are: no run has labels, or none is finished.</p>}
        {left > 0 && (
          <p class="dim">
            {counted(left, "further dataset")} that {left === 1 ? "was" : "were"} used less recently, or {left === 1 ? "has" : "have"} no labels: choose one at the head of the page.
          </p>
        )}
      </section>
      <Next home={home} />
      <div class="home-columns">
        <Changed home={home} />
        <Needs home={home} again={again} />
      </div>
      <section aria-label="Newest runs">
        <h2>Newest runs</h2>
        <Table label="Newest runs" columns={NEWEST(judgedTitle(home.newest))} rows={home.newest} rowKey={(row) => row.id} />
        <p>
          <PageLink page="runs">All runs</PageLink>
        </p>
      </section>
    </div>
  );
}

function Best({ best, alone }: { best: BestOnDataset; alone: boolean }) {
  return (
    <article class="best" aria-label={`Best on ${best.dataset}`}>
      <h2>
        {alone ? (
          `Best by ${best.title}`
        ) : (
          <a href={address("home", { data: best.dataset, task: best.task })}>
            <bdi>{best.dataset}</bdi>
          </a>
        )}
      </h2>
      <p class="dim">
        {!alone && `By ${best.title}, `}
        {whole(best.inputs)} inputs, {counted(best.models, "model")}
      </p>
      <Table label={`Best on ${best.dataset}`} columns={BEST} rows={best.rows} rowKey={(row) => row.run.id} />
      {best.note && (
        <p class="dim best-note">
          <bdi>{best.note}</bdi>
        </p>
      )}
    </article>
  );
}

const BEST: Column<BestModel>[] = [
  {
    key: "model",
    title: "Model",
    cell: ({ run }) => (
      <span class="pair">
        <PageLink page="model" rest={run.model}>
          <bdi>{bare(run.model)}</bdi>
        </PageLink>
        <span class="dim">
          <bdi>{run.stack}</bdi>
        </span>
      </span>
    ),
  },
  {
    key: "judged",
    title: "Figure [95 %]",
    number: true,
    cell: ({ run }) => (
      <PageLink page="run" rest={run.id}>
        <FigureCell figure={run.judged} />
      </PageLink>
    ),
  },
  { key: "latency", title: "Median latency", number: true, cell: ({ run }) => <FigureCell figure={run.latency_p50} /> },
  { key: "size", title: "Size", number: true, cell: ({ size }) => <FigureCell figure={size} /> },
];

const NEWEST = (judged: string): Column<RunItem>[] => [
  {
    key: "model",
    title: "Model",
    cell: (row) => (
      <span class="name">
        <PageLink page="run" rest={row.id}>
          <bdi>{bare(row.model)}</bdi>
        </PageLink>
        {row.state === "failed" && <span class="mark failed">a stage failed</span>}
        {row.state === "begun" && <span class="mark">nothing finished yet</span>}
      </span>
    ),
  },
  { key: "when", title: "Begun", cell: (row) => <Moment at={row.created} /> },
  { key: "data", title: "Data", cell: (row) => <bdi class="wide">{row.dataset}</bdi> },
  { key: "stack", title: "Stack", cell: (row) => <bdi class="wide">{row.stack}</bdi> },
  { key: "judged", title: judged, number: true, cell: (row) => <FigureCell figure={row.judged} named /> },
  { key: "latency", title: "Median latency", number: true, cell: (row) => <FigureCell figure={row.latency_p50} /> },
];

function bare(ref: string): string {
  return ref.replace(/@[^@]*$/, "");
}

const OF_TEXTS = ["language-model", "multiple-choice", "generation"]; // tasks of models that no picture can be given to

/** What one does next with the best models. */
function Next({ home }: { home: Home }) {
  const [first] = home.best;
  const [a, b] = first?.rows ?? [];
  if (!first || !a) return null;
  const chosen = { data: first.dataset, task: first.task };
  return (
    <section aria-label="What to do next" class="next">
      {b && (
        <a href={address("compare", { ...chosen, a: a.run.id, b: b.run.id })}>
          <b>Compare the two best</b>
          <span>
            Is <bdi>{bare(a.run.model)}</bdi> really better than <bdi>{bare(b.run.model)}</bdi>, and on which inputs?
          </span>
        </a>
      )}
      <a href={address("choose", chosen)}>
        <b>Choose one to ship</b>
        <span>Accuracy against latency and size, and queries with limits.</span>
      </a>
      {!OF_TEXTS.includes(first.task) && (
        <a href={address("live", { ...chosen, with: first.rows.map((row) => bare(row.run.model)) })}>
          <b>Try them on a picture</b>
          <span>Side by side, each with its own preprocessing.</span>
        </a>
      )}
    </section>
  );
}

function Changed({ home }: { home: Home }) {
  const { changes } = home;
  const { query } = useRoute();
  const asked = Number(query.get("days")) || 0;
  return (
    <section aria-label="What changed">
      <h2>What changed</h2>
      <p class="choice-of-days">
        {SPANS.map((span) => (
          <button type="button" class="more" aria-pressed={(asked || changes.days) === span} onClick={() => setQuery({ days: String(span) }, true)}>
            {span === 1 ? "24 hours" : `${span} days`}
          </button>
        ))}
      </p>
      {changes.days === 0 ? (
        <p class="dim">Nothing since <Moment at={changes.since} />.</p>
      ) : (
        <>
          <p>
            <PageLink page="runs" query={{ since: localDay(changes.since) }}>
              {counted(changes.runs, "evaluation")}
            </PageLink>
            {changes.models > 0 && `, ${counted(changes.models, "model")} for the first time`}
            {changes.failed > 0 && `, ${whole(changes.failed)} with a stage that failed`}.
          </p>
          {changes.lines.length > 0 && (
            <ul class="changes">
              {changes.lines.map((line) => (
                <li>
                  <bdi>{line.sentence}</bdi>{" "}
                  {line.run && line.before && <a href={address("compare", { a: line.before, b: line.run })}>compare</a>}
                </li>
              ))}
            </ul>
          )}
          <p class="dim">
            {changes.compared === 0
              ? "None of them has a comparable run before it: of the same model on the same dataset, in the same runtime, with the same options."
              : changes.compared === 1
                ? "One run has a comparable one before it; listed is what moved beyond the intervals of both."
                : `The newest ${whole(changes.compared)} runs that have a comparable one before them were held against it; listed is what moved beyond both intervals.`}
            {changes.more > 0 && ` ${whole(changes.more)} more figures moved.`}
          </p>
        </>
      )}
    </section>
  );
}

/** The day on which a moment lies, by the reader's calendar. */
function localDay(at: string): string {
  return new Intl.DateTimeFormat("en-CA").format(new Date(at));
}

const ALARM_QUERY: Record<string, Record<string, string>> = { runs: { state: "failed" } };

/** Alarms, but for those that the reader has hidden: they come back when they are about something else. */
function Alarms({ alarms }: { alarms: Alarm[] }) {
  const [hidden, hide, showAll] = useHiddenAlarms();
  const shown = alarms.filter((alarm) => !hidden.includes(alarm.about));
  const away = alarms.length - shown.length;
  return (
    <>
      {alarms.length === 0 && <p class="dim">No failure, no lost machine and no grave finding of an audit is known here.</p>}
      <ul class="plain alarms">
        {shown.map((alarm) => (
          <li class={`alarm ${alarm.level}`}>
            <span class="mark">{alarm.level}</span>{" "}
            <PageLink page={alarm.page} rest={alarm.rest || undefined} query={ALARM_QUERY[alarm.page]}>
              <bdi>{alarm.sentence}</bdi>
            </PageLink>{" "}
            <button type="button" class="more" aria-label={`Hide: ${alarm.sentence}`} onClick={() => hide(alarm.about)}>
              Hide
            </button>
          </li>
        ))}
      </ul>
      {away > 0 && (
        <p class="dim">
          {away.toLocaleString("en")} hidden in this browser until something about {away === 1 ? "it" : "them"} changes.{" "}
          <button type="button" class="more" onClick={showAll}>
            Show again
          </button>
        </p>
      )}
    </>
  );
}

function Needs({ home, again }: { home: Home; again: () => void }) {
  return (
    <section aria-label="What needs a look">
      <h2>What needs a look</h2>
      <Alarms alarms={home.alarms} />
      {home.services.length > 0 && (
        <>
          <h3>Services</h3>
          <ul class="plain">
            {home.services.map((session) => (
              <li>
                <PageLink page="services" rest={session.session}>
                  <bdi>{session.service}</bdi>
                </PageLink>{" "}
                <span class={session.state === "active" ? "mark measured" : "mark"}>{session.state === "active" ? "answers now" : session.state}</span>{" "}
                <span class="dim">
                  {counted(session.switches, "switch", "switches")}
                  {session.in_time && `, ${session.in_time}`}
                </span>
              </li>
            ))}
          </ul>
        </>
      )}
      {home.jobs.length > 0 && (
        <>
          <h3>Jobs</h3>
          {home.jobs.some((job) => !hasEnded(job)) ? (
            home.jobs.filter((job) => !hasEnded(job)).map((job) => <JobCard key={job.id} job={job} onEnd={again} />)
          ) : (
            <p>
              None runs. The last: <bdi>{home.jobs[0]!.title}</bdi>, {home.jobs[0]!.state}. <PageLink page="jobs">All jobs</PageLink>
            </p>
          )}
        </>
      )}
    </section>
  );
}

// --- an empty store

/** Three ways to begin, each of which does something. */
function First({ home, again }: { home: Home; again: () => void }) {
  const { job, problem, start } = useStartedJob();
  const running = job ?? home.jobs.find((one) => one.kind === "demo" && !hasEnded(one));
  const [path, setPath] = useState("");
  const open = (event: Event) => {
    event.preventDefault();
    if (path.trim()) window.location.hash = address("folder", { path: path.trim() });
  };
  return (
    <>
      <p class="lead">No model was evaluated yet. Three ways to begin:</p>
      <div class="beginnings">
        <section class="beginning" aria-label="Run the demo">
          <h2>Run the demo</h2>
          <p>Twelve small models that come with zoolens, on 2,000 images, in the runtimes that are here: about a minute.</p>
          {running ? (
            <JobCard key={running.id} job={running} onEnd={again} />
          ) : (
            <button type="button" class="primary" onClick={() => void start("demo", {})}>
              Run the demo
            </button>
          )}
          {problem && (
            <p class="problem" role="alert">
              {problem}
            </p>
          )}
        </section>
        <section class="beginning" aria-label="Open a folder of models">
          <h2>Open a folder of models</h2>
          <p>
            Which of your models to ship, on your pictures. On the command line: <code>zoolens init FOLDER</code>
          </p>
          <form class="bar" onSubmit={open}>
            <label class="search">
              <span class="hidden">The folder</span>
              <input type="text" value={path} placeholder="/home/me/models" spellcheck={false} onInput={(event) => setPath(event.currentTarget.value)} />
            </label>
            <button type="submit" class="primary">
              Open
            </button>
          </form>
        </section>
        <DropPicture />
      </div>
    </>
  );
}

function DropPicture() {
  const input = useRef<HTMLInputElement>(null);
  const give = (file?: File | null) => {
    if (!file) return;
    handOver(file);
    window.location.hash = address("live");
  };
  const { over, handlers } = useDrop(give);
  return (
    <section
      class={over ? "beginning over" : "beginning"}
      aria-label="Drop a picture"
      {...handlers}
    >
      <h2>Drop a picture</h2>
      <p>See at once what several models say of it. Drop it here, or choose a file.</p>
      <button type="button" class="primary" onClick={() => input.current?.click()}>
        Choose a picture
      </button>
      <input ref={input} type="file" accept="image/*" class="hidden" tabIndex={-1} aria-label="Picture" onChange={(event) => give(event.currentTarget.files?.[0])} />
    </section>
  );
}
