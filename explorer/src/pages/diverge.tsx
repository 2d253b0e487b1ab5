// Where two stacks part: how the difference grows from layer to layer, which layer begins, and which cause is proved.
import type { DivergedSide, DivergenceFacts, FlippedInput } from "../answers";
import { isLive, useAnswer } from "../api";
import { Chart, type Spec } from "../components/chart";
import { Moment, Tile } from "../components/figure";
import { InputPicture, NotShown, type Seen, useInputs } from "../components/inputs";
import { JobForm, JobList } from "../components/jobform";
import { PageLink } from "../components/link";
import { Part, useOffset } from "../components/listing";
import { EmptyState, ErrorState, Loading, Sentences } from "../components/states";
import { type Column, Table } from "../components/table";
import { WordTable } from "../components/words";
import { address } from "../router";
import { VerdictLine } from "../components/verdict";

const LIMIT = 20;

export function DivergePage({ rest }: { rest: string }) {
  return rest ? <Divergence id={rest} /> : <Divergences />;
}

function Divergences() {
  const offset = useOffset();
  const { answer, error, again } = useAnswer("/divergences", { offset, limit: LIMIT });
  return (
    <>
      <h1>Diverge</h1>
      <p>At which layer do two environments diverge on the same inputs, is that rounding or a fault, and what removes it?</p>
      {isLive() && <DivergeForm onStart={again} />}
      {error && <ErrorState error={error} again={again} />}
      {!answer && !error && <Loading />}
      {answer && (
        <JobList
          label="Comparisons of two environments"
          part={answer}
          limit={LIMIT}
          onEnd={again}
          result={{ title: "Result", address: (job) => address(`diverge/${job.id}`) }}
          nothing={
            <EmptyState title="No two environments were compared here yet.">
              Start above, or from two runs that <PageLink page="compare">Compare</PageLink> shows.{" "}
              <code>zoolens diverge MODEL@RUNTIME MODEL@RUNTIME --data demo</code> says the same in a terminal.
            </EmptyState>
          }
        />
      )}
    </>
  );
}

function DivergeForm({ onStart }: { onStart: () => void }) {
  return (
    <JobForm
      label="Compare two environments"
      button="Find where they diverge"
      kind="diverge"
      fields={[
        { name: "a", title: "A", hint: "demo:lenet-torch@onnxruntime", required: true },
        { name: "b", title: "B", hint: "demo:lenet-torch@litert", required: true },
        { name: "data", title: "Data", hint: "that of the runs", initial: "demo" },
        { name: "limit", title: "Inputs", hint: "all", most: Infinity },
      ]}
      parameters={({ a = "", b = "", data = "", limit }) => ({
        a: a.trim(),
        b: b.trim(),
        data: data.trim() || null,
        limit: limit ? Number(limit) : null,
      })}
      onStart={onStart}
    />
  );
}

function Divergence({ id }: { id: string }) {
  const { answer, error, again } = useAnswer("/divergences/{id}", { id });
  if (!answer) {
    return (
      <>
        <h1>Diverge</h1>
        {error ? <ErrorState error={error} again={again} /> : <Loading />}
        <p>
          <a href={address("diverge")}>All comparisons of two environments</a>
        </p>
      </>
    );
  }
  return (
    <>
      <p class="crumbs">
        <a href={address("diverge")}>All comparisons of two environments</a>
      </p>
      <h1>
        <bdi>{answer.a.title}</bdi> and <bdi>{answer.b.title}</bdi>
      </h1>
      <div class="sides">
        <Side letter="A" side={answer.a} run={answer.runs[0]} />
        <Side letter="B" side={answer.b} run={answer.runs[1]} />
      </div>
      <p class="dim">
        {answer.inputs.toLocaleString("en")} inputs of <bdi>{answer.data}</bdi>, <Moment at={answer.job.created} />.
      </p>
      <VerdictLine verdict={answer.judged} />
      <div class="tiles">
        <Tile figure={answer.flips.toLocaleString("en")} title={`of ${answer.inputs.toLocaleString("en")} answers differ`} />
        <Tile figure={answer.first || "none"} title="first layer beyond rounding" />
        {answer.causes.length > 0 && (
          <Tile
            figure={`${answer.causes.filter((cause) => cause.proved).length} of ${answer.causes.length}`}
            title={answer.causes.length === 1 ? "cause is proved" : "causes are proved"}
          />
        )}
      </div>
      <Causes answer={answer} />
      {answer.growth && (
        <section aria-label="Layer by layer">
          <h2>Layer by layer</h2>
          <Chart spec={answer.growth as Spec} title="How the difference grows from layer to layer" />
          <p class="dim">{answer.floor}</p>
          <WordTable table={answer.layers} label="Layers of both environments" />
        </section>
      )}
      <section aria-label="All that was found">
        <h2>All that was found</h2>
        <Sentences sentences={answer.sentences} />
      </section>
      {answer.flips > 0 && <Flips id={id} />}
    </>
  );
}

