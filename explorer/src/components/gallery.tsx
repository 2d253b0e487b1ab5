// The inputs of a run, or of two runs side by side: each with its image, its label and what was answered.
import type { DrawnItem, InputItem, PredictedAnswer, PredictionItem, TokenTextItem } from "../answers";
import { useAnswer } from "../api";
import { setQuery, useRoute } from "../router";
import { Drawn, InputPicture, NotShown, useInputs } from "./inputs";
import { Part, useOffset } from "./listing";
import { ErrorState, Loading, useLate } from "./states";
import { TokenLegend, TokenText, useTokens } from "./tokens";

const LIMIT = 24;

const SHOWN: Record<string, string> = {
  all: "all inputs",
  wrong: "wrong answers",
  right: "right answers",
};
const SHOWN_OF_BOTH: Record<string, string> = {
  disagreeing: "different answers",
  agreeing: "the same answers",
  all: "all inputs",
  right: "A is right",
  wrong: "A is wrong",
};
const ORDERS: Record<string, string> = {
  loss: "loss",
  surest: "confidence, the surest first",
  "least sure": "confidence, the least sure first",
  index: "place in the data",
};
const ORDERS_OF_BOTH: Record<string, string> = {
  disagreement: "disagreement, the surest first",
  loss: "loss of A",
  surest: "A is surest",
  "least sure": "A is least sure",
  index: "place in the data",
};
/** Of answers that are no classes, such as boxes: how right each of them is, is a number. */
const ORDERS_OF_JUDGED: Record<string, string> = {
  loss: "score, the lowest first",
  index: "place in the data",
};
const ORDERS_OF_JUDGED_PAIRS: Record<string, string> = {
  disagreement: "agreement, the lowest first",
  loss: "score of A, the lowest first",
  index: "place in the data",
};
/** Of texts that a language model foresees. */
const ORDERS_OF_TEXTS: Record<string, string> = {
  loss: "bits per byte, the most first",
  index: "place in the data",
};
const ORDERS_OF_TEXT_PAIRS: Record<string, string> = {
  disagreement: "agreement, the lowest first",
  loss: "bits per byte of A, the most first",
  index: "place in the data",
};
const OF_LABELS = ["right", "wrong", "loss"]; // nobody knows them without labels
const OF_ANSWERS = ["right", "wrong"]; // a text is foreseen more or less well
const OF_SCORES = ["loss", "surest", "least sure"]; // nor these without scores

interface GalleryProps {
  run: string;
  /** Another run on the same inputs, whose answers stand below. */
  other?: string;
}

/** What is shown and how it is sorted lives in the address: shown, order, label, answer, bin, offset. */
export function Gallery({ run, other }: GalleryProps) {
  const { query } = useRoute();
  const classes = useAnswer("/runs/{run}/classes", { run });
  if (classes.error) return <ErrorState error={classes.error} again={classes.again} />;
  if (!classes.answer) return <Loading what="Reading the answers" />;
  const { rows, scored, judged, foresees } = classes.answer;
  const labelled = judged || rows.some((row) => (row.inputs ?? 0) > 0);
  const alone = judged ? "loss" : !scored ? "index" : labelled ? "loss" : "surest";
  const usual = { shown: other ? "disagreeing" : "all", order: other ? "disagreement" : alone };
  const asked = (name: string, initial: string) => query.get(name) ?? initial;
  const shown = asked("shown", usual.shown);
  const order = asked("order", usual.order);
  const offered = (names: Record<string, string>) =>
    Object.entries(names).filter(
      ([name]) =>
        (labelled || !OF_LABELS.includes(name)) && (scored || judged || !OF_SCORES.includes(name)) && !(foresees && OF_ANSWERS.includes(name)),
    );
  const choice = (title: string, name: string, value: string, initial: string, names: Record<string, string>) => offered(names).length > 1 && (
    <label class="sorting">
      {title}{" "}
      <select
        value={value}
        onChange={({ currentTarget }) =>
          setQuery({ [name]: currentTarget.value === initial ? "" : currentTarget.value, offset: "" })
        }
      >
        {offered(names).map(([key, words]) => (
          <option value={key}>{words}</option>
        ))}
      </select>
    </label>
  );
  const ofClass = (title: string, name: string, among: { number: number; name: string }[]) =>
    among.length > 0 && (
      <label class="sorting">
        {title}{" "}
        <select
          value={query.get(name) ?? ""}
          onChange={({ currentTarget }) => setQuery({ [name]: currentTarget.value, offset: "" })}
        >
          <option value="">any class</option>
          {among.map((row) => (
            <option value={String(row.number)}>{row.name}</option>
          ))}
        </select>
      </label>
    );
  return (
    <>
      <div class="bar">
        {choice("Show", "shown", shown, usual.shown, other ? SHOWN_OF_BOTH : SHOWN)}
        {choice(
          "Sort by",
          "order",
          order,
          usual.order,
          ordersOf(foresees ? "texts" : judged ? "judged" : "classes", Boolean(other)),
        )}
        {!judged && labelled && ofClass("Label", "label", rows.filter((row) => (row.inputs ?? 0) > 0))}
        {ofClass(other ? "A answers" : "Answer", "answer", rows.filter((row) => (row.answered ?? 0) > 0))}
      </div>
      <Inputs run={run} other={other} shown={shown} order={order} />
    </>
  );
}

