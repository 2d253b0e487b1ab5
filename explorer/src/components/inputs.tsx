// The inputs themselves, of a run or of a comparison of two environments: as images, or in words.
import { useEffect } from "preact/hooks";
import type { DrawnItem, InputItem } from "../answers";
import { type Parameters, resourceUrl, useAnswer } from "../api";

const PAUSE = 1000; // milliseconds until data that are being opened are asked for again

export interface Seen {
  items: Map<number, InputItem>;
  sentence: string;
  opening: boolean;
}

/** The inputs at these places, as soon as the server can show them. */
export function useInputs(
  path: "/runs/{run}/inputs" | "/divergences/{id}/inputs",
  subject: Parameters,
  places: number[],
): Seen {
  const { answer, error, again } = useAnswer(places.length ? path : null, { ...subject, index: places.map(String) });
  const opening = answer?.state === "opening";
  useEffect(() => {
    if (!opening) return;
    const timer = setTimeout(again, PAUSE);
    return () => clearTimeout(timer);
  }, [opening, answer]);
  return {
    items: new Map((answer?.rows ?? []).map((item) => [item.index, item])),
    sentence: error?.message ?? answer?.sentence ?? "",
    opening,
  };
}

/** Says why the inputs are not there, or not yet. */
export function NotShown({ seen }: { seen: Seen }) {
  if (!seen.sentence) return null;
  return (
    <p class="notice" role="status">
      {seen.opening ? "" : "The inputs themselves are not shown. "}
      <bdi>{seen.sentence}</bdi>
    </p>
  );
}

interface PictureProps {
  path: "/runs/{run}/inputs/{index}" | "/divergences/{id}/inputs/{index}";
  subject: Parameters;
  seen?: InputItem;
  /** What the input was called when it was answered. */
  name: string;
}

export function InputPicture({ path, subject, seen, name }: PictureProps) {
  if (!seen) return null;
  if (!seen.picture) {
    return (
      <p class="numbers">
        <bdi>{seen.words}</bdi>
      </p>
    );
  }
  return <img src={resourceUrl(path, { ...subject, index: seen.index })} alt={`Input ${name}`} title={seen.words} />;
}

interface DrawnProps {
  /** The run whose inputs are shown. */
  run: string;
  /** The run whose answer is drawn. */
  whose: string;
  seen?: InputItem;
  item: DrawnItem;
  name: string;
  truth: boolean;
}

/** An input with boxes or a map of classes upon it. Boxes are given in pixels of the image itself. */
export function Drawn({ run, whose, seen, item, name, truth }: DrawnProps) {
  if (!seen?.picture || !seen.width || !seen.height) {
    return <InputPicture path="/runs/{run}/inputs/{index}" subject={{ run }} seen={seen} name={name} />;
  }
  const { width, height } = seen;
  const letter = Math.max(width, height) / 22;
  return (
    <div class="drawn">
      <InputPicture path="/runs/{run}/inputs/{index}" subject={{ run }} seen={seen} name={name} />
      {item.overlay && (
        <img
          class="over"
          src={resourceUrl("/runs/{run}/drawings/{index}", { run: whose, index: seen.index, truth })}
          alt={truth ? "The classes that are right" : "The classes that were answered"}
        />
      )}
      {item.boxes.length > 0 && (
        <svg class="over" viewBox={`0 0 ${width} ${height}`} role="img" aria-label={boxesInWords(item)}>
          {item.boxes.map((box) => (
            <g class={`box colour-${colourOf(box.name)}`}>
              <rect x={box.left} y={box.top} width={box.width} height={box.height} vector-effect="non-scaling-stroke" />
              <text x={Math.max(0, box.left) + letter / 4} y={Math.max(letter, box.top + letter)} font-size={letter}>
                {box.name}
                {box.score !== null && ` ${box.score.toFixed(2)}`}
              </text>
            </g>
          ))}
        </svg>
      )}
    </div>
  );
}

function boxesInWords({ boxes, more_boxes }: DrawnItem): string {
  return `${(boxes.length + more_boxes).toLocaleString("en")} boxes: ${boxes.map((box) => box.name).join(", ")}`;
}

const COLOURS = 6;

/** The same name has the same colour in every picture. */
export function colourOf(name: string): number {
  let sum = 0;
  for (const letter of name) sum = (31 * sum + (letter.codePointAt(0) ?? 0)) % 9973;
  return sum % COLOURS;
}

/** The words of a text with their tags. */
export function TaggedWords({ item }: { item: DrawnItem }) {
  if (item.words.length === 0) return null;
  return (
    <p class="tagged">
      {item.words.map(({ word, tag }) =>
        tag ? (
          <>
            <mark class={`colour-${colourOf(tag.replace(/^[BIES]-/, ""))}`}>
              <bdi>{word}</bdi> <small>{tag}</small>
            </mark>{" "}
          </>
        ) : (
          <>
            <bdi>{word}</bdi>{" "}
          </>
        ),
      )}
    </p>
  );
}
