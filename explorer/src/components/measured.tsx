// What was measured of a model: each figure with its interval, in each environment, and a small history of both.
import type { MeasuredFigure, MeasuredPoint, ModelDetail } from "../answers";
import { useAnswer } from "../api";
import { address, chosen } from "../router";
import { FigureCell } from "./figure";
import { PageLink } from "./link";
import { EmptyState, ErrorState, Loading } from "./states";

export function Measured({ model }: { model: ModelDetail }) {
  const { data } = chosen();
  const { answer, error, again } = useAnswer(model.runs ? "/measured/{ref}" : null, { ref: model.ref, data });
  if (!model.runs) {
    return (
      <EmptyState title="Nothing was measured of it here.">
        <p>
          <code>
            zoolens eval {model.zoo}:{model.name}
          </code>{" "}
          measures its accuracy, latency and size.
        </p>
      </EmptyState>
    );
  }
  if (error) return <ErrorState error={error} again={again} />;
  if (!answer) return <Loading what="Reading its runs" />;
  if (!answer.figures.length) {
    return (
      <p class="dim">
        {data ? (
          <>
            It has no figures on <bdi>{data}</bdi>. <a href={address(`model/${model.ref}`, { data: "", task: "" })}>On all datasets</a>
          </>
        ) : (
          "Its runs have no figures yet."
        )}
      </p>
    );
  }
  return (
    <section class="measured-cards" aria-label="What was measured">
      {answer.figures.map((figure) => (
        <Card key={figure.metric} model={model.ref} figure={figure} />
      ))}
    </section>
  );
}

function Card({ model, figure }: { model: string; figure: MeasuredFigure }) {
  const { stacks, stacks_in_all: all, others, dataset } = figure;
  const range = rangeOf(stacks.flatMap((stack) => stack.points));
  return (
    <article class="measured-card" aria-label={figure.title}>
      <h2>{figure.title}</h2>
      <ul class="plain">
        {stacks.map(({ stack, runs, points }) => {
          const newest = points[points.length - 1]!;
          return (
            <li>
              <FigureCell figure={newest.figure} />
              {points.length > 1 ? (
                <SmallHistory points={points} range={range} label={`${figure.title} in ${stack} over its last ${points.length} runs`} />
              ) : (
                <span />
              )}
              <span class="measured-stack">
                <PageLink page="run" rest={newest.run}>
                  <bdi>{stack}</bdi>
                </PageLink>{" "}
                <span class="dim">
                  {runs === 1 ? "1 run" : `newest of ${runs.toLocaleString("en")} runs`}
                  {!newest.current && ", of another content than the name has now"}
                </span>
              </span>
            </li>
          );
        })}
      </ul>
      <p class="dim">
        On <bdi>{dataset}</bdi>
        {others > 0 && `; ${others.toLocaleString("en")} runs on other data are left out`}
        {all > stacks.length && (
          <>
            ; <a href={address(`model/${model}`, { tab: "history" })}>{all - stacks.length} more environments</a>
          </>
        )}
      </p>
    </article>
  );
}

const WIDTH = 96;
const HEIGHT = 34;
const EDGE = 5;

export interface Range {
  low: number;
  high: number;
}

/** The range of all values with their intervals; a little room where all are the same. */
export function rangeOf(points: MeasuredPoint[]): Range {
  const ends = points.flatMap(({ figure }) => [figure.value, figure.low, figure.high]).filter((end) => end !== null);
  if (!ends.length) return { low: 0, high: 1 };
  const [low, high] = [Math.min(...ends), Math.max(...ends)];
  const room = high > low ? 0 : Math.abs(high) * 0.1 || 1;
  return { low: low - room, high: high + room };
}

/** Points with their intervals, the oldest on the left; those of another content are hollow. */
function SmallHistory({ points, range, label }: { points: MeasuredPoint[]; range: Range; label: string }) {
  const x = (place: number) => (points.length < 2 ? WIDTH / 2 : EDGE + ((WIDTH - 2 * EDGE) * place) / (points.length - 1));
  const y = (value: number) => HEIGHT - EDGE - ((HEIGHT - 2 * EDGE) * (value - range.low)) / (range.high - range.low);
  const known = points.flatMap(({ figure, current }, place) => (figure.value === null ? [] : [{ figure, current, place, value: figure.value }]));
  return (
    <svg class="small-history" width={WIDTH} height={HEIGHT} viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={label}>
      <title>{known.map(({ figure }) => figure.interval).join(", ")}</title>
      <path class="course" d={known.map(({ place, value }, at) => `${at ? "L" : "M"}${x(place)} ${y(value)}`).join("")} />
      {known.map(({ figure, place, value, current }) => (
        <>
          {figure.low !== null && figure.high !== null && <line x1={x(place)} x2={x(place)} y1={y(figure.low)} y2={y(figure.high)} />}
          <circle cx={x(place)} cy={y(value)} r={place === points.length - 1 ? 3.5 : 2} class={current ? "" : "other-content"} />
        </>
      ))}
    </svg>
  );
}
