// A few inputs as small pictures with what was answered: those that say most, side by side.
import type { InputItem, PredictedAnswer, PredictionItem } from "../answers";
import { useAnswer } from "../api";
import { InputPicture, NotShown, useInputs } from "./inputs";
import { ErrorState, Loading } from "./states";

const SHOWN = 10;

interface StripProps {
  run: string;
  other?: string;
  order: string;
  shown: string;
  label: string;
  /** What is said where there is no such input. */
  nothing: string;
}

export function InputStrip({ run, other, order, shown, label, nothing }: StripProps) {
  const { answer: page, error, again } = useAnswer("/runs/{run}/predictions", { run, other, order, shown, limit: SHOWN });
  const seen = useInputs("/runs/{run}/inputs", { run }, page?.rows.map((row) => row.index) ?? []);
  if (error) return <ErrorState error={error} again={again} />;
  if (!page) return <Loading what="Reading the answers" />;
  if (!page.rows.length) return <p class="dim">{nothing}</p>;
  return (
    <>
      <NotShown seen={seen} />
      <ul class="strip" aria-label={label} tabIndex={0}>
        {page.rows.map((row) => (
          <Small key={row.index} run={run} row={row} seen={seen.items.get(row.index)} both={Boolean(other)} foresees={page.foresees} />
        ))}
      </ul>
    </>
  );
}

interface SmallProps {
  run: string;
  row: PredictionItem;
  seen?: InputItem;
  both: boolean;
  /** Whether it is a language model, whose words have the score in them. */
  foresees: boolean;
}

function Small({ run, row, seen, both, foresees }: SmallProps) {
  const right = row.truth || (row.label === null ? "" : String(row.label));
  return (
    <li title={`Input ${row.input}`}>
      <InputPicture path="/runs/{run}/inputs/{index}" subject={{ run }} seen={seen} name={row.input} />
      {right && (
        <p class="strip-right">
          <bdi>{right}</bdi>
        </p>
      )}
      <Reply letter={both ? "A" : ""} answer={row.ours} unscored={foresees} />
      {row.theirs && <Reply letter="B" answer={row.theirs} unscored={foresees} />}
      {both && row.ours.answer === null && row.agreement_words && <p class="dim">agree {row.agreement_words}</p>}
    </li>
  );
}

function Reply({ letter, answer, unscored }: { letter: string; answer: PredictedAnswer; unscored: boolean }) {
  const best = answer.best[0];
  const score = best?.words || (unscored ? "" : answer.judged_words);
  const mark = answer.right === null ? "" : answer.right ? "right" : "wrong";
  return (
    <p class={`strip-reply ${mark}`}>
      {letter && <b>{letter} </b>}
      {mark && <span role="img" aria-label={mark}>{mark === "right" ? "✓ " : "✗ "}</span>}
      <bdi>{best?.name ?? answer.words}</bdi>
      {/* the space is outside: where both do not fit on one line, the score goes to the next, and not the name with it */}
      {score && " "}
      {score && <span class="dim">{score}</span>}
    </p>
  );
}
