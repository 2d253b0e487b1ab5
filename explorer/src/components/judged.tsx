// Which classes a run confuses, and whether it knows when it is wrong: charts, and the same as tables that keys can use.
import { useAnswer } from "../api";
import { Chart } from "./chart";
import { EmptyState, ErrorState, Loading } from "./states";
import { WordTable } from "./words";

interface ConfusionProps {
  run: string;
  /** Called with the numbers of the classes of a cell. */
  onPick: (label: number, answer: number) => void;
  /** The chart alone; tables are a tab further. */
  alone?: boolean;
}

export function Confusion({ run, onPick, alone }: ConfusionProps) {
  const { answer, error, again } = useAnswer("/runs/{run}/confusion", { run });
  if (error) return <ErrorState error={error} again={again} />;
  if (!answer) return <Loading what="Reading the answers" />;
  if (!answer.chart) {
    return (
      <EmptyState title="The confusion matrix is unknown.">
        <p>{answer.reason}</p>
      </EmptyState>
    );
  }
  return (
    <>
      {!alone && <p class="dim">Pick a cell of the chart, or a pair of the table, to see its inputs.</p>}
      <div class="beside">
        <Chart
          spec={answer.chart}
          title={answer.title}
          source={{ path: "/runs/{run}/confusion", parameters: { run }, field: "chart" }}
          onPick={({ label_number: label, answer_number: given }) =>
            typeof label === "number" && typeof given === "number" && onPick(label, given)
          }
        />
        {!alone && answer.table && answer.pairs.length > 0 && (
          <WordTable
            table={answer.table}
            label="Pairs of classes that are confused most"
            onPick={(place) => {
              const pair = answer.pairs[place];
              if (pair) onPick(pair.label, pair.answer);
            }}
          />
        )}
      </div>
    </>
  );
}

interface CalibrationProps {
  run: string;
  /** Called with the number of a bin. */
  onPick: (bin: number) => void;
  alone?: boolean;
}

export function Calibration({ run, onPick, alone }: CalibrationProps) {
  const { answer, error, again } = useAnswer("/runs/{run}/calibration", { run });
  if (error) return <ErrorState error={error} again={again} />;
  if (!answer) return <Loading what="Reading the answers" />;
  if (!answer.chart) {
    return (
      <EmptyState title="The calibration is unknown.">
        <p>{answer.reason}</p>
      </EmptyState>
    );
  }
  return (
    <>
      {!alone && (
        <p>
          Expected calibration error: <b>{answer.ece}</b>.{" "}
          <span class="dim">Points below the line are overconfident. Pick one, or a row of the table, to see its inputs.</span>
        </p>
      )}
      <div class="beside">
        <Chart spec={answer.chart} title={answer.title} source={{ path: "/runs/{run}/calibration", parameters: { run }, field: "chart" }} onPick={({ bin }) => typeof bin === "number" && onPick(bin)} />
        {!alone && answer.table && <WordTable table={answer.table} label="Confidence and accuracy" onPick={onPick} />}
      </div>
    </>
  );
}
