// A run at a glance: the inputs that it gets most wrong, what it confuses and whether it knows when it is wrong.
import type { ClassList } from "../answers";
import { useAnswer } from "../api";
import { Calibration, Confusion } from "./judged";
import { ErrorState, Loading } from "./states";
import { InputStrip } from "./strip";

interface GlanceProps {
  run: string;
  ofClasses: boolean;
  /** Called with what is to be shown of the inputs. */
  onShow: (changes: Record<string, string>) => void;
}

export interface Worst {
  title: string;
  order: string;
  shown: string;
}

/** Which inputs say most of a run: it depends on whether there are labels and scores. */
export function worstInputs({ rows, scored, judged, foresees }: Pick<ClassList, "rows" | "scored" | "judged" | "foresees">): Worst {
  if (foresees && judged) return { title: "Texts with the most bits per byte", order: "loss", shown: "all" };
  if (judged) return { title: "Answers with the lowest score", order: "loss", shown: "all" };
  const labelled = rows.some((row) => (row.inputs ?? 0) > 0);
  if (labelled && scored) return { title: "Wrong answers, the highest loss first", order: "loss", shown: "wrong" };
  if (labelled) return { title: "Wrong answers", order: "index", shown: "wrong" };
  if (scored) return { title: "Answers of which it is least sure", order: "least sure", shown: "all" };
  return { title: "The first inputs", order: "index", shown: "all" };
}

export function Glance({ run, ofClasses, onShow }: GlanceProps) {
  const classes = useAnswer("/runs/{run}/classes", { run });
  if (classes.error) return <ErrorState error={classes.error} again={classes.again} />;
  if (!classes.answer) return <Loading what="Reading the answers" />;
  const { title, order, shown } = worstInputs(classes.answer);
  return (
    <>
      <section aria-label={title} class="glance">
        <h2>{title}</h2>
        <InputStrip run={run} order={order} shown={shown} label={`Ten inputs: ${title.toLowerCase()}`} nothing="No answer is wrong." />
        <button type="button" class="more" onClick={() => onShow({ shown, order })}>
          {classes.answer.foresees ? "All of them, token by token" : "All of them, with every class and score"}
        </button>
      </section>
      {ofClasses && (
        <div class="board charts">
          <section aria-label="What it confuses">
            <h2>What it confuses</h2>
            <Confusion run={run} alone onPick={(label, answer) => onShow({ label: String(label), answer: String(answer) })} />
          </section>
          <section aria-label="Whether it knows when it is wrong">
            <h2>Whether it knows when it is wrong</h2>
            <Calibration run={run} alone onPick={(bin) => onShow({ bin: String(bin) })} />
          </section>
        </div>
      )}
    </>
  );
}
