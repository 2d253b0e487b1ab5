// Models × kinds of machine: one figure of every model, what nobody measured, and differences beyond noise.
import type { CellItem, Grid, GridLine, KindItem } from "../answers";
import { useAnswer } from "../api";
import { setQuery, useRoute } from "../router";
import { FigureCell } from "./figure";
import { SearchBox } from "./filters";
import { PageLink } from "./link";
import { NothingFits, Part, useOffset } from "./listing";
import { EmptyState, ErrorState, Loading, Prose } from "./states";

const MODELS = 25;
const MOST_KINDS = 12; // columns that the server gives at once

export function KindGrid() {
  const { query } = useRoute();
  const offset = useOffset();
  const asked = {
    dataset: query.get("dataset") ?? "",
    runtime: query.get("runtime") ?? "",
    quantity: query.get("quantity") ?? "quality",
    q: query.get("q") ?? "",
    sort: query.get("sort") ?? "name",
    kind: query.getAll("kind"),
    against: query.get("against") ?? "",
  };
  const { answer, error, again, loading } = useAnswer("/fleet/grid", { ...asked, offset, limit: MODELS });
  if (!answer) return error ? <ErrorState error={error} again={again} /> : <Loading what="Reading the store" />;
  if (!answer.datasets.length) return <NothingMeasured />;
  return (
    <>
      {error && <ErrorState error={error} again={again} />}
      <GridControls answer={answer} asked={asked} />
      <p class="found" role="status">
        {answer.total.toLocaleString("en")} {answer.total === 1 ? "model" : "models"}, {answer.kinds.length}
        {answer.kinds.length < answer.all_kinds.length ? ` of ${answer.all_kinds.length}` : ""}{" "}
        {answer.all_kinds.length === 1 ? "kind" : "kinds"} of machine. {unmeasured(answer.unmeasured)}
      </p>
      {answer.kinds.length === 1 && (
        <p class="notice">
          Everything here was measured on one kind of machine. <code>zoolens eval … --on each-kind</code> measures on every kind
          that has an agent; <code>zoolens store copy</code> brings runs of other machines here.
        </p>
      )}
      <Part part={answer} limit={MODELS} nothing={<NothingFits what="model" />}>
        <GridTable answer={answer} busy={loading} />
      </Part>
      <Regressions answer={answer} against={asked.against} />
    </>
  );
}

function unmeasured(cells: number): string {
  if (!cells) return "Every cell that is shown has a figure.";
  return `${cells.toLocaleString("en")} ${cells === 1 ? "cell has" : "cells have"} no figure.`;
}

function NothingMeasured() {
  return (
    <EmptyState title="No evaluations yet.">
      Run <code>zoolens eval MODEL --data DATA --on each-kind</code>, or copy the stores of several machines into one with{" "}
      <code>zoolens store copy</code>.
    </EmptyState>
  );
}

interface GridAsked {
  quantity: string;
  q: string;
  sort: string;
  kind: string[];
  against: string;
}

function GridControls({ answer, asked }: { answer: Grid; asked: GridAsked }) {
  const runtimes = answer.datasets.find((one) => one.name === answer.dataset)?.runtimes ?? [];
  const forget = { offset: "", kind: "", against: "" }; // kinds are those of one runtime
  return (
    <div class="bar">
      <Choice
        title="Dataset"
        value={answer.dataset}
        options={answer.datasets.map(({ name }) => [name, name])}
        onChoose={(dataset) => setQuery({ dataset, runtime: "", ...forget })}
      />
      <Choice
        title="Runtime"
        value={answer.runtime}
        options={runtimes.map(({ name, runs }) => [name, `${name} (${runs.toLocaleString("en")} ${runs === 1 ? "run" : "runs"})`])}
        onChoose={(runtime) => setQuery({ dataset: answer.dataset, runtime, ...forget })}
      />
      <Choice
        title="Figure"
        value={asked.quantity}
        options={[
          ["quality", "main metric"],
          ["latency", "median latency, one input at a time"],
        ]}
        onChoose={(quantity) => setQuery({ quantity: quantity === "quality" ? "" : quantity, offset: "" })}
      />
      <Choice
        title="Order"
        value={asked.sort}
        options={[
          ["name", "by name"],
          ["spread", "largest difference first"],
        ]}
        onChoose={(sort) => setQuery({ sort: sort === "name" ? "" : sort, offset: "" })}
      />
      <Choice
        title="Compare with"
        value={asked.against}
        options={[["", "the best, same machine"], ...answer.all_kinds.map((kind): [string, string] => [kind.id, kindWords(kind)])]}
        onChoose={(against) => setQuery({ against })}
      />
      <SearchBox label="Search models" value={asked.q} onSearch={(q) => setQuery({ q, offset: "" }, true)} />
      {answer.all_kinds.length > 1 && <KindChooser answer={answer} chosen={asked.kind} />}
    </div>
  );
}

function Choice(props: { title: string; value: string; options: [string, string][]; onChoose: (value: string) => void }) {
  const { title, value, options, onChoose } = props;
  return (
    <label class="sorting">
      {title}{" "}
      <select value={value} onChange={(event) => onChoose(event.currentTarget.value)}>
        {options.map(([key, words]) => (
          <option value={key}>{words}</option>
        ))}
      </select>
    </label>
  );
}

