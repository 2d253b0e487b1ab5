// Two networks side by side: what stands beside what, what differs in colour and in words, and what that costs.
import { useEffect, useRef } from "preact/hooks";
import type { LinePair, NetworkComparison, NetworkDifference, NetworkSide, PartPair } from "../answers";
import { useAnswer } from "../api";
import { setQuery, useQueryState } from "../router";
import { PageLink } from "./link";
import { ReadNetwork } from "./readnetwork";
import { ErrorState, Loading } from "./states";
import { VerdictLine } from "./verdict";

const STATES: Record<PartPair["state"], string> = {
  same: "the same",
  constants: "other constants",
  differs: "differs",
  "only a": "only in A",
  "only b": "only in B",
  "not known": "not known",
};

export function NetworkDiff({ a, b }: { a: string; b: string }) {
  const { answer, error, again } = useAnswer("/networks", { a, b });
  if (error) return <ErrorState error={error} again={again} />;
  if (!answer) return <Loading what="Comparing the networks" />;
  return (
    <section aria-label="How they differ">
      <div class="sides">
        <Side letter="A" side={answer.a} />
        <Side letter="B" side={answer.b} />
      </div>
      {answer.compared ? (
        <Compared answer={answer} />
      ) : (
        [answer.a, answer.b].map(
          (side, place) =>
            !side.read && (
              <ReadNetwork
                key={side.ref}
                model={side.ref}
                reason={side.reason}
                readable={side.readable}
                parameter={`reading-${"ab"[place]}`}
                onRead={again}
              />
            ),
        )
      )}
    </section>
  );
}

function Side({ letter, side }: { letter: string; side: NetworkSide }) {
  return (
    <div class="side">
      <b class="letter">{letter}</b>
      <div>
        <PageLink page="model" rest={side.ref}>
          <bdi>{side.ref}</bdi>
        </PageLink>
        {side.macs_words && (
          <div class="dim">
            {side.macs_words} multiply-accumulates, {side.parameters_words} parameters
          </div>
        )}
        {side.held && <div class="dim"><bdi>{side.held}</bdi></div>}
        {side.name !== side.ref.replace(/@[^@]*$/, "") && (
          <div class="dim">
            Called <bdi>{side.name}</bdi> below
          </div>
        )}
      </div>
    </div>
  );
}

function Compared({ answer }: { answer: NetworkComparison }) {
  return (
    <>
      {answer.judged && <VerdictLine verdict={answer.judged} />}
      {answer.differences.length > 0 && <Differences answer={answer} />}
      {answer.not_proved.length > 0 && <NotProved texts={answer.not_proved} />}
      <Parts answer={answer} />
    </>
  );
}

// --- what differs, in sentences

function Differences({ answer }: { answer: NetworkComparison }) {
  const [mark] = useQueryState("mark");
  return (
    <>
      <h2>What differs</h2>
      {answer.differences.length < answer.total && (
        <p class="found">
          {answer.differences.length} of {answer.total.toLocaleString("en")} differences, the costliest first.
        </p>
      )}
      <ol class="differences">
        {answer.differences.map((one) => (
          <li class={String(one.number) === mark ? "picked" : undefined}>
            <Mark number={one.number} picked={String(one.number) === mark} />
            <span>
              <bdi>{one.text}</bdi>
              <span class="dim">
                {" "}
                (<bdi>{figures(one)}</bdi>)
              </span>
            </span>
          </li>
        ))}
      </ol>
    </>
  );
}

function NotProved({ texts }: { texts: string[] }) {
  return (
    <>
      <h2>Not proved, beside operators that are not understood</h2>
      <ul class="differences">
        {texts.map((text) => (
          <li>
            <span class="badge" aria-hidden="true">
              ?
            </span>
            <bdi>{text}</bdi>
          </li>
        ))}
      </ul>
    </>
  );
}

function figures(one: NetworkDifference): string {
  const share = one.share_words && `, ${one.share_words} of the gap`;
  return [one.cause, one.macs_words && `${one.macs_words} MACs${share}`, one.parameters_words && `${one.parameters_words} parameters`]
    .filter(Boolean)
    .join("; ");
}

/** The number of a difference: shows where it is, or what it says. */
function Mark({ number, picked }: { number: number; picked: boolean }) {
  return (
    <button
      type="button"
      class="badge"
      aria-pressed={picked}
      aria-label={`Difference ${number}`}
      onClick={() => setQuery({ mark: picked ? "" : String(number) }, true)}
    >
      {number}
    </button>
  );
}

// --- part by part