/** What the answers to inputs of a kind are sorted by, alone or beside those of another run. */
function ordersOf(kind: "texts" | "judged" | "classes", pairs: boolean): Record<string, string> {
  const { alone, beside } = {
    texts: { alone: ORDERS_OF_TEXTS, beside: ORDERS_OF_TEXT_PAIRS },
    judged: { alone: ORDERS_OF_JUDGED, beside: ORDERS_OF_JUDGED_PAIRS },
    classes: { alone: ORDERS, beside: ORDERS_OF_BOTH },
  }[kind];
  return pairs ? beside : alone;
}

function Inputs({ run, other, shown, order }: GalleryProps & { shown: string; order: string }) {
  const { query } = useRoute();
  const offset = useOffset();
  const narrowed = ["label", "answer", "bin"].some((name) => query.get(name));
  const { answer: page, error, loading, again } = useAnswer("/runs/{run}/predictions", {
    run,
    other,
    order,
    shown,
    label: query.get("label") || undefined,
    answer: query.get("answer") || undefined,
    bin: query.get("bin") || undefined,
    offset,
    limit: LIMIT,
  });
  const late = useLate(loading);
  const pictures = useInputs("/runs/{run}/inputs", { run }, page?.rows.map((row) => row.index) ?? []);
  const tokens = useTokens(run, other, page?.foresees ? page.rows.map((row) => row.index) : []);
  const texts = new Map((tokens?.rows ?? []).map((text) => [text.index, text]));
  if (error) return <ErrorState error={error} again={again} />;
  if (!page) return <Loading />;
  return (
    <>
      <p class="found" role="status">
        {page.total.toLocaleString("en")} of {page.inputs.toLocaleString("en")} inputs
        {page.bin && `, ${other ? "A is " : ""}${page.bin} sure`}
        {page.unknown > 0 && `; ${page.unknown.toLocaleString("en")} come last, because what they are sorted by is not known`}.{" "}
        {narrowed && (
          <button type="button" class="more" onClick={() => setQuery({ label: "", answer: "", bin: "", offset: "" })}>
            Any class and confidence
          </button>
        )}
      </p>
      {page.rows.length > 0 && <NotShown seen={pictures} />}
      {tokens && <TokenLegend tokens={tokens} />}
      <Part
        part={page}
        limit={LIMIT}
        nothing={
          <p>
            {shown === "disagreeing" && !narrowed ? "Both give the same answer to every input." : "There is no such input."}
          </p>
        }
      >
        <ul class={`gallery${late ? " late" : ""}${isDrawn(page.rows) || page.foresees ? " drawn-inputs" : ""}${other ? " pairs" : ""}`} aria-label={other ? "Answers of both runs" : "Inputs"} aria-busy={loading}>
          {page.rows.map((row) => (
            <Card
              key={row.index}
              run={run}
              other={other}
              row={row}
              seen={pictures.items.get(row.index)}
              foresees={page.foresees}
              text={texts.get(row.index)}
            />
          ))}
        </ul>
      </Part>
    </>
  );
}

