// The inputs themselves, of a run or of a comparison of two environments: as images, or in words.
import type { DrawnItem, InputItem } from "../answers";
import { OPENING, type Parameters, resourceUrl, useAgain, useAnswer } from "../api";
import { AnsweredText, DrawnPicture, MarkedWords, Waveform } from "./drawings";

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
  useAgain(opening, again, answer, OPENING);
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
  if (seen.wave.length > 0) return <Waveform seen={seen} />;
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
  seen: InputItem;
  item: DrawnItem;
  name: string;
  truth: boolean;
}

/** An input with an answer, or with what is right, drawn upon it. */
export function Drawn({ run, whose, seen, item, name, truth }: DrawnProps) {
  if (item.marks && seen.tokens.length > 0) return <MarkedWords words={seen.tokens} more={seen.more_tokens} marks={item.marks} />;
  if (seen.texts.length > 1) return <AnsweredText text={seen.texts[1] ?? ""} answers={item.texts} />;
  if (seen.wave.length > 0) return <Waveform seen={seen} spans={item.spans} />;
  if (!seen.picture || !seen.width || !seen.height) {
    return <InputPicture path="/runs/{run}/inputs/{index}" subject={{ run }} seen={seen} name={name} />;
  }
  return (
    <DrawnPicture
      src={resourceUrl("/runs/{run}/inputs/{index}", { run, index: seen.index })}
      alt={`Input ${name}`}
      title={seen.words}
      width={seen.width}
      height={seen.height}
      item={item}
      overlay={item.overlay ? resourceUrl("/runs/{run}/drawings/{index}", { run: whose, index: seen.index, truth }) : undefined}
      shows={truth ? "The classes that are right" : "The classes that were answered"}
    />
  );
}