function Parts({ answer }: { answer: NetworkComparison }) {
  const [shown, setShown] = useQueryState("show");
  const [mark] = useQueryState("mark");
  const [toggled, setToggled] = useQueryState("toggled");
  const picked = Number(mark);
  const others = new Set(toggled.split(".").filter(Boolean).map(Number));
  const body = useRef<HTMLTableElement>(null);
  useEffect(() => {
    if (picked) body.current?.querySelector("tr.picked")?.scrollIntoView({ block: "center" });
  }, [picked]);
  const places = answer.parts.map((_, place) => place).filter((place) => shown !== "differing" || answer.parts[place]!.state !== "same");
  const toggle = (place: number) => {
    if (!others.delete(place)) others.add(place);
    setToggled([...others].sort((one, other) => one - other).join("."), true);
  };
  let stage = "";
  return (
    <>
      <h2>Side by side</h2>
      <div class="bar">
        <label class="sorting">
          Show{" "}
          <select value={shown} onChange={(event) => setShown(event.currentTarget.value)}>
            <option value="">everything</option>
            <option value="differing">only what is not the same</option>
          </select>
        </label>
        <Legend />
      </div>
      {places.length === 0 && <p>No part differs.</p>}
      <table class="aligned" ref={body} aria-label="Both networks, part by part">
        <thead>
          <tr>
            <th scope="col">
              A: <bdi>{answer.a.ref}</bdi>
            </th>
            <th scope="col" class="middle">
              Beside each other
            </th>
            <th scope="col">
              B: <bdi>{answer.b.ref}</bdi>
            </th>
          </tr>
        </thead>
        <tbody>
          {places.map((place) => {
            const part = answer.parts[place]!;
            const named = part.stage === stage ? null : <StageRow name={part.stage} />;
            stage = part.stage;
            const has = picked > 0 && part.marks.includes(picked);
            const open = has || ["differs", "only a", "only b", "not known"].includes(part.state) !== others.has(place);
            return (
              <>
                {named}
                <PartRow part={part} open={open} picked={has} onToggle={() => toggle(place)} />
                {open && part.lines.map((line) => <LineRow line={line} picked={picked > 0 && line.marks.includes(picked)} />)}
              </>
            );
          })}
        </tbody>
      </table>
    </>
  );
}

function Legend() {
  return (
    <ul class="legend" aria-label="What the colours mean">
      {Object.entries(STATES).map(([state, words]) => (
        <li>
          <span class={`swatch ${kind(state)}`} aria-hidden="true" /> {words}
        </li>
      ))}
    </ul>
  );
}

function kind(state: string): string {
  return `beside-${state.replace(" ", "-")}`;
}

function StageRow({ name }: { name: string }) {
  return (
    <tr>
      <th colSpan={3} scope="colgroup" class="stage">
        <bdi>{name}</bdi>
      </th>
    </tr>
  );
}

function PartRow(props: { part: PartPair; open: boolean; picked: boolean; onToggle: () => void }) {
  const { part, open, picked, onToggle } = props;
  const folds = part.lines.length > 0;
  const title = (words: string, macs: string, first: boolean) =>
    words && (
      <>
        {folds && first ? (
          <button type="button" class="fold" aria-expanded={open} onClick={onToggle}>
            <bdi>{words}</bdi>
          </button>
        ) : (
          <b>
            <bdi>{words}</bdi>
          </b>
        )}
        {macs && <span class="dim"> {macs}</span>}
      </>
    );
  return (
    <tr class={`part ${kind(part.state)}${picked ? " picked" : ""}`}>
      <td>{title(part.a, part.macs_a, true)}</td>
      <td class="middle">
        {STATES[part.state]} <Marks marks={part.marks} />
        {part.first_only && open && <span class="dim"> The lines are those of the first of these blocks; the others read differently.</span>}
        {part.left_out > 0 && <span class="dim"> {part.left_out.toLocaleString("en")} layers are not listed.</span>}
      </td>
      <td>{title(part.b, part.macs_b, !part.a)}</td>
    </tr>
  );
}

function LineRow({ line, picked }: { line: LinePair; picked: boolean }) {
  return (
    <tr class={`line ${kind(line.state)}${picked ? " picked" : ""}`}>
      <td title={line.source_a}>
        <bdi>{line.a}</bdi>
      </td>
      <td class="middle">
        {line.state === "same" ? <span class="hidden">the same</span> : STATES[line.state]} <Marks marks={line.marks} />
      </td>
      <td title={line.source_b}>
        <bdi>{line.b}</bdi>
      </td>
    </tr>
  );
}

function Marks({ marks }: { marks: number[] }) {
  const [mark] = useQueryState("mark");
  return (
    <span class="badges">
      {marks.slice(0, 8).map((number) => (
        <Mark number={number} picked={String(number) === mark} />
      ))}
      {marks.length > 8 && <span class="dim">and {marks.length - 8} more</span>}
    </span>
  );
}