function Side({ letter, side, run }: { letter: string; side: DivergedSide; run?: string }) {
  const isRun = /^[0-9a-f]{16}$/.test(run ?? "");
  return (
    <div class="side">
      <b class="letter">{letter}</b>
      <div>
        <bdi>{side.title}</bdi>
        <div class="dim">
          <bdi>{`${side.runtime} ${side.version}`}</bdi>, precision <bdi>{side.precision}</bdi>;{" "}
          {side.layers.toLocaleString("en")} {side.layers === 1 ? "layer" : "layers"} can be read
        </div>
        {isRun && (
          <div class="dim">
            Run{" "}
            <PageLink page="run" rest={run}>
              <code>{run!.slice(0, 8)}</code>
            </PageLink>
          </div>
        )}
      </div>
    </div>
  );
}

function Causes({ answer }: { answer: DivergenceFacts }) {
  if (!answer.causes.length) return null;
  return (
    <section aria-label="Causes">
      <h2>Why</h2>
      {answer.causes.map((cause) => (
        <article class={cause.proved ? "finding" : "finding low"} aria-label={cause.kind}>
          <p>
            <b>{cause.proved ? "Proved" : "Suspected, not proved"}:</b> <bdi>{cause.sentence}</bdi>.
          </p>
          {cause.layer && (
            <p class="dim">
              Layer <bdi>{cause.layer}</bdi>
            </p>
          )}
          {cause.proof && (
            <p>
              {cause.proved ? "Proof" : "What was tried"}: <bdi>{cause.proof}</bdi>.
            </p>
          )}
        </article>
      ))}
    </section>
  );
}

const FLIPS = (id: string, seen: Seen): Column<FlippedInput>[] => [
  {
    key: "input",
    title: "Input",
    cell: (row) => (
      <span class="flipped">
        <InputPicture
          path="/divergences/{id}/inputs/{index}"
          subject={{ id }}
          seen={row.index === null ? undefined : seen.items.get(row.index)}
          name={row.input}
        />
        <bdi class="wide">{row.input}</bdi>
      </span>
    ),
  },
  { key: "label", title: "Truth", number: true, cell: (row) => row.label ?? <span class="dim">not known</span> },
  { key: "a", title: "A says", number: true, cell: (row) => row.a ?? <span class="dim">–</span> },
  { key: "b", title: "B says", number: true, cell: (row) => row.b ?? <span class="dim">–</span> },
  { key: "apart", title: "Apart by", number: true, cell: (row) => row.apart },
];

function Flips({ id }: { id: string }) {
  const offset = useOffset();
  const { answer, error, again } = useAnswer("/divergences/{id}/flips", { id, offset, limit: LIMIT });
  const places = (answer?.rows ?? []).map((row) => row.index ?? -1);
  const seen = useInputs("/divergences/{id}/inputs", { id }, places.includes(-1) ? [0] : places); // of unknown places the server says why
  return (
    <section aria-label="Inputs that are answered differently">
      <h2>Inputs that are answered differently</h2>
      {error && <ErrorState error={error} again={again} />}
      {answer && (
        <>
          <NotShown seen={seen} />
          <Part part={answer} limit={LIMIT} nothing={null}>
            <Table
              label="Inputs that are answered differently"
              columns={FLIPS(id, seen)}
              rows={answer.rows}
              rowKey={(row) => row.input}
            />
          </Part>
        </>
      )}
    </section>
  );
}