function kindWords(kind: KindItem): string {
  return [kind.software, ...kind.apart, kind.machine].join(", ");
}

/** Which kinds are columns of the table. */
function KindChooser({ answer, chosen }: { answer: Grid; chosen: string[] }) {
  const every = answer.all_kinds.map((kind) => kind.id);
  const shown = new Set(chosen.length ? chosen.filter((id) => every.includes(id)) : every.slice(0, MOST_KINDS));
  const toggle = (id: string) => {
    const next = every.filter((other) => (other === id ? !shown.has(id) : shown.has(other)));
    setQuery({ kind: next.length === every.length ? [] : next });
  };
  return (
    <details class="chooser">
      <summary>Kinds</summary>
      <fieldset>
        <legend class="hidden">Kinds of machine that are shown</legend>
        {answer.all_kinds.map((kind) => (
          <label>
            <input
              type="checkbox"
              checked={shown.has(kind.id)}
              disabled={shown.has(kind.id) ? shown.size === 1 : shown.size === MOST_KINDS}
              onChange={() => toggle(kind.id)}
            />{" "}
            <bdi>{kindWords(kind)}</bdi>
          </label>
        ))}
        {chosen.length > 0 && (
          <button type="button" onClick={() => setQuery({ kind: [] })}>
            Show all
          </button>
        )}
      </fieldset>
    </details>
  );
}

function GridTable({ answer, busy }: { answer: Grid; busy: boolean }) {
  return (
    <div class="table" role="group" aria-label={`${answer.metric} by kind of machine`} aria-busy={busy} tabIndex={0}>
      <table class="kind-grid">
        <thead>
          <tr>
            <th scope="col">Model</th>
            {answer.kinds.map((kind) => (
              <th scope="col" class="kind-head">
                <bdi>{kind.software}</bdi>
                {kind.apart.map((fact) => (
                  <bdi>{fact}</bdi>
                ))}
                <bdi class="plain-head">{kind.machine}</bdi>
                {kind.agents.length > 0 && (
                  <bdi class="plain-head">
                    {kind.agents.length === 1 ? "agent" : "agents"} {kind.agents.join(", ")}
                  </bdi>
                )}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {answer.rows.map((row) => (
            <Row key={row.model + row.options} row={row} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Row({ row }: { row: GridLine }) {
  return (
    <tr data-row>
      <th scope="row">
        <PageLink page="model" rest={row.ref}>
          <bdi>{row.model}</bdi>
        </PageLink>
        {row.options && <bdi class="plain-head">{row.options}</bdi>}
      </th>
      {row.cells.map((cell) => (
        <td class={`kind-cell ${cell.outcome === "worse" && cell.same_hardware ? "regressed" : ""}`}>
          <Cell cell={cell} />
        </td>
      ))}
    </tr>
  );
}

function Cell({ cell }: { cell: CellItem }) {
  if (cell.run === null) return <span class="dim">not measured</span>;
  const run = cell.run;
  if (!cell.figure || cell.figure.value === null) {
    return (
      <span class="dim">
        <PageLink page="run" rest={run}>
          no figure
        </PageLink>
        <span class="interval">
          <Prose text={cell.reason} />
        </span>
      </span>
    );
  }
  return (
    <>
      <PageLink page="run" rest={run}>
        <FigureCell figure={cell.figure} named={cell.figure.unit !== "s"} />
      </PageLink>
      {cell.runs > 1 && <span class="interval">of {cell.runs.toLocaleString("en")} runs</span>}
      {cell.failed_since && (
        <details class="kind-mark">
          <summary>
            <span class="mark failed">newest run failed</span>
          </summary>
          <Prose text={cell.failed_since} />
        </details>
      )}
      <Mark cell={cell} />
    </>
  );
}

const MARKS: Partial<Record<NonNullable<CellItem["outcome"]>, string>> = { worse: "worse", better: "better", unknown: "not comparable" };

/** A difference beyond noise, and the sentence with what differs. */
function Mark({ cell }: { cell: CellItem }) {
  const word = cell.outcome && MARKS[cell.outcome];
  if (!word) return null;
  const tone = cell.outcome === "worse" && cell.same_hardware ? "failed" : cell.outcome === "better" ? "measured" : "";
  return (
    <details class="kind-mark">
      <summary>
        <span class={`mark ${tone}`}>
          {cell.outcome === "unknown" ? word : cell.change}
          {cell.outcome !== "unknown" && <span class="hidden">, {word}</span>}
        </span>
      </summary>
      <Prose text={cell.sentence} />
    </details>
  );
}

function Regressions({ answer, against }: { answer: Grid; against: string }) {
  if (!answer.regressions.length) return null;
  return (
    <section aria-label="What is worse">
      <h2>{against ? "Worse than on the chosen kind" : "Worse in other software on the same machine"}</h2>
      <ul class="said">
        {answer.regressions.map((sentence) => (
          <li>
            <Prose text={sentence} />
          </li>
        ))}
      </ul>
      <p class="dim">Among the models above, and beyond what runs and sittings spread, with all cells of the table in mind.</p>
    </section>
  );
}