/** Whether there are pictures with answers upon them, which need more room. */
function isDrawn(rows: PredictionItem[]): boolean {
  return rows.some((row) => row.ours.drawn !== null || row.right !== null);
}

interface CardProps {
  run: string;
  other?: string;
  row: PredictionItem;
  seen?: InputItem;
  /** Whether it is a language model, for which the input itself is what is right. */
  foresees: boolean;
  /** The input as coloured tokens. */
  text?: TokenTextItem;
}

function Card({ run, other, row, seen, foresees, text }: CardProps) {
  const both = Boolean(other);
  const ofClasses = row.ours.answer !== null;
  const drawn = row.ours.drawn !== null || row.right !== null;
  return (
    <li class="input">
      {text ? (
        <TokenText text={text} />
      ) : drawn && seen ? (
        <Drawings run={run} other={other} row={row} seen={seen} foresees={foresees} />
      ) : (
        <InputPicture path="/runs/{run}/inputs/{index}" subject={{ run }} seen={seen} name={row.input} />
      )}
      <p class="dim">
        Input <bdi>{row.input}</bdi>
        {seen && seen.name !== "" && seen.name !== row.input && (
          <>
            , now called <bdi>{seen.name}</bdi>
          </>
        )}
      </p>
      {!foresees && (
        <p>
          {ofClasses ? "Label: " : "Right: "}
          {row.label === null && !row.truth ? (
            <span class="dim">not known</span>
          ) : (
            <b>
              <bdi>{row.truth || row.label}</bdi>
            </b>
          )}
        </p>
      )}
      {row.label_words && !row.ours.best.some((scored) => scored.number === row.label) && (
        <p class="dim">
          {both ? "A gives" : "It gives"} {row.label_words} to the label
        </p>
      )}
      <Said letter={both ? "A" : ""} answer={row.ours} unscored={foresees} />
      {row.theirs && <Said letter="B" answer={row.theirs} unscored={foresees} />}
      {both && !ofClasses && row.agreement_words && <p class="dim">Agreement of the two: {row.agreement_words}</p>}
    </li>
  );
}

/** What is right and what each run answered, each drawn on the input. */
function Drawings({ run, other, row, seen }: CardProps & { seen: InputItem }) {
  const sides: [string, string, DrawnItem | null, boolean][] = [
    ["What is right", run, row.right, true],
    [other ? "A" : "Answer", run, row.ours.drawn, false],
    ["B", other ?? "", row.theirs?.drawn ?? null, false],
  ];
  return (
    <>
      {seen.texts.length > 1 && (
        <p>
          <b>
            <bdi>{seen.texts[0]}</bdi>
          </b>
        </p>
      )}
      <div class={seen.wave.length > 0 ? "drawings stacked" : seen.picture ? "drawings" : "drawings beside-texts"}>
        {sides.map(
          ([title, whose, item, truth]) =>
            item && (
              <figure>
                <figcaption class="dim">
                  {title}
                  {item.more_boxes > 0 && `, ${item.more_boxes.toLocaleString("en")} more boxes`}
                </figcaption>
                <Drawn run={run} whose={whose} seen={seen} item={item} name={row.input} truth={truth} />
              </figure>
            ),
        )}
      </div>
    </>
  );
}

/** `unscored`: the words have the score in them. */
function Said({ letter, answer, unscored }: { letter: string; answer: PredictedAnswer; unscored: boolean }) {
  const mark = answer.right === null ? "" : answer.right ? "right" : "wrong";
  return (
    <div class="reply">
      <span>
        {letter && <b class="side-letter">{letter} </b>}
        {answer.best.length === 0 && <bdi>{answer.words}</bdi>}{" "}
        {mark && <span class={mark}>{mark === "right" ? "✓ right" : "✗ wrong"}</span>}
        {answer.judged_words && !unscored && <span class="dim">score {answer.judged_words}</span>}
      </span>
      {answer.best.length > 0 && (
        <ol>
          {answer.best.map((scored) => (
            <li>
              <bdi title={scored.name}>{scored.name}</bdi>
              <span>{scored.words}</span>
              <progress max={1} value={scored.score} aria-label={`Score of ${scored.name}`} />
            </li>
          ))}
        </ol>
      )}
    </div>
  );
}
